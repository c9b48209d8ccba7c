"""The documents of a lane as packing sees them: parts without gaps, and a position."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import Aligned, join_buffers
from zephon.block import SharedBuffers, TokenBlock
from zephon.cursor import (
    CHECK_TOKENS,
    DocumentCursor,
    Dropped,
    Tokens,
    check_tokens,
)
from zephon.errors import DataError, StateError
from zephon.ops.cursor_table import CursorTable
from zephon.rows import Rows

logger = logging.getLogger(__name__)


class _Once:
    """Something that is said once per process."""

    def __init__(self) -> None:
        self.said = False

    def add_first(self) -> bool:
        """True the first time."""
        said, self.said = self.said, True
        return not said


OVERSIZED_TOLD = _Once()

_FEW_BUFFERS = 16  # blocks of text that may stay in memory behind the position


# Rows of the table of Parts. First those that segments have of their document.
_START, _OFFSET, _WHOLE, _SOURCE, _ROW, _LINEAGE, _LENGTH, _DRAW, _CHILD, _FINAL = range(10)
_OF_SEGMENTS = _LINEAGE + 1
_COLUMNS = _FINAL + 1


@dataclass(frozen=True, slots=True)
class Parts:
    """Documents, or parts of documents, that follow each other; ``n`` of them.

    What is known of each lies in one table, so that taking some of them, or putting
    others behind them, is one call whatever there is to know.

    Attributes
    ----------
    buffers, aligned
        Where tokens lie and what is beside them, as in :class:`zephon.block.TokenDocuments`.
    buffer : int32 ``[n]``
        Which buffer a part lies in.
    table : int64 ``[10, n]``
        Its first token there (``start``); tokens of its document before it (``offset``)
        and in all (``whole``); dataset and number of the document and what path operators
        made it along (``source``, ``row``, ``lineage``); its tokens (``length``), never 0;
        where the document stands among those of the lane, as in
        :class:`zephon.block.Entries` (``draw``, ``child``, ``final``).
    dropped : int64 ``[n, 5]`` or ``[1, 5]``
        What was left out before each part, as :meth:`zephon.cursor.Dropped.counts`; once
        if it is the same before all.
    """

    buffers: tuple[Tokens, ...]
    aligned: Aligned
    buffer: NDArray[np.int32]
    table: NDArray[np.int64]
    dropped: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def length(self) -> NDArray[np.int64]:
        """Tokens of each part, int64 ``[n]``."""
        length: NDArray[np.int64] = self.table[_LENGTH]
        return length

    @property
    def source(self) -> NDArray[np.int64]:
        """Dataset of each document, int64 ``[n]``."""
        source: NDArray[np.int64] = self.table[_SOURCE]
        return source

    def take(self, index: NDArray[np.integer[Any]]) -> Parts:
        """Some of the parts."""
        dropped = self.dropped if len(self.dropped) == 1 else self.dropped[index]
        return Parts(
            self.buffers, self.aligned, self.buffer[index], self.table.take(index, axis=1), dropped
        )

    def first(self, count: int) -> Parts:
        """So many of them, or all if there are fewer, without a copy."""
        dropped = self.dropped if len(self.dropped) == 1 else self.dropped[:count]
        return Parts(
            self.buffers, self.aligned, self.buffer[:count], self.table[:, :count], dropped
        )

    def behind(self, documents: int, tokens: int) -> Parts:
        """What is left behind so many parts and the first tokens of the next, as a copy."""
        table = self.table[:, documents:].copy()
        if tokens:
            table[: _OFFSET + 1, 0] += tokens
            table[_LENGTH, 0] -= tokens
        dropped = self.dropped if len(self.dropped) == 1 else self.dropped[documents:].copy()
        return Parts(self.buffers, self.aligned, self.buffer[documents:].copy(), table, dropped)

    def cursor_behind(self, document: int, tokens: int) -> DocumentCursor:
        """The position behind the first ``tokens`` of a part, at least one."""
        _, offset, whole, _, _, _, _, draw, child, final = self.table[:, document].tolist()
        done = offset + tokens
        finished = done == whole
        ended = finished and final  # the draw, too
        dropped = self.dropped[document if len(self.dropped) > 1 else 0]
        return DocumentCursor(
            draw + 1 if ended else draw,
            0 if finished else done,
            Dropped(*dropped.tolist()),
            0 if ended else child + finished,
        )

    def cursors_behind(self, document: NDArray[np.int64], tokens: NDArray[np.int64]) -> CursorTable:
        """The positions behind the first ``tokens`` of many parts, each int64 ``[m]``."""
        start, offset, whole, _, _, _, _, draw, child, final = self.table.take(document, axis=1)
        return CursorTable(
            self.buffers,
            buffer=self.buffer.take(document),
            end=start + tokens,
            done=offset + tokens,
            whole=whole,
            draw=draw,
            child=child,
            final=final,
            dropped=self.dropped if len(self.dropped) == 1 else self.dropped[document],
        )

    def tokens_before(self, document: int, tokens: int) -> tuple[Tokens, ...]:
        """What a cursor vouches for behind the first ``tokens`` of a part: those just before."""
        begin = self.table.item(_START, document) + tokens
        before = min(CHECK_TOKENS, self.table.item(_OFFSET, document) + tokens)
        return (self.buffers[self.buffer.item(document)][begin - before : begin],)

    def rows(
        self,
        document: NDArray[np.int64],
        offset: NDArray[np.int64],
        length: NDArray[np.int64],
        splits: NDArray[np.int64],
        **shape: Any,
    ) -> Rows:
        """Rows of segments (``[m]``), each ``length`` tokens from ``offset`` of a part."""
        found = self.table[:_OF_SEGMENTS].take(document, axis=1)  # [columns, m]
        found[: _OFFSET + 1] += offset
        start, begin, whole, source, row, lineage = found
        return Rows(
            buffers=self.buffers,
            aligned=self.aligned,
            buffer=self.buffer.take(document),
            start=start,
            length=length,
            offset=begin,
            last=begin + length == whole,
            source=source,
            row=row,
            lineage=lineage,
            splits=splits,
            **shape,
        )


class DocumentStream:
    """The documents of one lane from a position on, loaded block by block.

    Documents without tokens, or with fewer than ``shortest``, are left out and counted; so are
    those longer than ``longest`` with ``drop_oversized``. With ``split`` longer ones become parts
    of ``longest`` tokens instead.

    Parameters
    ----------
    blocks : iterator of TokenBlock
        From draw ``cursor.draw`` on, or from a draw before it, whose documents are then
        passed over; ends where the lane does.
    cursor : DocumentCursor
        Where to begin.
    check : bytes
        :attr:`zephon.cursor.LaneCursor.check` if it is about the open document.
    longest : int
        Tokens of a row.
    drop_oversized, split : bool
        What is done with longer documents; they pass whole if neither.
    names : sequence of str
        Names of the datasets, for messages.
    shortest : int
        Tokens that a document has at least.
    patience : int
        How many documents in a row may have no tokens before the data is held to
        have none: a stream that repeats would search for ever.
    """

    def __init__(
        self,
        blocks: Iterator[TokenBlock],
        cursor: DocumentCursor,
        *,
        check: bytes,
        longest: int,
        drop_oversized: bool,
        split: bool,
        names: Sequence[str],
        patience: int,
        shortest: int = 1,
    ) -> None:
        self._blocks = blocks
        self._shortest = shortest
        self._cursor = cursor
        self._check = check if cursor.token else b""
        self._restored = cursor
        self._skip = cursor.token
        self._opening = cursor.child > 0 or cursor.token > 0  # a document that must be there
        self._longest, self._drop, self._split = longest, drop_oversized, split
        self._names, self._patience = names, patience
        # What was left out up to the last block; the same array as long as nothing is.
        self._dropped = np.array([cursor.dropped.counts()], dtype=np.int64)  # [1, 5]
        self._end = cursor.draw
        self._finished = False
        self._chunks: list[Parts] = []  # loaded and not taken; joined when they are looked at
        self._total = self._count = 0

    @property
    def cursor(self) -> DocumentCursor:
        """The position of the first token that is not taken."""
        return self._cursor

    @property
    def parts(self) -> Parts | None:
        """What is loaded and not taken; None if there is nothing."""
        if len(self._chunks) > 1:
            self._chunks = [_join(self._chunks)]
        return self._chunks[0] if self._chunks else None

    def total(self) -> int:
        """Tokens that are loaded and not taken."""
        return self._total

    def count(self) -> int:
        """Parts that are loaded and not taken."""
        return self._count

    def load(self) -> bool:
        """Load documents until there are more parts; False at the end of the lane."""
        fruitless = 0
        while fruitless <= self._patience:
            block = next(self._blocks, None)
            if block is None:
                return False
            self._end = block.end
            more = self._read(block)
            if len(more):
                self._chunks.append(more)
                self._total += int(more.length.sum())
                self._count += len(more)
                return True
            fruitless += block.end - block.first
        oversized = (
            f" or are longer than a row of {self._longest} (drop_oversized=False keeps them)"
            if self._drop
            else ""
        )
        if self._shortest > 1:
            oversized += f" or have fewer than {self._shortest} (min_sequence_length)"
        filtered = " or are left out by an operator" if self._dropped[0, 4] else ""
        raise DataError(
            f"{fruitless} documents in a row have no tokens{oversized}{filtered} (datasets "
            f"{', '.join(self._names)}): is the right field read?"
        )

    def advance(self, documents: int, tokens: int = 0) -> None:
        """Take ``documents`` parts and the first ``tokens`` tokens of the next."""
        parts = self.parts
        if parts is None or not (documents or tokens):
            return
        last = (documents, tokens) if tokens else (documents - 1, int(parts.length[documents - 1]))
        self._cursor = parts.cursor_behind(*last)
        self._hold(_compact(parts.behind(documents, tokens)))

    def finish(self, tail_tokens: int = 0) -> None:
        """Take everything: the lane is at its end, and so many tokens fill no row."""
        if self._finished:
            return
        self._finished = True
        dropped = Dropped(*self._dropped[0].tolist()) + Dropped(tail_tokens=tail_tokens)
        self._cursor = DocumentCursor(self._end, 0, dropped)
        self._hold(None)

    def _hold(self, parts: Parts | None) -> None:
        self._chunks = [parts] if parts is not None and len(parts) else []
        self._count = len(parts) if self._chunks and parts is not None else 0
        self._total = int(parts.length.sum()) if self._count and parts is not None else 0

    def evidence(self) -> bytes | tuple[Tokens, ...]:
        """The last tokens taken of the open document; empty if it was not begun."""
        if not self._cursor.token:
            return b""
        parts = self.parts
        if parts is None:  # nothing loaded: still where it was restored
            return self._check
        return parts.tokens_before(0, 0)

    def _read(self, block: TokenBlock) -> Parts:
        """The parts of a block; what it leaves out is counted."""
        documents, entries = block.documents, block.entries
        count = len(block)
        begin = self._begin(block)
        table = np.empty((_COLUMNS, count), dtype=np.int64)
        table[_START], table[_OFFSET], table[_WHOLE] = documents.start, 0, documents.length
        table[_SOURCE], table[_ROW], table[_LENGTH] = block.sources, block.rows, documents.length
        if entries is None:
            table[_LINEAGE], table[_CHILD], table[_FINAL] = 0, 0, 1
            table[_DRAW] = np.arange(block.first, block.first + count)
        else:
            table[_LINEAGE], table[_CHILD] = entries.lineage, entries.child
            table[_FINAL], table[_DRAW] = entries.final, entries.draw
        if self._skip:
            self._verify(block, begin)
            table[: _OFFSET + 1, begin] += self._skip
            table[_LENGTH, begin] -= self._skip
            self._skip = 0
        parts = Parts(documents.buffers, documents.aligned, documents.buffer, table, self._dropped)
        if begin or self._leaves_out(block):
            parts = self._kept(block, begin, parts)
        return _split(parts, self._longest) if self._split else parts

    def _leaves_out(self, block: TokenBlock) -> bool:
        """Whether a document of a block is no part, or there are none."""
        length = block.documents.length
        if not len(length) or (block.entries is not None and block.entries.filtered.any()):
            return True
        return bool(length.min() < self._shortest or (self._drop and length.max() > self._longest))

    def _kept(self, block: TokenBlock, begin: int, parts: Parts) -> Parts:
        """Those of ``parts``, all documents of a block, that are to be packed."""
        whole, count = block.documents.length, len(block)
        entries = block.entries
        filtered = np.zeros(count, np.bool_) if entries is None else entries.filtered
        empty = (whole < self._shortest) & ~filtered
        oversized = (whole > self._longest) if self._drop else np.zeros_like(empty)
        counts = np.zeros((count, 5), dtype=np.int64)
        counts[:, 0], counts[:, 1], counts[:, 2] = empty, oversized, whole * oversized
        counts[:, 4] = filtered
        counts[:begin] = 0  # counted before the state was saved
        total = np.cumsum(counts, axis=0) + self._dropped
        if count:
            self._dropped = total[-1:].copy()
        if oversized[begin:].any():
            self._tell_oversized(block, begin + int(np.argmax(oversized[begin:])))
        keep = np.flatnonzero(~(empty | oversized | filtered)[begin:]) + begin
        return replace(parts, dropped=total).take(keep)

    def _begin(self, block: TokenBlock) -> int:
        """The first document of a block that is not behind the cursor."""
        where = self._restored
        if block.first > where.draw or block.entries is None:
            return 0
        draw, child = block.entries.draw, block.entries.child
        behind = (draw < where.draw) | ((draw == where.draw) & (child < where.child))
        begin = int(behind.sum())
        if self._opening and where.draw < block.end:
            self._opening = False
            if begin == len(draw) or (int(draw[begin]), int(child[begin])) != (
                where.draw,
                where.child,
            ):
                raise StateError(
                    f"draw {where.draw} gives fewer documents than before the state was saved: its "
                    "file, the tokenizer or a function changed. Restore what the state was saved "
                    "with, or start a new run"
                )
        return begin

    def _tell_oversized(self, block: TokenBlock, first: int) -> None:
        if OVERSIZED_TOLD.add_first():
            logger.warning(
                "document %d of dataset %r has %d tokens, more than a row of %d: such documents "
                "are left out and counted (Pipeline.dropped()). drop_oversized=False splits them; "
                "wrap and best_fit_wrap cut them",
                int(block.rows[first]),
                self._names[block.sources[first]],
                int(block.documents.length[first]),
                self._longest,
            )

    def _verify(self, block: TokenBlock, at: int) -> None:
        """Compare the open document with what was delivered of it before."""
        document = block.documents.tokens(at)
        delivered = document[max(self._skip - CHECK_TOKENS, 0) : self._skip]
        fits = not self._check or check_tokens((delivered,)) == self._check
        if len(document) <= self._skip or not fits:
            raise StateError(
                f"document {int(block.rows[at])} of dataset {self._names[block.sources[at]]!r} is "
                f"not the one of which {self._skip} tokens were delivered before the state was "
                "saved: its file, the tokenizer or a function changed. Restore what the state was "
                "saved with, or start a new run"
            )


def _join(chunks: list[Parts]) -> Parts:
    """Parts after each other; a buffer that several lie in comes once."""
    first = chunks[0]
    buffers, aligned, where = first.buffers, first.aligned, [chunk.buffer for chunk in chunks]
    if any(chunk.buffers is not buffers for chunk in chunks):
        buffers, aligned, moves = join_buffers(chunks)
        where = [moved[buffer] for moved, buffer in zip(moves, where, strict=True)]
    dropped = first.dropped
    if len(dropped) > 1 or any(chunk.dropped is not dropped for chunk in chunks):
        dropped = np.concatenate([np.broadcast_to(c.dropped, (len(c), 5)) for c in chunks])
    table = np.concatenate([chunk.table for chunk in chunks], axis=1)
    return Parts(buffers, aligned, np.concatenate(where), table, dropped)


def _split(parts: Parts, longest: int) -> Parts:
    """Cut parts into pieces that end at multiples of ``longest`` tokens of their document."""
    if not (parts.length > longest).any():
        return parts
    pieces = -(-parts.length // longest)
    index = np.repeat(np.arange(len(parts)), pieces)
    inside = (np.arange(len(index)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * longest
    cut = parts.take(index)
    cut.table[: _OFFSET + 1] += inside
    cut.table[_LENGTH] = np.minimum(cut.table[_LENGTH] - inside, longest)
    return cut


def _compact(parts: Parts) -> Parts:
    """Let go of buffers that nothing refers to any more, once there are some."""
    if len(parts.buffers) < _FEW_BUFFERS or isinstance(parts.buffers, SharedBuffers):
        return parts
    used = np.unique(parts.buffer)
    if len(used) == len(parts.buffers):
        return parts
    kept = used.tolist()
    return replace(
        parts,
        buffers=tuple(parts.buffers[i] for i in kept),
        aligned=tuple(parts.aligned[i] for i in kept) if parts.aligned else (),
        buffer=np.searchsorted(used, parts.buffer).astype(np.int32),
    )
