"""How long the documents of sources are: known, or measured on a sample.

Shares of tokens, the number of steps in a pass and the passes that a run takes
all follow from the mean number of tokens that a draw gives. Where a format knows
the lengths of its documents it is exact; else some documents are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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
    calibration_samples : int
        Documents of a dataset that are read at most. A dataset of no more documents
        is read whole, and its mean is exact.
    """

    calibration_samples: int = 2048

    def __post_init__(self) -> None:
        check_int("calibration_samples", self.calibration_samples, 2, 2**24)


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
    *,
    seed: int,
    samples: int,
    each: Each = map,
) -> tuple[SourceLengths, ...]:
    """Lengths of the sources ``names`` of ``documents`` each.

    A function of its arguments: threads change how long it takes, not what is
    found.
    """

    def one(source: int) -> SourceLengths:
        name, total = names[source], documents[source]
        found = counter.known(source)
        if found is None:
            key = derive_key(seed, "lengths", name)
            found = _sample(counter, source, total, key, samples)
        return SourceLengths(name=name, documents=total, lengths=found)

    return tuple(each(one, range(len(names))))


def _sample(
    counter: LengthCounter, source: int, documents: int, key: int, samples: int
) -> NDArray[np.int64]:
    if documents <= samples:
        return counter.count(source, np.arange(documents, dtype=np.int64))
    together = counter.decodes(source)
    choose = _runs_of_documents if together else _single_documents
    found = np.empty(0, dtype=np.int64)
    sums: list[int] = []  # tokens of each run
    for rows in choose(documents, key, samples):
        rows.sort()
        lengths = counter.count(source, rows)
        found = np.append(found, lengths)
        begins = np.flatnonzero(np.diff(rows // _RUN, prepend=-1))
        sums += np.add.reduceat(lengths, begins).tolist()
        if together and len(sums) < _LEAST_RUNS:
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
