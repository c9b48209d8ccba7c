"""How long the documents of sources are: known, or measured on a sample.

Shares of tokens, the number of steps in a pass and the passes that a run takes
all follow from the mean number of tokens that a draw gives. Where a format knows
the lengths of its documents it is exact; else some documents are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError
from zephon.options import check_int
from zephon.work.order import derive_key, permute

_STEP = 256  # documents that are read before it is asked whether they are enough
_RUN = 64  # neighbours that are read where some have to be decoded for one of them
_LEAST_RUNS = 16  # of which something can be said
_ENOUGH = 100  # one over the relative standard error at which they are


@dataclass(frozen=True, kw_only=True)
class TokenEstimation:
    """Weights as shares of tokens: how the mean length of documents is found.

    Where lengths are known (``.bin/.idx``, token ids in memory) the means are
    exact. Else documents are read, in an order that depends on the seed and the
    name of the dataset only, until the standard error of the mean is 1 % of it.

    Attributes
    ----------
    primer : "measure", float or mapping from name to float
        ``"measure"``: the means are found as told above. Else they are given: tokens per
        document of all datasets, or of each. No document is read then, and the weights that
        follow are those of the configuration, which a saved state is compared by.
    measure : callable, optional
        Counts the tokens of a document, a mapping of its fields as they are read (token ids
        as ``input_ids``), in place of what the pipeline makes of it. Called in threads.
    calibration_samples : int
        Documents of a dataset that are read at most. A dataset of no more documents
        is read whole, and its mean is exact.
    calibration_shards_min : int
        Shards that documents are read of before their number can be enough, if the dataset
        has so many.
    calibration_shards_max : int or None
        Shards of a dataset that are opened at most; which ones follows from the seed and its
        name. None: all.
    fallback_tokens_per_byte : float
        Changes nothing: documents that cannot be counted are an error.
    """

    primer: Literal["measure"] | float | Mapping[str, float] = "measure"
    measure: Callable[[Any], int] | None = None
    calibration_samples: int = 2048
    calibration_shards_min: int = 1
    calibration_shards_max: int | None = None
    fallback_tokens_per_byte: float = 0.25

    def __post_init__(self) -> None:
        check_int("calibration_samples", self.calibration_samples, 2, 2**24)
        check_int("calibration_shards_min", self.calibration_shards_min, 1, 2**31)
        if self.calibration_shards_max is not None:
            check_int("calibration_shards_max", self.calibration_shards_max, 1, 2**31)
            if self.calibration_shards_max < self.calibration_shards_min:
                raise ConfigError(
                    f"calibration_shards_max is {self.calibration_shards_max}, less than "
                    f"calibration_shards_min {self.calibration_shards_min}"
                )
        if self.measure is not None and not callable(self.measure):
            raise ConfigTypeError(f"measure is {self.measure!r}, expected a function")
        _check_mean("fallback_tokens_per_byte", self.fallback_tokens_per_byte)
        if isinstance(self.primer, str):
            if self.primer != "measure":
                raise ConfigError(
                    f"primer is {self.primer!r}, expected 'measure', or mean numbers of tokens"
                )
            return
        if self.measure is not None:
            raise ConfigError("primer gives mean numbers of tokens, so measure has nothing to do")
        if isinstance(self.primer, Mapping):
            for name, mean in self.primer.items():
                _check_mean(f"primer of {name!r}", mean)
        else:
            _check_mean("primer", self.primer)

    @property
    def measures(self) -> bool:
        """Whether means have to be found."""
        return self.primer == "measure"

    def given_means(self, names: Sequence[str]) -> tuple[float, ...]:
        """Tokens per document of each dataset, as they are given."""
        if not isinstance(self.primer, Mapping):
            return (float(self.primer),) * len(names)
        unknown = [name for name in self.primer if name not in names]
        if unknown:
            raise ConfigError(f"primer names {unknown[0]!r}, which is no dataset")
        missing = [name for name in names if name not in self.primer]
        if missing:
            raise ConfigError(f"primer has no mean number of tokens for dataset {missing[0]!r}")
        return tuple(float(self.primer[name]) for name in names)


def _check_mean(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigTypeError(f"{what} is {value!r}, expected a number")
    if not 0 < value < math.inf:
        raise ConfigError(f"{what} is {value}, expected positive and finite")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceLengths:
    """Tokens that documents of one source give to rows."""

    name: str
    """Of the source."""

    documents: int
    """That the source has."""

    lengths: NDArray[np.int64]
    """int64 ``[n]``: of all documents in file order, or of some that were drawn."""

    @property
    def exact(self) -> bool:
        """Whether every document was counted."""
        return len(self.lengths) == self.documents

    @property
    def mean(self) -> float:
        """Tokens per document."""
        return int(self.lengths.sum()) / len(self.lengths)

    @property
    def relative_error(self) -> float:
        """Standard error of the mean over the mean; 0 if it is exact."""
        if self.exact:
            return 0.0
        spread, count, total = _moments(self.lengths)
        return math.sqrt(spread / (count - 1)) / total if total else math.inf


class LengthCounter(Protocol):
    """What can tell how many tokens documents give."""

    def known(self, source: int) -> NDArray[np.int64] | None:
        """Lengths of all documents of ``source``, None if they would have to be read."""

    def decodes(self, source: int) -> bool:
        """Whether neighbouring documents are decoded together to read one."""

    def count(self, source: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lengths of the documents ``rows``, int64 ``[n]`` like them."""


