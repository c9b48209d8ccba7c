"""Packed rows: the segment table that everything in a batch is derived from.

A row is one sequence of ``row_length`` tokens made of segments, each a run of
one document's tokens, followed by padding if they do not fill it. Positions,
document ids, masks and cumulative lengths come from the lengths of the
segments, never from the value of a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native import collate
from zephon.aligned import MASK_FIELD, Aligned, join_buffers
from zephon.cursor import CHECK_TOKENS
from zephon.errors import ConfigError, DataError

ANY_ID = 2**62
"""The bound where no vocabulary is known: ids that are negative are none in any."""


@dataclass(frozen=True, slots=True)
class Rows:
    """``B`` rows of segments; ``n`` segments in all.

    Attributes
    ----------
    buffers : tuple of 1-D integer arrays
        Memory that the tokens lie in (a mapped file, an array).
    buffer : int32 ``[n]``
        Which buffer a segment lies in.
    start, length : int64 ``[n]``
        Its first token there and its number of tokens, at least 1.
    offset : int64 ``[n]``
        Tokens of its document before it: 0 where the segment begins its document.
    source, row : int64 ``[n]``
        Dataset and document that the segment comes from; -1 if unknown.
    splits : int64 ``[B + 1]``
        Row ``b`` is made of segments ``splits[b]`` to ``splits[b + 1] - 1``.
    row_length : int
        Tokens per row, before inputs and labels are shifted against each other.
    pad_token_id : int
        What stands in the input where a row is padding.
    vocab_size : int
        Ids must be below it; 0 if it is not known.
    last : bool ``[n]`` or None
        Whether the segment ends its document; None: all do.
    aligned : tuple of AlignedFields or None
        What each buffer has for each of its tokens besides; empty if none has anything.
    lineage : int64 ``[n]`` or None
        Path along which operators made the segment's document out of that of ``row``, see
        :func:`zephon._lineage.lineage_code`; 0, or None for all, if it is the document itself.
    row_lengths : tuple of int ``[B]`` or None
        Of payloads of different lengths: how much of each row is meant; ``row_length`` is
        then the longest.
    """

    buffers: tuple[NDArray[np.integer[Any]], ...]
    buffer: NDArray[np.int32]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    offset: NDArray[np.int64]
    source: NDArray[np.int64]
    row: NDArray[np.int64]
    splits: NDArray[np.int64]
    row_length: int
    pad_token_id: int = 0
    vocab_size: int = 0
    last: NDArray[np.bool_] | None = None
    aligned: Aligned = ()
    lineage: NDArray[np.int64] | None = None
    row_lengths: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.splits) - 1

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row without its padding, int64 ``[B]``."""
        total = np.concatenate(([0], np.cumsum(self.length)))
        filled: NDArray[np.int64] = total[self.splits[1:]] - total[self.splits[:-1]]
        return filled

    def tokens(self, segment: int) -> NDArray[np.integer[Any]]:
        """Tokens of one segment, without a copy."""
        start = int(self.start[segment])
        return self.buffers[int(self.buffer[segment])][start : start + int(self.length[segment])]

    @property
    def loss_masks(self) -> tuple[NDArray[np.uint8] | None, ...] | None:
        """For each buffer, 0 where a token is not to be learned; None if nothing is masked."""
        if not self.aligned:
            return None
        masks = tuple(None if fields is None else fields.loss_mask for fields in self.aligned)
        return masks if any(mask is not None for mask in masks) else None

    def has_mask(self) -> bool:
        """Whether a document with a loss mask is in the rows, whatever else lies in the buffers."""
        if self.loss_masks is None:
            return False
        buffers = (self.aligned[buffer] for buffer in self.buffer.tolist())
        starts = self.start.tolist()
        return any(
            fields is not None and fields.has_mask(start)
            for fields, start in zip(buffers, starts, strict=True)
        )

    def field(self, name: str, segment: int) -> NDArray[Any]:
        """Per-token values of one segment; ``loss_mask`` is all ones where there is none.

        Raises
        ------
        DataError
            The segment's document has no such field.
        """
        buffer = int(self.buffer[segment])
        fields = self.aligned[buffer] if self.aligned else None
        start, length = int(self.start[segment]), int(self.length[segment])
        if name == MASK_FIELD:
            if fields is None or fields.loss_mask is None:
                return np.ones(length, dtype=np.uint8)
            return fields.loss_mask[start : start + length]
        if fields is None:
            raise DataError(f"has no field {name!r} beside its tokens")
        return fields.take(name, start, length)

    def spread(self, values: Sequence[NDArray[Any]], width: int) -> NDArray[Any]:
        """Values of all segments as rows ``[B, width]``; 0 at padding.

        Integers of any kind become int64; bool and floats stay what they are.
        """
        kind = np.result_type(*values) if values else np.dtype(np.int64)
        out = np.zeros((len(self), width), dtype=np.int64 if kind.kind in "iu" else kind)
        segment = 0
        for row, count in enumerate(np.diff(self.splits).tolist()):
            column = 0
            for value in values[segment : segment + count]:
                part = out[row, column : column + len(value)]
                part[:] = value[: len(part)]
                column += len(value)
            segment += count
        return out

    def select(self, rows: NDArray[np.integer[Any]] | slice) -> Rows:
        """Some of the rows, in the order given."""
        begin, end = self.splits[:-1][rows], self.splits[1:][rows]
        count = end - begin  # [rows]: segments of each
        splits = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        index = np.arange(splits[-1]) + np.repeat(begin - splits[:-1], count)
        return replace(
            self,
            buffer=self.buffer[index],
            start=self.start[index],
            length=self.length[index],
            offset=self.offset[index],
            source=self.source[index],
            row=self.row[index],
            last=None if self.last is None else self.last[index],
            lineage=None if self.lineage is None else self.lineage[index],
            splits=splits,
        )

    def part(self, first: int, stop: int) -> Rows:
        """Rows ``first`` to ``stop - 1``, without a copy."""
        return self.parts(first, stop - first, 1)[0]

    def parts(self, first: int, count: int, times: int) -> list[Rows]:
        """The ``times * count`` rows from ``first`` on, ``count`` at a time, without a copy."""
        places = range(first, first + times * count, count)
        borders = self.splits[first : first + times * count + 1 : count].tolist()
        fixed = self.row_length, self.pad_token_id, self.vocab_size
        made = []
        for place, begin, end in zip(places, borders[:-1], borders[1:], strict=True):
            segments = slice(begin, end)
            splits = self.splits[place : place + count + 1]
            made.append(
                Rows(
                    self.buffers,
                    self.buffer[segments],
                    self.start[segments],
                    self.length[segments],
                    self.offset[segments],
                    self.source[segments],
                    self.row[segments],
                    splits - begin if begin else splits,
                    *fixed,
                    None if self.last is None else self.last[segments],
                    self.aligned,
                    None if self.lineage is None else self.lineage[segments],
                )
            )
        return made

    def cu_seqlens(
        self, *, shift: bool, include_padding: bool, fill: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Cumulative lengths of each row's segments, as the shifted inputs see them.

        Parameters
        ----------
        shift : bool
            Rows lose their last token (inputs for labels shifted by one).
        include_padding : bool
            Whether trailing padding counts as one more segment.
        fill : int
            What stands behind the last boundary of a row.

        Returns
        -------
        cu_seqlens : int32 ``[B, K + 1]``
            First 0, then the end of each segment.
        max_seqlen : int32 ``[B]``
            The longest segment of each row.
        """
        # A list, since rows are few and a call into NumPy costs as much as many of them.
        splits = self.splits.tolist()
        slots = max(map(sub, splits[1:], splits), default=0) + 1 + include_padding
        out = np.empty((len(self), slots), dtype=np.int32)
        longest = np.empty(len(self), dtype=np.int32)
        needed = collate.row_cu_seqlens(
            self.length,
            self.splits,
            width=self.row_length - shift,
            include_padding=include_padding,
            fill=fill,
            cu_seqlens=out,
            max_seqlen=longest,
        )
        if 0 < needed < slots:
            out = np.ascontiguousarray(out[:, :needed])
        return out, longest

    def document_count(self, *, joined: bool) -> tuple[int, int, int]:
        """Documents in the shifted inputs: see :func:`zephon._native.collate.count_documents`."""
        return collate.count_documents(
            self.length, self.splits, width=self.row_length - 1, joined=joined
        )

    def collate(
        self,
        *,
        shift: bool,
        ignore_index: int,
        mask_segment_starts: bool = False,
        **outputs: Any,
    ) -> tuple[int, int, int] | None:
        """Fill the ``outputs`` that were asked for, each ``[B, W]``, in one pass.

        ``W`` is ``row_length - 1`` with ``shift``, else ``row_length``. Names:
        ``input_ids`` and ``labels`` (int64), ``positions`` and ``document_ids`` (both
        int64 or both int32), ``padding_mask`` (bool), ``row_ids`` and ``columns`` (int64).
        Those of documents, and ``joined``, are as
        :func:`zephon._native.collate.collate_rows` says. Arrays, or tensors, which cost less.

        Returns
        -------
        tuple of int or None
            Segment, offset in it and value of the first token that is outside
            the vocabulary; every token of every row is looked at.
        """
        if shift and self.row_length < 2:
            raise ConfigError(
                f"rows have {self.row_length} token(s): inputs and labels that are shifted against "
                "each other need rows of at least 2"
            )
        shared = self.buffers if self.aligned else getattr(self.buffers, "native", self.buffers)
        return collate.collate_rows(
            shared,
            self.buffer,
            self.start,
            self.length,
            self.splits,
            row_length=self.row_length,
            shift=shift,
            pad_id=self.pad_token_id,
            ignore_index=ignore_index,
            vocab_size=self.vocab_size or ANY_ID,
            mask_start=(self.offset == 0).view(np.uint8) if mask_segment_starts else None,
            loss_mask=self.loss_masks if self.aligned else None,
            **outputs,
        )


@dataclass(frozen=True, slots=True)
class RowTokens:
    """Some tokens of one row that tell it from others: the first ones of each segment.

    As many as a cursor vouches for, and one of each segment at least. They are looked at
    when somebody iterates, which a batch does not pay for.
    """

    rows: Rows
    row: int

    @property
    def table(self) -> tuple[Any, ...]:
        """What :mod:`zephon._native.cursors` hashes the same tokens by, without going through."""
        rows = self.rows
        return (
            rows.buffers, rows.buffer, rows.start, rows.length, rows.splits, self.row, CHECK_TOKENS,
        )  # fmt: skip

    def __iter__(self) -> Iterator[NDArray[np.integer[Any]]]:
        rows = self.rows
        segments = slice(*rows.splits[self.row : self.row + 2].tolist())
        lengths = rows.length[segments].tolist()
        each = max(CHECK_TOKENS // max(len(lengths), 1), 1)
        places = zip(
            rows.buffer[segments].tolist(), rows.start[segments].tolist(), lengths, strict=True
        )
        for buffer, start, length in places:
            yield rows.buffers[buffer][start : start + min(length, each)]


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Rows of one shape after each other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    buffers, aligned, moves = join_buffers(parts)
    splits = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        splits.append(part.splits[1:] + splits[-1][-1])

    def join(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return replace(
        first,
        buffers=buffers,
        buffer=np.concatenate([m[p.buffer] for m, p in zip(moves, parts, strict=True)]),
        start=join("start"),
        length=join("length"),
        offset=join("offset"),
        source=join("source"),
        row=join("row"),
        last=None if first.last is None else join("last"),
        lineage=None if first.lineage is None else join("lineage"),
        aligned=aligned,
        splits=np.concatenate(splits),
    )
