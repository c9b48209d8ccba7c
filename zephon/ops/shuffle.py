"""Shuffling rows after packing, window by window.

Every ``buffer_size`` rows of a lane are delivered in an order of their own,
which depends on the seed, the lane and the number of the window only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from zephon.cursor import LaneCursor
from zephon.ops.row_source import Dealt, RowSource, Windows, check_window
from zephon.options import check_int
from zephon.rows import Rows
from zephon.work.order import derive_key, permute


@dataclass(frozen=True, kw_only=True)
class ShuffleOptions:
    """A shuffle of rows.

    Attributes
    ----------
    buffer_size : int
        Rows that are shuffled together. Restoring packs up to so many rows again.
    seed : int
        Of the order.
    """

    buffer_size: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_int("buffer_size", self.buffer_size, 1, 2**24)
        check_int("seed", self.seed, 0, 2**64 - 1)

    def shaping(self) -> dict[str, int]:
        """What decides the order, for the fingerprint of a state."""
        return {"buffer_size": self.buffer_size, "seed": self.seed}


class Shuffle(Windows):
    """The rows of another source, in windows that are shuffled."""

    def __init__(
        self, rows: RowSource, options: ShuffleOptions, lane: int, cursor: LaneCursor
    ) -> None:
        self._rows = rows
        self._options = options
        self._lane = lane
        self._begin = replace(cursor, window=0, shuffled=0)  # of the rows, where the window began
        self._number = cursor.window
        if cursor.shuffled:
            window = check_window(self._next_window(), cursor.shuffled, cursor.check, "shuffle")
            self._window = Dealt(window, cursor.shuffled)

    def cursor(self) -> LaneCursor:
        """Where the rows of the window began, its number, and how many were taken."""
        window = self._window
        if window is not None and not window.left:
            return replace(self._rows.cursor(), window=self._number + 1)
        if window is None or not window.given:
            return replace(self._begin, window=self._number)
        return replace(
            self._begin, window=self._number, shuffled=window.given, _evidence=window.last()
        )

    def _open(self) -> Rows | None:
        if self._window is not None:
            self._number += 1
        self._begin = self._rows.cursor()
        window = self._next_window()
        if window is None:
            self._begin = self._rows.cursor()
        return window

    def _next_window(self) -> Rows | None:
        rows = self._rows.take(self._options.buffer_size)
        if rows is None:
            return None
        key = derive_key(self._options.seed, "rows", self._lane, self._number)
        return rows.select(permute(len(rows), key, np.arange(len(rows))))
