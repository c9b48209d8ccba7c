"""Options of reading: where copies of data are kept, how much of them, and for how long to try."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from zephon.errors import ConfigError, ConfigTypeError

CACHE_VARIABLE = "ZEPHON_CACHE_DIR"

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """What is kept of data that is costly to fetch or to decode.

    Attributes
    ----------
    root : str, PathLike or None
        Folder for downloads, line indices and decompressed copies. None:
        ``ZEPHON_CACHE_DIR``, and nothing is written if that is not set either.
    limit_bytes : int or None
        What downloads and decompressed copies may take there together; the least
        recently used are removed. None: no limit but the disk.
    rg_cache_bytes : int
        Memory of this process for decoded units (blocks of compressed text), 16 MiB at least.
        One limit for all datasets; the last one given holds.
    index_beside_data : bool
        Keep the index of ``NAME`` in ``NAME.zephon-index``, in the folder of the data.
    download_retry : int
        How often a failed request is tried again.
    download_timeout : float
        Seconds for one request, which fetches 16 MiB at most.
    min_slack_bytes : int
        What downloads leave free on the disk.
    """

    root: str | os.PathLike[str] | None = None
    limit_bytes: int | None = 64 * 1024**3
    rg_cache_bytes: int = 256 * 1024**2
    index_beside_data: bool = False
    download_retry: int = 3
    download_timeout: float = 30.0
    min_slack_bytes: int = 256 * 1024**2

    def __post_init__(self) -> None:
        if not (self.root is None or isinstance(self.root, (str, os.PathLike))):
            raise ConfigTypeError(f"root is {self.root!r}, expected a folder")
        if self.limit_bytes is not None:
            _check_int("limit_bytes", self.limit_bytes, 1)
        _check_int("rg_cache_bytes", self.rg_cache_bytes, 16 * 1024**2)
        _check_int("download_retry", self.download_retry, 0)
        _check_int("min_slack_bytes", self.min_slack_bytes, 0)
        if not isinstance(self.index_beside_data, bool):
            raise ConfigTypeError(f"index_beside_data is {self.index_beside_data!r}, not a bool")
        if isinstance(self.download_timeout, bool) or not isinstance(
            self.download_timeout, (int, float)
        ):
            raise ConfigTypeError(f"download_timeout is {self.download_timeout!r}, not a number")
        if not 0 < self.download_timeout < 86400:
            raise ConfigError(
                f"download_timeout is {self.download_timeout}, expected seconds > 0, a day at most"
            )

    @classmethod
    def from_any(cls, obj: Any) -> CacheOptions:
        """Options from what a configuration file may hold.

        ``None``, the options themselves, a mapping of fields, a number of bytes, a
        size such as ``"50gb"`` (the limit; units are powers of 1024), or a folder.
        """
        if obj is None:
            return cls()
        if isinstance(obj, CacheOptions):
            return obj
        if isinstance(obj, Mapping):
            return cls(**_known(cls, obj))
        if isinstance(obj, str) and _SIZE.fullmatch(obj):
            return cls(limit_bytes=parse_size("limit_bytes", obj))
        if isinstance(obj, (str, os.PathLike)):
            if not os.fspath(obj):
                raise ConfigError("the cache is an empty string, expected a size or a folder")
            return cls(root=obj)
        if isinstance(obj, int) and not isinstance(obj, bool):
            return cls(limit_bytes=obj)
        raise ConfigTypeError(
            f"{obj!r} is no description of a cache: give CacheOptions, a mapping, a size such as "
            "'50gb' or a folder"
        )

    def merge(self, other: CacheOptions) -> CacheOptions:
        """These options, with those of ``other`` that are not at their defaults."""
        return replace(self, **_changed(other))

    @property
    def folder(self) -> Path | None:
        """The folder in force: ``root``, else ``ZEPHON_CACHE_DIR``, else None."""
        chosen = os.environ.get(CACHE_VARIABLE) or None if self.root is None else self.root
        return None if chosen is None else Path(chosen).absolute()


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How data are reached.

    Attributes
    ----------
    cache : CacheOptions
        What is kept of them; anything that :meth:`CacheOptions.from_any` takes.
    storage : mapping of str to str
        Settings of an object store by obstore's names, such as ``{"endpoint": ...,
        "region": ...}``; what is not there is taken from the environment (``AWS_...``).
    """

    cache: CacheOptions = field(default_factory=CacheOptions)
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold secrets

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache", CacheOptions.from_any(self.cache))
        if not isinstance(self.storage, Mapping) or not all(
            isinstance(key, str) for key in self.storage
        ):
            raise ConfigTypeError("storage is no mapping from names of settings to values")

    @classmethod
    def from_any(cls, obj: Any) -> StoreOptions:
        """Options from None, themselves, a mapping of fields, or what describes a cache."""
        if obj is None:
            return cls()
        if isinstance(obj, StoreOptions):
            return obj
        if isinstance(obj, Mapping) and not set(obj) & {f.name for f in fields(CacheOptions)}:
            return cls(**_known(cls, obj))
        return cls(cache=CacheOptions.from_any(obj))

    def merge(self, other: StoreOptions) -> StoreOptions:
        """These options, with those of ``other`` that are not at their defaults."""
        return StoreOptions(
            cache=self.cache.merge(other.cache), storage={**self.storage, **other.storage}
        )


def parse_size(name: str, value: int | str) -> int:
    """A number of bytes from ``"50gb"``, ``"1.5 GiB"``, ``"512"`` or an int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f"{name} is {value!r}, expected bytes or a size such as '50gb'")
    return int(float(match[1]) * _UNITS[match[2].lower()])


_IN_FORCE: ContextVar[StoreOptions | None] = ContextVar("zephon_io_options", default=None)


def options_in_force() -> StoreOptions:
    """The options of the dataset that is being opened."""
    return _IN_FORCE.get() or StoreOptions()


@contextmanager
def in_force(options: StoreOptions) -> Iterator[None]:
    """Make ``options`` those of what is opened inside."""
    token = _IN_FORCE.set(options)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def _known(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    names = [f.name for f in fields(cls)]
    for name in given:
        if name not in names:
            raise ConfigTypeError(f"{cls.__name__} has no {name!r}; it has: {', '.join(names)}")
    return {
        name: parse_size(name, value)
        if isinstance(value, str) and name.endswith("bytes")
        else value
        for name, value in given.items()
    }


def _changed(options: CacheOptions) -> dict[str, Any]:
    return {
        f.name: getattr(options, f.name)
        for f in fields(options)
        if getattr(options, f.name) != f.default
    }


def _check_int(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigTypeError(f"{name} is {value!r}, expected an int")
    if value < low:
        raise ConfigError(f"{name} is {value}, expected at least {low}")
