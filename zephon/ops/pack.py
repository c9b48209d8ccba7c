"""Packing: documents of a lane into rows of a fixed length.

``wrap`` lays the documents end to end and cuts at every row: no padding, every
document in order, one split at most per row end. What is left of a document
begins the next row, so the position between two rows is one cursor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zephon.block import TokenBlock, TokenDocuments
from zephon.cursor import CHECK_TOKENS, LaneCursor, check_tokens
from zephon.errors import ConfigError, ConfigTypeError, DataError, StateError
from zephon.rows import Rows

PackingAlgorithm = Literal["wrap"]
ALGORITHMS = ("wrap",)


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """How documents become rows.

    Attributes
    ----------
    max_length : int
        Tokens per row, one more than the model's input length: inputs and labels
        are the row without its last and its first token.
    algorithm : {"wrap"}
        How documents are laid out.
    """

    max_length: int
    algorithm: PackingAlgorithm = "wrap"

    def __post_init__(self) -> None:
        if isinstance(self.max_length, bool) or not isinstance(self.max_length, int):
            raise ConfigTypeError(f"max_length is {self.max_length!r}, expected an int")
        if not 2 <= self.max_length < 2**31:
            raise ConfigError(
                f"max_length is {self.max_length}, expected 2 to 2**31 - 1 tokens: a row gives "
                "max_length - 1 inputs and as many labels"
            )
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(
                f"Unknown algorithm {self.algorithm!r}; this version has: {', '.join(ALGORITHMS)}"
            )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Documents of a block, the first perhaps without its beginning; all arrays ``[n]``."""

    block: TokenBlock
    index: NDArray[np.int64]  # which documents of the block; none is empty
    skipped: NDArray[np.int64]  # tokens of each that were delivered before
    length: NDArray[np.int64]  # tokens of each that are taken now

    def total(self) -> int:
        return int(self.length.sum())


