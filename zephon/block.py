"""Blocks: runs of documents as arrays.

What a format reads and an operator passes on. On the fast path nothing here is
a Python object per document: a token document is (buffer, start, length).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import Aligned, join_buffers


@dataclass(frozen=True, slots=True)
class TokenDocuments:
    """Token sequences, wherever they lie: in a mapped file or in memory.

    Attributes
    ----------
    buffers : tuple of 1-D C-contiguous integer arrays
        The memory that the documents lie in; each has its own integer dtype.
    buffer : int32 ``[n]``
        Which of ``buffers`` a document lies in.
    start, length : int64 ``[n]``
        Its first token and its number of tokens there. A length may be 0.
    aligned : tuple of AlignedFields or None
        What each buffer has for each of its tokens besides; empty if none has anything.
    """

    buffers: tuple[NDArray[np.integer[Any]], ...]
    buffer: NDArray[np.int32]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    aligned: Aligned = ()

    def __len__(self) -> int:
        return len(self.length)

    def tokens(self, index: int) -> NDArray[np.integer[Any]]:
        """Tokens of document ``index``, without a copy."""
        start = int(self.start[index])
        return self.buffers[int(self.buffer[index])][start : start + int(self.length[index])]


def interleave(
    parts: Sequence[TokenDocuments], picks: Sequence[NDArray[np.integer[Any]]], count: int
) -> TokenDocuments:
    """One run of ``count`` documents from parts whose documents belong at ``picks``.

    Where no part has a document, there is one without tokens.
    """
    buffers, aligned, moves = join_buffers(parts)
    buffer = np.zeros(count, dtype=np.int32)
    start = np.zeros(count, dtype=np.int64)
    length = np.zeros(count, dtype=np.int64)
    for part, pick, moved in zip(parts, picks, moves, strict=True):
        buffer[pick] = moved[part.buffer]
        start[pick], length[pick] = part.start, part.length
    return TokenDocuments(buffers, buffer, start, length, aligned)


@dataclass(frozen=True, slots=True)
class RecordDocuments:
    """Documents as mappings from field name to value, as JSONL has them."""

    records: Sequence[Mapping[str, Any]]

    def __len__(self) -> int:
        return len(self.records)


Documents = TokenDocuments | RecordDocuments


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Where documents stand among the draws of a lane, if that is not one for each draw.

    Attributes
    ----------
    draw : int64 ``[n]``
        The draw at which each comes out, ascending.
    child : int64 ``[n]``
        Its number among those that come out at that draw.
    final : bool ``[n]``
        Whether it is the last of them.
    origin : int64 ``[n]``
        Which draw of the block it was made of, counted from 0.
    lineage : int64 ``[n]``
        Path through fan-outs, see :func:`zephon._lineage.lineage_code`; 0 without one.
    filtered : bool ``[n]``
        It was left out by an operator, and stands here to be counted.
    """

    draw: NDArray[np.int64]
    child: NDArray[np.int64]
    final: NDArray[np.bool_]
    origin: NDArray[np.int64]
    lineage: NDArray[np.int64]
    filtered: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TokenBlock:
    """Tokenized documents of consecutive draws of one lane.

    Attributes
    ----------
    first : int
        The first draw.
    sources : int32 ``[n]``
        Dataset of each document.
    rows : int64 ``[n]``
        Its number in that dataset.
    documents : TokenDocuments
        Their tokens, ``n`` documents.
    draws : int or None
        How many draws these are; ``n`` if None.
    entries : Entries or None
        Which document belongs to which draw; one to each if None.
    """

    first: int
    sources: NDArray[np.int32]
    rows: NDArray[np.int64]
    documents: TokenDocuments
    draws: int | None = None
    entries: Entries | None = None

    @property
    def end(self) -> int:
        """The draw behind the last one."""
        return self.first + (len(self) if self.draws is None else self.draws)

    def __len__(self) -> int:
        return len(self.rows)
