"""How many tokens documents give to the rows of a pipeline."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from zephon.io.dataset import Dataset
from zephon.ops.pack import PackOptions
from zephon.ops.tokenize import DocumentTokenizer
from zephon.options import PrefetchOptions
from zephon.runtime.documents import DocumentReader
from zephon.work.base import Draws, WorkSource
from zephon.work.lengths import SourceLengths, TokenEstimation, measure_lengths

_BLOCK = 4096  # documents in memory that are counted at a time

# Documents that are read of all sources, and at least of each, where no weight depends on it.
_IN_ALL, _LEAST = 2**19, 64


class DocumentLengths:
    """Counts tokens as a pipeline delivers them, special tokens included.

    A document that packing leaves out because it is longer than a row counts 0,
    as does one without text.
    """

    def __init__(
        self, datasets: tuple[Dataset, ...], tokenizer: DocumentTokenizer | None, pack: PackOptions
    ) -> None:
        self._datasets = datasets
        self._tokenizer = tokenizer
        self._longest = pack.max_length if pack.drops_oversized else None
        self._reader = DocumentReader(datasets, tokenizer)

    def known(self, source: int) -> NDArray[np.int64] | None:
        """Lengths of all documents of ``source`` if nothing has to be read from disk for them."""
        dataset = self._datasets[source]
        lengths = dataset.token_lengths()
        if lengths is not None:
            return self._fitting(lengths)
        if dataset.format == "memory" and self._tokenizer is None:
            rows = np.arange(dataset.total(), dtype=np.int64)
            parts = [self.count(source, rows[i : i + _BLOCK]) for i in range(0, len(rows), _BLOCK)]
            return np.concatenate(parts)
        return None

    def count(self, source: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lengths of the documents ``rows``."""
        sources = np.full(len(rows), source, dtype=np.int32)
        block = self._reader.read(Draws(0, sources, rows, np.zeros_like(rows)))
        return self._fitting(block.documents.length)

    def _fitting(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._longest is None:
            return lengths
        return np.where(lengths > self._longest, 0, lengths)


def document_lengths(
    work: WorkSource,
    tokenizer: DocumentTokenizer | None,
    pack: PackOptions,
    prefetch: PrefetchOptions,
) -> tuple[SourceLengths, ...]:
    """Lengths of every source of ``work``, with as many threads as prefetching may have.

    Where weights are shares of tokens, as :attr:`WorkSource.token_estimation` says;
    else of many sources fewer documents are read, since they only inform.
    """
    names = [dataset.name for dataset in work.datasets]
    documents = [dataset.total() for dataset in work.datasets]
    counter = DocumentLengths(work.datasets, tokenizer, pack)
    samples = (
        min(TokenEstimation().calibration_samples, max(_LEAST, _IN_ALL // len(names)))
        if work.token_estimation is None
        else work.token_estimation.calibration_samples
    )
    if prefetch.buffer_size == 0:
        return measure_lengths(names, documents, counter, seed=work.seed, samples=samples)
    with ThreadPoolExecutor(prefetch.threads, thread_name_prefix="zephon-count") as pool:
        return measure_lengths(
            names, documents, counter, seed=work.seed, samples=samples, each=pool.map
        )
