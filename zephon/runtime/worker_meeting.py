"""Workers of a DataLoader agree on the end of a pass, through memory that they share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from zephon.errors import LifecycleError
from zephon.runtime.exchange import Agreement
from zephon.runtime.meeting import Exchange, StoppedError

if TYPE_CHECKING:
    import torch


class WorkerAgreement(Agreement):
    """What the workers of a DataLoader ask each other; they may stand in different rounds."""

    def __init__(self, exchange: MeetingExchange) -> None:
        super().__init__(exchange)
        self._meeting = exchange

    def about(self, number: int) -> None:
        """The next question is about round ``number``."""
        self._meeting.round = number


class MeetingExchange(Exchange):
    """Workers of one DataLoader ask each other through memory that they share.

    Rows of the table: a number that each worker has drawn for this iteration; answers of even
    and of odd rounds; the first round that each asks about; then, for each worker, the numbers
    of the others that it has seen. What a former iteration has left behind knows none of the
    new numbers. A worker that begins at a later round has passed those before, as it did
    before it was stopped.

    Parameters
    ----------
    table : int64 tensor ``[workers + 4, workers]`` or larger
        Shared by all.
    rank, size : int
        Which of how many workers this one is.
    """

    def __init__(self, table: torch.Tensor, rank: int, size: int) -> None:
        self._table = table.numpy()
        self.rank, self.size = rank, size
        self._drawn = 0
        self.round = 0
        """Which one the next question is about; set before each."""

    def exchange(self, payload: bytes) -> list[bytes]:
        """Not here: there is room for answers only."""
        raise LifecycleError("workers of a DataLoader exchange nothing but answers")

    def all_true(self, value: bool) -> bool:
        """Whether ``value`` holds on all workers."""
        table, others = self._table, slice(0, self.size)
        if not self._drawn:
            self._drawn = secrets.randbits(62) + 1
            table[1:3, self.rank] = -1
            table[3, self.rank] = self.round
            table[0, self.rank] = self._drawn
            self._wait(self._have_met)
        row = 1 + self.round % 2
        table[row, self.rank] = self.round * 2 + value
        later = table[3, others] > self.round
        self._wait(lambda: bool((later | (table[row, others] >> 1 == self.round)).all()))
        return bool((later | (table[row, others] % 2 == 1)).all())

    def _have_met(self) -> bool:
        table, others = self._table, slice(0, self.size)
        table[4 + self.rank, others] = table[0, others]
        return bool((table[4 : 4 + self.size, self.rank] == self._drawn).all())

    def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            if self.stopped():
                raise StoppedError
            time.sleep(0.001)
