"""Decoding the row groups that a lane comes to next, while it works on the present one."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from zephon.io.dataset import Dataset
from zephon.work.base import Draws, LaneOrder

_STEP = 256  # draws that are looked at in one go
_FARTHEST = 2**16  # draws beyond the present one that are looked at
_REMEMBERED = 64  # units that were seen last and are not asked for again


def decoding_ahead(
    order: LaneOrder, datasets: tuple[Dataset, ...], executor: Executor | None
) -> LaneOrder:
    """``order``, whose documents are decoded by ``executor`` before they are read.

    The order itself if there is nobody to do it, or nothing to decode.
    """
    units = {i: first for i, one in enumerate(datasets) if (first := one.units()) is not None}
    if executor is None or not units:
        return order
    return _DecodingAhead(order, datasets, units, executor)


class _DecodingAhead(LaneOrder):
    """Looks on from the draws that are asked for until a unit comes that is not yet decoded.

    It keeps one unit of those ahead, so what is decoded and waits is at most one unit
    for each lane. Decoding is begun here and not waited for: who reads a document waits for
    its unit, and finds the error if it cannot be decoded.
    """

    def __init__(
        self,
        order: LaneOrder,
        datasets: tuple[Dataset, ...],
        units: dict[int, NDArray[np.int64]],
        executor: Executor,
    ) -> None:
        self._order, self._datasets, self._units = order, datasets, units
        self._executor = executor
        self._looked: int | None = None  # draws before this one were looked at
        self._waiting: deque[int] = deque()  # draws that come first to a unit that was begun
        self._seen: dict[tuple[int, int], None] = {}

    def length(self) -> int | None:
        """That of the order."""
        return self._order.length()

    def draws(self, first: int, count: int) -> Draws:
        """Those of the order; what lies ahead of them is on its way afterwards."""
        draws = self._order.draws(first, count)
        end = first + len(draws)
        if len(draws):
            if self._looked is None:
                self._look_at(draws, begin=False)  # they are read now, by who asks
                self._looked = end
            self._look_on(end)
        return draws

    def _look_on(self, end: int) -> None:
        assert self._looked is not None
        while self._waiting and self._waiting[0] < end:
            self._waiting.popleft()
        while not self._waiting and self._looked < end + _FARTHEST:
            draws = self._order.draws(self._looked, _STEP)
            if not len(draws):
                return
            self._look_at(draws, begin=True)
            self._looked += len(draws)

    def _look_at(self, draws: Draws, *, begin: bool) -> None:
        for source, first in self._units.items():
            at = np.flatnonzero(draws.sources == source)
            unit = np.searchsorted(first, draws.rows[at], side="right")
            for one, where in zip(*np.unique(unit, return_index=True), strict=True):
                key = source, int(one)
                known = self._seen.pop(key, self) is None
                self._seen[key] = None
                if len(self._seen) > _REMEMBERED + len(self._units):
                    del self._seen[next(iter(self._seen))]
                if known or not begin:
                    continue
                row = draws.rows[at[where] : at[where] + 1]
                try:
                    self._executor.submit(self._datasets[source].decode, row)
                except RuntimeError:  # the executor was shut down: the stream is being closed
                    return
                self._waiting.append(draws.first + int(at[where]))
