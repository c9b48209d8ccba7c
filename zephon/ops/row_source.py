"""Rows of a lane, dealt out in batches, and the windows that they come out of."""

from __future__ import annotations

from abc import ABC, abstractmethod

from zephon.cursor import Behind, LaneCursor, check_tokens
from zephon.errors import StateError
from zephon.rows import Rows, RowTokens, concatenate


class RowSource(ABC):
    """Rows of a lane, one after the other."""

    @abstractmethod
    def take(self, count: int) -> Rows | None:
        """The next ``count`` rows, fewer at the end of the lane, None behind it."""

    @abstractmethod
    def cursor(self) -> LaneCursor:
        """The position behind the rows taken."""

    def behind(self) -> Behind:
        """The same, if that is cheaper as something that a cursor can be made of later."""
        return self.cursor()


class Dealt:
    """Rows that are dealt out a batch at a time.

    Batches of one size are made together, all that are left: between two batches a
    trainer's tensors push everything out of the processor's caches, so that what is done
    for many batches in a row costs a fraction.
    """

    def __init__(self, rows: Rows, given: int = 0) -> None:
        self.rows = rows
        self.given = given  # rows that were dealt out
        self._count = 0
        self._batches: list[Rows] = []  # those that follow, ``_count`` rows each, the last first

    @property
    def left(self) -> int:
        """Rows that are still to be dealt out."""
        return len(self.rows) - self.given

    def batch(self, count: int) -> Rows:
        """The next ``count`` rows, as many as those after them will be; so many must be left."""
        if count != self._count or not self._batches:
            self._count = count
            self._batches = self.rows.parts(self.given, count, self.left // count)[::-1]
        self.given += count
        return self._batches.pop()

    def rest(self, count: int) -> Rows:
        """The next ``count`` rows, which are a part of a batch."""
        self._batches = []
        self.given += count
        return self.rows.part(self.given - count, self.given)

    def last(self) -> RowTokens:
        """Tokens of the last row dealt out."""
        return RowTokens(self.rows, self.given - 1)


class Windows(RowSource):
    """Rows that come out of windows, each computed as a whole."""

    _window: Dealt | None = None

    @abstractmethod
    def _open(self) -> Rows | None:
        """Note where the next window begins, and compute it; None at the end."""

    def take(self, count: int) -> Rows | None:
        """The next rows, out of as many windows as it takes."""
        found: list[Rows] = []
        left = count
        while left:
            if self._window is None or not self._window.left:
                opened = self._open()
                self._window = None if opened is None else Dealt(opened)
                if self._window is None:
                    break
            part = min(left, self._window.left)
            deal = self._window.batch if part == count else self._window.rest
            found.append(deal(part))
            left -= part
        return concatenate(found) if found else None


def check_window(window: Rows | None, delivered: int, check: bytes, kind: str) -> Rows:
    """The window, if its row ``delivered - 1`` is the one that was delivered last; raises else."""
    fits = window is not None and len(window) >= delivered
    if window is not None and fits and check:
        fits = check_tokens(RowTokens(window, delivered - 1)) == check
    if window is None or not fits:
        raise StateError(
            f"the {kind} window that the state stands in (row {delivered} of it) comes out "
            "otherwise than before the state was saved: a file, the tokenizer or a function "
            "changed. Restore what the state was saved with, or start a new run"
        )
    return window