Each = Callable[[Callable[[int], SourceLengths], Iterable[int]], Iterable[SourceLengths]]
"""``map``, or something that does the same with threads."""


def measure_lengths(
    names: Sequence[str],
    documents: Sequence[int],
    counter: LengthCounter,
    estimation: TokenEstimation,
    shards: Sequence[NDArray[np.int64]],
    *,
    seed: int,
    each: Each = map,
) -> tuple[SourceLengths, ...]:
    """Lengths of the sources ``names`` of ``documents`` each, ``shards`` of so many.

    A function of its arguments: threads change how long it takes, not what is
    found.
    """

    def one(source: int) -> SourceLengths:
        name, total = names[source], documents[source]
        found = counter.known(source)
        if found is None:
            key = derive_key(seed, "lengths", name)
            chosen = _Shards.choose(shards[source], estimation, derive_key(seed, "shards", name))
            found = _sample(counter, source, chosen, key, estimation.calibration_samples)
        return SourceLengths(name=name, documents=total, lengths=found)

    return tuple(each(one, range(len(names))))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shards:
    """The shards of a source that documents are read of."""

    ends: NDArray[np.int64]
    """Their documents, added up."""

    first: NDArray[np.int64]
    """Number of the first document of each in the source."""

    least: int
    """Of them have to be seen."""

    @classmethod
    def choose(cls, counts: NDArray[np.int64], estimation: TokenEstimation, key: int) -> _Shards:
        counts = np.asarray(counts, dtype=np.int64)
        first = np.cumsum(counts) - counts
        full = np.flatnonzero(counts)
        most = estimation.calibration_shards_max
        if most is not None and most < len(full):
            full = full[np.sort(permute(len(full), key, np.arange(most, dtype=np.int64)))]
        least = min(estimation.calibration_shards_min, len(full))
        return cls(ends=np.cumsum(counts[full]), first=first[full], least=least)

    @property
    def documents(self) -> int:
        return int(self.ends[-1])

    def of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of the shards each document, counted through them, lies in."""
        return np.searchsorted(self.ends, positions, side="right")

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Their numbers in the source."""
        shard = self.of(positions)
        begin = np.concatenate(([0], self.ends[:-1]))
        rows: NDArray[np.int64] = self.first[shard] + positions - begin[shard]
        return rows


def _sample(
    counter: LengthCounter, source: int, shards: _Shards, key: int, samples: int
) -> NDArray[np.int64]:
    documents = shards.documents
    if documents <= samples:
        return counter.count(source, shards.rows(np.arange(documents, dtype=np.int64)))
    seen: set[int] = set()
    together = counter.decodes(source)
    choose = _runs_of_documents if together else _single_documents
    found = np.empty(0, dtype=np.int64)
    sums: list[int] = []  # tokens of each run
    for rows in choose(documents, key, samples):
        rows.sort()
        lengths = counter.count(source, shards.rows(rows))
        if len(seen) < shards.least:
            seen.update(shards.of(rows).tolist())
        found = np.append(found, lengths)
        begins = np.flatnonzero(np.diff(rows // _RUN, prepend=-1))
        sums += np.add.reduceat(lengths, begins).tolist()
        if (together and len(sums) < _LEAST_RUNS) or len(seen) < shards.least:
            continue
        # Neighbours may be alike: it is their runs that are drawn, and that may differ by chance.
        spread, count, total = _moments(np.array(sums) if together else found)
        # In integers, so that every machine stops at the same document.
        if total and _ENOUGH**2 * spread <= (count - 1) * total**2:
            break
    return found


def _single_documents(documents: int, key: int, samples: int) -> Iterator[NDArray[np.int64]]:
    """Documents in an order of their own, some at a time."""
    for first in range(0, samples, _STEP):
        yield permute(documents, key, np.arange(first, min(first + _STEP, samples), dtype=np.int64))


def _runs_of_documents(documents: int, key: int, samples: int) -> Iterator[NDArray[np.int64]]:
    """Runs of neighbours in an order of their own: each lies in few units.

    Neighbours may be alike, so a run is short.
    """
    runs, left = -(-documents // _RUN), samples
    for first in range(0, runs, _STEP // _RUN):
        positions = np.arange(first, min(first + _STEP // _RUN, runs), dtype=np.int64)
        rows = (permute(runs, key, positions)[:, None] * _RUN + np.arange(_RUN)).ravel()
        rows = rows[rows < documents][:left]
        left -= len(rows)
        yield rows
        if left == 0:
            return


def _moments(lengths: NDArray[np.int64]) -> tuple[int, int, int]:
    """Sum of squared differences from the mean times their number; number; sum."""
    values = lengths.tolist()
    total, count = sum(values), len(values)
    return count * sum(value * value for value in values) - total * total, count, total
