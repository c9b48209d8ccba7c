"""What a second thread brings to blends and sample indices.

One thread and two take turns within each case; outputs are allocated and touched
before. The first line is no function of ours: hashing several buffers one after the
other and at once is what the machine gives at that moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from harness import Row, Settings, Spread, Table, alternate, ratios, seconds

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


def table(settings: Settings) -> Table:
    rows = []
    for name, turn in cases(2, settings.sized(200, 4) / 1000):
        found = alternate(
            settings.turns,
            {
                "1": lambda turn=turn: seconds(lambda: turn(1)),
                "2": lambda turn=turn: seconds(lambda: turn(2)),
            },
        )
        rows.append(
            Row(what=name, value=1e3 * Spread.of(found["2"]).median, unit="ms", kind="share",
                ratio=ratios(found["1"], found["2"]), of="the speed of one thread")
        )  # fmt: skip
    set_threads(None)
    return Table(
        id="megatron-threads", title="A second thread", rows=rows,
        text="Times with two threads. A machine whose other core is taken gains nothing.",
    )  # fmt: skip
