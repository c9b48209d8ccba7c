"""One lane: from its documents to its batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property

from zephon.block import TokenBlock
from zephon.cursor import Behind, DocumentCursor, Dropped, LaneCursor
from zephon.ops.chain import Chain
from zephon.ops.documents import DocumentStream
from zephon.ops.pack import make_packer
from zephon.ops.pack_options import PackOptions
from zephon.ops.row_source import RowSource
from zephon.ops.shuffle import Shuffle, ShuffleOptions
from zephon.ops.tokenize import DocumentTokenizer
from zephon.options import PrefetchOptions, Runner
from zephon.rows import Rows
from zephon.runtime.batches import BatchFunctions
from zephon.runtime.decode_ahead import decoding_ahead
from zephon.runtime.documents import NO_OPERATORS, DocumentReader, read_ahead
from zephon.runtime.metrics import PACK, Metrics
from zephon.runtime.places import PlacedReader, placed_reader
from zephon.work.base import LaneRows, WorkSource

_TOKEN_BLOCK, _TEXT_BLOCK = 256, 32
"""Documents that are read at a time, where nobody reads ahead."""
_MOST, _IN_ALL = 1024, 2**17
"""Documents of tokens that are read at a time later on, and that all lanes hold together."""


@dataclass(frozen=True, kw_only=True)
class LanePlan:
    """What makes the batches of every lane."""

    work: WorkSource
    tokenizer: DocumentTokenizer | None
    pack: PackOptions
    shuffle: ShuffleOptions | None
    microbatch_size: int
    drop_last: bool
    pad_tail: bool
    lanes: int
    vocab_size: int
    prefetch: PrefetchOptions
    chain: Chain = NO_OPERATORS
    runner: Runner = "threads"
    metrics: Metrics = field(default_factory=Metrics)
    on_batches: BatchFunctions = field(default_factory=BatchFunctions)

    @property
    def ahead(self) -> bool:
        """Whether anything is done before it is asked for."""
        return self.prefetch.buffer_size > 0

    @cached_property
    def reader(self) -> DocumentReader:
        """From draws to tokens, shared by all lanes."""
        return DocumentReader(self.work.datasets, self.tokenizer, self.chain, self.metrics)

    @cached_property
    def placed(self) -> PlacedReader | None:
        """What finds documents without reading them; None if there are texts or records."""
        if self.tokenizer is not None or self.chain or self.work.row_length is not None:
            return None
        return placed_reader(self.work.datasets)

    @cached_property
    def names(self) -> list[str]:
        """Names of the datasets, for messages."""
        return [dataset.name for dataset in self.work.datasets]

    @cached_property
    def patience(self) -> int:
        """Draws in which every source has come by, the rarest too, as often as it has documents."""
        total = sum(self.work.weights)
        return 1000 + max(
            2 * dataset.total() * total // weight
            for dataset, weight in zip(self.work.datasets, self.work.weights, strict=True)
            if weight  # 0: a source that was taken out and is there for former draws
        )


class Lane:
    """The batches of a lane from a cursor on."""

    def __init__(
        self, plan: LanePlan, lane: int, passes: int, cursor: LaneCursor, executor: Executor | None
    ) -> None:
        self._size = plan.microbatch_size
        self._drop_last = plan.drop_last
        self._metrics = plan.metrics
        self._rows = _rows(plan, lane, passes, cursor, executor)
        self._left = Dropped()

    def take(self) -> tuple[Rows, Behind] | None:
        """The next batch and the position behind it; None at the end of the lane.

        What was spent on waiting for documents does not count as work.
        """
        metrics = self._metrics
        begin, waited = time.perf_counter(), metrics.waited("pack")
        rows = self._rows.take(self._size)
        spent = time.perf_counter() - begin - (metrics.waited("pack") - waited)
        if rows is None:
            metrics.add("pack", PACK, working=spent)
            return None
        metrics.add("pack", PACK, items=len(rows), working=spent)
        if self._drop_last and len(rows) < self._size:
            self._left = Dropped(tail_tokens=int(rows.length.sum()))
            return None
        return rows, self._rows.behind()

    def dropped(self) -> Dropped:
        """What was left out up to here; at the end, everything that was."""
        return self._rows.cursor().documents.dropped + self._left


def _rows(
    plan: LanePlan, lane: int, passes: int, cursor: LaneCursor, executor: Executor | None
) -> RowSource:
    # A shuffle window that was begun checks its own rows; what it is made of needs no check.
    inner = replace(cursor.without_check() if cursor.shuffled else cursor, window=0, shuffled=0)
    if plan.work.row_length is not None:
        made = plan.work.lane_rows(
            lane, plan.lanes, plan.microbatch_size, vocab_size=plan.vocab_size
        )
        rows: RowSource = ReadyRows(made, inner)
    else:
        rows = _packed(plan, lane, passes, inner, executor)
    return rows if plan.shuffle is None else Shuffle(rows, plan.shuffle, lane, cursor)


def _packed(
    plan: LanePlan, lane: int, passes: int, inner: LaneCursor, executor: Executor | None
) -> RowSource:
    documents = DocumentStream(
        _blocks(plan, lane, passes, inner.documents.draw, executor),
        inner.documents,
        check=b"" if inner.rows else inner.check,
        longest=plan.pack.max_length,
        drop_oversized=plan.pack.drops_oversized,
        split=not plan.pack.wraps and not plan.pack.drops_oversized,
        shortest=plan.pack.shortest,
        names=plan.names,
        patience=plan.patience,
    )
    return make_packer(
        documents,
        plan.pack,
        inner,
        pad_tail=plan.pad_tail,
        vocab_size=plan.vocab_size,
        names=plan.names,
    )


class ReadyRows(RowSource):
    """Rows that a work source gives ready made; the position is the number of the next."""

    def __init__(self, rows: LaneRows, cursor: LaneCursor) -> None:
        self._rows = rows
        self._next = cursor.documents.draw

    def take(self, count: int) -> Rows | None:
        """The next rows of the lane."""
        length = self._rows.length()
        if length is not None and self._next >= length:
            return None
        rows = self._rows.take(self._next, count)
        self._next += len(rows)
        return rows

    def cursor(self) -> LaneCursor:
        """The number of the next row."""
        return LaneCursor(DocumentCursor(self._next))


def _blocks(
    plan: LanePlan, lane: int, passes: int, draw: int, executor: Executor | None
) -> Iterator[TokenBlock]:
    prefetch, unit, most = plan.prefetch, plan.chain.unit, 0
    order = plan.work.lane(lane, plan.lanes, passes)
    if plan.placed is not None:
        return plan.placed.blocks(order, draw, plan.lanes)
    if plan.tokenizer is None and not plan.chain:
        # Reading is arithmetic on places: handing it to other threads costs more than doing it.
        # Decoding row groups is not, and is begun in time.
        order = decoding_ahead(order, plan.work.datasets, executor)
        executor, size, ahead = None, _TOKEN_BLOCK, 1
        most = min(_MOST, _IN_ALL // plan.lanes)
    elif executor is None:
        size, ahead = _TEXT_BLOCK, 1
    else:
        # The buffer is shared by the lanes. Small blocks: the first batch waits for the first one,
        # and closing for those that are being tokenized.
        share = prefetch.buffer_size // plan.lanes
        size = max(4, min(_TEXT_BLOCK, share // 2))
        ahead = max(1 + (unit > 1), share // max(size, unit))
    return read_ahead(
        plan.reader.of_lane(lane),
        order,
        draw - draw % unit,  # operators begin anew there
        size=-(-size // unit) * unit,
        ahead=ahead,
        executor=executor,
        most=most,
    )
