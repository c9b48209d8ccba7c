"""Several datasets as one, drawn in proportion."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native import helpers_cpp
from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron.config import BlendedMegatronDatasetConfig
from zephon.megatron.gpt_dataset import GPTDataset, Sample
from zephon.megatron.gpt_sample import SampleRows
from zephon.megatron.index_cache import IndexCache, StoredIndex, cache_folder, describe, digest_of
from zephon.megatron.progress import ProgressLog
from zephon.megatron.splits import normalize

_MOST_INT16_IDS = 32767
_CHUNK = 1 << 22  # samples counted at a time
_NAMES = ("dataset_index", "dataset_sample_index")

logger = logging.getLogger(__name__)


class BlendedDataset:
    """Datasets drawn in proportion to their weights, in Megatron's order.

    An item is that of the dataset it comes from, preceded by ``dataset_id``, the
    number of that dataset (int16, or int32 beyond 32,767 of them).

    Parameters
    ----------
    datasets : sequence of GPTDataset
        Of one class and one split.
    weights : sequence of int or of float
        Greater than 0, all of one type. With ``size`` None they are numbers of
        samples.
    size : int or None
        Samples of the blend; None for ``weights[i]`` samples of each dataset.
    config : BlendedMegatronDatasetConfig

    Raises
    ------
    ConfigError, ConfigTypeError
        The datasets or weights do not go together; the message names the dataset.
    IndexError
        A dataset would be asked for more samples than it has. The way out is a
        larger ``mid_level_dataset_surplus``.
    """

    builds_on_all_ranks = True
    """No rank needs to go first: every one may build, at the same time."""

    def __init__(
        self,
        datasets: Sequence[GPTDataset],
        weights: Sequence[int] | Sequence[float],
        size: int | None,
        config: BlendedMegatronDatasetConfig,
    ) -> None:
        self.datasets = list(datasets)
        _check_members(self.datasets)
        given = _check_weights(weights, self.datasets, counts=size is None)
        if size is not None and size < 1:
            raise ConfigError(f"size must be at least 1, got {size}")
        self.split = self.datasets[0].index_split
        self.weights = given if size is None else normalize(given)
        self.size = size
        self.config = config
        self.unique_identifiers: dict[str, Any] = {
            "class": type(self).__name__,
            "datasets": [dataset.unique_identifiers for dataset in self.datasets],
            "split": self.split.name,
            "weights": self.weights,
            "size": size,
        }
        self.unique_description = describe(self.unique_identifiers)
        self.unique_description_hash = digest_of(self.unique_description)
        self._stored: StoredIndex | None = None
        self._load_or_build()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.split.name}, {len(self)} samples of "
            f"{len(self.datasets)} datasets)"
        )

    # The index

    def _load_or_build(self) -> None:
        cache = IndexCache(
            f"{type(self).__name__}-{self.split.name}",
            _NAMES,
            write_to=cache_folder(self.config.path_to_cache),
            read_from=[],
        )
        self._stored = cache.load(self.unique_description, self._misfit)
        if self._stored is not None:
            self._take(self._stored.arrays)
            return
        with ProgressLog(logger, f"the blend of {len(self.datasets)} datasets") as progress:
            progress.doing(f"{self._total()} samples")
            ids, samples = self._build()
        arrays = {"dataset_index": ids, "dataset_sample_index": samples}
        self._stored = cache.store(self.unique_description, arrays)
        self._take(arrays if self._stored is None else self._stored.arrays)

    def _take(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.dataset_index: NDArray[np.int16] | NDArray[np.int32] = arrays["dataset_index"]
        self.dataset_sample_index: NDArray[np.int64] = arrays["dataset_sample_index"]

    def _total(self) -> int:
        return sum(int(weight) for weight in self.weights) if self.size is None else self.size

    def _id_dtype(self) -> type[np.int16] | type[np.int32]:
        return np.int16 if len(self.datasets) <= _MOST_INT16_IDS else np.int32

    def _build(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ids: NDArray[Any] = np.empty(self._total(), self._id_dtype())
        samples = np.empty(len(ids), np.int64)
        count = len(self.datasets)
        if self.size is None:
            exhaustively = (
                helpers_cpp.build_exhaustive_blending_indices
                if ids.dtype == np.int16
                else helpers_cpp.build_exhaustive_blending_indices_int32
            )
            counts = np.array(self.weights, np.int64)
            self._check_counts(counts)
            exhaustively(ids, samples, counts, count)
        else:
            weights = np.array(self.weights)
            counts = helpers_cpp.build_blending_indices_counted(
                ids, samples, weights, count, self.size, False
            )
            self._check_counts(counts)
        return ids, samples

    def _check_counts(self, counts: NDArray[np.int64]) -> None:
        for dataset, count in zip(self.datasets, counts.tolist(), strict=True):
            if count > len(dataset):
                raise IndexError(
                    f"the blend of the {self.split.name} split takes {count} samples of "
                    f"{dataset.dataset_path}, which has {len(dataset)}: build it with more samples "
                    "(a larger mid_level_dataset_surplus)"
                )

    def _misfit(self, arrays: dict[str, NDArray[Any]], checksummed: bool) -> str | None:
        ids, samples = arrays["dataset_index"], arrays["dataset_sample_index"]
        if ids.dtype != self._id_dtype() or samples.dtype != np.int64:
            return f"its arrays are {ids.dtype} and {samples.dtype}"
        if ids.shape != (self._total(),) or samples.shape != ids.shape:
            return (
                f"it has {list(ids.shape)} and {list(samples.shape)} samples, not that of the blend"
            )
        if not 0 <= int(ids.min()) <= int(ids.max()) < len(self.datasets):
            return "it names datasets that are not there"
        counts = _count(ids, len(self.datasets))
        for dataset, count in zip(self.datasets, counts.tolist(), strict=True):
            if count > len(dataset):
                return f"it takes {count} samples of {dataset!r}"
        if not checksummed:
            by_dataset = np.argsort(ids, kind="stable")
            begins = np.repeat(np.cumsum(counts) - counts, counts)
            if not np.array_equal(samples[by_dataset], np.arange(len(ids)) - begins):
                return "the samples of a dataset are not in order"
        return None

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._stored is not None:
            del state["dataset_index"], state["dataset_sample_index"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._stored is not None:
            self._take(self._stored.arrays)

    # Reading

    def __len__(self) -> int:
        return len(self.dataset_index)

    def __getitem__(self, idx: int | None) -> Sample:
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: Sequence[int | None]) -> list[Sample]:
        """Several samples at once; each tensor is a part of one that holds the whole batch."""
        ids, rows = self._rows(indices)
        return [{"dataset_id": id, **item} for id, item in zip(ids, rows.items(), strict=True)]

    def batch(self, indices: Sequence[int | None]) -> Sample:
        """Several samples as one, each field ``[len(indices), L]``, without collating them."""
        import torch

        ids, rows = self._rows(indices)
        return {"dataset_id": torch.from_numpy(ids), **rows.batch()}

    def _rows(self, indices: Sequence[int | None]) -> tuple[NDArray[Any], SampleRows]:
        positions = [self._position(idx) for idx in indices]
        ids: NDArray[Any] = self.dataset_index[positions]
        samples = self.dataset_sample_index[positions]
        rows = SampleRows(self.datasets[0].config, len(positions))
        for dataset in sorted(set(ids.tolist())):
            mine = np.flatnonzero(ids == dataset)
            self.datasets[dataset].read(samples[mine], mine, rows)
        for row, idx in enumerate(indices):
            if idx is None or idx < 0:
                rows.drop_loss(row)
        return ids, rows

    def _position(self, idx: int | None) -> int:
        if idx is None:
            return 0
        position = idx + len(self) if idx < 0 else idx
        if not 0 <= position < len(self):
            raise IndexError(f"sample {idx} is out of range: {self!r}")
        return position


def _count(ids: NDArray[Any], datasets: int) -> NDArray[np.int64]:
    counts = np.zeros(datasets, np.int64)
    for first in range(0, len(ids), _CHUNK):
        counts += np.bincount(ids[first : first + _CHUNK], minlength=datasets)
    return counts


def _check_members(datasets: list[GPTDataset]) -> None:
    if not datasets:
        raise ConfigError("a blend needs at least one dataset")
    first = datasets[0]
    for dataset in datasets:
        if type(dataset) is not type(first):
            raise ConfigTypeError(
                f"datasets of a blend must be of one class, got {first!r} and {dataset!r}"
            )
        if dataset.index_split is not first.index_split:
            raise ConfigError(
                f"datasets of a blend must be of one split, got {first!r} and {dataset!r}"
            )


def _check_weights(
    weights: Sequence[int] | Sequence[float], datasets: list[GPTDataset], *, counts: bool
) -> list[int] | list[float]:
    if len(weights) != len(datasets):
        raise ConfigError(f"a blend of {len(datasets)} datasets has {len(weights)} weights")
    kinds = {type(weight) for weight in weights}
    if len(kinds) > 1 or not issubclass(next(iter(kinds)), (int, float)):
        raise ConfigTypeError(f"weights must be all int or all float, got {list(weights)}")
    for weight, dataset in zip(weights, datasets, strict=True):
        if not (weight > 0 and math.isfinite(weight)):
            raise ConfigError(
                f"the weight of {dataset.dataset_path} in the {dataset.index_split.name} split is "
                f"{weight}; it must be finite and greater than 0"
            )
        if counts and weight != int(weight):
            raise ConfigError(
                f"without a size, weights are numbers of samples; that of {dataset.dataset_path} "
                f"is {weight}"
            )
    return [int(weight) for weight in weights] if counts else list(weights)
