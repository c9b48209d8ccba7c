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
    from zephon.megatron.blend import get_blend_from_list
    from zephon.megatron.builder import IndexedDatasetBuilder, optimal_dtype
    from zephon.megatron.indexed import IndexedDataset

__all__ = [
    "IndexedDataset",
    "IndexedDatasetBuilder",
    "compile_helper",
    "get_blend_from_list",
    "get_threads",
    "optimal_dtype",
    "set_threads",
]

_HOMES = {
    "_HELPER_CACHE_ROOT": "zephon.megatron._compile",
    "compile_helper": "zephon.megatron._compile",
    "get_blend_from_list": "zephon.megatron.blend",
    "IndexedDataset": "zephon.megatron.indexed",
    "IndexedDatasetBuilder": "zephon.megatron.builder",
    "get_threads": "zephon._threads",
    "optimal_dtype": "zephon.megatron.builder",
    "set_threads": "zephon._threads",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
