"""Our index helpers beside those of the registry's megatron-core, in one process.

For each case both run in alternating turns on the same input, with one thread. The
first turn is not counted: it warms up, compares the outputs and measures how much
memory each takes beyond its input and the outputs that are handed to it.
"""

from __future__ import annotations

import ctypes
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from harness import Row, Settings, Spread, Table
from numpy.typing import NDArray

from zephon._native.mersenne import NumpyShuffle
from zephon.megatron import compile_helper, set_threads

SEED = 1234
AIMS = {
    ("sample index", "1 epoch(s), length 4096"): ">= 2.5",
    ("sample index", "1 epoch(s), length 8192"): ">= 1.9",
    ("blending", "D = 8, lognormal"): ">= 4",
    ("blending", "D = 64, lognormal"): ">= 4",
    ("blending", "D = 4096"): ">= 20",
    ("exhaustive blending", "D = 512"): ">= 15",
    ("build_mapping", ""): ">= 1.7",
}

Outputs = tuple[NDArray[Any], ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One line of the report.

    ``ours`` and ``theirs`` return what they have made, to be compared.
    """

    function: str
    name: str
    ours: Callable[[], Outputs]
    theirs: Callable[[], Outputs]


@dataclass(frozen=True, kw_only=True)
class Measured:
    ours: float  # seconds
    theirs: float
    ratios: list[float]
    memory: tuple[float, float]  # MB of ours and theirs


def sample_index(ours: Any, theirs: Any, scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(SEED)
    count = max(1000, int(10_000_000 * scale))
    # Lengths of web text: lognormal with a mean of about 1,000 tokens.
    sizes = np.maximum(1, rng.lognormal(np.log(606), 1.0, count)).astype(np.int32)
    per_epoch = int(sizes.sum(dtype=np.int64))
    for epochs in (1, 3):
        order = rng.permutation(np.tile(np.arange(count, dtype=np.int32), epochs))
        for length in (2048, 4096, 8192):
            arguments = (sizes, order, length, epochs, per_epoch, True, 1)
            yield Case(
                function="sample index",
                name=f"{count:,} shuffled documents, {epochs} epoch(s), length {length}",
                ours=lambda a=arguments: (ours.build_sample_idx_int32(*a),),
                theirs=lambda a=arguments: (theirs.build_sample_idx_int32(*a),),
            )


def outputs(size: int) -> Outputs:
    """Arrays for a blend, with their memory already there."""
    return np.full(size, -1, np.int16), np.full(size, -1, np.int64)


def blending(ours: Any, theirs: Any, scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(SEED)
    for count, size, kind in (
        (2, 20_000_000, "lognormal"),
        (8, 20_000_000, "lognormal"),
        (16, 10_000_000, "lognormal"),
        (64, 5_000_000, "lognormal"),
        (64, 5_000_000, "equal"),
        (512, 1_000_000, "lognormal"),
        (512, 1_000_000, "zipf"),
        (4096, 200_000, "lognormal"),
    ):
        size = max(1000, int(size * scale))
        weights = {
            "lognormal": rng.lognormal(0, 1, count),
            "zipf": 1 / np.arange(1.0, count + 1),
            "equal": np.ones(count),
        }[kind]
        weights /= weights.sum()

        def run(module: Any, out: Outputs, weights: Any = weights, size: int = size) -> Outputs:
            module.build_blending_indices(*out, weights, len(weights), size, False)
            return out

        mine, other = outputs(size), outputs(size)
        yield Case(
            function="blending",
            name=f"D = {count}, {kind} weights, {size:,} samples",
            ours=lambda run=run, out=mine: run(ours, out),
            theirs=lambda run=run, out=other: run(theirs, out),
        )


def exhaustive(ours: Any, theirs: Any, scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(SEED)
    for count, total in ((8, 10_000_000), (64, 2_000_000), (512, 400_000)):
        shares = rng.lognormal(0, 1, count)
        sizes = np.maximum(1, shares / shares.sum() * total * scale).astype(np.int64)

        def run(module: Any, out: Outputs, sizes: Any = sizes) -> Outputs:
            module.build_exhaustive_blending_indices(*out, sizes, len(sizes))
            return out

        mine, other = outputs(int(sizes.sum())), outputs(int(sizes.sum()))
        yield Case(
            function="exhaustive blending",
            name=f"D = {count}, {sizes.sum():,} samples",
            ours=lambda run=run, out=mine: run(ours, out),
            theirs=lambda run=run, out=other: run(theirs, out),
        )


def mapping(ours: Any, theirs: Any, scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(SEED)
    documents = max(1000, int(1_000_000 * scale))
    docs = np.concatenate(([0], np.cumsum(rng.integers(1, 40, documents)))).astype(np.int64)
    sizes = np.maximum(1, rng.lognormal(np.log(22), 0.6, docs[-1])).astype(np.int32)
    titles = rng.integers(1, 20, documents, dtype=np.int32)
    for epochs in (1, 4):
        arguments = (docs, sizes, epochs, 2**62, 512, 0.1, SEED, False, 2)
        yield Case(
            function="build_mapping",
            name=f"{docs[-1]:,} sentences, {epochs} epoch(s)",
            ours=lambda a=arguments: (ours.build_mapping(*a),),
            theirs=lambda a=arguments: (theirs.build_mapping(*a),),
        )
    blocks = (docs, sizes, titles, 1, 2**62, 512, SEED, False, False)
    yield Case(
        function="build_blocks_mapping",
        name=f"{docs[-1]:,} sentences, 1 epoch(s)",
        ours=lambda: (ours.build_blocks_mapping(*blocks),),
        theirs=lambda: (theirs.build_blocks_mapping(*blocks),),
    )


def orders(ours: Any, theirs: Any, scale: float) -> Iterator[Case]:
    """The two permutations, which the reference makes in Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from megatron.core.datasets import gpt_dataset as reference

    count = max(1000, int(10_000_000 * scale))
    for epochs in (1, 3):
        ids = np.arange(count, dtype=np.int32)
        samples = epochs * count // 4

        def our_orders(ids: Any = ids, epochs: int = epochs, samples: int = samples) -> Outputs:
            shuffle = NumpyShuffle(SEED)
            documents, order = np.tile(ids, epochs), np.arange(samples, dtype=np.uint32)
            shuffle.shuffle(documents)
            shuffle.shuffle(order)
            return documents, order

        def their_orders(ids: Any = ids, epochs: int = epochs, samples: int = samples) -> Outputs:
            state = np.random.RandomState(SEED)
            documents = reference._build_document_index(ids, epochs, state, False)
            return documents, reference._build_shuffle_index(samples, samples, state)

        yield Case(
            function="document and shuffle index",
            name=f"{count:,} documents, {epochs} epoch(s), {samples:,} samples",
            ours=our_orders,
            theirs=their_orders,
        )


GROUPS = {
    "sample-index": sample_index,
    "blending": blending,
    "exhaustive": exhaustive,
    "mapping": mapping,
    "orders": orders,
}


def peak_memory(function: Callable[[], Outputs]) -> tuple[float, Outputs]:
    """MB that a call takes at most beyond what is there before it, and its result."""
    status = Path("/proc/self/status")

    def read(field: str) -> int:
        (line,) = (row for row in status.read_text().splitlines() if row.startswith(field))
        return int(line.split()[1])

    ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not there to be used again
    Path("/proc/self/clear_refs").write_text("5")  # the high water mark starts anew
    before = read("VmRSS:")
    result = function()
    return (read("VmHWM:") - before) / 1024, result


def measure(case: Case, repeats: int) -> Measured:
    ours_memory, mine = peak_memory(case.ours)
    theirs_memory, other = peak_memory(case.theirs)
    for a, b in zip(mine, other, strict=True):
        if a.dtype != b.dtype or not np.array_equal(a, b):
            sys.exit(f"{case.function}, {case.name}: the outputs differ")
    del mine, other
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(repeats):
        sides = [("ours", case.ours), ("theirs", case.theirs)]
        for side, function in sides if turn % 2 else reversed(sides):
            begin = time.perf_counter()
            result = function()
            times[side].append(time.perf_counter() - begin)
            del result
    return Measured(
        ours=median(times["ours"]),
        theirs=median(times["theirs"]),
        ratios=sorted(b / a for a, b in zip(times["ours"], times["theirs"], strict=True)),
        memory=(ours_memory, theirs_memory),
    )


def load_helpers(folder: Path) -> Any:
    found = list(folder.glob("megatron/core/datasets/helpers_cpp*.so"))
    if len(found) != 1:
        sys.exit(f"{folder} holds {len(found)} compiled helpers_cpp of megatron-core, expected one")
    (path,) = found
    spec = spec_from_loader("helpers_cpp", ExtensionFileLoader("helpers_cpp", str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(settings: Settings, folder: Path) -> Table:
    """``folder`` is the site-packages that megatron-core is installed in."""
    sys.path.append(str(folder))
    set_threads(1)  # as the reference
    ours, theirs = compile_helper(), load_helpers(folder)
    scale = settings.sized(1000, 4) / 1000
    rows = []
    for case in (case for group in GROUPS.values() for case in group(ours, theirs, scale)):
        told = measure(case, settings.turns)
        rows.append(
            Row(
                what=f"{case.function}: {case.name}", value=1e3 * told.ours, unit="ms",
                kind="peer", ratio=Spread.of(told.ratios), of="zephon's speed over megatron-core's",
                aim=next(
                    (aim for (f, part), aim in AIMS.items()
                     if f == case.function and part in case.name), ""),
                note=f"{told.memory[0]:.0f} MB at most, theirs {told.memory[1]:.0f}",
            )
        )  # fmt: skip
        print(rows[-1].what, file=sys.stderr, flush=True)
    set_threads(None)
    return Table(
        id="megatron-helpers", title="Megatron's helpers, one thread each",
        text="The values are zephon's times. Outputs are compared before anything is timed.",
        rows=rows,
    )  # fmt: skip
