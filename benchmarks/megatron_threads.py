"""What a second thread brings to blends and sample indices.

One thread and several take turns within each case, so that only their ratio
counts; outputs are allocated and touched before. `work` is the processor time of
several threads over that of one: what sharing costs, whoever else is running.
The first line is no function of ours: hashing several buffers one after the
other and at once is what the machine gives at that moment.

    python benchmarks/megatron_threads.py [--threads 2] [--repeats 7] [--scale 1.0]
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np

from zephon.megatron import compile_helper, set_threads

Turn = Callable[[int], object]


def hashing(buffers: int) -> Turn:
    data = np.zeros(20_000_000, np.uint8)

    def turn(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: hashlib.sha256(data).digest(), range(buffers)))

    return turn


def cases(threads: int, scale: float) -> Iterator[tuple[str, Turn]]:
    helper = compile_helper()
    random = np.random.default_rng(0)
    yield "sha256 (not ours)", hashing(threads)

    for datasets, millions in ((2, 10), (2, 50), (8, 10), (8, 50), (16, 10), (16, 50), (64, 10)):
        size = int(millions * 1e6 * scale)
        weights = random.dirichlet(np.full(datasets, 2.0))
        index, samples = np.zeros(size, np.int16), np.zeros(size, np.int64)
        index += 1
        samples += 1

        def blend(threads: int, args=(index, samples, weights, datasets, size, False)) -> None:
            set_threads(threads)
            helper.build_blending_indices(*args)

        yield f"blend D={datasets} {size / 1e6:g}M", blend

    sizes = random.integers(1, 10_000, 8)
    sizes = (sizes * (10e6 * scale / sizes.sum())).astype(np.int64) + 1
    index, samples = np.zeros(sizes.sum(), np.int16), np.zeros(sizes.sum(), np.int64)

    def exhaust(threads: int) -> None:
        set_threads(threads)
        helper.build_exhaustive_blending_indices(index, samples, sizes, 8)

    yield f"exhaustive D=8 {sizes.sum() / 1e6:.3g}M", exhaust

    documents = int(10e6 * scale)
    lengths = np.maximum(1, random.lognormal(np.log(999) - 0.5, 1.0, documents)).astype(np.int32)
    order = random.permutation(documents).astype(np.int32)
    tokens = int(lengths.sum())
    for length in (2048, 4096, 8192):

        def place(threads: int, length: int = length) -> None:
            set_threads(threads)
            helper.build_sample_idx_int32(lengths, order, length, 1, tokens, True, 1)

        yield f"sample index {documents / 1e6:g}M, {length}", place


def timed(turn: Turn, threads: int) -> tuple[float, float]:
    wall, work = time.perf_counter(), time.process_time()
    turn(threads)
    return time.perf_counter() - wall, time.process_time() - work


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args()
    print(f"medians of {args.repeats}; ratios of neighbouring turns: median (least to greatest)")
    print(f"{'':24} {'1 ms':>8} {f'{args.threads} ms':>8}   faster by{'':12} work")
    for name, turn in cases(args.threads, args.scale):
        pairs = []
        for repeat in range(args.repeats + 1):  # the first only warms up
            pair = timed(turn, 1), timed(turn, args.threads)
            if repeat > 0:
                pairs.append(pair)
        one, more = (median(p[k][0] for p in pairs) * 1e3 for k in (0, 1))
        faster = [a[0] / b[0] for a, b in pairs]
        work = median(b[1] / a[1] for a, b in pairs)
        spread = f"({min(faster):.2f} to {max(faster):.2f})"
        print(
            f"{name:24} {one:8.1f} {more:8.1f}   {median(faster):4.2f} {spread:16} {work:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
