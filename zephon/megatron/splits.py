"""Split strings such as ``"99,1,0"``, and what part of a dataset each split gets."""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from zephon.errors import ConfigError, ConfigTypeError

SplitMatrix: TypeAlias = "list[tuple[float, float] | None]"

_NUMBER = re.compile(r"[.0-9]+")
_BETWEEN = frozenset(" \t\n,;:/|%()[]")  # what may stand between and around the numbers


class Split(enum.Enum):
    """The three parts of a dataset, in the order in which they follow each other."""

    train = 0
    valid = 1
    test = 2


def normalize(weights: Sequence[float]) -> list[float]:
    """Weights divided by their sum, rounded as Megatron rounds them."""
    given = np.asarray(weights, np.float64)
    normalized: list[float] = (given / np.sum(given)).tolist()
    return normalized


def parse_and_normalize_split(split: str) -> list[float]:
    """The share of each split.

    Parameters
    ----------
    split : str
        One to three numbers that are not negative, with commas, slashes or
        spaces between them; missing ones are 0.

    Returns
    -------
    list of float ``[3]``
        Shares for train, valid and test, which sum to 1.

    Raises
    ------
    ConfigError
        The string is not that. Megatron reads every run of digits and dots and
        skips all else, so it takes ``"-1,2,3"`` for 1, 2, 3 and ``""`` for NaN.
    """
    if not isinstance(split, str):
        raise ConfigTypeError(f"split must be a string such as '99,1,0', got {split!r}")
    stray = sorted(set(_NUMBER.sub("", split)) - _BETWEEN)
    if stray:
        raise ConfigError(
            f"split {split!r} has {stray[0]!r} in it; it must be one to three plain numbers that "
            "are not negative, such as '99,1,0'"
        )
    fields = _NUMBER.findall(split)
    if len(fields) > len(Split):
        raise ConfigError(
            f"split {split!r} has {len(fields)} numbers; there are {len(Split)} splits: train, "
            "valid and test"
        )
    try:
        shares = [float(field) for field in fields]
    except ValueError:
        raise ConfigError(f"split {split!r} holds something that is not a number") from None
    total = sum(shares)
    if not (total > 0 and math.isfinite(total)):
        raise ConfigError(
            f"split {split!r} gives nothing to any split; it needs a number above 0, such as "
            "'99,1,0'"
        )
    return normalize(shares + [0.0] * (len(Split) - len(shares)))


def convert_split_vector_to_split_matrix(
    vector_a: Sequence[float], vector_b: Sequence[float] | None = None
) -> SplitMatrix:
    """The interval of each split, between 0 and 1.

    Parameters
    ----------
    vector_a, vector_b : list of float ``[3]``
        Normalized splits, as of pre-training and of a later stage. With both,
        an interval is what the two have in common.

    Returns
    -------
    list of (float, float) or None ``[3]``
        None for a split that is empty.
    """
    matrix: SplitMatrix = []
    for (a_begin, a_end), (b_begin, b_end) in zip(
        _intervals(vector_a), _intervals(vector_a if vector_b is None else vector_b), strict=True
    ):
        begin, end = max(a_begin, b_begin), min(a_end, b_end)
        matrix.append(None if end <= begin else (begin, end))
    return matrix


def _intervals(vector: Sequence[float]) -> list[tuple[float, float]]:
    edges: list[float] = [0]  # an int, as in the descriptions of Megatron's caches
    for share in vector:
        edges.append(edges[-1] + share)
    return list(itertools.pairwise(edges))


def split_bounds(interval: tuple[float, float], sequences: int) -> tuple[int, int]:
    """First sequence of an interval of ``sequences``, and the one after its last."""
    begin, end = interval
    return round(begin * float(sequences)), round(end * float(sequences))
