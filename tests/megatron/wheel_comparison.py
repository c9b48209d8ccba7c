"""Compare the helpers with those of another build, on random inputs; a program of its own.

The other helpers end the process where an assertion fails, so a test runs this
and reads what it prints: one line of JSON.

    python wheel_comparison.py HELPERS_CPP.so --configurations 200 --seed 0
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.megatron import compile_helper


def load(path: str) -> Any:
    """The extension module in a file, whatever package it was built for."""
    spec = spec_from_loader("helpers_cpp", ExtensionFileLoader("helpers_cpp", path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Comparison:
    """Draws inputs, gives them to both modules and counts indices that differ."""

    def __init__(self, ours: Any, theirs: Any, seed: int) -> None:
        self.ours, self.theirs = ours, theirs
        self.rng = np.random.default_rng(seed)
        self.compared: Counter[str] = Counter()
        self.different: list[str] = []
        self.rounded = 0  # sample counts that the reference rounds in single precision

    def run(self, configurations: int) -> dict[str, Any]:
        for _ in range(configurations):
            self.sample_index()
            self.blending()
            self.exhaustive()
            self.mapping()
        return {
            "compared": dict(self.compared),
            "different": self.different[:20],
            "rounded": self.rounded,
        }

    def judge(self, name: str, ours: NDArray[Any], theirs: NDArray[Any], case: object) -> None:
        self.compared[name] += theirs.size
        same = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if not same or not np.array_equal(ours, theirs):
            self.different.append(f"{name}: {ours.shape} {theirs.shape} {case}")

    def upto(self, most: int) -> int:
        """A number from 1 to ``most``, of any order of magnitude as likely."""
        return int(math.exp(self.rng.uniform(0, math.log(most + 0.999))))

    def sample_index(self) -> None:
        rng = self.rng
        epochs, length = self.upto(5), 1 + self.upto(8192)
        add = int(rng.integers(2))
        if rng.random() < 0.2:  # few long documents, one token more than fills the samples
            sizes = rng.integers(2**28, 2**30, self.upto(4), dtype=np.int32)
            length, epochs = int(rng.integers(2048, 9000)), 1
            sizes[0] -= (int(sizes.sum(dtype=np.int64)) - 1 - add) % length
        else:
            sizes = rng.integers(0, 1 + self.upto(3000), self.upto(2000), dtype=np.int32)
        drop = bool(rng.integers(2))
        if not drop:
            sizes[sizes == 0] = 1  # the reference writes offset -1 behind an empty last document
        sizes[0] = max(sizes[0], 2)
        order = rng.permutation(np.tile(np.arange(len(sizes), dtype=np.int32), epochs))
        per_epoch = int(sizes.sum(dtype=np.int64))
        case = (sizes.tolist()[:5], len(sizes), length, epochs, per_epoch, drop, add)
        tokens = epochs * per_epoch - add
        exact = tokens // length if drop else -(-tokens // length)
        for name in ("build_sample_idx_int32", "build_sample_idx_int64"):
            arguments = (sizes, order, length, epochs, per_epoch, drop, add)
            ours = getattr(self.ours, name)(*arguments)
            theirs = getattr(self.theirs, name)(*arguments)
            if len(ours) == exact + 1 and len(theirs) != exact + 1:
                single = math.ceil(np.float32(tokens) / np.float32(length))
                if not drop and len(theirs) == single + 1:
                    self.rounded += 1
                    both = min(len(ours), len(theirs)) - 1
                    ours, theirs = ours[:both], theirs[:both]
            self.judge(name, ours, theirs, case)

    def weights(self, count: int) -> NDArray[np.float64]:
        rng = self.rng
        kind = rng.integers(5)
        if kind == 0:
            weights = np.ones(count)
        elif kind == 1:
            weights = 1 / np.arange(1.0, count + 1)
        elif kind == 2:
            weights = rng.integers(1, 4, count).astype(float)  # groups of equal weight
        else:
            weights = rng.lognormal(0, 1.5, count)
        if kind == 3:
            weights[rng.random(count) < 0.3] = 0
            weights[rng.integers(count)] = 1
        total = rng.choice([1.0, 1.0, 1.0, 0.6, 1.7])
        return np.asarray(weights / weights.sum() * total)

    def blending(self) -> None:
        count = self.upto(4096)
        size = self.upto(max(20_000, 4_000_000 // count))
        weights = self.weights(count)
        results = []
        for module in (self.ours, self.theirs):
            numbers, samples = np.empty(size, np.int16), np.empty(size, np.int64)
            module.build_blending_indices(numbers, samples, weights, count, size, False)
            results.append(np.stack([numbers, samples]))
        self.judge("build_blending_indices", *results, (count, size, weights.tolist()[:5]))

    def exhaustive(self) -> None:
        count = self.upto(4096)
        sizes = self.rng.integers(
            1, 2 + self.upto(max(1, (400_000 if count < 64 else 20_000) // count)), count
        )
        total = int(sizes.sum())
        results = []
        for module in (self.ours, self.theirs):
            numbers, samples = np.empty(total, np.int16), np.empty(total, np.int64)
            module.build_exhaustive_blending_indices(numbers, samples, sizes, count)
            results.append(np.stack([numbers, samples]))
        self.judge("build_exhaustive_blending_indices", *results, (count, sizes.tolist()[:5]))

    def mapping(self) -> None:
        rng = self.rng
        sentences = rng.integers(0, 1 + self.upto(40), self.upto(800))
        sentences[rng.integers(len(sentences))] = 5  # one document at least makes a sample
        docs = np.concatenate(([0], np.cumsum(sentences))).astype(np.int64)
        sizes = rng.integers(1, 1 + self.upto(400), docs[-1], dtype=np.int32)
        sizes[rng.random(len(sizes)) < 0.001] = 513
        epochs, most = self.upto(5), self.upto(10**7)
        length, seed = 1 + self.upto(2048), self.upto(2**31 - 2)
        prob = float(rng.choice([0.0, 0.1, 0.5, 1.0, rng.random()]))
        least = int(rng.integers(1, 4))
        arguments = (docs, sizes, epochs, most, length, prob, seed, False, least)
        self.judge(
            "build_mapping",
            self.ours.build_mapping(*arguments),
            self.theirs.build_mapping(*arguments),
            (len(docs), arguments[2:]),
        )
        titles = rng.integers(0, 1 + self.upto(64), len(sentences), dtype=np.int32)
        blocks = (docs, sizes, titles, epochs, most, length, seed, False, bool(rng.integers(2)))
        self.judge(
            "build_blocks_mapping",
            self.ours.build_blocks_mapping(*blocks),
            self.theirs.build_blocks_mapping(*blocks),
            (len(docs), blocks[3:]),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("helpers", help="the extension module to compare with")
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    comparison = Comparison(compile_helper(), load(args.helpers), args.seed)
    print(json.dumps(comparison.run(args.configurations)))


if __name__ == "__main__":
    main()
