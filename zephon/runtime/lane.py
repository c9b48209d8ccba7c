"""One lane: from its documents to its batches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from zephon.block import TokenBlock
from zephon.cursor import Dropped, LaneCursor
from zephon.ops.documents import DocumentStream
from zephon.ops.pack import PackOptions, RowSource, make_packer
from zephon.ops.shuffle import Shuffle, ShuffleOptions
from zephon.ops.tokenize import TextTokenizer
from zephon.options import PrefetchOptions
from zephon.rows import Rows
from zephon.runtime.documents import DocumentReader, read_ahead
from zephon.work.base import WorkSource


@dataclass(frozen=True, kw_only=True)
class LanePlan:
    """What makes the batches of every lane."""

    work: WorkSource
    tokenizer: TextTokenizer | None
    pack: PackOptions
    shuffle: ShuffleOptions | None
    microbatch_size: int
    drop_last: bool
    pad_tail: bool
    lanes: int
    vocab_size: int
    prefetch: PrefetchOptions


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
    documents = DocumentStream(
        _blocks(plan, lane, passes, inner.documents.draw, executor),
        inner.documents,
        check=b"" if inner.rows else inner.check,
        longest=plan.pack.max_length,
        drop_oversized=plan.pack.drops_oversized,
        split=not plan.pack.wraps and not plan.pack.drops_oversized,
        names=[dataset.name for dataset in plan.work.datasets],
        patience=1000 + 2 * sum(dataset.total() for dataset in plan.work.datasets),
    )
    packer = make_packer(
        documents, plan.pack, inner, pad_tail=plan.pad_tail, vocab_size=plan.vocab_size
    )
    return packer if plan.shuffle is None else Shuffle(packer, plan.shuffle, lane, cursor)


def _blocks(
    plan: LanePlan, lane: int, passes: int, draw: int, executor: Executor | None
) -> Iterator[TokenBlock]:
    # The buffer is shared by the lanes; a block is small enough that each has two.
    share = plan.prefetch.buffer_size // plan.lanes
    size = max(16, min(256, share // 2))
    return read_ahead(
        DocumentReader(plan.work.datasets, plan.tokenizer),
        plan.work.lane(lane, plan.lanes, passes),
        draw,
        size=size,
        ahead=max(1, share // size),
        executor=executor,
    )