class WrapPacker:
    """The rows of one lane, from a cursor on.

    Parameters
    ----------
    blocks : iterator of TokenBlock
        The lane's documents, from draw ``cursor.draw`` on.
    row_length : int
        Tokens per row.
    cursor : LaneCursor
        Where to begin.
    vocab_size : int
        Bound for ids, 0 if unknown.
    names : sequence of str
        Names of the datasets, for messages.
    patience : int
        How many documents without tokens may follow each other before the data
        is held to have none: a stream that repeats would search for ever.
    """

    def __init__(
        self,
        blocks: Iterator[TokenBlock],
        row_length: int,
        cursor: LaneCursor,
        *,
        vocab_size: int,
        names: Sequence[str],
        patience: int,
    ) -> None:
        self._blocks = blocks
        self._row_length = row_length
        self._vocab_size = vocab_size
        self._names = names
        self._patience = patience
        self._block: TokenBlock | None = None
        self._next = 0  # document of the block that comes next
        self._token = cursor.token
        self._empty = cursor.empty
        self._cursor = cursor
        self._unchecked = cursor.token > 0

    def take(self, count: int) -> tuple[Rows, LaneCursor]:
        """The next ``count`` rows and the cursor behind them."""
        missing = count * self._row_length
        pieces: list[_Piece] = []
        fruitless = self._empty
        while missing:
            piece = self._take_documents(missing)
            if len(piece.index):
                pieces.append(piece)
                missing -= piece.total()
                fruitless = self._empty
            elif self._empty - fruitless > self._patience:
                raise DataError(
                    f"{self._empty - fruitless} documents in a row have no tokens (datasets "
                    f"{', '.join(self._names)}): is the right field read?"
                )
        return self._cut(pieces, count), self._here()

    def _take_documents(self, limit: int) -> _Piece:
        """Documents of the present block, up to ``limit`` tokens."""
        block = self._open_block()
        length = block.documents.length[self._next :].copy()
        length[0] -= self._token
        # Stop as soon as `limit` tokens are there: the last one may be cut.
        ends = np.cumsum(length)
        last = int(np.searchsorted(ends, limit, side="left"))
        taken = min(last + 1, len(length))
        length = length[:taken]
        cut = 0
        if last < taken:
            cut = int(ends[last]) - limit
            length[-1] -= cut
        skipped = np.zeros(taken, dtype=np.int64)
        skipped[0] = self._token
        index = np.arange(self._next, self._next + taken)
        # What follows: inside the last document if it was cut, else behind it.
        self._next += taken - (cut > 0)
        self._token = int(skipped[-1] + length[-1]) if cut else 0
        full = length > 0
        self._empty += taken - int(full.sum())
        return _Piece(block, index[full], skipped[full], length[full])

    def _open_block(self) -> TokenBlock:
        while self._block is None or self._next == len(self._block):
            self._block, self._next = next(self._blocks), 0
            if self._unchecked:
                self._verify(self._block)
        return self._block

    def _verify(self, block: TokenBlock) -> None:
        """Compare the open document with what was delivered of it before."""
        self._unchecked = False
        token = self._cursor.token
        document = block.documents.tokens(0)
        delivered = document[max(token - CHECK_TOKENS, 0) : token]
        if len(document) <= token or check_tokens(delivered) != self._cursor.check:
            raise StateError(
                f"document {int(block.rows[0])} of dataset {self._names[block.sources[0]]!r} is "
                f"not the one of which {token} tokens were delivered before the state was saved: "
                "its file, the tokenizer or a function changed. Restore what the state was saved "
                "with, or start a new run"
            )

    def _here(self) -> LaneCursor:
        assert self._block is not None
        if self._next == len(self._block) or self._token == 0:
            return LaneCursor(self._block.first + self._next, 0, self._empty)
        tail = self._block.documents.tokens(self._next)
        tail = tail[max(self._token - CHECK_TOKENS, 0) : self._token]
        return LaneCursor(self._block.first + self._next, self._token, self._empty, tail)

    def _cut(self, pieces: list[_Piece], count: int) -> Rows:
        """Segments of ``count`` rows from pieces that fill them exactly."""
        buffers, buffer, start = _merge([piece.block.documents for piece in pieces], pieces)
        length = np.concatenate([piece.length for piece in pieces])  # [documents]
        skipped = np.concatenate([piece.skipped for piece in pieces])
        ends = np.cumsum(length)
        row_ends = np.arange(1, count + 1) * self._row_length
        cuts = np.union1d(ends, row_ends)  # [segments]: every end of a document or row
        begins = np.concatenate(([0], cuts[:-1]))
        document = np.searchsorted(ends, begins, side="right")
        inside = begins - (ends - length)[document]
        splits = np.concatenate(([0], np.searchsorted(cuts, row_ends, side="left") + 1))
        rows = np.concatenate([piece.block.rows[piece.index] for piece in pieces])
        sources = np.concatenate([piece.block.sources[piece.index] for piece in pieces])
        return Rows(
            buffers=buffers,
            buffer=buffer[document],
            start=start[document] + inside,
            length=cuts - begins,
            offset=skipped[document] + inside,
            source=sources[document].astype(np.int64),
            row=rows[document],
            splits=splits.astype(np.int64),
            row_length=self._row_length,
            vocab_size=self._vocab_size,
        )


def _merge(
    parts: list[TokenDocuments], pieces: list[_Piece]
) -> tuple[tuple[NDArray[np.integer[Any]], ...], NDArray[np.int32], NDArray[np.int64]]:
    """Buffers of all pieces, and for each document its buffer and first token taken."""
    buffers: list[NDArray[np.integer[Any]]] = []
    buffer, start = [], []
    for part, piece in zip(parts, pieces, strict=True):
        buffer.append(part.buffer[piece.index] + np.int32(len(buffers)))
        start.append(part.start[piece.index] + piece.skipped)
        buffers.extend(part.buffers)
    return tuple(buffers), np.concatenate(buffer), np.concatenate(start)
