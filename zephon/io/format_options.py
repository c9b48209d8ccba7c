"""Options of single formats, as callers of other loaders give them.

Only ``ParquetRGCacheOptions.limit_bytes`` has an effect; what the others would change follows
from options of the pipeline, and is told by ``Pipeline.explain``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from zephon.errors import ConfigError, ConfigTypeError


class _FormatOptions:
    """What they have in common."""

    @classmethod
    def from_any(cls, obj: Any) -> Self:
        """Options from None, themselves, or a mapping of fields."""
        if obj is None:
            return cls()
        if isinstance(obj, cls):
            return obj
        if not isinstance(obj, Mapping):
            raise ConfigTypeError(
                f"{obj!r} is no description of {cls.__name__}: give them, or a mapping of fields"
            )
        names = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        for name in obj:
            if name not in names:
                raise ConfigTypeError(f"{cls.__name__} has no {name!r}; it has: {', '.join(names)}")
        return cls(**obj)

    def merge(self, other: Self) -> Self:
        """These options, with those of ``other`` that are given."""
        given = {
            one.name: value
            for one in fields(other)  # type: ignore[arg-type]
            if (value := getattr(other, one.name)) is not None
        }
        return replace(self, **given)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class ArrowOptions(_FormatOptions):
    """Of Arrow files.

    Attributes
    ----------
    cpu_threads, io_threads : int or None
        Change nothing: the threads of the pipeline decode.
    """

    cpu_threads: int | None = None
    io_threads: int | None = None

    def __post_init__(self) -> None:
        _check_counts(self, "cpu_threads", "io_threads")

    def accepted(self) -> list[str]:
        """What is to be said of options that change nothing."""
        given = (("cpu_threads", self.cpu_threads), ("io_threads", self.io_threads))
        return [
            f"arrow.{name}={value}: prefetch(parallelism=...) says how many threads decode"
            for name, value in given
            if value is not None
        ]


@dataclass(frozen=True, kw_only=True)
class ParquetRGCacheOptions(_FormatOptions):
    """Of row groups that are kept.

    Attributes
    ----------
    limit_bytes : int or None
        Memory of this process for decoded row groups, as ``CacheOptions.rg_cache_bytes``
        says it, which goes before this one.
    enabled : bool or None
        Changes nothing: a row group that is being used is kept in any case.
    root : str, PathLike or None
        Changes nothing: row groups are kept in memory.
    min_free_bytes : int or None
        Likewise.
    """

    enabled: bool | None = None
    root: str | os.PathLike[str] | None = None
    limit_bytes: int | None = None
    min_free_bytes: int | None = None

    def __post_init__(self) -> None:
        _check_counts(self, "limit_bytes", "min_free_bytes")
        if not (self.enabled is None or isinstance(self.enabled, bool)):
            raise ConfigTypeError(f"enabled is {self.enabled!r}, expected True, False or None")
        if not (self.root is None or isinstance(self.root, (str, os.PathLike))):
            raise ConfigTypeError(f"root is {self.root!r}, expected a folder")

    def accepted(self) -> list[str]:
        """What is to be said of options that change nothing."""
        given = (
            ("enabled", self.enabled),
            ("root", self.root),
            ("min_free_bytes", self.min_free_bytes),
        )
        return [
            f"parquet.rg_cache.{name}={value!r}: row groups are kept decoded, in memory"
            for name, value in given
            if value is not None
        ]


@dataclass(frozen=True, kw_only=True)
class ParquetOptions(_FormatOptions):
    """Of Parquet files.

    Attributes
    ----------
    use_threads : bool or None
        Changes nothing: the threads of the pipeline decode.
    rg_cache : ParquetRGCacheOptions
        Of row groups that are kept.
    """

    use_threads: bool | None = None
    rg_cache: ParquetRGCacheOptions = field(default_factory=ParquetRGCacheOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rg_cache", ParquetRGCacheOptions.from_any(self.rg_cache))
        if not (self.use_threads is None or isinstance(self.use_threads, bool)):
            raise ConfigTypeError(
                f"use_threads is {self.use_threads!r}, expected True, False or None"
            )

    def merge(self, other: Self) -> Self:
        """These options, with those of ``other`` that are given."""
        return replace(
            self,
            use_threads=self.use_threads if other.use_threads is None else other.use_threads,
            rg_cache=self.rg_cache.merge(other.rg_cache),
        )

    def accepted(self) -> list[str]:
        """What is to be said of options that change nothing."""
        found = self.rg_cache.accepted()
        if self.use_threads is not None:
            found.append(
                f"parquet.use_threads={self.use_threads}: prefetch(parallelism=...) says how many "
                "threads decode"
            )
        return found


def _check_counts(options: object, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigTypeError(f"{name} is {value!r}, expected an int or None")
        if value < 1:
            raise ConfigError(f"{name} is {value}, expected at least 1")
