"""Megatron's index helpers, ``.bin/.idx`` files and datasets, without a compiler.

Every name is loaded on first use, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zephon.megatron._compile import _HELPER_CACHE_ROOT, compile_helper
    from zephon.megatron._register import register, registration, unregister
    from zephon.megatron.blend import get_blend_from_list
    from zephon.megatron.builder import IndexedDatasetBuilder, optimal_dtype
    from zephon.megatron.indexed import IndexedDataset

__all__ = [
    "_HELPER_CACHE_ROOT",
    "IndexedDataset",
    "IndexedDatasetBuilder",
    "compile_helper",
    "get_blend_from_list",
    "optimal_dtype",
    "register",
    "registration",
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
    "optimal_dtype": "zephon.megatron.builder",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
