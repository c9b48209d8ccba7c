"""Megatron ``.bin/.idx`` pairs as a streaming format.

A document is the join of its sequences. Tokens stay in the mapped file; a
document whose sequences do not follow one another there is copied when read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import TokenDocuments
from zephon.errors import DataError
from zephon.io.probe import probe_digest
from zephon.io.shard import Format, Place, Shard, TokenPlaces
from zephon.megatron.indexed import IndexedDataset


class IndexedShard(Shard):
    """One ``.bin/.idx`` pair."""

    def __init__(self, prefix: Path) -> None:
        self._dataset = IndexedDataset(str(prefix))
        self._prefix = prefix
        if not np.issubdtype(self._dataset.dtype, np.integer):
            raise DataError(
                f"holds {np.dtype(self._dataset.dtype).name} values, expected token ids of an "
                "integer type",
                file=f"{prefix}.idx",
            )
        self._tokens: NDArray[np.integer[Any]] = self._dataset.tokens  # [tokens]
        self.nbytes = self._tokens.nbytes
        lengths = self._dataset.sequence_lengths.astype(np.int64)  # [sequences]
        starts = self._dataset.sequence_starts  # [sequences]
        bounds = self._dataset.document_indices  # [documents + 1]
        total = np.concatenate(([0], np.cumsum(lengths)))
        self._lengths = total[bounds[1:]] - total[bounds[:-1]]  # [documents]
        self._starts = _document_starts(starts, bounds)  # [documents]
        self._scattered = _scattered_documents(starts, lengths, bounds)
        self._sequences = (starts, lengths, bounds)

    def __len__(self) -> int:
        return len(self._lengths)

    def check(self) -> None:
        """The mapped tokens are still there."""
        try:
            size = os.stat(f"{self._prefix}.bin").st_size
        except OSError as error:
            raise DataError(f"is gone: {error.strerror}", file=f"{self._prefix}.bin") from error
        if size < self.nbytes:
            raise DataError(
                f"had {self.nbytes} bytes of tokens when it was opened and has {size} now: it was "
                "truncated while in use. Restore the file, or build the dataset anew",
                file=f"{self._prefix}.bin",
            )

    def read(self, rows: NDArray[np.int64]) -> TokenDocuments:
        """Documents ``rows``, as places in the mapped file."""
        self.check()
        buffers: list[NDArray[np.integer[Any]]] = [self._tokens]
        buffer = np.zeros(len(rows), dtype=np.int32)
        start = self._starts[rows]
        if self._scattered is not None:
            for i in np.flatnonzero(np.isin(rows, self._scattered)).tolist():
                buffer[i], start[i] = len(buffers), 0
                buffers.append(self._join(int(rows[i])))
        return TokenDocuments(tuple(buffers), buffer, start, self._lengths[rows])

    def token_lengths(self) -> NDArray[np.int64]:
        """Tokens of each document, as the index has them."""
        return self._lengths

    def token_places(self) -> TokenPlaces | None:
        """All documents, unless one had to be joined of scattered sequences."""
        if self._scattered is not None:
            return None
        return TokenPlaces(self._tokens, self._starts, self._lengths)

    def place(self, row: int) -> Place:
        """The pair's data file and the document's number in it."""
        offset = int(self._starts[row]) * self._tokens.itemsize
        return Place(f"{self._prefix}.bin", row + 1, offset)

    def digest(self) -> bytes:
        """Digest of the whole index and of spread probes of the tokens."""
        self.check()
        starts, lengths, bounds = self._sequences
        dtype = self._tokens.dtype.str.encode()
        return probe_digest(self._tokens.view(np.uint8), dtype, starts, lengths, bounds)

    def _join(self, document: int) -> NDArray[np.integer[Any]]:
        starts, lengths, bounds = self._sequences
        first, last = int(bounds[document]), int(bounds[document + 1])
        parts = [self._tokens[starts[i] : starts[i] + lengths[i]] for i in range(first, last)]
        return np.concatenate(parts)


class IndexedFormat(Format):
    """Pairs of a ``.bin`` and an ``.idx`` file, named by either or by their prefix."""

    name = "bin"
    suffixes = (".idx", ".bin")

    def open(self, path: Path) -> IndexedShard:
        """Open and validate the pair that ``path`` belongs to."""
        return IndexedShard(self.canonical(path).with_suffix(""))

    def canonical(self, path: Path) -> Path:
        """The index file stands for the pair."""
        return path.with_suffix(".idx") if path.suffix.lower() == ".bin" else path


def _document_starts(starts: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """First token of each document; 0 for one without sequences."""
    padded = np.append(starts, 0)
    return np.where(bounds[1:] > bounds[:-1], padded[bounds[:-1]], 0)


def _scattered_documents(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], bounds: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Documents whose sequences are not adjacent in the file; None if there are none."""
    if len(starts) < 2:
        return None
    broken = starts[1:] != starts[:-1] + lengths[:-1]  # between sequence i and i + 1
    broken[bounds[(bounds > 0) & (bounds < len(starts))] - 1] = False  # between documents
    if not broken.any():
        return None
    return np.unique(np.searchsorted(bounds, np.flatnonzero(broken), side="right") - 1)
