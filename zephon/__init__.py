"""Blended document collections to packed training batches for language models.

Names are loaded when they are used: ``import zephon`` reads no torch, starts no
thread and opens no file.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zephon._version import __version__

if TYPE_CHECKING:
    from zephon.io import Dataset, InMemoryShard
    from zephon.pipeline import Pipeline
    from zephon.types import SampleBatch, SampleMeta, SampleRecord
    from zephon.work import MixtureSpec, StaticMixtureWorkSource, WorkSource

_HOME = {
    "Dataset": "zephon.io",
    "InMemoryShard": "zephon.io",
    "MixtureSpec": "zephon.work",
    "Pipeline": "zephon.pipeline",
    "SampleBatch": "zephon.types",
    "SampleMeta": "zephon.types",
    "SampleRecord": "zephon.types",
    "StaticMixtureWorkSource": "zephon.work",
    "WorkSource": "zephon.work",
}

__all__ = [
    "Dataset",
    "InMemoryShard",
    "MixtureSpec",
    "Pipeline",
    "SampleBatch",
    "SampleMeta",
    "SampleRecord",
    "StaticMixtureWorkSource",
    "WorkSource",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    # `zephon.state` and the like work after a bare `import zephon`.
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"zephon.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"zephon.{name}":
                raise
    raise AttributeError(f"module 'zephon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
