"""Shares of the sources, as asked for and as exact integers."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.work.lengths import SourceLengths

WEIGHT_TOTAL = 2**32
"""Sum of the effective integer weights."""

MAX_SOURCES = 2**16
RAREST = 2**-22
"""Smallest share that is accepted: below it a chunk would be millions of draws."""

DEFAULT_CHUNK_SIZE = 16384
MAX_CHUNK_SIZE = 2**24
_UNITS_OF_A_CHUNK = 4


@dataclass(frozen=True, slots=True)
class MixtureSpec:
    """Share of each source in the documents that are drawn.

    Shares are of *drawn* documents, before any filter. Weights need not sum to
    1; only their ratios count.

    Parameters
    ----------
    weights : mapping from name to number
        Every weight is positive and finite. A source that is not wanted is
        left out, not given 0.

    Raises
    ------
    ConfigError
        For a weight that is 0, negative, NaN or infinite, and for no weights.

    Examples
    --------
    >>> MixtureSpec({"web": 3, "books": 1}).normalized_for(["books", "web"])
    {'books': 0.25, 'web': 0.75}
    """

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        weights: object = self.weights
        if not isinstance(weights, Mapping):
            kind = type(weights).__name__
            raise ConfigTypeError(f"weights must be a mapping from name to number, not {kind}")
        if not self.weights:
            raise ConfigError("weights is empty, expected at least one source")
        checked = {}
        for name, weight in self.weights.items():
            if not isinstance(name, str):
                raise ConfigTypeError(f"weights names a source {name!r}, expected a str")
            checked[name] = _check_weight(name, weight)
        # A copy that nobody can change: the order depends on it.
        object.__setattr__(self, "weights", MappingProxyType(checked))

    def __reduce__(self) -> tuple[type[MixtureSpec], tuple[dict[str, float]]]:
        return MixtureSpec, (dict(self.weights),)

    def __hash__(self) -> int:
        return hash(frozenset(self.weights.items()))

    def validate_for(self, components: Iterable[str]) -> None:
        """Raise ConfigError unless exactly ``components`` have a weight."""
        wanted = list(components)
        missing = [name for name in wanted if name not in self.weights]
        if missing:
            raise ConfigError(
                f"no weight for {_names(missing)}; weights has {_names(self.weights)}"
            )
        unknown = self.weights.keys() - set(wanted)
        if unknown:
            left = {name: self.weights[name] for name in self.weights if name in unknown}
            raise ConfigError(f"weights {left} belong to no dataset; there are {_names(wanted)}")

    def normalized_for(self, components: Iterable[str]) -> dict[str, float]:
        """Weights that sum to 1, in the order of ``components``."""
        wanted = list(components)
        self.validate_for(wanted)
        largest = max(self.weights.values())  # so that no sum overflows
        scaled = [self.weights[name] / largest for name in wanted]
        total = math.fsum(scaled)
        return {name: share / total for name, share in zip(wanted, scaled, strict=True)}


def _check_weight(name: str, weight: object) -> float:
    if isinstance(weight, bool | str | bytes):
        raise ConfigTypeError(f"weight of {name!r} is {weight!r}, expected a number")
    try:
        number = float(weight)  # type: ignore[arg-type]
    except OverflowError:
        raise ConfigError(f"weight of {name!r} is {weight!r}, too large for a float") from None
    except (TypeError, ValueError):
        raise ConfigTypeError(f"weight of {name!r} is {weight!r}, expected a number") from None
    if not math.isfinite(number) or number <= 0:
        hint = "; leave a source that is not wanted out of the mixture" if number == 0 else ""
        raise ConfigError(f"weight of {name!r} is {weight!r}, expected positive and finite{hint}")
    return number


def _names(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    shown = ", ".join(listed[:8])
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"


def integer_weights(weights: Sequence[float], total: int = WEIGHT_TOTAL) -> tuple[int, ...]:
    """Integers in the ratio of ``weights`` that sum to ``total``, none of them 0.

    By largest remainder, exactly: a float is the fraction that it stands for,
    so no machine rounds differently. On equal remainders the earlier source wins.
    """
    ratios = [float(weight).as_integer_ratio() for weight in weights]
    # A float's denominator is a power of two, so the largest is common to all.
    common = max(denominator for _, denominator in ratios)
    scaled = [numerator * (common // denominator) for numerator, denominator in ratios]
    whole = sum(scaled)
    shares = [divmod(weight * total, whole) for weight in scaled]
    counts = [count for count, _ in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: -shares[i][1])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    for i, count in enumerate(counts):
        if count == 0:
            largest = max(range(len(counts)), key=counts.__getitem__)
            counts[largest] -= 1
            counts[i] = 1
    return tuple(counts)


def token_weights(
    shares: Sequence[float], lengths: Sequence[SourceLengths], total: int = WEIGHT_TOTAL
) -> tuple[int, ...]:
    """Weights of documents that give ``shares`` of tokens: share over mean length, as integers.

    Raises
    ------
    DataError
        If the documents of a source have no tokens.
    """
    for one in lengths:
        if one.mean == 0:
            raise DataError(
                f"dataset {one.name!r}: {len(one.lengths)} of its {one.documents} documents were "
                "counted and give no tokens, so no weight gives it a share of tokens: they are "
                "empty or longer than a row. Leave it out of the datasets and the mixture"
            )
    ratios = [share / one.mean for share, one in zip(shares, lengths, strict=True)]
    return integer_weights(ratios, total)


def check_rarest(names: Sequence[str], weights: Sequence[int]) -> None:
    """Raise ConfigError for a share too small to be kept within a chunk."""
    total = sum(weights)
    rarest, weight = min(enumerate(weights), key=operator.itemgetter(1))
    if weight < total * RAREST:
        raise ConfigError(
            f"share of {names[rarest]!r} is {weight / total:.3g}, the smallest that is kept is "
            f"{RAREST:.3g} (2**-22); leave the dataset out or merge it with another"
        )


def auto_chunk_size(units: Sequence[float], weights: Sequence[int]) -> int:
    """Draws of a chunk in which a lane takes four units of each source, or near it.

    Then lanes that take turns on a source decode each unit 1.25 times rather than many.

    Parameters
    ----------
    units : sequence of float, ``[K]``
        Documents that are decoded together; 1 where each is read for itself.
    weights : sequence of int, ``[K]``

    Returns
    -------
    int
        At least 16,384, which is what a chunk has if nobody asks, and at most ``2**24``.
    """
    total = sum(weights)
    wanted = [
        math.ceil(_UNITS_OF_A_CHUNK * unit * total / weight)
        for unit, weight in zip(units, weights, strict=True)
        if unit > 1 and weight
    ]
    return min(max(DEFAULT_CHUNK_SIZE, *wanted, 0), MAX_CHUNK_SIZE)


def effective_chunk_size(chunk_size: int, weights: Sequence[int]) -> int:
    """``chunk_size``, or more if the rarest source would not be in every chunk.

    A lane's counts only grow from chunk to chunk when each source is due at
    least once in each.
    """
    rarest = min(weight for weight in weights if weight > 0)
    return max(chunk_size, -(-sum(weights) // rarest))
