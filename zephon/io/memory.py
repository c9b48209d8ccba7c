"""Datasets whose records are in memory already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import RecordDocuments
from zephon.errors import ConfigTypeError
from zephon.io.shard import Place, Shard


class InMemoryShard(Shard):
    """A list of records: mappings from field name to value.

    Parameters
    ----------
    rows : sequence of mappings
        Text under a field such as ``"text"``, or token ids (a 1-D integer array
        or list) under ``"input_ids"`` or ``"tokens"``. Beside token ids a
        ``"loss_mask"`` tells which of them are learned (not 0), and other fields with
        one number for each go along as extra fields of a batch. All else is carried
        with the document.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if not isinstance(rows, Iterable):
            raise ConfigTypeError(
                f"rows is a {type(rows).__name__}, expected a sequence of mappings"
            )
        self._rows = list(rows)  # first of all: an iterator can be gone through only once
        for position, row in enumerate(self._rows):
            if not isinstance(row, Mapping):
                raise ConfigTypeError(
                    f"rows[{position}] is a {type(row).__name__}, expected a mapping from "
                    "field name to value"
                )
        self.nbytes = sum(_size(row) for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: NDArray[np.int64]) -> RecordDocuments:
        """The records themselves, not copied."""
        return RecordDocuments([self._rows[row] for row in rows.tolist()])

    def getsamples(self, indices: Sequence[int]) -> list[Mapping[str, Any]]:
        """Records at ``indices``."""
        return [self._rows[index] for index in indices]

    def close(self) -> None:
        """Nothing to close; here so that shards are closed alike."""

    def place(self, row: int) -> Place:
        """Record ``row`` of memory."""
        return Place("<memory>", row + 1)

    def digest(self) -> bytes:
        """Digest of every value."""
        digest = hashlib.blake2b(digest_size=16)
        for row in self._rows:
            _update(digest, row)
        return digest.digest()


def _size(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(_size(item) for item in value.values())
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (str, bytes)):
        return len(value)
    return 8 * len(value) if isinstance(value, Sequence) else 8


def _update(digest: hashlib.blake2b, value: object) -> None:
    """Feed ``value`` so that different values feed different bytes."""
    if isinstance(value, Mapping):
        digest.update(b"{%d" % len(value))
        for key in sorted(value, key=str):
            _update(digest, str(key))
            _update(digest, value[key])
    elif isinstance(value, np.ndarray):
        digest.update(f"a{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, (str, bytes)):
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        digest.update(b"%s%d:" % (b"s" if isinstance(value, str) else b"b", len(raw)) + raw)
    elif isinstance(value, Sequence):
        digest.update(b"[%d" % len(value))
        for item in value:
            _update(digest, item)
    else:
        digest.update(f"{type(value).__name__}:{value!r};".encode())
