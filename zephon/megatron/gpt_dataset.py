"""GPT pre-training samples: documents laid end to end and cut to one length."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigTypeError, DataError
from zephon.megatron import gpt_identity
from zephon.megatron.config import GPTDatasetConfig
from zephon.megatron.gpt_index import (
    GPTIndex,
    IndexPlan,
    build_index,
    check_sequences,
    misfit,
    plan_index,
)
from zephon.megatron.gpt_reader import SampleReader
from zephon.megatron.gpt_sample import SampleRows
from zephon.megatron.index_cache import (
    CACHE_VARIABLE,
    IndexCache,
    StoredIndex,
    cache_folder,
    describe,
    digest_of,
)
from zephon.megatron.indexed import IndexedDataset
from zephon.megatron.progress import ProgressLog
from zephon.megatron.splits import Split

if TYPE_CHECKING:
    import torch

Sample: TypeAlias = "dict[str, torch.Tensor]"

_NAMES = ("document_index", "sample_index", "shuffle_index")

logger = logging.getLogger(__name__)


class GPTDataset:
    """Samples of one split of one dataset, in Megatron's order.

    A map-style dataset for ``torch.utils.data.DataLoader``; ``__getitems__``
    reads a whole batch in one native call. An item has, each ``[L]``:

    ``tokens`` (``input_ids`` in the AutoModel flavour), ``labels``
        int64. Label j is token j + 1.
    ``loss_mask``
        float32: 0 for padding, and for ends of documents with ``eod_mask_loss``.
    ``position_ids``
        int64; not in the AutoModel flavour.
    ``attention_mask``
        bool ``[1, L, L]``, True = masked; only with ``create_attention_mask``.

    Every tensor is the item's own. Padding is what follows the last token of a
    short sample, and every token equal to the pad id unless that is the id that
    ends a document too; inputs and labels are 0 there.

    The index None, or a negative one, is padding of a batch: a sample (the first,
    or counted from the end) with no loss anywhere.

    Pickled, a dataset whose index is in a cache is the path of that; otherwise
    the index goes along.

    Parameters
    ----------
    indexed_dataset : IndexedDataset
    dataset_path : str or None
        Its prefix as the user gave it: a part of the name of the cache.
    indexed_indices : integers ``[n]``
        The sequences of this split.
    num_samples : int or None
        How many samples are needed, which decides the number of epochs; one
        epoch if None.
    index_split : Split
    config : GPTDatasetConfig

    Raises
    ------
    DataError
        The dataset holds no token ids, or samples are wanted and there is no
        token.
    """

    builds_on_all_ranks = True
    """No rank needs to go first: every one may build, at the same time."""

    def __init__(
        self,
        indexed_dataset: IndexedDataset,
        dataset_path: str | None,
        indexed_indices: NDArray[np.integer[Any]],
        num_samples: int | None,
        index_split: Split,
        config: GPTDatasetConfig,
    ) -> None:
        if not isinstance(config, GPTDatasetConfig):
            raise ConfigTypeError(f"config must be a GPTDatasetConfig, got {type(config).__name__}")
        self.dataset = indexed_dataset
        self.dataset_path = dataset_path
        self.indices = check_sequences(indexed_indices, len(indexed_dataset))
        self.num_samples = num_samples
        self.index_split = index_split
        self.config = config
        self._stored: StoredIndex | None = None
        self.unique_identifiers = gpt_identity.identifiers(
            type(self).__name__, dataset_path, num_samples, index_split, config
        )
        self.unique_description = describe(self.unique_identifiers)
        self.unique_description_hash = digest_of(self.unique_description)
        self._index = self._load_or_build()
        self._reader = SampleReader(self.dataset, self._index, self.config)

    @staticmethod
    def build_low_level_dataset(dataset_path: str, config: GPTDatasetConfig) -> IndexedDataset:
        """Open the pair of a prefix as ``config`` says."""
        return IndexedDataset(dataset_path, mmap=config.mmap_bin_files)

    @staticmethod
    def numel_low_level_dataset(low_level_dataset: IndexedDataset) -> int:
        """What splits divide: sequences, not documents."""
        return len(low_level_dataset)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.dataset_path!r}, {self.index_split.name}, "
            f"{len(self)} samples of {self.config.sequence_length} tokens)"
        )

    # The index

    @property
    def document_index(self) -> NDArray[np.int32]:
        """Sequences in training order, int32."""
        return self._index.document_index

    @property
    def sample_index(self) -> NDArray[np.integer[Any]]:
        """(Position in the document index, offset) of each sample, ``[samples + 1, 2]``."""
        return self._index.sample_index

    @property
    def shuffle_index(self) -> NDArray[np.integer[Any]]:
        """Which sample of the sample index comes when, ``[samples]``."""
        return self._index.shuffle_index

    def _load_or_build(self) -> GPTIndex:
        lengths = self.dataset.sequence_lengths
        plan = self._plan(lengths)
        folder = cache_folder(self.config.path_to_cache)
        kind = type(self).__name__
        beside = os.path.join(self.dataset.path_prefix, "cache", f"{kind}_indices")
        cache = IndexCache(
            f"{kind}-{self.index_split.name}",
            _NAMES,
            write_to=folder,
            read_from=[beside] if folder is None else [],
        )

        def why_not(arrays: dict[str, NDArray[Any]], checksummed: bool) -> str | None:
            return misfit(
                GPTIndex(**arrays),
                plan,
                sequences=self.indices,
                lengths=lengths,
                checksummed=checksummed,
            )

        foreign = gpt_identity.foreign_descriptions(self.unique_identifiers, self.config)
        self._stored = cache.load(self.unique_description, why_not, foreign=foreign)
        if self._stored is None:
            index = self._build(plan, lengths, cache)
            self._stored = cache.store(self.unique_description, index.arrays())
            if self._stored is None:
                return index
        return GPTIndex(**self._stored.arrays)

    def _plan(self, lengths: NDArray[np.int32]) -> IndexPlan:
        config = self.config
        try:
            return plan_index(
                tokens_per_epoch=int(lengths[self.indices].sum(dtype=np.int64)),
                num_samples=self.num_samples,
                sequence_length=config.sequence_length,
                add_extra_token=config.add_extra_token_to_sequence,
                drop_last=self.index_split is not Split.valid
                or config.drop_last_partial_validation_sequence,
            )
        except DataError as error:
            raise DataError(
                f"{error}: the {self.index_split.name} split has {len(self.indices)} of its "
                f"{len(self.dataset)} sequences",
                file=self.dataset.path_prefix + ".idx",
            ) from None

    def _build(self, plan: IndexPlan, lengths: NDArray[np.int32], cache: IndexCache) -> GPTIndex:
        what = f"{type(self).__name__}-{self.index_split.name} of {self.dataset_path}"
        with ProgressLog(logger, f"the index of {what}") as progress:
            index = build_index(
                plan,
                sequences=self.indices,
                lengths=lengths,
                random_seed=self.config.random_seed,
                progress=progress,
            )
        logger.info(
            "%s: %d samples of %d tokens (%s needed) from %d epochs of %d tokens in %d sequences",
            what,
            plan.samples,
            plan.sequence_length,
            self.num_samples if self.num_samples is not None else "one epoch",
            plan.epochs,
            plan.tokens_per_epoch,
            len(self.indices),
        )
        if not cache.writes:
            size = sum(array.nbytes for array in index.arrays().values())
            logger.info(
                "%s: its index took %.1f s to build and is kept in memory only (%.1f MB); with "
                "path_to_cache or %s it would be built once",
                what,
                progress.seconds,
                size / 1e6,
                CACHE_VARIABLE,
            )
        return index

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_reader"]
        if self._stored is not None:
            del state["_index"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._stored is not None:
            self._index = GPTIndex(**self._stored.arrays)
        self._reader = SampleReader(self.dataset, self._index, self.config)

    # Reading

    def __len__(self) -> int:
        """Samples: those of the index; no more than ``num_samples`` in the AutoModel flavour."""
        samples = len(self._index.shuffle_index)
        if self.config.flavour == "automodel" and self.num_samples is not None:
            return min(self.num_samples, samples)
        return samples

    def __getitem__(self, idx: int | None) -> Sample:
        sample, without_loss = self.locate(idx)
        rows = SampleRows(self.config, None)
        try:
            self._reader.read_one(sample, rows)
        except (ValueError, IndexError) as error:
            raise self._unreadable(error) from error
        if without_loss:
            rows.drop_loss(0)
        return rows.item()

    def __getitems__(self, indices: Sequence[int | None]) -> list[Sample]:
        """Several samples at once; each tensor is a part of one that holds the whole batch."""
        return self._rows(indices).items()

    def batch(self, indices: Sequence[int | None]) -> Sample:
        """Several samples as one, each field ``[len(indices), L]``, without collating them."""
        return self._rows(indices).batch()

    def _rows(self, indices: Sequence[int | None]) -> SampleRows:
        located = [self.locate(idx) for idx in indices]
        rows = SampleRows(self.config, len(located))
        samples = np.array([sample for sample, _ in located], np.int64)
        self.read(samples, np.arange(len(located)), rows)
        for row, (_, without_loss) in enumerate(located):
            if without_loss:
                rows.drop_loss(row)
        return rows

    def locate(self, idx: int | None) -> tuple[int, bool]:
        """The sample of an index, and whether it is padding of a batch.

        Raises
        ------
        IndexError
            There is no such sample.
        """
        length = len(self)
        if idx is None:
            idx = -length
        try:
            given = operator.index(idx)
        except TypeError:
            raise ConfigTypeError(
                f"a sample is named by an integer or None, got {type(idx).__name__}"
            ) from None
        sample = given + length if given < 0 else given
        if not 0 <= sample < length:
            raise IndexError(f"sample {given} is out of range: {self!r}")
        return sample, given < 0

    def read(self, samples: NDArray[np.int64], rows: NDArray[np.int64], out: SampleRows) -> None:
        """Fill row ``rows[i]`` of ``out`` with sample ``samples[i]``, from 0 to ``len(self) - 1``.

        Raises
        ------
        DataError
            The index does not fit the dataset.
        """
        try:
            self._reader.read(samples, rows, out)
        except (ValueError, IndexError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(
            f"{error}; the index of {self!r} is damaged or of other files",
            file=self._stored.stem + "*" if self._stored else None,
        )
