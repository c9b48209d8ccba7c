"""Whether all ranks have built the same datasets."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError
from zephon.megatron.blended_dataset import BlendedDataset
from zephon.megatron.gpt_dataset import GPTDataset

if TYPE_CHECKING:
    import torch.distributed

Digest: TypeAlias = "tuple[str, int]"


def digest(dataset: GPTDataset | BlendedDataset) -> Digest:
    """What a dataset is made of, and a checksum over its indices."""
    crc = 0
    arrays: list[NDArray[Any]] = (
        [dataset.dataset_index, dataset.dataset_sample_index]
        if isinstance(dataset, BlendedDataset)
        else [dataset.document_index, dataset.sample_index, dataset.shuffle_index]
    )
    for array in arrays:
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    if isinstance(dataset, BlendedDataset):
        for member in dataset.datasets:
            crc = zlib.crc32(repr(digest(member)).encode(), crc)
    return dataset.unique_description_hash, crc


def check_ranks_agree(
    datasets: Sequence[GPTDataset | BlendedDataset | None],
    group: torch.distributed.ProcessGroup | None = None,
) -> None:
    """Compare the datasets of all ranks, which every rank of ``group`` must call.

    Ranks build alone, so nodes whose files differ would train on different
    orders. This reads every index once; a rank that built none agrees with all.

    Raises
    ------
    DataError
        On every rank, naming those that differ and the split.
    """
    import torch.distributed as dist

    mine = [None if dataset is None else digest(dataset) for dataset in datasets]
    everyone: list[list[Digest | None]] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(everyone, mine, group=group)
    for position in range(len(datasets)):
        found = {
            rank: theirs[position]
            for rank, theirs in enumerate(everyone)
            if position < len(theirs) and theirs[position] is not None
        }
        first, *others = found or [0]
        others = [rank for rank in others if found[rank] != found[first]]
        if others:
            raise DataError(
                f"dataset {position} of ranks {others} is not that of rank {first}: their options "
                "or their data files differ"
            )
