"""The order of documents inside a source: shuffled units, and documents inside them.

A *unit* is a run of neighbouring documents of one shard. A pass takes the
units one after the other, in an order of its own, and the documents of each in
an order of their own; a reader that follows meets every unit once, and any
ordinal can be found in O(log units).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zephon._native import order as _native
from zephon.errors import ConfigError, ConfigTypeError
from zephon.work.order import derive_key

BlockSize = int | Literal["auto", "global"] | None

AUTO_BLOCK_BYTES = 8 << 20
"""Bytes of data in a block of ``shuffle_block_size="auto"``, on average: few
enough to decode at once, many enough to read in one go."""

# Flags of a source, as in permutation.hpp.
_SHUFFLE_UNITS, _SHUFFLE_ROWS, _RESHUFFLE = 1, 2, 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceUnits:
    """How one source is cut into units, and what of it is shuffled."""

    name: str
    """Of the source; its order depends on the name, not on its place among others."""

    first_row: NDArray[np.int64]
    """int64 ``[units + 1]``: first document of each unit in file order, then their number."""

    shuffle_units: bool
    """A pass takes the units in an order of its own."""

    shuffle_rows: bool
    """And the documents of a unit in an order of their own."""

    block_size: int | Literal["global"] | None = None
    """Documents of a unit where blocks are shuffled, ``"auto"`` resolved."""

    reshuffle: bool = True
    """Every pass has other orders than the one before."""

    @property
    def documents(self) -> int:
        """Number of documents in a pass."""
        return int(self.first_row[-1])


def cut_units(
    name: str,
    counts: NDArray[np.int64],
    raw_bytes: NDArray[np.int64],
    *,
    shuffle_shards: bool = True,
    shuffle_within_shard: bool = False,
    shuffle_block_size: BlockSize = None,
    reshuffle: bool = True,
    decoded: NDArray[np.int64] | None = None,
) -> SourceUnits:
    """Cut a source into the units that its shuffle mode asks for.

    Parameters
    ----------
    name : str
        Of the source.
    counts, raw_bytes : int64 ``[shards]``
        Documents and bytes of each shard, in file order.
    shuffle_shards, shuffle_within_shard, shuffle_block_size, reshuffle
        See :class:`~zephon.work.StaticMixtureWorkSource`.
    decoded : int64 ``[runs]``, optional
        First documents of the runs that are decoded together. Blocks of ``"auto"`` are made
        of whole ones, so that none is decoded for two blocks.

    Raises
    ------
    ConfigError
        If the source has no documents, or the block size is not one.
    """
    shards = np.asarray(counts, dtype=np.int64)
    if shards.ndim != 1 or (shards < 0).any():
        raise ConfigError(f"dataset {name!r}: documents per shard are {counts!r}")
    documents = int(shards.sum())
    if documents == 0:
        raise ConfigError(
            f"dataset {name!r} has no documents; leave it out of the datasets and the mixture"
        )
    block = _resolve_block(name, shuffle_block_size, documents, int(np.sum(raw_bytes)))
    if decoded is not None and shuffle_block_size == "auto":
        assert isinstance(block, int)
        first_row = _group(shards, decoded, block)
    elif isinstance(block, int):
        first_row = _cut(shards, min(block, documents))
    elif block == "global" or not (shuffle_shards or shuffle_within_shard):
        first_row = np.array([0, documents], dtype=np.int64)
    else:
        first_row = _cut(shards, int(shards.max()))
    return SourceUnits(
        name=name,
        first_row=first_row,
        shuffle_units=block is not None or shuffle_shards,
        shuffle_rows=block is not None or shuffle_within_shard,
        block_size=block,
        reshuffle=reshuffle,
    )


def _resolve_block(
    name: str, size: BlockSize, documents: int, raw_bytes: int
) -> int | Literal["global"] | None:
    if size == "auto":
        # Nearest number of documents, in integers so that every machine agrees.
        per_block = (2 * AUTO_BLOCK_BYTES * documents + raw_bytes) // (2 * max(raw_bytes, 1))
        return max(per_block, 1)
    if size is None or size == "global":
        return size
    if isinstance(size, bool) or not isinstance(size, int):
        expected = 'a number of documents, "auto", "global" or None'
        raise ConfigTypeError(f"dataset {name!r}: shuffle_block_size is {size!r}, not {expected}")
    if size < 1:
        raise ConfigError(f"dataset {name!r}: shuffle_block_size is {size}, expected at least 1")
    return size


def _cut(shards: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """First rows of units of ``size`` documents that do not cross shards, and the end."""
    units = -(-shards // size)  # [shards]
    shard_row = np.cumsum(shards) - shards  # [shards]
    inside = np.arange(units.sum()) - np.repeat(np.cumsum(units) - units, units)  # [units]
    first_row = np.repeat(shard_row, units) + inside * size
    return np.append(first_row, shards.sum()).astype(np.int64)


def _group(shards: NDArray[np.int64], decoded: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """First rows of units of whole decoded runs, about ``size`` documents each, and the end.

    A unit begins with the first run of a shard and wherever a run goes beyond the next multiple
    of ``size`` documents of its shard.
    """
    ends = np.cumsum(shards)
    shard = np.searchsorted(ends, decoded, side="right")  # [runs]
    inside = decoded - (ends - shards)[shard]
    last = np.append(decoded[1:], ends[-1]) - (ends - shards)[shard] - 1
    # Where the middle of a run falls says which multiple it belongs to.
    piece = (inside + last) // 2 // size
    begins = np.ones(len(decoded), dtype=bool)
    begins[1:] = (shard[1:] != shard[:-1]) | (piece[1:] != piece[:-1])
    return np.append(decoded[begins], ends[-1]).astype(np.int64)


def decode_factor(unit_documents: float, chunk_documents: float) -> float:
    """How often a unit is decoded when lanes take turns on a source.

    Each chunk of a lane takes ``chunk_documents`` neighbouring documents of the
    source; a unit of ``unit_documents`` is decoded by every chunk that touches
    it: U / d + 1 - 1 / d times on average.
    """
    if not (unit_documents >= 1 and chunk_documents > 0):
        raise ConfigError(
            f"unit_documents is {unit_documents} and chunk_documents is {chunk_documents}, "
            "expected at least 1 and above 0"
        )
    # A chunk that takes less than one document takes one in every few rounds.
    share = max(chunk_documents, 1.0)
    return unit_documents / share + 1 - 1 / share


class SourceOrder:
    """Which document each ordinal of each source is.

    Ordinal ``o`` of a source of ``n`` documents belongs to pass ``o // n``. The
    order of the units of a pass is a table of 8 bytes per unit, made when the
    pass is first met; two passes of a source are kept at most. Any thread may
    ask.

    Parameters
    ----------
    sources : sequence of SourceUnits
        ``locate`` counts them from 0.
    seed : int
        Of the run.
    """

    def __init__(self, sources: Sequence[SourceUnits], seed: int) -> None:
        self.sources = tuple(sources)
        self.seed = seed
        flags = [
            _SHUFFLE_UNITS * s.shuffle_units
            + _SHUFFLE_ROWS * s.shuffle_rows
            + _RESHUFFLE * s.reshuffle
            for s in self.sources
        ]
        self._units = np.array([len(s.first_row) - 1 for s in self.sources], dtype=np.int64)
        self._begin = np.cumsum(self._units + 1) - (self._units + 1)
        self._first_row = np.concatenate([s.first_row for s in self.sources])
        self._mode = np.array(flags, dtype=np.uint8)
        self._unit_key = self._keys("unit")
        self._row_key = self._keys("row")
        # Tables of the passes that were last met; guarded by the lock.
        self._prefix = np.empty(2 * len(self._first_row), dtype=np.int64)
        self._held = np.full(2 * len(self.sources), -1, dtype=np.int64)
        self._lock = threading.Lock()

    def _keys(self, purpose: str) -> NDArray[np.uint64]:
        keys = [derive_key(self.seed, purpose, source.name) for source in self.sources]
        return np.array(keys, dtype=np.uint64)

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceOrder, (self.sources, self.seed)

    def locate(
        self, sources: NDArray[np.int32], ordinals: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and passes of ``ordinals`` of ``sources``.

        Parameters
        ----------
        sources : int32 ``[m]``
            Which source.
        ordinals : int64 ``[m]``
            Which of its documents, counted over all passes.

        Returns
        -------
        rows : int64 ``[m]``
            Document of that source, in file order.
        passes : int64 ``[m]``
            How often the source had been gone through before.
        """
        rows = np.empty(len(ordinals), dtype=np.int64)
        passes = np.empty(len(ordinals), dtype=np.int64)
        # Source by source; 16 bits are sorted by counting.
        visit = np.argsort(sources.astype(np.uint16), kind="stable").astype(np.int64, copy=False)
        with self._lock:
            _native.locate(
                self._units,
                self._begin,
                self._first_row,
                self._mode,
                self._unit_key,
                self._row_key,
                self._prefix,
                self._held,
                visit,
                sources,
                ordinals,
                rows,
                passes,
            )
        return rows, passes
