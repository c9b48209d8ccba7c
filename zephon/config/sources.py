"""Sources of a recipe: named datasets with weights, one by one or as a Megatron blend list."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron.blend import BlendEntry, get_blend_from_list

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ZephonSource:
    """One dataset of a recipe.

    Raises
    ------
    ConfigError
        If the name or the path is empty, or the weight is not positive and finite;
        ConfigTypeError if one has another type.
    """

    name: str
    """What messages, states and counters call it; no other source of the recipe has it."""

    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """A file, folder, pattern or ``.bin/.idx`` prefix, or several of them."""

    fmt: str | None = None
    """The format, as :meth:`zephon.Dataset.from_path` knows it; found out if None."""

    weight: float = 1.0
    """Its share, in the ratio to the other weights."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ConfigTypeError(f"name of a source is {self.name!r}, expected a str")
        if not self.name.strip():
            raise ConfigError("name of a source is empty, expected what states may call it by")
        for path in self.paths:
            if not isinstance(path, (str, os.PathLike)):
                raise ConfigTypeError(
                    f"path of source {self.name!r} is {path!r}, expected a str or PathLike"
                )
            if not os.fspath(path):
                raise ConfigError(f"path of source {self.name!r} is empty, expected where it lies")
        if not self.paths:
            raise ConfigError(f"path of source {self.name!r} is an empty list")
        if not (self.fmt is None or isinstance(self.fmt, str)):
            raise ConfigTypeError(f"fmt of source {self.name!r} is {self.fmt!r}, expected a str")
        if isinstance(self.weight, bool) or not isinstance(self.weight, (int, float)):
            raise ConfigTypeError(
                f"weight of source {self.name!r} is {self.weight!r}, expected a number"
            )
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ConfigError(
                f"weight of source {self.name!r} is {self.weight!r}, expected positive and finite; "
                "leave a source that is not wanted out"
            )

    @property
    def paths(self) -> list[Any]:
        """The path or paths, as a list."""
        if isinstance(self.path, (str, os.PathLike)) or not isinstance(self.path, Sequence):
            return [self.path]
        return list(self.path)

    def resolved(self, base: str | os.PathLike[str]) -> list[str]:
        """The paths, those that are relative taken from the folder ``base``."""
        return [os.path.join(base, os.path.expanduser(path)) for path in self.paths]


def sources_from_blend(blend: Iterable[BlendEntry]) -> tuple[ZephonSource, ...]:
    """The sources of a Megatron blend list, such as ``["0.3", "web", "0.7", "books"]``.

    A prefix without weight has the weight 1. One of weight 0 is left out, and that is logged.
    A source is named by the last part of its prefix, or by the whole prefix where several share
    that part.

    Raises
    ------
    ConfigError
        The list is none, see :func:`zephon.megatron.get_blend_from_list`; no weight is above 0; or
        a prefix is there twice.
    """
    found = get_blend_from_list(blend)
    if found is None:
        raise ConfigError("blend is None, expected a list of weights and prefixes")
    prefixes, weights = found
    for prefix, count in Counter(prefixes).items():
        if count > 1:
            raise ConfigError(f"blend names {prefix!r} {count} times, expected each prefix once")
    shares = [1.0] * len(prefixes) if weights is None else weights
    for prefix, share in zip(prefixes, shares, strict=True):
        if share == 0:
            logger.info("%s has the weight 0 in the blend and is left out", prefix)
    kept = [(prefix, share) for prefix, share in zip(prefixes, shares, strict=True) if share]
    if not kept:
        raise ConfigError(f"blend has no weight above 0: {list(prefixes)}")
    names = Counter(Path(prefix).name for prefix, _ in kept)
    return tuple(
        ZephonSource(
            name=Path(prefix).name if names[Path(prefix).name] == 1 else prefix,
            path=prefix,
            fmt="bin",
            weight=share,
        )
        for prefix, share in kept
    )
