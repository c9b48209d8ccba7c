"""Compiled kernels: type, shape and bounds checks around zephon_core.

Each extension validates its arguments, drops the GIL and calls C++. They are
private; the public functions are in the packages above.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

_EXTENSIONS = frozenset(
    (
        "collate",
        "cursors",
        "gather",
        "helpers_cpp",
        "mersenne",
        "order",
        "packing",
        "places",
        "sentence_mapping",
        "text",
    )
)


def __getattr__(name: str) -> Any:
    """Import an extension, or say why there is none."""
    if name not in _EXTENSIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise ImportError(_advice(name), name=error.name) from error


def _advice(name: str) -> str:
    package = Path(__file__).parents[1]
    if (package / "_native" / f"{name}.pyx").exists():
        return (
            f"zephon was imported from its source tree ({package}), which is not built: run Python "
            "in another folder or with -P, so that the installed zephon is found, or install the "
            "tree in place (make dev)"
        )
    return (
        f"zephon in {package} lacks its compiled part {name!r}: the installation is not complete, "
        "or is for another Python or platform. Install a wheel of zephon by its path, or the "
        "source tree with a C++20 compiler; `python -m zephon.diagnosis` (`zephon doctor`) shows "
        "what is here"
    )
