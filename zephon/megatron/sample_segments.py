"""What the samples of a GPT dataset are made of: runs of its sequences' tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError
from zephon.megatron.gpt_dataset import GPTDataset


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of tokens that make up ``B`` samples; all arrays ``[n]`` int64.

    Attributes
    ----------
    sample : which of the samples asked for, 0 to B - 1; in ascending order
    start, length : first token in the ``.bin`` and number of tokens, at least 1
    offset : tokens of its document before it
    document : its document in the ``.idx``
    """

    sample: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    offset: NDArray[np.int64]
    document: NDArray[np.int64]


class SampleSegments:
    """Finds the segments of samples without reading a token."""

    def __init__(self, dataset: GPTDataset) -> None:
        self._dataset = dataset
        self._extra = int(dataset.config.add_extra_token_to_sequence)
        indexed = dataset.dataset
        self.tokens: NDArray[np.integer[Any]] = indexed.tokens
        self._starts = indexed.sequence_starts  # [sequences]
        self._lengths = indexed.sequence_lengths  # [sequences]
        # A document of one sequence is that sequence; other files need to be looked up.
        bounds = indexed.document_indices  # [documents + 1]
        single = np.array_equal(bounds, np.arange(len(indexed) + 1))
        self._bounds = None if single else bounds

    def find(self, samples: NDArray[np.int64]) -> Segments:
        """The segments of ``samples`` (numbers of the dataset, int64 ``[B]``).

        Raises
        ------
        DataError
            The index does not fit the dataset.
        """
        dataset = self._dataset
        row = dataset.shuffle_index[samples].astype(np.int64)  # [B]
        first, begin = dataset.sample_index[row].astype(np.int64).T
        last, end = dataset.sample_index[row + 1].astype(np.int64).T
        count = last - first + 1
        outside = (first < 0) | (count < 1) | (last >= len(dataset.document_index))
        if outside.any():
            self._refuse(samples, outside)
        sample = np.repeat(np.arange(len(samples)), count)  # [n]
        position = np.arange(len(sample)) - np.repeat(np.cumsum(count) - count - first, count)
        sequence = dataset.document_index[position].astype(np.int64)
        inside = (sequence >= 0) & (sequence < len(self._lengths))
        if not inside.all():
            self._refuse(samples, np.bincount(sample[~inside], minlength=len(samples)) > 0)
        whole = self._lengths[sequence].astype(np.int64)
        offset = np.where(position == first[sample], begin[sample], 0)
        stop = np.where(position == last[sample], end[sample] + self._extra, whole)
        wrong = (offset < 0) | (offset > stop) | (stop > whole)
        if wrong.any():
            self._refuse(samples, np.bincount(sample[wrong], minlength=len(samples)) > 0)

        kept = stop > offset  # empty sequences make no segment
        sample, sequence, offset = sample[kept], sequence[kept], offset[kept]
        document, before = self._documents(sequence)
        return Segments(
            sample=sample,
            start=self._starts[sequence] + offset,
            length=stop[kept] - offset,
            offset=offset + before,
            document=document,
        )

    def _documents(
        self, sequence: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | int]:
        """Document of each sequence, and the tokens of it before the sequence."""
        if self._bounds is None:
            return sequence, 0
        document = np.searchsorted(self._bounds, sequence, side="right") - 1
        earlier = sequence - self._bounds[document]  # sequences of the document before
        run = np.repeat(np.arange(len(sequence)), earlier)
        step = np.arange(len(run)) - np.repeat(np.cumsum(earlier) - earlier, earlier)
        lengths = self._lengths[self._bounds[document][run] + step]
        before = np.bincount(run, weights=lengths, minlength=len(sequence)).astype(np.int64)
        return document, before

    def _refuse(self, samples: NDArray[np.int64], wrong: NDArray[np.bool_]) -> None:
        sample = int(samples[np.flatnonzero(wrong)[0]])
        raise DataError(
            f"sample {sample} of {self._dataset!r} does not lie inside its sequences: the index is "
            "damaged or of other files",
            file=self._dataset.dataset.path_prefix + ".idx",
        )
