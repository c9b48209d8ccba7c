"""Operators of a pipeline, one file each, and what functions on records may use.

Names are loaded when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zephon.ops.chat import LossScope, SpanSource
    from zephon.ops.grouping import DomainGroups
    from zephon.ops.meta import pack_meta, spawn_child, tombstone_meta, tombstones_for_record
    from zephon.ops.pack_options import PackingAlgorithm
    from zephon.ops.tokenize import MissingFieldMode, SpecialTokensMode

_HOME = {
    "DomainGroups": "grouping",
    "LossScope": "chat",
    "MissingFieldMode": "tokenize",
    "PackingAlgorithm": "pack_options",
    "SpanSource": "chat",
    "SpecialTokensMode": "tokenize",
    "pack_meta": "meta",
    "spawn_child": "meta",
    "tombstone_meta": "meta",
    "tombstones_for_record": "meta",
}

__all__ = [
    "DomainGroups",
    "LossScope",
    "MissingFieldMode",
    "PackingAlgorithm",
    "SpanSource",
    "SpecialTokensMode",
    "pack_meta",
    "spawn_child",
    "tombstone_meta",
    "tombstones_for_record",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"zephon.ops.{_HOME[name]}"), name)
    raise AttributeError(f"module 'zephon.ops' has no attribute {name!r}")
