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
from zephon.io.format_options import ArrowOptions, ParquetOptions, ParquetRGCacheOptions

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
        Memory of this process for decoded units, 16 MiB at least: so much for blocks of compressed
        text and so much for row groups and record batches. One limit for all datasets; the last
        one given holds.
    index_beside_data : bool
        Keep the index of ``NAME`` in ``NAME.zephon-index``, in the folder of the data.
    download_retry : int
        How often a failed request is tried again.
    download_timeout : float
        Seconds for one request, which fetches 16 MiB at most.
    min_slack_bytes : int
        What downloads leave free on the disk.
    enabled : bool
        False: nothing is kept on the disk, whatever ``root`` and ``ZEPHON_CACHE_DIR`` say.
    keep_zip, open_retry_attempts, open_retry_initial_backoff, open_retry_max_backoff
        Accepted for callers of other loaders: compressed files are kept as they are, and
        ``download_retry`` holds for whatever is fetched.
    max_slack_bytes : int or None
        Likewise: ``min_slack_bytes`` is what is left free.
    validate_hash : None
        Only None: what is fetched is known by the object's tag and size.
    """

    root: str | os.PathLike[str] | None = None
    limit_bytes: int | None = 64 * 1024**3
    rg_cache_bytes: int = 256 * 1024**2
    index_beside_data: bool = False
    download_retry: int = 3
    download_timeout: float = 30.0
    min_slack_bytes: int = 256 * 1024**2
    enabled: bool = True
    keep_zip: bool | None = None
    validate_hash: str | None = None
    open_retry_attempts: int | None = None
    open_retry_initial_backoff: float | None = None
    open_retry_max_backoff: float | None = None
    max_slack_bytes: int | None = None

    def __post_init__(self) -> None:
        if not (self.root is None or isinstance(self.root, (str, os.PathLike))):
            raise ConfigTypeError(f"root is {self.root!r}, expected a folder")
        if self.limit_bytes is not None:
            _check_int("limit_bytes", self.limit_bytes, 1)
        _check_int("rg_cache_bytes", self.rg_cache_bytes, 16 * 1024**2)
        _check_int("download_retry", self.download_retry, 0)
        _check_int("min_slack_bytes", self.min_slack_bytes, 0)
        if not isinstance(self.enabled, bool):
            raise ConfigTypeError(f"enabled is {self.enabled!r}, expected True or False")
        if self.validate_hash is not None:
            raise ConfigError(
                f"validate_hash is {self.validate_hash!r}, expected None: objects are known by "
                "their tag and size, and a changed one is refused when a state is restored"
            )
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

    def accepted(self) -> list[str]:
        """What is to be said of options that change nothing."""
        kept = "compressed files are kept as they are"
        tried = "download_retry says how often a request is tried again"
        texts = {
            "keep_zip": kept,
            "open_retry_attempts": tried,
            "open_retry_initial_backoff": tried,
            "open_retry_max_backoff": tried,
            "max_slack_bytes": "min_slack_bytes says what is left free",
        }
        given = {name: getattr(self, name) for name in texts}
        return [f"{name}={v!r}: {texts[name]}" for name, v in given.items() if v is not None]

    @property
    def folder(self) -> Path | None:
        """The folder in force: ``root``, else ``ZEPHON_CACHE_DIR``, else None."""
        if not self.enabled:
            return None
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
    arrow, parquet : ArrowOptions, ParquetOptions
        Of these formats.
    metadata_cache_entries : int or None
        Accepted for callers of other loaders: all metadata that were read are kept.
    """

    cache: CacheOptions = field(default_factory=CacheOptions)
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold secrets
    arrow: ArrowOptions = field(default_factory=ArrowOptions, repr=False)
    parquet: ParquetOptions = field(default_factory=ParquetOptions, repr=False)
    metadata_cache_entries: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow", ArrowOptions.from_any(self.arrow))
        object.__setattr__(self, "parquet", ParquetOptions.from_any(self.parquet))
        cache, limit = CacheOptions.from_any(self.cache), self.parquet.rg_cache.limit_bytes
        if limit is not None and cache.rg_cache_bytes == CacheOptions().rg_cache_bytes:
            cache = replace(cache, rg_cache_bytes=limit)
        object.__setattr__(self, "cache", cache)
        if self.metadata_cache_entries is not None:
            _check_int("metadata_cache_entries", self.metadata_cache_entries, 0)
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
        entries = other.metadata_cache_entries
        return StoreOptions(
            cache=self.cache.merge(other.cache),
            storage={**self.storage, **other.storage},
            arrow=self.arrow.merge(other.arrow),
            parquet=self.parquet.merge(other.parquet),
            metadata_cache_entries=self.metadata_cache_entries if entries is None else entries,
        )

    def resolved_parquet_rg_cache(self) -> ParquetRGCacheOptions:
        """What holds for row groups that are kept decoded: ``limit_bytes`` in force."""
        return replace(self.parquet.rg_cache, limit_bytes=self.cache.rg_cache_bytes)

    def accepted(self) -> list[str]:
        """What is to be said of options that change nothing."""
        found = [*self.cache.accepted(), *self.arrow.accepted(), *self.parquet.accepted()]
        if self.metadata_cache_entries is not None:
            found.append(
                f"metadata_cache_entries={self.metadata_cache_entries}: all metadata are kept"
            )
        return found


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
