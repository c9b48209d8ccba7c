"""What every peer's script shares: the corpus, the clock and the line of JSON at the end.

Needs NumPy alone, since it is imported in the peers' environments.

    python -P peers/NAME.py CORPUS CACHE VARIANT SECONDS

CORPUS is the folder of tokens that corpus.py makes, CACHE one where the peer may keep
what it makes of it; ``prepare`` as VARIANT makes that and measures nothing.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()

import numpy as np  # noqa: E402  (the clock runs while it is imported)

ROW, BATCH = 4097, 8
SHARES = (0.7, 0.3)

Build = Callable[[Path, Path, str], Iterator[int]]
"""From the corpus, the cache and a variant to the tokens (with a label) of batch after batch."""


class Documents:
    """One source: documents of tokens by number, from a mapped file."""

    def __init__(self, corpus: Path, name: str) -> None:
        lengths = np.load(corpus / f"{name}.lengths.npy")
        self.ends = np.concatenate(([0], np.cumsum(lengths)))
        self.path = corpus / f"{name}.bin"
        self.tokens = np.memmap(self.path, np.uint16, "r")

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        return self.tokens[self.ends[index] : self.ends[index + 1]]


def without_image_operators() -> None:
    """Let torchvision be imported beside a PyTorch for processors alone.

    The registry's build of it is for CUDA and finds no operators of its own then. They
    need to exist at its import, and no row of tokens uses them.
    """
    from importlib.util import find_spec

    import torch

    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    text = Path(spec.origin).with_name("_meta_registrations.py").read_text()
    for name in set(re.findall(r"torchvision::(\w+)", text) + re.findall(r'meta\("(\w+)"', text)):
        torch.library.define(f"torchvision::{name}", "() -> ()")


def main(build: Build, prepare: Callable[[Path, Path], None] | None = None) -> None:
    corpus, cache = Path(sys.argv[1]), Path(sys.argv[2])
    variant, seconds = sys.argv[3], float(sys.argv[4])
    if variant == "prepare":
        if prepare and not (cache / "complete").exists():
            cache.mkdir(parents=True, exist_ok=True)
            prepare(corpus, cache)
            (cache / "complete").touch()
        return
    batches = build(corpus, cache, variant)
    next(batches)
    first = time.perf_counter() - BEGAN
    for _ in range(3):
        next(batches)
    began = time.perf_counter()
    tokens = 0
    while time.perf_counter() - began < seconds:
        tokens += next(batches)
    rate = tokens / (time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"tokens_per_second": rate, "first_batch_seconds": first, "peak_mb": peak}
    print(json.dumps(told), flush=True)
