"""The token ids of one unit, and what goes along with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zephon.aligned import MASK_FIELD, AlignedFields
from zephon.block import TokenDocuments
from zephon.errors import DataError
from zephon.io.column_lists import ListRuns, contiguous, gather, list_runs

ReadColumn = Callable[[str], pa.ChunkedArray]


class UnitTokens:
    """Documents of one unit: where each lies in which of its buffers.

    Attributes
    ----------
    length : int64 ``[n]``
        Tokens of each document.
    damaged : int64 ``[k]``
        Documents of the unit that cannot be delivered, in ascending order.
    """

    def __init__(self, chunks: Sequence[UnitChunk]) -> None:
        self._chunks = chunks
        counts = [len(chunk.runs) for chunk in chunks]
        self._first = np.cumsum(counts) - counts  # [chunks]: first document of each
        self._buffers = tuple(chunk.runs.values for chunk in chunks)
        self._buffer = np.repeat(np.arange(len(chunks), dtype=np.int32), counts)
        self._start = _end_to_end([chunk.runs.start for chunk in chunks])
        self.length = _end_to_end([chunk.runs.length for chunk in chunks])
        self._aligned = tuple(chunk if chunk.along else None for chunk in chunks)
        damaged = [
            first + np.union1d(chunk.runs.damaged, chunk.unfit)
            for first, chunk in zip(self._first.tolist(), chunks, strict=True)
        ]
        self.damaged = _end_to_end(damaged)

    def documents(self, rows: NDArray[np.int64]) -> TokenDocuments:
        """Documents ``rows`` of the unit."""
        return TokenDocuments(
            self._buffers,
            self._buffer[rows],
            self._start[rows],
            self.length[rows],
            self._aligned if any(self._aligned) else (),
        )

    def names(self, row: int) -> tuple[str, ...]:
        """Columns that have a number for each token of document ``row``."""
        buffer = int(self._buffer[row])
        return self._chunks[buffer].names_of(row - int(self._first[buffer]))

    def problem(self, row: int) -> str:
        """Why document ``row`` cannot be delivered."""
        buffer = int(self._buffer[row])
        return self._chunks[buffer].problem(row - int(self._first[buffer]))

    @property
    def nbytes(self) -> int:
        """Bytes beside Arrow's memory."""
        masks = [c.loss_mask.nbytes for c in self._chunks if c.loss_mask is not None]
        return self._start.nbytes * 3 + sum(masks)


class UnitChunk(AlignedFields):
    """Documents of one buffer; a number of a column for each of their tokens when asked for.

    Parameters
    ----------
    runs : ListRuns
        Token ids, in order.
    mask : pyarrow.ChunkedArray or None
        ``loss_mask`` of the same documents.
    beside : sequence of str
        Other columns of lists of numbers.
    read : callable
        From the name of one of them to its values for these documents.
    """

    def __init__(
        self, runs: ListRuns, mask: pa.ChunkedArray | None, beside: Sequence[str], read: ReadColumn
    ) -> None:
        self.runs, self._beside, self._read = runs, tuple(beside), read
        self._full = np.flatnonzero(runs.length > 0)
        self.along = bool(beside) or mask is not None
        self.unfit = np.empty(0, dtype=np.int64)  # documents whose mask does not fit
        self._masked: NDArray[np.bool_] | None = None
        if mask is not None:
            self._place_mask(mask)

    def has_mask(self, start: int) -> bool:
        """Whether the document has one that is not null."""
        return self._masked is not None and bool(self._masked[self._document(start)])

    def names(self, start: int) -> tuple[str, ...]:
        """Columns with as many numbers as the document has tokens."""
        return self.names_of(self._document(start))

    def names_of(self, row: int) -> tuple[str, ...]:
        """The same of document ``row`` of the buffer."""
        count = int(self.runs.length[row])
        found = []
        for name in self._beside:
            value = self._list(name, row)
            if value is not None and len(value) == count:
                found.append(name)
        return tuple(found)

    def take(self, name: str, start: int, length: int) -> NDArray[Any]:
        """A slice of the column's values of the document."""
        if name not in self._beside:
            raise DataError(f"has no field {name!r}; it has: {', '.join(self._beside) or 'none'}")
        at = self._document(start)
        value, count = self._list(name, at), int(self.runs.length[at])
        if value is None:
            raise DataError(f"the field {name!r} is null")
        if len(value) != count:
            raise DataError(f"the field {name!r} has {len(value)} values for {count} tokens")
        first = start - int(self.runs.start[at])
        return value[first : first + length]

    def problem(self, row: int) -> str:
        """Why document ``row`` cannot be delivered."""
        if row in self.unfit:
            return f"the column {MASK_FIELD!r} has not one number for each token, or a null in it"
        return "a null stands among its token ids: nothing tells what is meant"

    def _document(self, start: int) -> int:
        # Documents without tokens lie nowhere.
        at = np.searchsorted(self.runs.start[self._full], start, side="right") - 1
        return int(self._full[at])

    def _list(self, name: str, row: int) -> NDArray[Any] | None:
        """Numbers of document ``row``; None for a null, or if a null is among them."""
        for chunk in self._read(name).slice(row, 1).chunks:
            if len(chunk):
                runs = list_runs(chunk)
                return None if not chunk[0].is_valid or len(runs.damaged) else runs.values
        return None

    def _place_mask(self, mask: pa.ChunkedArray) -> None:
        """Ones, and where a document has a mask, its values, as long as the buffer."""
        placed = np.ones(len(self.runs.values), dtype=np.uint8)
        masked = np.ones(len(self.runs), dtype=bool)
        unfit, first = [], 0
        for chunk in mask.chunks:
            part = list_runs(chunk)
            rows = np.arange(first, first + len(part))
            valid = np.ones(len(part), dtype=bool) if part.valid is None else part.valid
            masked[rows] = valid
            fits = part.length == self.runs.length[rows]
            fits[part.damaged] = False
            unfit.append(rows[valid & ~fits])
            kept = np.flatnonzero(valid & fits)
            learned = ListRuns(
                (part.values != 0).view(np.uint8), part.start, part.length, None, part.damaged
            )
            gather(learned, kept, placed, self.runs.start[rows[kept]])
            first += len(part)
        self.loss_mask, self._masked = placed, masked
        self.unfit = _end_to_end(unfit)


def make_unit_tokens(
    tokens: Sequence[ListRuns],
    mask: pa.ChunkedArray | None,
    beside: Sequence[str],
    read: ReadColumn,
) -> UnitTokens:
    """Token ids of a unit with their mask, and a way to the other columns of the unit.

    Each array of runs becomes a buffer by itself: nothing is put together.
    """
    chunks, first = [], 0
    along = mask is not None or bool(beside)
    for runs in tokens:
        count = len(runs)
        if along:
            runs = contiguous(runs)
        mine = None if mask is None else mask.slice(first, count)
        chunks.append(UnitChunk(runs, mine, beside, _slice(read, first, count)))
        first += count
    return UnitTokens(chunks)


def _slice(read: ReadColumn, first: int, count: int) -> ReadColumn:
    def read_slice(name: str) -> pa.ChunkedArray:
        return read(name).slice(first, count)

    return read_slice


def _end_to_end(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if len(parts) else np.empty(0, dtype=np.int64)
