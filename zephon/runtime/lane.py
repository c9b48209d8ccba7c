"""One lane: from its documents to its batches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property

from zephon.block import TokenBlock
from zephon.cursor import DocumentCursor, Dropped, LaneCursor
from zephon.ops.documents import DocumentStream
from zephon.ops.pack import PackOptions, RowSource, make_packer
from zephon.ops.shuffle import Shuffle, ShuffleOptions
from zephon.ops.tokenize import DocumentTokenizer
from zephon.options import PrefetchOptions
from zephon.rows import Rows
from zephon.runtime.documents import DocumentReader, read_ahead
from zephon.work.base import LaneRows, WorkSource

_TOKEN_BLOCK, _TEXT_BLOCK = 256, 32
"""Documents that are read at a time, where nobody reads ahead."""


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

    @cached_property
    def names(self) -> list[str]:
        """Names of the datasets, for messages."""
        return [dataset.name for dataset in self.work.datasets]

    @cached_property
    def patience(self) -> int:
        """Draws in which every source has come by, the rarest too, as often as it has documents."""
        total = sum(self.work.weights)
        return 1000 + max(
            2 * dataset.total() * total // max(weight, 1)
            for dataset, weight in zip(self.work.datasets, self.work.weights, strict=True)
        )


class Lane:
    """The batches of a lane from a cursor on."""

    def __init__(
        self, plan: LanePlan, lane: int, passes: int, cursor: LaneCursor, executor: Executor | None
    ) -> None:
        self._size = plan.microbatch_size
        self._drop_last = plan.drop_last
        self._rows = _rows(plan, lane, passes, cursor, executor)
        self._left = Dropped()

    def take(self) -> tuple[Rows, LaneCursor] | None:
        """The next batch and the cursor behind it; None at the end of the lane."""
        rows = self._rows.take(self._size)
        if rows is None:
            return None
        if self._drop_last and len(rows) < self._size:
            self._left = Dropped(tail_tokens=int(rows.length.sum()))
            return None
        return rows, self._rows.cursor()

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
        names=plan.names,
        patience=plan.patience,
    )
    return make_packer(
        documents, plan.pack, inner, pad_tail=plan.pad_tail, vocab_size=plan.vocab_size
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
    prefetch = plan.prefetch
    if plan.tokenizer is None:
        # Reading is arithmetic on places: handing it to other threads costs more than doing it.
        executor, size, ahead = None, _TOKEN_BLOCK, 1
    elif executor is None:
        size, ahead = _TEXT_BLOCK, 1
    else:
        # The buffer is shared by the lanes. Small blocks: the first batch waits for the first one,
        # and closing for those that are being tokenized.
        share = prefetch.buffer_size // plan.lanes
        size = max(4, min(_TEXT_BLOCK, share // 2))
        ahead = max(1, share // size)
    return read_ahead(
        DocumentReader(plan.work.datasets, plan.tokenizer),
        plan.work.lane(lane, plan.lanes, passes),
        draw,
        size=size,
        ahead=ahead,
        executor=executor,
    )
