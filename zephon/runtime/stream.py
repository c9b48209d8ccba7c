"""The sequence of lane-batches of a run, from any position on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from zephon.cursor import LaneCursor
from zephon.ops.pack import PackOptions, WrapPacker
from zephon.ops.tokenize import TextTokenizer
from zephon.options import PrefetchOptions
from zephon.runtime.documents import DocumentReader, read_ahead
from zephon.runtime.lookahead import Lookahead
from zephon.types import SampleBatch
from zephon.work.base import WorkSource

BATCHES_AHEAD = 4
"""Batches that are packed before they are asked for."""


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """Everything that decides what a stream delivers, and how far ahead it works."""

    work: WorkSource
    tokenizer: TextTokenizer | None
    pack: PackOptions
    microbatch_size: int
    lanes: int
    vocab_size: int
    prefetch: PrefetchOptions


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands between two lane-batches.

    Attributes
    ----------
    delivered : int
        Lane-batches delivered so far; the next one is of lane ``delivered % lanes``.
    cursors : tuple of LaneCursor
        One for each lane.
    """

    delivered: int
    cursors: tuple[LaneCursor, ...]

    @classmethod
    def start(cls, lanes: int) -> Position:
        """Before the first batch."""
        return cls(0, (LaneCursor(),) * lanes)

    def after(self, cursor: LaneCursor) -> Position:
        """Behind the next lane-batch, whose lane then stands at ``cursor``."""
        lane = self.delivered % len(self.cursors)
        cursors = (*self.cursors[:lane], cursor, *self.cursors[lane + 1 :])
        return Position(self.delivered + 1, cursors)


class Stream:
    """Iterates batches and the positions behind them.

    Threads, if any, are started by the first ``next`` and gone after
    :meth:`close`.
    """

    def __init__(self, plan: StreamPlan, position: Position) -> None:
        self._plan = plan
        self._position = position
        self._executor: Executor | None = None
        self._items: Iterator[tuple[SampleBatch, LaneCursor]] | None = None
        self._closed = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> tuple[SampleBatch, Position]:
        if self._closed:
            raise StopIteration
        try:
            if self._items is None:
                self._items = self._start()
            batch, cursor = next(self._items)
        except BaseException:
            self.close()
            raise
        self._position = self._position.after(cursor)
        return batch, self._position

    def close(self) -> None:
        """Stop and wait for all threads; what they had prepared is forgotten."""
        self._closed = True
        if isinstance(self._items, Lookahead):
            self._items.close()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        self._items = self._executor = None

    def _start(self) -> Iterator[tuple[SampleBatch, LaneCursor]]:
        prefetch = self._plan.prefetch
        if prefetch.buffer_size == 0:
            return _lane_batches(self._plan, self._position, None)
        threads = prefetch.parallelism or min(4, len(os.sched_getaffinity(0)))
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="zephon-read")
        return Lookahead(_lane_batches(self._plan, self._position, self._executor), BATCHES_AHEAD)


def _lane_batches(
    plan: StreamPlan, position: Position, executor: Executor | None
) -> Iterator[tuple[SampleBatch, LaneCursor]]:
    """Every lane-batch from ``position`` on, with its lane's cursor behind it."""
    packers: dict[int, WrapPacker] = {}
    number = position.delivered
    while True:
        lane = number % plan.lanes
        if lane not in packers:
            packers[lane] = _open_lane(plan, lane, position.cursors[lane], executor)
        rows, cursor = packers[lane].take(plan.microbatch_size)
        batch = SampleBatch.from_rows(rows, datasets=plan.work.datasets, lane=lane, number=number)
        yield batch, cursor
        number += 1


def _open_lane(
    plan: StreamPlan, lane: int, cursor: LaneCursor, executor: Executor | None
) -> WrapPacker:
    # The buffer is shared by the lanes; a block is small enough that each has two.
    share = plan.prefetch.buffer_size // plan.lanes
    size = max(16, min(256, share // 2))
    blocks = read_ahead(
        DocumentReader(plan.work.datasets, plan.tokenizer),
        plan.work.lane(lane, plan.lanes),
        cursor.draw,
        size=size,
        ahead=max(1, share // size),
        executor=executor,
    )
    return WrapPacker(
        blocks,
        plan.pack.max_length,
        cursor,
        vocab_size=plan.vocab_size,
        names=[dataset.name for dataset in plan.work.datasets],
        patience=1000 + 2 * sum(dataset.total() for dataset in plan.work.datasets),
    )
