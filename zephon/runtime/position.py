"""Where a run stands between two lane-batches."""

from __future__ import annotations

from dataclasses import dataclass

from zephon.cursor import LaneCursor


@dataclass(frozen=True, slots=True)
class Share:
    """Which lane-batches a data-parallel rank delivers.

    Of ``degree`` ranks, rank ``r`` delivers every ``degree``-th lane-batch from
    the ``r``-th on. Ranks of one data-parallel group deliver the same.
    """

    rank: int = 0
    degree: int = 1


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands.

    Attributes
    ----------
    delivered : int
        Lane-batches that all ranks together have delivered.
    cursors : tuple of LaneCursor
        One for each lane; those of other ranks' lanes stand where this rank began.
    passes : int
        Finite passes that were finished before.
    """

    delivered: int
    cursors: tuple[LaneCursor, ...]
    passes: int = 0

    @classmethod
    def start(cls, lanes: int, passes: int = 0) -> Position:
        """Before the first batch of a pass."""
        return cls(0, (LaneCursor(),) * lanes, passes)

    def after(self, cursor: LaneCursor, share: Share) -> Position:
        """Behind the next lane-batch of a rank, whose lane then stands at ``cursor``."""
        lane = (self.delivered + share.rank) % len(self.cursors)
        cursors = (*self.cursors[:lane], cursor, *self.cursors[lane + 1 :])
        return Position(self.delivered + share.degree, cursors, self.passes)
