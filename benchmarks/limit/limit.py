"""The plain loops of limit.c, called through ctypes on a ring of batches."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RING = 4


def compiled(work: Path) -> ctypes.CDLL:
    source = Path(__file__).with_name("limit.c")
    library = work / "limit.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        work.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CC", "cc").split()
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run([*compiler, "-O3", "-shared", "-fPIC", source, "-o", made], check=True)
        made.rename(library)
    return ctypes.CDLL(str(library))


def address(array: NDArray[Any], offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset)


def ring(rows: int, width: int) -> list[list[NDArray[Any]]]:
    """Outputs of some batches, their memory there: five arrays and the cumulative lengths."""
    made = []
    for _ in range(RING):
        arrays: list[NDArray[Any]] = [np.full((rows, width), -1, np.int64) for _ in range(4)]
        made.append([*arrays, np.ones((rows, width), np.uint8), np.ones(rows + 1, np.int32)])
    return made


def loop(
    work: Path, source: NDArray[Any], rows: int, width: int, *, full: bool
) -> Callable[[int], float]:
    """A function that writes so many batches from ``source`` and returns the seconds."""
    library = compiled(work)
    name = f"{'full' if full else 'pair'}_{source.dtype.name}"
    function: Any = getattr(library, name)
    outputs = ring(rows, width)
    there = len(source) // (rows * (width + 1))
    addresses = [[address(a) for a in batch[: 6 if full else 2]] for batch in outputs]
    count, wide = ctypes.c_int64(rows), ctypes.c_int64(width)
    step = rows * (width + 1) * source.itemsize

    def run(batches: int, keep: Any = outputs) -> float:  # the addresses are of these
        began = time.perf_counter()
        for i in range(batches):
            function(address(source, i % there * step), count, wide, *addresses[i % RING])
        return time.perf_counter() - began

    return run
