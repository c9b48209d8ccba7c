"""Path prefixes from patterns and from files that list them."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from zephon.errors import ConfigError, ConfigTypeError

BlendList: TypeAlias = "list[str | float]"

_SPLIT_NAMES = {
    "train": "train",
    "valid": "validation",
    "val": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}
_SUFFIXES = (".bin", ".idx")


def expand_paths(paths: str | Sequence[Any]) -> BlendList | dict[str, BlendList]:
    """What a user gave as data, as flat blend lists of prefixes that exist.

    Parameters
    ----------
    paths : str or sequence
        A prefix, a pattern (with ``*``, ``?`` or ``[``) or a ``.json`` file; or a
        list of prefixes and patterns, with or without weights before them.

    Returns
    -------
    list, or dict of list
        For :func:`~zephon.megatron.get_blend_from_list`. A dict with any of the
        keys train, validation and test if a ``.json`` file lists splits.

    Raises
    ------
    FileNotFoundError, PermissionError
        A file of a prefix is missing or must not be read.
    ConfigError
        A pattern matches no ``.bin`` or ``.idx``, or a file holds something else.
    """
    if isinstance(paths, (str, os.PathLike)):
        path = os.fspath(paths)
        if path.endswith(".json"):
            return _from_json(path)
        return _expand_all([path])
    return _expand_all(list(paths))


def _expand_all(entries: Sequence[Any]) -> BlendList:
    expanded: BlendList = []
    for entry in entries:
        if isinstance(entry, (int, float)) or _is_number(entry):
            expanded.append(entry)
        elif glob.has_magic(os.fspath(entry)):
            found = expand_pattern(os.fspath(entry))
            if expanded and _is_number(expanded[-1]) and len(found) > 1:
                raise ConfigError(
                    f"the weight {expanded[-1]} stands before the pattern {entry!r}, which matches "
                    f"{len(found)} datasets: give each its own weight"
                )
            expanded.extend(found)
        else:
            prefix = _strip(os.fspath(entry).strip())
            _check_accessible(prefix)
            expanded.append(prefix)
    return expanded


def expand_pattern(pattern: str) -> list[str]:
    """Prefixes whose ``.bin`` or ``.idx`` match a pattern, sorted, each once.

    Raises
    ------
    ConfigError
        There is none; the message shows what was found instead.
    """
    candidates = glob.glob(pattern) + [
        path for suffix in _SUFFIXES for path in glob.glob(pattern + suffix)
    ]
    prefixes = sorted({_strip(path) for path in candidates if path.endswith(_SUFFIXES)})
    if not prefixes:
        others = ", ".join(sorted(candidates)[:5]) or "nothing"
        raise ConfigError(f"{pattern!r} matches no .bin or .idx file; it matches {others}")
    for prefix in prefixes:
        _check_accessible(prefix)
    return prefixes


def _from_json(path: str) -> BlendList | dict[str, BlendList]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (FileNotFoundError, PermissionError):
        raise
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if isinstance(content, list):
        return _expand_all(content)
    if not isinstance(content, dict) or not content:
        raise ConfigTypeError(f"{path} must hold a list of paths, or a dict with one per split")
    blends: dict[str, BlendList] = {}
    for name, entries in content.items():
        split = _SPLIT_NAMES.get(name)
        if split is None:
            known = ", ".join(_SPLIT_NAMES)
            raise ConfigError(f"{path} has the split {name!r}; known are {known}")
        if split in blends:
            raise ConfigError(f"{path} has the {split} split twice")
        if not isinstance(entries, list):
            raise ConfigTypeError(f"{path}: {name!r} must be a list of paths, got {entries!r}")
        blends[split] = _expand_all(entries)
    return blends


def _strip(path: str) -> str:
    return path[:-4] if path.endswith(_SUFFIXES) else path


def _is_number(entry: object) -> bool:
    try:
        float(entry)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _check_accessible(prefix: str) -> None:
    for suffix in _SUFFIXES:
        path = prefix + suffix
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} does not exist; a dataset is a .bin and a .idx")
        if not os.access(path, os.R_OK):
            raise PermissionError(f"{path} may not be read")
