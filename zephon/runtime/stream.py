"""The sequence of lane-batches of a run, from any position on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from zephon.cursor import Behind, Dropped
from zephon.errors import DataError
from zephon.rows import Rows
from zephon.runtime.exchange import Agreement
from zephon.runtime.lane import Lane, LanePlan
from zephon.runtime.lookahead import Lookahead
from zephon.runtime.metrics import BATCH
from zephon.runtime.position import Position, Share
from zephon.runtime.workers import READERS, open_executor
from zephon.types import SampleBatch

logger = logging.getLogger(__name__)

BATCHES_AHEAD = 4
"""Batches that are packed before they are asked for."""

End = Literal["agree", "filler", "known"]


def alone(value: bool) -> bool:
    """What holds on the only rank holds on all."""
    return value


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """Everything that decides what a stream delivers on a rank, and how far ahead it works.

    Attributes
    ----------
    lane : LanePlan
        What makes the batches of a lane.
    share : Share
        Which of them are this rank's.
    end : {"agree", "filler", "known"}
        How a finite pass ends where lanes have different numbers of batches:
        before the first round that not every lane fills, or when none has a batch
        left, with batches of padding for those that have not; known: as the first,
        behind ``rounds`` rounds of lanes.
    agree : callable
        From what holds on this rank to whether it holds on all, asked once for each
        round of lanes of a finite pass, unless its end is known.
    about : callable or None
        Told the number of the round before each question.
    rounds : int or None
        Rounds of lanes that the pass has in all, if that is known.
    """

    lane: LanePlan
    share: Share
    end: End
    agree: Callable[[bool], bool]
    about: Callable[[int], None] | None = None
    rounds: int | None = None


class _StoppedError(Exception):
    """The stream was closed before a function was called."""


class _Stop:
    """What threads ask before each call of a user's function; refers to nothing."""

    __slots__ = ("stopped",)

    def __init__(self) -> None:
        self.stopped = False

    def heed(self, origin: int, operator: int) -> None:
        """Raise if nobody wants the documents any more."""
        if self.stopped:
            raise _StoppedError


