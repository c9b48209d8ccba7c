"""Indices on disk: Megatron's files as they are, and ours with a checksum beside.

An index is a few ``.npy`` files and a description, all named by a digest of what
the index is made of. Ours have the same names and contents, so Megatron reads
them too. They are written to temporary names and renamed, and their content is
a function of their name: any number of processes may build and write at once,
without a lock or a barrier, and a reader that finds old next to new sees it by
the checksum and builds its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Misfit = Callable[[Arrays, bool], str | None]
"""Why arrays are not the wanted ones; told whether a checksum has vouched for them."""

CACHE_VARIABLE = "ZEPHON_CACHE_DIR"

_CHECKSUM = "checksum.json"
_CHUNK = 1 << 22

logger = logging.getLogger(__name__)


def describe(content: Mapping[str, Any]) -> str:
    """The description of an index; its MD5 is the name of the files."""
    return json.dumps(content, indent=4)


def digest_of(description: str) -> str:
    """What the files of an index are named by."""
    return hashlib.md5(description.encode(), usedforsecurity=False).hexdigest()


def cache_folder(path_to_cache: str | os.PathLike[str] | None) -> str | None:
    """The folder for indices: the given one, else ``ZEPHON_CACHE_DIR``, else none."""
    chosen = os.environ.get(CACHE_VARIABLE) or None if path_to_cache is None else path_to_cache
    return None if chosen is None else os.fspath(chosen)


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """Arrays mapped from files; pickles to the names of the files."""

    stem: str
    """Path of the files up to the name of the array."""

    arrays: Arrays

    def __reduce__(self) -> tuple[object, ...]:
        return open_stored, (self.stem, tuple(self.arrays))


def open_stored(stem: str, names: Sequence[str]) -> StoredIndex:
    """Map the arrays of an index.

    Raises
    ------
    OSError, ValueError, EOFError
        As :func:`numpy.load`.
    """
    arrays: Arrays = {}
    for name in names:
        arrays[name] = np.asarray(np.load(f"{stem}{name}.npy", mmap_mode="r", allow_pickle=False))
    return StoredIndex(stem, arrays)


class IndexCache:
    """Indices of one kind in one or more folders.

    Parameters
    ----------
    label : str
        What the files are named after, such as ``GPTDataset-train``.
    names : sequence of str
        The arrays that make an index.
    write_to : str or None
        Folder to read from and to write to.
    read_from : sequence of str
        More folders to read from.
    """

    def __init__(
        self, label: str, names: Sequence[str], *, write_to: str | None, read_from: Sequence[str]
    ) -> None:
        self._label = label
        self._names = tuple(names)
        self._write_to = write_to
        self._folders = [*([] if write_to is None else [write_to]), *read_from]

    @property
    def writes(self) -> bool:
        """Whether there is a folder to keep an index in."""
        return self._write_to is not None

    def _stem(self, folder: str, description: str) -> str:
        return os.path.join(folder, f"{digest_of(description)}-{self._label}-")

    def load(
        self, description: str, misfit: Misfit, *, foreign: Sequence[str] = ()
    ) -> StoredIndex | None:
        """The stored index of a description, mapped; None if there is none to trust.

        Parameters
        ----------
        description : str
        misfit : callable
            Says why arrays that were found are not the wanted ones.
        foreign : sequence of str
            Descriptions under which other programs may have stored the same
            index, or one that differs in something they leave out.
        """
        for position, text in enumerate((description, *foreign)):
            for folder in self._folders:
                stem = self._stem(folder, text)
                files = [*(f"{name}.npy" for name in self._names), "description.txt"]
                if not all(os.path.exists(stem + file) for file in files):
                    continue
                reason, stored = self._open(stem, misfit)
                if stored is not None:
                    logger.debug("%s: index read from %s*", self._label, stem)
                    return stored
                if position == 0:
                    logger.warning("the stored index %s* is rebuilt: %s", stem, reason)
                else:
                    logger.info("the stored index %s* is of other options: %s", stem, reason)
        return None

    def _open(self, stem: str, misfit: Misfit) -> tuple[str, StoredIndex | None]:
        try:
            checksummed, damage = self._verify(stem)
            if damage is not None:
                return damage, None
            stored = open_stored(stem, self._names)
            reason = misfit(stored.arrays, checksummed)
        except (OSError, ValueError, EOFError) as error:
            return f"it cannot be read ({error})", None
        return (reason, None) if reason is not None else ("", stored)

    def _verify(self, stem: str) -> tuple[bool, str | None]:
        """Whether there are checksums, and what disagrees with them."""
        try:
            with open(stem + _CHECKSUM, encoding="utf-8") as file:
                recorded = json.load(file)
        except FileNotFoundError:
            return False, None
        for name in self._names:
            path = f"{stem}{name}.npy"
            entry = recorded[name] if isinstance(recorded, dict) and name in recorded else None
            found = {"bytes": os.path.getsize(path), "crc32": _crc32(path)}
            if entry != found:
                return True, f"{path} is damaged: it is {found}, its checksum file says {entry}"
        return True, None

    def store(self, description: str, arrays: Arrays) -> StoredIndex | None:
        """Keep an index; None if there is no folder for it, or it cannot be written there.

        A folder that cannot be written is worth a warning, not the end of the
        run: the index is in memory.
        """
        if self._write_to is None:
            return None
        stem = self._stem(self._write_to, description)
        checksums: dict[str, dict[str, int]] = {}
        try:
            os.makedirs(self._write_to, exist_ok=True)
            for name in self._names:
                path = f"{stem}{name}.npy"
                with _replacing(path) as file:
                    np.save(file, arrays[name], allow_pickle=False)
                    file.flush()
                    checksums[name] = {
                        "bytes": os.fstat(file.fileno()).st_size,
                        "crc32": _crc32(file.name),
                    }
            for suffix, text in (
                ("description.txt", description),
                (_CHECKSUM, json.dumps(checksums)),
            ):
                with _replacing(stem + suffix) as file:
                    file.write(text.encode())
            return open_stored(stem, self._names)
        except OSError as error:
            logger.warning("the index %s* cannot be kept: %s", stem, error)
            return None


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file that takes its name when it is complete, and only then."""
    partial = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.partial"
    try:
        with open(partial, "xb") as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise


def _crc32(path: str) -> int:
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc
