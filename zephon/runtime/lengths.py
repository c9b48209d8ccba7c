"""How many tokens documents give to the rows of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigTypeError, DataError
from zephon.ops.pack_options import PackOptions
from zephon.options import PrefetchOptions
from zephon.runtime.documents import DocumentReader
from zephon.work.base import Draws, WorkSource
from zephon.work.lengths import SourceLengths, TokenEstimation, measure_lengths

_BLOCK = 4096  # documents in memory that are counted at a time

# Documents that are read of all sources, and at least of each, where no weight depends on it.
_IN_ALL, _LEAST = 2**19, 64


class DocumentLengths:
    """Counts tokens as a pipeline delivers them, special tokens included.

    A document that packing leaves out because it is longer than a row, or too short, counts
    0, as does one without text and one that an operator leaves out. With ``measure`` it counts
    what that says of it as it is read.
    """

    def __init__(
        self,
        reader: DocumentReader,
        pack: PackOptions,
        measure: Callable[[Any], int] | None = None,
    ) -> None:
        self._longest = pack.max_length if pack.drops_oversized else None
        self._shortest = pack.shortest
        self._reader = reader
        self._measure = measure

    def known(self, source: int) -> NDArray[np.int64] | None:
        """Lengths of all documents of ``source`` if nothing has to be read from disk for them."""
        if self._reader.chain.touches_tokens or self._measure is not None:
            return None  # functions have to see the documents
        dataset = self._reader.datasets[source]
        lengths = dataset.token_lengths()
        if lengths is not None:
            return self._fitting(lengths)
        if dataset.format == "memory" and not self._reader.tokenizes:
            rows = np.arange(dataset.total(), dtype=np.int64)
            parts = [self.count(source, rows[i : i + _BLOCK]) for i in range(0, len(rows), _BLOCK)]
            return np.concatenate(parts)
        return None

    def decodes(self, source: int) -> bool:
        """Whether neighbouring documents are decoded together to read one."""
        return self._reader.datasets[source].units() is not None

    def count(self, source: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lengths of the documents ``rows``, of all that operators make of each."""
        sources = np.full(len(rows), source, dtype=np.int32)
        draws = Draws(0, sources, rows, np.zeros_like(rows))
        if self._measure is not None:
            return self._fitting(self._measured(draws))
        block = self._reader.read(draws)
        lengths = self._fitting(block.documents.length)
        if block.entries is None:
            return lengths
        total = np.zeros(len(rows), dtype=np.int64)
        np.add.at(total, block.entries.origin, lengths)
        return total

    def _measured(self, draws: Draws) -> NDArray[np.int64]:
        """What the user's function says of each document."""
        assert self._measure is not None
        found = np.empty(len(draws), dtype=np.int64)
        for at, record in enumerate(self._reader.records(draws)):
            dataset = self._reader.datasets[int(draws.sources[at])]
            try:
                count = self._measure(record)
            except Exception as error:
                raise DataError(
                    f"measure failed on a document of dataset {dataset.name!r}: "
                    f"{type(error).__name__}: {error}",
                    **dataset.place(int(draws.rows[at])).as_kwargs(),
                ) from error
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
                raise ConfigTypeError(
                    f"measure gave {count!r} for a document of dataset {dataset.name!r}, expected "
                    "its number of tokens"
                )
            found[at] = count
        return found

    def _fitting(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._shortest > 1:
            lengths = np.where(lengths < self._shortest, 0, lengths)
        if self._longest is None:
            return lengths
        return np.where(lengths > self._longest, 0, lengths)


def document_lengths(
    work: WorkSource,
    reader: DocumentReader,
    pack: PackOptions,
    prefetch: PrefetchOptions,
    measure: Callable[[Any], int] | None = None,
) -> tuple[SourceLengths, ...]:
    """Lengths of every source of ``work``, with as many threads as prefetching may have.

    Where weights are shares of tokens, as :attr:`WorkSource.token_estimation` says;
    else of many sources fewer documents are read, since they only inform. ``measure`` counts
    the tokens of a document in place of the pipeline.
    """
    names = [dataset.name for dataset in work.datasets]
    documents = [dataset.total() for dataset in work.datasets]
    counter = DocumentLengths(reader, pack, measure)
    estimation = work.token_estimation
    if estimation is None:
        few = max(_LEAST, _IN_ALL // len(names))
        estimation = TokenEstimation(
            calibration_samples=min(TokenEstimation().calibration_samples, few)
        )
    shards = [dataset.counts() for dataset in work.datasets]
    if prefetch.buffer_size == 0:
        return measure_lengths(names, documents, counter, estimation, shards, seed=work.seed)
    with ThreadPoolExecutor(prefetch.threads, thread_name_prefix="zephon-count") as pool:
        return measure_lengths(
            names, documents, counter, estimation, shards, seed=work.seed, each=pool.map
        )
