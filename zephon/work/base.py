"""What to train on and in what order: the interface of a work source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Draws:
    """Consecutive draws of one lane.

    Attributes
    ----------
    first : int
        Number of the first draw in its lane.
    sources : int32 ``[n]``
        Which dataset of the work source each draw takes.
    rows : int64 ``[n]``
        Which document of that dataset, counted in file order.
    passes : int64 ``[n]``
        How often that dataset had been gone through before, 0 in its first pass.
    """

    first: int
    sources: NDArray[np.int32]
    rows: NDArray[np.int64]
    passes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


class LaneOrder(ABC):
    """The documents of one lane, as a function of the draw number.

    Any stretch can be asked for in any order at the same cost; asking again
    gives the same answer.
    """

    @abstractmethod
    def draws(self, first: int, count: int) -> Draws:
        """Draws ``first`` to ``first + count - 1`` of this lane, fewer where it ends before."""

    @abstractmethod
    def length(self) -> int | None:
        """Number of draws of this lane, None if it has no end.

        The lanes of a run differ by at most one.
        """


class WorkSource(ABC):
    """Describes which documents a run draws, without holding a position.

    Attributes
    ----------
    datasets : tuple of Dataset
        The sources, in the order that :attr:`Draws.sources` counts.
    weights : tuple of int
        Their effective integer weights; they sum to ``2**32``.
    """

    datasets: tuple[Dataset, ...]
    weights: tuple[int, ...]

    @abstractmethod
    def lane(self, lane: int, lanes: int, run: int = 0) -> LaneOrder:
        """The order of lane ``lane`` of ``lanes``.

        ``run`` counts how often a work source that ends was gone through before.
        """

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Options that shape the stream, as JSON values, for the fingerprint of a state."""
