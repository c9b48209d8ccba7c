"""Megatron's index helpers, ``.bin/.idx`` files and datasets, without a compiler.

Every name is loaded on first use, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zephon._threads import get_threads, set_threads
    from zephon.megatron._compile import _HELPER_CACHE_ROOT as _HELPER_CACHE_ROOT
    from zephon.megatron._compile import compile_helper
    from zephon.megatron._register import register, registration, unregister
    from zephon.megatron.agreement import check_ranks_agree
    from zephon.megatron.blend import get_blend_from_list
    from zephon.megatron.blend_paths import expand_paths
    from zephon.megatron.blended_builder import (
        BlendedMegatronDatasetBuilder,
        get_size_per_split_per_dataset,
    )
    from zephon.megatron.blended_dataset import BlendedDataset
    from zephon.megatron.builder import IndexedDatasetBuilder, optimal_dtype
    from zephon.megatron.config import BlendedMegatronDatasetConfig, GPTDatasetConfig
    from zephon.megatron.gpt_dataset import GPTDataset
    from zephon.megatron.indexed import IndexedDataset
    from zephon.megatron.samplers import (
        MegatronPretrainingRandomSampler,
        MegatronPretrainingSampler,
        create_megatron_sampler,
    )
    from zephon.megatron.splits import (
        Split,
        convert_split_vector_to_split_matrix,
        parse_and_normalize_split,
    )
    from zephon.megatron.work_source import MegatronWorkSource

__all__ = [
    "BlendedDataset",
    "BlendedMegatronDatasetBuilder",
    "BlendedMegatronDatasetConfig",
    "GPTDataset",
    "GPTDatasetConfig",
    "IndexedDataset",
    "IndexedDatasetBuilder",
    "MegatronPretrainingRandomSampler",
    "MegatronPretrainingSampler",
    "MegatronWorkSource",
    "Split",
    "check_ranks_agree",
    "compile_helper",
    "convert_split_vector_to_split_matrix",
    "create_megatron_sampler",
    "expand_paths",
    "get_blend_from_list",
    "get_size_per_split_per_dataset",
    "get_threads",
    "optimal_dtype",
    "parse_and_normalize_split",
    "register",
    "registration",
    "set_threads",
    "unregister",
]

_HOMES = {
    "_HELPER_CACHE_ROOT": "zephon.megatron._compile",
    "compile_helper": "zephon.megatron._compile",
    "register": "zephon.megatron._register",
    "registration": "zephon.megatron._register",
    "unregister": "zephon.megatron._register",
    "get_blend_from_list": "zephon.megatron.blend",
    "IndexedDataset": "zephon.megatron.indexed",
    "IndexedDatasetBuilder": "zephon.megatron.builder",
    "get_threads": "zephon._threads",
    "optimal_dtype": "zephon.megatron.builder",
    "check_ranks_agree": "zephon.megatron.agreement",
    "BlendedDataset": "zephon.megatron.blended_dataset",
    "BlendedMegatronDatasetBuilder": "zephon.megatron.blended_builder",
    "BlendedMegatronDatasetConfig": "zephon.megatron.config",
    "GPTDataset": "zephon.megatron.gpt_dataset",
    "GPTDatasetConfig": "zephon.megatron.config",
    "MegatronPretrainingRandomSampler": "zephon.megatron.samplers",
    "MegatronPretrainingSampler": "zephon.megatron.samplers",
    "MegatronWorkSource": "zephon.megatron.work_source",
    "Split": "zephon.megatron.splits",
    "convert_split_vector_to_split_matrix": "zephon.megatron.splits",
    "create_megatron_sampler": "zephon.megatron.samplers",
    "expand_paths": "zephon.megatron.blend_paths",
    "get_size_per_split_per_dataset": "zephon.megatron.blended_builder",
    "parse_and_normalize_split": "zephon.megatron.splits",
    "set_threads": "zephon._threads",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
