"""Where a run stands between two lane-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import overload

from zephon.cursor import Behind, LaneCursor, cursor_of

_BLOCK = 128
"""Cursors that are copied to change one of many."""


class Cursors(Sequence[LaneCursor]):
    """A tuple of cursors of which changing one copies few: a batch moves one of 65,536.

    A cursor that can be made later is when it is looked at.
    """

    __slots__ = ("_blocks", "_size")
    _blocks: tuple[tuple[Behind, ...], ...]
    _size: int

    def __init__(self, cursors: Sequence[LaneCursor]) -> None:
        self._size = len(cursors)
        self._blocks = tuple(tuple(cursors[i : i + _BLOCK]) for i in range(0, self._size, _BLOCK))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[LaneCursor]:
        return map(cursor_of, chain.from_iterable(self._blocks))

    @overload
    def __getitem__(self, index: int) -> LaneCursor: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LaneCursor, ...]: ...
    def __getitem__(self, index: int | slice) -> LaneCursor | tuple[LaneCursor, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        index = range(self._size)[index]
        return cursor_of(self._blocks[index // _BLOCK][index % _BLOCK])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type[Cursors], tuple[tuple[LaneCursor, ...]]]:
        return Cursors, (tuple(self),)  # what they are made of lies in this process

    def replaced(self, lane: int, cursor: Behind) -> Cursors:
        """The same but for one."""
        made = Cursors.__new__(Cursors)
        made._size = self._size
        if self._size == 1:
            made._blocks = ((cursor,),)
            return made
        number, inside = divmod(lane, _BLOCK)
        old = self._blocks[number]
        block = (*old[:inside], cursor, *old[inside + 1 :])
        made._blocks = (*self._blocks[:number], block, *self._blocks[number + 1 :])
        return made


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
    cursors : sequence of LaneCursor
        One for each lane; those of other ranks' lanes stand where this rank began.
    passes : int
        Finite passes that were finished before.
    """

    delivered: int
    cursors: Sequence[LaneCursor]
    passes: int = 0

    @classmethod
    def start(cls, lanes: int, passes: int = 0) -> Position:
        """Before the first batch of a pass."""
        return cls(0, (LaneCursor(),) * lanes, passes)

    def after(self, cursor: Behind, share: Share) -> Position:
        """Behind the next lane-batch of a rank, whose lane then stands at ``cursor``."""
        cursors = self.cursors if isinstance(self.cursors, Cursors) else Cursors(self.cursors)
        moved = cursors.replaced((self.delivered + share.rank) % cursors._size, cursor)
        return Position(self.delivered + share.degree, moved, self.passes)
