"""From a configuration to a dataset for each split."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np

from zephon.errors import ConfigError, DataError
from zephon.megatron.blended_dataset import BlendedDataset
from zephon.megatron.config import BlendedMegatronDatasetConfig
from zephon.megatron.gpt_dataset import GPTDataset
from zephon.megatron.progress import ProgressLog
from zephon.megatron.splits import Split, SplitMatrix, normalize, split_bounds

TopLevelDataset: TypeAlias = "GPTDataset | BlendedDataset"
Sizes: TypeAlias = "Sequence[int | None]"

logger = logging.getLogger(__name__)


def get_size_per_split_per_dataset(
    normalized_weights: Sequence[float], target_size_per_split: Sequence[int], surplus: float = 0.0
) -> list[list[int]]:
    """Samples that each dataset of a blend needs in each split.

    Parameters
    ----------
    normalized_weights : sequence of float
        Of the datasets; they sum to 1.
    target_size_per_split : sequence of int
        Samples of the blend.
    surplus : float
        How many more to build, as a share.

    Returns
    -------
    list of list of int ``[datasets][splits]``
        Rounded up, twice if there is a surplus.
    """
    return [
        [math.ceil(math.ceil(size * weight) * (1 + surplus)) for size in target_size_per_split]
        for weight in normalized_weights
    ]


class BlendedMegatronDatasetBuilder:
    """Builds the train, valid and test dataset of a configuration.

    Every rank that needs data builds for itself: with a cache folder in common
    they find each other's indices, without one each has its own, and both are
    the same. There is no barrier and no rank that goes first.

    Parameters
    ----------
    cls : type
        :class:`~zephon.megatron.GPTDataset` or a class derived from it.
    sizes : sequence of (int or None) ``[3]``
        Samples wanted of each split; None for one epoch.
    is_built_on_rank : callable
        Whether this process needs data; if not, its datasets are None.
    config : BlendedMegatronDatasetConfig
        With ``blend`` or ``blend_per_split``.

    Raises
    ------
    ConfigError
        Sizes do not fit the splits, or the configuration names no blend.
    """

    builds_on_all_ranks = True
    """No rank needs to go first: every one may build, at the same time."""

    def __init__(
        self,
        cls: type[GPTDataset],
        sizes: Sizes,
        is_built_on_rank: Callable[[], bool],
        config: BlendedMegatronDatasetConfig,
    ) -> None:
        if len(sizes) != len(Split):
            raise ConfigError(
                f"sizes must have {len(Split)} entries, for train, valid and test, got {sizes!r}"
            )
        for split, size in zip(Split, sizes, strict=True):
            if size is not None and size < 0:
                raise ConfigError(f"{split.name} has the negative size {size}")
        if config.blend is None and config.blend_per_split is None:
            raise ConfigError("config names nothing to build from: give blend or blend_per_split")
        self.cls = cls
        self.sizes = list(sizes)
        self.is_built_on_rank = is_built_on_rank
        self.config = config

    def build(self) -> list[TopLevelDataset | None]:
        """The datasets of train, valid and test; None where a split is empty or not wanted.

        Raises
        ------
        ConfigError
            Weights without a size.
        DataError
            A dataset has no samples in a split where its weight asks for some.
        IndexError
            A dataset has fewer samples than the blend takes.
        """
        if not self.is_built_on_rank():
            return [None] * len(Split)
        config = self.config
        if config.blend is not None:
            assert config.split_matrix is not None
            return self._build_blend(*config.blend, config.split_matrix, self.sizes)
        assert config.blend_per_split is not None
        datasets: list[TopLevelDataset | None] = []
        for split, blend in zip(Split, config.blend_per_split, strict=True):
            only: SplitMatrix = [(0.0, 1.0) if other is split else None for other in Split]
            built = None if blend is None else self._build_blend(*blend, only, self.sizes)
            datasets.append(None if built is None else built[split.value])
        return datasets

    def _build_blend(
        self, prefixes: list[str], weights: list[float] | None, matrix: SplitMatrix, sizes: Sizes
    ) -> list[TopLevelDataset | None]:
        if len(prefixes) == 1 and (weights is None or self.config.blend_per_split is not None):
            return list(self._build_splits(prefixes[0], matrix, sizes))
        if weights is None:
            return self._blend_as_they_are(prefixes, matrix, sizes)
        prefixes, weights = _without_zero_weights(prefixes, weights)
        return self._blend_by_weights(prefixes, normalize(weights), matrix, sizes)

    def _blend_by_weights(
        self, prefixes: list[str], weights: list[float], matrix: SplitMatrix, sizes: Sizes
    ) -> list[TopLevelDataset | None]:
        wanted = []
        for split, interval, size in zip(Split, matrix, sizes, strict=True):
            if interval is not None and size is None:
                raise ConfigError(
                    f"the blend has weights, so the {split.name} split needs a size, got None"
                )
            wanted.append(size or 0)
        targets = get_size_per_split_per_dataset(weights, wanted)
        surplus = self.config.mid_level_dataset_surplus
        buffers = get_size_per_split_per_dataset(weights, wanted, surplus)
        members = self._build_members(prefixes, matrix, buffers)

        blends: list[TopLevelDataset | None] = []
        for split in Split:
            datasets = [member[split.value] for member in members]
            present = [dataset for dataset in datasets if dataset is not None]
            size = sum(target[split.value] for target in targets)
            if not present or not size:
                blends.append(None)
                continue
            for prefix, dataset in zip(prefixes, present, strict=True):
                if not len(dataset):
                    raise DataError(
                        f"it has no sample in the {split.name} split, but its weight asks for some",
                        file=prefix,
                    )
            blends.append(BlendedDataset(present, weights, size, self.config))
        return blends

    def _blend_as_they_are(
        self, prefixes: list[str], matrix: SplitMatrix, sizes: Sizes
    ) -> list[TopLevelDataset | None]:
        """One epoch of each dataset, weighted by its samples."""
        members = self._build_members(prefixes, matrix, [[None] * len(Split)] * len(prefixes))
        blends: list[TopLevelDataset | None] = []
        for split, size in zip(Split, sizes, strict=True):
            datasets = [member[split.value] for member in members]
            present = [dataset for dataset in datasets if dataset is not None]
            holding = [dataset for dataset in present if len(dataset)]
            for dataset in present:
                if not len(dataset):
                    logger.warning(
                        "%s has no sample in the %s split: it is left out of that blend",
                        dataset.dataset_path,
                        split.name,
                    )
            if not present or size == 0:
                blends.append(None)
                continue
            if not holding:
                raise DataError(
                    f"none of the datasets has a sample in the {split.name} split: "
                    f"{', '.join(prefixes)}"
                )
            counts = [len(dataset) for dataset in holding]
            total = None if size is None else min(size, sum(counts))
            blends.append(BlendedDataset(holding, counts, total, self.config))
        return blends

    def _build_members(
        self, prefixes: list[str], matrix: SplitMatrix, sizes: Sequence[Sizes]
    ) -> list[list[GPTDataset | None]]:
        """The datasets of all prefixes, some at a time; ``[prefixes][splits]``."""
        workers = min(self.config.num_dataset_builder_threads, len(prefixes))
        built: list[list[GPTDataset | None]] = []
        with (
            ProgressLog(logger, f"a blend of {len(prefixes)} datasets") as progress,
            ThreadPoolExecutor(workers, thread_name_prefix="zephon-build") as pool,
        ):
            for done in pool.map(
                lambda prefix, size: self._build_splits(prefix, matrix, size), prefixes, sizes
            ):
                built.append(done)
                progress.doing(f"{len(built)} of {len(prefixes)} built")
        return built

    def _build_splits(
        self, prefix: str, matrix: SplitMatrix, sizes: Sizes
    ) -> list[GPTDataset | None]:
        config: Any = self.config
        low_level = self.cls.build_low_level_dataset(prefix, config)
        elements = self.cls.numel_low_level_dataset(low_level)
        datasets: list[GPTDataset | None] = []
        for split, interval, size in zip(Split, matrix, sizes, strict=True):
            if interval is None:
                datasets.append(None)
                continue
            indices = np.arange(*split_bounds(interval, elements), dtype=np.int32)
            datasets.append(self.cls(low_level, prefix, indices, size, split, config))
        return datasets


def _without_zero_weights(
    prefixes: list[str], weights: list[float]
) -> tuple[list[str], list[float]]:
    for prefix, weight in zip(prefixes, weights, strict=True):
        if weight == 0:
            logger.info("%s has weight 0: it is left out of the blend", prefix)
    kept = [pair for pair in zip(prefixes, weights, strict=True) if pair[1] > 0]
    return [prefix for prefix, _ in kept], [weight for _, weight in kept]
