"""From what a user names (a file, folder, pattern, prefix or list) to files of one format."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.io.indexed import IndexedFormat
from zephon.io.registry import FORMATS, added_formats, format_named
from zephon.io.shard import Format

PathLike = str | os.PathLike[str]


def resolve(
    name: str, path: PathLike | Sequence[PathLike], fmt: str | None
) -> tuple[Format, list[Path]]:
    """The format of dataset ``name`` and its files, in a fixed order.

    A folder is searched through all levels in the order of names; hidden files
    and files of no known kind in it are passed over.
    """
    wanted, broken = known_formats(name, fmt)
    found: dict[Path, Format] = {}
    seen: set[str] = set()  # real paths: a file that is reached in two ways is one file
    for one in _each_path(name, path):
        for file in _expand(name, one, wanted, broken):
            kind = _kind(name, file, wanted, broken)
            canonical = kind.canonical(file)
            if (real := os.path.realpath(canonical)) not in seen:
                seen.add(real)
                found[canonical] = kind
    kinds = {kind.name for kind in found.values()}
    if len(kinds) > 1:
        raise DataError(
            f"dataset {name!r} mixes the formats {', '.join(sorted(kinds))}: make one dataset "
            "of each, or choose with fmt="
        )
    return next(iter(found.values())), list(found)


def known_formats(name: str, fmt: str | None) -> tuple[list[Format], dict[str, str]]:
    """The format ``fmt``, or all if it is None; and why each that cannot be used cannot."""
    if fmt is not None:
        return [format_named(fmt, f"dataset {name!r}")], {}
    added, broken = added_formats()
    return [*FORMATS.values(), *added], broken


def _each_path(name: str, path: PathLike | Sequence[PathLike]) -> list[Path]:
    if not isinstance(path, (str, os.PathLike, Sequence)):
        raise ConfigTypeError(
            f"dataset {name!r}: path is {path!r}, expected a str, a PathLike or a sequence of them"
        )
    many = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not many:
        raise ConfigError(f"dataset {name!r}: path is an empty list, expected at least one file")
    for one in many:
        if not isinstance(one, (str, os.PathLike)):
            raise ConfigTypeError(
                f"dataset {name!r}: path holds a {type(one).__name__}, expected a str or PathLike"
            )
        if not os.fspath(one):
            raise ConfigError(f"dataset {name!r}: path is empty, expected a file or folder")
    return [Path(one) for one in many]


def _expand(name: str, path: Path, wanted: list[Format], broken: dict[str, str]) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        return _search(name, path, wanted, broken)
    index = path.with_name(path.name + ".idx")
    if index.exists() or path.with_name(path.name + ".bin").exists():
        return [index]  # a Megatron prefix; a missing half is reported by the reader
    if path.suffix.lower() in IndexedFormat.suffixes:
        return [path]
    if glob.has_magic(str(path)):
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise DataError(f"dataset {name!r}: no file matches the pattern", file=path)
        return files
    if path.exists():  # it would be read twice: once to see what is in it, and again
        raise DataError(
            f"dataset {name!r}: is a device, pipe or socket, expected a file or folder", file=path
        )
    raise DataError(f"dataset {name!r}: there is no such file{_similar(path)}", file=path)


def _search(name: str, folder: Path, wanted: list[Format], broken: dict[str, str]) -> list[Path]:
    files = _walk(name, folder)
    suffixes = tuple({suffix: None for fmt in wanted for suffix in fmt.suffixes})
    known = [file for file in files if file.name.lower().endswith(suffixes)]
    if not known:
        there = ", ".join(file.name for file in files[:5]) or "nothing"
        more = f" and {len(files) - 5} more" if len(files) > 5 else ""
        raise DataError(
            f"dataset {name!r}: the folder holds no file of a known kind. Found: {there}{more}; "
            f"looked for: {', '.join(sorted(suffixes))}{_unusable(broken)}",
            file=folder,
        )
    return known


def _walk(name: str, folder: Path) -> list[Path]:
    """Every file below, in the order of names; linked folders are entered once."""
    files = []
    entered: set[str] = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for one in names:
            file = Path(here, one)
            if one.startswith("."):
                continue
            if file.is_symlink() and not file.exists():
                raise DataError(
                    f"dataset {name!r}: the link leads to {os.readlink(file)}, which is not there: "
                    "restore the file or remove the link",
                    file=file,
                )
            if file.is_file():
                files.append(file)
    return sorted(files)


def _kind(name: str, file: Path, wanted: list[Format], broken: dict[str, str]) -> Format:
    if len(wanted) == 1:
        return wanted[0]
    by_suffix = [fmt for fmt in wanted if file.name.lower().endswith(fmt.suffixes)]
    if by_suffix and by_suffix[0].name == IndexedFormat.name:
        return by_suffix[0]  # any bytes may begin a .bin file, and the reader names a missing half
    try:
        with open(file, "rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise DataError(f"dataset {name!r}: cannot be read: {error.strerror}", file=file) from error
    for fmt in wanted:
        if head.startswith(fmt.signatures):
            return fmt
    # The longest suffix says most: ".csv.gz" is not any ".gz".
    for fmt in sorted(by_suffix, key=lambda one: -_suffix_length(one, file)):
        return fmt
    for fmt in wanted:
        if fmt.recognises(file, head):
            return fmt
    kinds = ", ".join(f"{fmt.name} ({', '.join(fmt.suffixes)})" for fmt in wanted)
    raise DataError(
        f"dataset {name!r}: unknown kind of file (it begins with {head[:8]!r}); "
        f"known kinds: {kinds}. Name one with fmt= if its suffix is unusual{_unusable(broken)}",
        file=file,
    )


def _suffix_length(fmt: Format, file: Path) -> int:
    name = file.name.lower()
    return max(len(suffix) for suffix in fmt.suffixes if name.endswith(suffix))


def _unusable(broken: dict[str, str]) -> str:
    """What was not looked for, though it is installed."""
    return "".join(f". Not looked for: {reason}" for reason in broken.values())


def _similar(path: Path) -> str:
    try:
        names: Iterable[str] = os.listdir(path.parent)
    except OSError:
        return f"; its folder {path.parent} does not exist either"
    close = difflib.get_close_matches(path.name, names, n=3)
    return f"; similar names there: {', '.join(close)}" if close else ""
