"""The documents of a lane as packing sees them: parts without gaps, and a position."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import Aligned, join_buffers
from zephon.block import SharedBuffers, TokenBlock
from zephon.cursor import (
    CHECK_TOKENS,
    DocumentCursor,
    Dropped,
    LaneCursor,
    Tokens,
    check_tokens,
)
from zephon.errors import DataError, StateError
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


@dataclass(frozen=True, slots=True)
class Parts:
    """Documents, or parts of documents, that follow each other; all arrays ``[n]``.

    Attributes
    ----------
    buffers, aligned, buffer, start, length
        Where the tokens lie and what is beside them, as in
        :class:`zephon.block.TokenDocuments`. No length is 0.
    offset, whole : int64
        Tokens of the document before the part, and of the whole document.
    draw, child, final
        Where the document stands among those of the lane, as in
        :class:`zephon.block.Entries`.
    source, row, lineage : int64
        Dataset and number of the document, and what path operators made it along.
    dropped : int64 ``[n, 5]``
        What was left out before the part, as :meth:`zephon.cursor.Dropped.counts`.
    """

    buffers: tuple[Tokens, ...]
    aligned: Aligned
    buffer: NDArray[np.int32]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    offset: NDArray[np.int64]
    whole: NDArray[np.int64]
    draw: NDArray[np.int64]
    child: NDArray[np.int64]
    final: NDArray[np.bool_]
    source: NDArray[np.int64]
    row: NDArray[np.int64]
    lineage: NDArray[np.int64]
    dropped: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.length)

    def take(self, index: NDArray[np.integer[Any]] | slice) -> Parts:
        """Some of the parts."""
        arrays = [getattr(self, f.name)[index] for f in fields(self)[2:]]
        return Parts(self.buffers, self.aligned, *arrays)

    def cursor_behind(self, documents: int, tokens: int) -> DocumentCursor:
        """The position behind so many parts and the first tokens of the next; not of none."""
        if tokens:
            return DocumentCursor(
                int(self.draw[documents]),
                int(self.offset[documents]) + tokens,
                Dropped(*self.dropped[documents].tolist()),
                int(self.child[documents]),
            )
        last = documents - 1
        done = int(self.offset[last] + self.length[last])
        finished = done == int(self.whole[last])
        ended = finished and bool(self.final[last])  # the draw, too
        return DocumentCursor(
            int(self.draw[last]) + ended,
            0 if finished else done,
            Dropped(*self.dropped[last].tolist()),
            0 if ended else int(self.child[last]) + finished,
        )

    def cursors_behind(
        self, document: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> CursorsBehind:
        """The positions behind the first ``tokens`` of each of ``document``, at least one."""
        done = self.offset[document] + tokens
        finished = done == self.whole[document]
        ended = finished & self.final[document]
        dropped = self.dropped[document]
        same = not len(dropped) or bool((dropped[0] == dropped[-1]).all())  # counts only grow
        return CursorsBehind(
            self.buffers,
            (self.draw[document] + ended).tolist(),
            np.where(ended, 0, self.child[document] + finished).tolist(),
            np.where(finished, 0, done).tolist(),
            self.buffer[document].tolist(),
            (self.start[document] + tokens).tolist(),
            [Dropped(*counts) for counts in (dropped[:1] if same else dropped).tolist()],
        )

    def tokens_before(self, document: int, tokens: int) -> tuple[Tokens, ...]:
        """What a cursor vouches for behind the first ``tokens`` of a part: those just before."""
        begin = int(self.start[document]) + tokens
        before = min(CHECK_TOKENS, int(self.offset[document]) + tokens)
        return (self.buffers[int(self.buffer[document])][begin - before : begin],)

    def rows(
        self,
        document: NDArray[np.int64],
        offset: NDArray[np.int64],
        length: NDArray[np.int64],
        splits: NDArray[np.int64],
        **shape: Any,
    ) -> Rows:
        """Rows of segments (``[m]``), each ``length`` tokens from ``offset`` of a document."""
        begin = self.offset[document] + offset
        return Rows(
            buffers=self.buffers,
            aligned=self.aligned,
            buffer=self.buffer[document],
            start=self.start[document] + offset,
            length=length,
            offset=begin,
            last=begin + length == self.whole[document],
            source=self.source[document],
            row=self.row[document],
            lineage=self.lineage[document],
            splits=splits,
            **shape,
        )


@dataclass(frozen=True, slots=True)
class CursorsBehind:
    """Many positions at once, as :meth:`Parts.cursor_behind` and :meth:`Parts.tokens_before`.

    Attributes
    ----------
    draw, child, token : list of int
        Of each position.
    buffer, end : list of int
        Where the tokens before it lie: in which of ``buffers``, and up to which.
    dropped : list of Dropped
        What was left out before it; one for all if it is the same.
    """

    buffers: tuple[Tokens, ...]
    draw: list[int]
    child: list[int]
    token: list[int]
    buffer: list[int]
    end: list[int]
    dropped: list[Dropped]

    def cursor(self, index: int) -> LaneCursor:
        """One of them, of a lane whose rows are windows each for itself."""
        token, end = self.token[index], self.end[index]
        dropped = self.dropped[index if len(self.dropped) > 1 else 0]
        evidence: bytes | tuple[Tokens, ...] = b""
        if token:
            before = min(CHECK_TOKENS, token)
            evidence = (self.buffers[self.buffer[index]][end - before : end],)
        place = DocumentCursor(self.draw[index], token, dropped, self.child[index])
        return LaneCursor(place, _evidence=evidence)


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
        self._loaded = cursor.dropped  # what was left out up to the last block
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
        filtered = " or are left out by an operator" if self._loaded.filtered else ""
        raise DataError(
            f"{fruitless} documents in a row have no tokens{oversized}{filtered} (datasets "
            f"{', '.join(self._names)}): is the right field read?"
        )

    def advance(self, documents: int, tokens: int = 0) -> None:
        """Take ``documents`` parts and the first ``tokens`` tokens of the next."""
        parts = self.parts
        if parts is None or not (documents or tokens):
            return
        self._cursor = parts.cursor_behind(documents, tokens)
        rest = parts.take(slice(documents, None))
        if tokens:
            rest = replace(
                rest,
                start=_add_first(rest.start, tokens),
                offset=_add_first(rest.offset, tokens),
                length=_add_first(rest.length, -tokens),
            )
        self._hold(_compact(rest))

    def finish(self, tail_tokens: int = 0) -> None:
        """Take everything: the lane is at its end, and so many tokens fill no row."""
        if self._finished:
            return
        self._finished = True
        self._cursor = DocumentCursor(self._end, 0, self._loaded + Dropped(tail_tokens=tail_tokens))
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
        documents = block.documents
        count = len(block)
        entries = block.entries
        begin = self._begin(block)
        whole = documents.length
        offset = np.zeros(count, dtype=np.int64)
        if self._skip:
            self._verify(block, begin)
            offset[begin], self._skip = self._skip, 0
        zero = np.zeros(count, dtype=np.int64)
        filtered = np.zeros(count, np.bool_) if entries is None else entries.filtered
        empty = (whole < self._shortest) & ~filtered
        oversized = (whole > self._longest) if self._drop else np.zeros_like(empty)
        counts = np.zeros((count, 5), dtype=np.int64)
        counts[:, 0], counts[:, 1], counts[:, 2] = empty, oversized, whole * oversized
        counts[:, 4] = filtered
        counts[:begin] = 0  # counted before the state was saved
        total = np.cumsum(counts, axis=0) + self._loaded.counts()
        if count:
            self._loaded = Dropped(*total[-1].tolist())
        if oversized[begin:].any():
            self._tell_oversized(block, begin + int(np.argmax(oversized[begin:])))
        keep = np.flatnonzero(~(empty | oversized | filtered)[begin:]) + begin
        parts = Parts(
            documents.buffers,
            documents.aligned,
            documents.buffer[keep],
            documents.start[keep] + offset[keep],
            (whole - offset)[keep],
            offset[keep],
            whole[keep],
            block.first + keep if entries is None else entries.draw[keep],
            zero[keep] if entries is None else entries.child[keep],
            np.ones(len(keep), np.bool_) if entries is None else entries.final[keep],
            block.sources[keep].astype(np.int64),
            block.rows[keep],
            zero[keep] if entries is None else entries.lineage[keep],
            total[keep],
        )
        return _split(parts, self._longest) if self._split else parts

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
    buffers, aligned, moves = join_buffers(chunks)
    buffer = np.concatenate([m[c.buffer] for m, c in zip(moves, chunks, strict=True)])
    arrays = [
        np.concatenate([getattr(chunk, f.name) for chunk in chunks]) for f in fields(Parts)[3:]
    ]
    return Parts(buffers, aligned, buffer, *arrays)


def _split(parts: Parts, longest: int) -> Parts:
    """Cut parts into pieces that end at multiples of ``longest`` tokens of their document."""
    if not (parts.length > longest).any():
        return parts
    pieces = -(-parts.length // longest)
    index = np.repeat(np.arange(len(parts)), pieces)
    inside = (np.arange(len(index)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * longest
    cut = parts.take(index)
    return replace(
        cut,
        start=cut.start + inside,
        length=np.minimum(cut.length - inside, longest),
        offset=cut.offset + inside,
    )


def _add_first(values: NDArray[np.int64], amount: int) -> NDArray[np.int64]:
    changed = values.copy()  # rows that were made of the same array keep theirs
    changed[0] += amount
    return changed


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