class Stream:
    """Iterates batches and the positions behind them.

    Threads, if any, are started by the first ``next`` and gone after
    :meth:`close`.
    """

    def __init__(self, plan: StreamPlan, position: Position) -> None:
        self._plan = plan
        self._position = position
        self._executor: Executor | None = None
        self._items: Iterator[tuple[SampleBatch | None, Behind]] | None = None
        self._closed = False
        self._stop = _Stop()
        self._run: _Run | None = None

    @property
    def dropped(self) -> Dropped | None:
        """What the lanes of this rank have left out of a pass; None before its end."""
        return None if self._run is None else self._run.dropped

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> tuple[SampleBatch, Position]:
        if self._closed:
            raise StopIteration
        try:
            if self._items is None:
                self._items = self._start()
            while True:
                batch, cursor = next(self._items)
                self._position = self._position.after(cursor, self._plan.share)
                if batch is not None:
                    return batch, self._position
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop and wait for all threads; what they had prepared is forgotten.

        A user's function that is running is waited for, and is not called again.
        """
        self.abandon()
        items, executor = self._items, self._executor
        if isinstance(items, Lookahead):
            items.close()
        if executor is not None and not threading.current_thread().name.startswith(READERS):
            executor.shutdown(cancel_futures=True)
        self._items = self._executor = None
        if isinstance(self._plan.agree, Agreement):
            self._plan.agree.close()

    def abandon(self) -> None:
        """Let all threads end, without waiting for them."""
        self._closed = self._stop.stopped = True
        if isinstance(self._plan.agree, Agreement):
            self._plan.agree.stop()
        if isinstance(self._items, Lookahead):
            self._items.abandon()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> Iterator[tuple[SampleBatch | None, Behind]]:
        if self._pays_to_run_ahead():
            self._executor = open_executor(self._plan.lane)
        self._run = _Run(self._plan, self._position, self._executor)
        if self._executor is None:
            return self._run.batches()
        self._plan.lane.reader.mark = self._stop.heed
        ahead = Lookahead(self._run.batches(), BATCHES_AHEAD)
        self._plan.lane.metrics.watch("batch", BATCH, ahead.depth())
        return ahead

    def _pays_to_run_ahead(self) -> bool:
        """Whether a thread can do more than it costs to hand a batch over.

        Not where documents are only places in mapped files: packing a batch is then a few
        microseconds. Ranks that have to agree, and functions on batches, are waited for in
        a thread all the same.
        """
        lane = self._plan.lane
        waits = isinstance(self._plan.agree, Agreement) or bool(lane.on_batches.functions)
        return lane.placed is None or waits


class _Run:
    """The lanes of a rank, opened when their first batch is due."""

    def __init__(self, plan: StreamPlan, position: Position, executor: Executor | None) -> None:
        self._plan = plan
        self._position = position
        self._executor = executor
        self._lanes: dict[int, Lane] = {}
        self._begun: dict[int, Behind] = dict(enumerate(position.cursors))
        self.dropped: Dropped | None = None  # of all lanes, at the end

    def batches(self) -> Iterator[tuple[SampleBatch | None, Behind]]:
        """Every lane-batch of the rank, with its lane's cursor behind it."""
        plan, lanes = self._plan, self._plan.lane.lanes
        finite = plan.lane.work.lane(0, lanes).length() is not None
        number = self._position.delivered + plan.share.rank
        if not finite:
            while True:
                item = self._take(number)
                assert item is not None, "an endless lane ended"
                yield self._batch(number, *item)
                number += plan.share.degree
        # Lanes that had ended when a round with fillers was begun are filled to its end. What was
        # agreed on with batches of another size says nothing: ask again.
        agreed = plan.end == "filler" and self._position.delivered % lanes != 0
        while True:
            numbers = range(number, (number // lanes + 1) * lanes, plan.share.degree)
            items = [self._take(n) for n in numbers]
            if self._plan.about is not None:
                self._plan.about(number // lanes)
            if not agreed and not self._goes_on(items, number // lanes):
                if not (isinstance(plan.agree, Agreement) and plan.agree.closed):
                    self._report(items)
                return
            agreed = False
            for n, item in zip(numbers, items, strict=True):
                yield self._batch(n, *(item or self._filler(n)))
            number = numbers[-1] + plan.share.degree

    def _goes_on(self, items: list[tuple[Rows, Behind] | None], number: int) -> bool:
        """Whether round ``number`` of the lanes, of which these are ours, is delivered."""
        if self._plan.rounds is not None:
            if number >= self._plan.rounds:
                return False
            if None in items:
                raise DataError(
                    f"a lane ended in round {number} of {self._plan.rounds} that the lengths of "
                    "documents gave: a file was changed while in use"
                )
            return True
        if self._plan.end == "agree":
            return self._plan.agree(all(item is not None for item in items))
        # Some rank has a batch unless on all ranks there is none.
        return not self._plan.agree(all(item is None for item in items))

    def _take(self, number: int) -> tuple[Rows, Behind] | None:
        lane = number % self._plan.lane.lanes
        if lane not in self._lanes:
            self._lanes[lane] = Lane(
                self._plan.lane,
                lane,
                self._position.passes,
                self._position.cursors[lane],
                self._executor,
            )
        item = self._lanes[lane].take()
        if item is not None:
            self._begun[lane] = item[1]
        return item

    def _filler(self, number: int) -> tuple[Rows, Behind]:
        """A batch that teaches nothing: in each row one token of padding that is no padding."""
        plan = self._plan.lane
        size = plan.microbatch_size
        one, none = np.ones(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
        zero = np.zeros(size, dtype=np.int64)
        rows = Rows(
            buffers=(np.full(1, plan.pack.pad_token_id, dtype=np.int32),),
            buffer=np.zeros(size, dtype=np.int32),
            start=zero,
            length=one,
            offset=zero,
            source=none,
            row=none,
            splits=np.arange(size + 1, dtype=np.int64),
            row_length=plan.pack.max_length,
            pad_token_id=plan.pack.pad_token_id,
        )
        return rows, self._begun[number % plan.lanes]

    def _batch(self, number: int, rows: Rows, cursor: Behind) -> tuple[SampleBatch | None, Behind]:
        """A batch as the functions on batches leave it, None if one left it out."""
        plan = self._plan.lane
        batch = SampleBatch.from_rows(
            rows, datasets=plan.work.datasets, lane=number % plan.lanes, number=number
        )
        return plan.on_batches.run(batch, number, plan.metrics), cursor

    def _report(self, items: list[tuple[Rows, Behind] | None]) -> None:
        """Say once what the pass left out."""
        undelivered = sum(int(item[0].length.sum()) for item in items if item is not None)
        total = Dropped(tail_tokens=undelivered)
        for lane in self._lanes.values():
            total += lane.dropped()
        self.dropped = total
        if any(total.counts()):
            logger.warning(
                "the pass has ended; on this rank it left out %d empty documents, %d documents "
                "longer than a row (%d tokens), %d tokens at the ends of lanes and %d documents "
                "that operators left out",
                *total.counts(),
            )
