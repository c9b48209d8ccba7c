"""From sample numbers to tokens, out of a mapped file or one that is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native.gather import SampleGather
from zephon.megatron.config import GPTDatasetConfig, end_of_document, padding
from zephon.megatron.gpt_index import GPTIndex
from zephon.megatron.gpt_sample import SampleRows
from zephon.megatron.indexed import IndexedDataset

_FIRST = np.zeros(1, np.int64)


class SampleReader:
    """Reads samples of an index into rows.

    Parameters
    ----------
    dataset : IndexedDataset
    index : GPTIndex
    config : GPTDatasetConfig

    Raises
    ------
    DataError
        The dataset holds no token ids.
    """

    def __init__(self, dataset: IndexedDataset, index: GPTIndex, config: GPTDatasetConfig) -> None:
        self._dataset = dataset
        self._index = index
        self._config = config
        self._gather = self._gather_of(
            dataset.tokens, dataset.sequence_starts, dataset.sequence_lengths, index
        )

    def read(self, samples: NDArray[np.int64], rows: NDArray[np.int64], out: SampleRows) -> None:
        """Fill row ``rows[i]`` of ``out`` with sample ``samples[i]``.

        Raises
        ------
        ValueError
            The index does not fit the dataset.
        """
        if self._config.mmap_bin_files:
            self._gather.gather(samples, rows, *out.arrays)
            return
        for sample, row in zip(samples.tolist(), rows.tolist(), strict=True):
            one = self._from_file(int(self._index.shuffle_index[sample]))
            one.gather(_FIRST, np.array([row]), *out.arrays)

    def read_one(self, sample: int, out: SampleRows) -> None:
        """Fill the rows of a single sample.

        Raises
        ------
        ValueError
            The index does not fit the dataset.
        """
        if self._config.mmap_bin_files:
            self._gather.gather_one(sample, out.block, out.arrays[-1])
        else:
            self.read(np.array([sample]), _FIRST, out)

    def _gather_of(
        self,
        tokens: NDArray[np.integer[Any]],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        index: GPTIndex,
    ) -> SampleGather:
        config = self._config
        eod, pad = end_of_document(config.tokenizer), padding(config.tokenizer)
        limits = np.iinfo(tokens.dtype)
        if pad is not None and (pad == eod or not limits.min <= pad <= limits.max):
            pad = None  # by place alone: every end of document is a real token
        return SampleGather(
            tokens,
            starts,
            lengths,
            index.document_index,
            index.sample_index,
            index.shuffle_index,
            sequence_length=config.sequence_length,
            add_extra_token=config.add_extra_token_to_sequence,
            pad_id=pad,
            eod_id=eod,
            mask_eod=config.eod_mask_loss,
            restart_at_eod=config.reset_position_ids,
        )

    def _from_file(self, row: int) -> SampleGather:
        """An index of one sample, over its tokens as read from the file."""
        extra = int(self._config.add_extra_token_to_sequence)
        (first, begin), (last, end) = self._index.sample_index[row : row + 2].tolist()
        parts = []
        for position in range(first, last + 1):
            sequence = int(self._index.document_index[position])
            offset = begin if position == first else 0
            length = end + extra - offset if position == last else None
            parts.append(self._dataset.get(sequence, offset, length))
        tokens = np.concatenate(parts)
        index = GPTIndex(
            document_index=np.zeros(1, np.int32),
            sample_index=np.array([[0, 0], [0, len(tokens) - extra]]),
            shuffle_index=np.zeros(1, np.uint32),
        )
        return self._gather_of(tokens, _FIRST, np.array([len(tokens)], np.int32), index)
