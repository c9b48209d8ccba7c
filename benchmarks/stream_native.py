"""What the native path of a token stream reaches, beside a C loop that writes the same bytes.

Documents of lognormal length (mean 800 tokens, 16 bits) in two ``.bin/.idx`` pairs drawn 0.7
to 0.3, rows of 4,097, batches of 8, full batches (ids, labels, positions, document ids,
padding mask). The limit is compiled C: one sequential source, widened, nothing to decide.
Measures take turns within one run, in time of the processor, and ratios are medians.

    python benchmarks/stream_native.py [--documents 60000] [--turns 7] [--json]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import zephon
from zephon._native import packing
from zephon.cursor import DocumentCursor, LaneCursor
from zephon.loader import convert_text_batch
from zephon.megatron.builder import IndexedDatasetBuilder
from zephon.rows import Rows
from zephon.runtime.position import Position
from zephon.types import TensorPool
from zephon.work.lanes import PlannedLane
from zephon.work.plan import endless_plan
from zephon.work.source_order import SourceOrder, SourceUnits

ROW, BATCH, VOCABULARY, RING = 4097, 8, 50_000, 4
SHAPE = (BATCH, ROW - 1)
TOKENS = BATCH * (ROW - 1)
FULL = ("input_ids", "labels", "positions", "document_ids", "padding_mask")

LIMIT = """
#include <stdint.h>
#define OUT int64_t* restrict
static void two(const TOKEN* restrict s, int64_t n, OUT ids, OUT labels) {
  for (int64_t i = 0; i < n; ++i) { ids[i] = s[i]; labels[i] = s[i + 1]; }
}
static void all(const TOKEN* restrict s, int64_t n, OUT ids, OUT labels, OUT pos, OUT doc,
                uint8_t* restrict mask) {
  for (int64_t i = 0; i < n; ++i) {
    ids[i] = s[i]; labels[i] = s[i + 1]; pos[i] = i; doc[i] = 1;
  }
  for (int64_t i = 0; i < n; ++i) mask[i] = 0;
}
void limit(const TOKEN* s, int64_t rows, int64_t w, OUT ids, OUT labels, OUT pos, OUT doc,
           uint8_t* mask) {
  for (int64_t at = 0; at < rows * w; at += w) {
    if (pos) all(s + at, w, ids + at, labels + at, pos + at, doc + at, mask + at);
    else two(s + at, w, ids + at, labels + at);
  }
}
"""


def compile_limit(folder: Path, kind: str) -> Any:
    """The C loop for tokens of a type; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, library = folder / f"{kind}.c", folder / f"{kind}.so"
    source.write_text(LIMIT.replace("TOKEN", f"{kind}_t"))
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", source, "-o", library], check=True)
    call = ctypes.CDLL(str(library)).limit
    call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 5]
    return call


def ring(names: tuple[str, ...]) -> list[dict[str, np.ndarray]]:
    def kind(name: str) -> type:
        return np.bool_ if name == "padding_mask" else np.int64

    return [{name: np.zeros(SHAPE, kind(name)) for name in names} for _ in range(RING)]


def write_corpus(prefix: Path, documents: int, seed: int, kind: type) -> zephon.Dataset:
    rng = np.random.default_rng(seed)
    lengths = np.maximum(1, rng.lognormal(np.log(485), 1.0, documents)).astype(int)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=kind)
    for length in lengths.tolist():
        builder.add_document(rng.integers(1, VOCABULARY, length, dtype=kind), [length])
    builder.finalize(f"{prefix}.idx")
    return zephon.Dataset.from_path(prefix.name[0], prefix)


def make(datasets: list[zephon.Dataset], lanes: int = 1, **pack: Any) -> zephon.Pipeline:
    work = zephon.StaticMixtureWorkSource(
        datasets, {"a": 0.7, "b": 0.3}, shuffle_block_size="auto", exhausted_policy="repeat"
    )
    stream = zephon.Pipeline(work).pack_flat(ROW, **pack).batch(BATCH)
    return stream.options(canonical_replicas=lanes, vocab_size=VOCABULARY)


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Of the processor: waiting for it is not counted, so that neighbours disturb less."""
    began = time.process_time()
    call()
    return (time.process_time() - began) / times


def turns(count: int, measures: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each measure ``count`` times, in turn, after one turn that warms up."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for turn in range(count + 1):
        for name, measure in measures.items():
            value = measure()
            if turn:
                found[name].append(value)
    return found


def ratio(base: list[float], other: list[float]) -> float:
    return round(median(a / b for a, b in zip(base, other, strict=True)), 3)


def stream_seconds(stream: zephon.Pipeline, batches: int, pool: TensorPool | None = None) -> float:
    """Per batch, as tensors."""
    iterator = iter(stream)
    for batch in islice(iterator, 2 * stream._said.options.lanes):
        convert_text_batch(batch, pool=pool)

    def run() -> None:
        for batch in islice(iterator, batches):
            convert_text_batch(batch, pool=pool)

    found = seconds(run, batches)
    stream.close()
    return found


def c_limit(call: Any, tokens: np.ndarray, names: tuple[str, ...], batches: int) -> float:
    outputs = ring(names)

    def run() -> None:
        for i in range(batches):
            part = tokens[i % 50 * TOKENS :]
            at = [outputs[i % RING][n].ctypes.data if n in names else None for n in FULL]
            call(part.ctypes.data, BATCH, ROW - 1, *at)

    return seconds(run, batches)


def kernel_seconds(batches: list[Rows], names: tuple[str, ...]) -> float:
    outputs = ring(names)

    def run() -> None:
        for i, rows in enumerate(batches):
            assert rows.collate(shift=True, ignore_index=-100, **outputs[i % RING]) is None

    return seconds(run, len(batches))


def whole_stream(datasets: list[zephon.Dataset], call: Any, repeats: int) -> dict[str, float]:
    tokens = datasets[0].token_places()[0].tokens  # type: ignore[index]
    pool = TensorPool()
    found = turns(
        repeats,
        {
            "limit": lambda: c_limit(call, tokens, FULL, 150),
            "wrap": lambda: stream_seconds(make(datasets), 150),
            "wrap, pool": lambda: stream_seconds(make(datasets), 150, pool),
            "best_fit": lambda: stream_seconds(make(datasets, algorithm="best_fit"), 150),
            "best_fit_wrap": lambda: stream_seconds(make(datasets, algorithm="best_fit_wrap"), 150),
        },
    )
    return {name: ratio(found["limit"], value) for name, value in found.items() if name != "limit"}


def kernel(datasets: list[zephon.Dataset], call: Any, repeats: int) -> dict[str, float]:
    tokens = datasets[0].token_places()[0].tokens  # type: ignore[index]
    stream = make(datasets)
    batches = [batch.rows() for batch in islice(stream, 150)]
    stream.close()
    free = [rows.part(0, BATCH) for rows in batches]
    for rows in free:
        object.__setattr__(rows, "vocab_size", 0)
    two = FULL[:2]
    found = turns(
        repeats,
        {
            "limit": lambda: c_limit(call, tokens, FULL, 150),
            "full": lambda: kernel_seconds(batches, FULL),
            "limit of ids and labels": lambda: c_limit(call, tokens, two, 150),
            "ids and labels": lambda: kernel_seconds(batches, two),
        },
    )
    return {
        "full": ratio(found["limit"], found["full"]),
        "ids and labels": ratio(found["limit of ids and labels"], found["ids and labels"]),
    }


def packing_share(datasets: list[zephon.Dataset], repeats: int) -> dict[str, Any]:
    """best_fit_wrap's window beside the kernel for as many rows, and best_fit's padding."""
    lengths = datasets[0].token_lengths()
    assert lengths is not None
    ends = np.cumsum(lengths)
    window = lengths[: int(np.searchsorted(ends, 64 * ROW))].copy()
    total = int(window.sum())
    room, most = packing.best_fit_wrap_room(total, len(window), row_length=ROW)
    out = {n: np.empty(room, np.int64) for n in ("document", "offset", "seg_length")}
    out["splits"] = np.empty(most + 1, np.int64)
    stream = make(datasets)
    batches = [batch.rows() for batch in islice(stream, 64 // BATCH * 10)]
    stream.close()

    def pack() -> float:
        run = [lambda: packing.pack_best_fit_wrap(window, row_length=ROW, **out)] * 20
        return seconds(lambda: [one() for one in run], 20)

    found = turns(
        repeats, {"pack": pack, "kernel": lambda: kernel_seconds(batches, FULL) * 64 / BATCH}
    )
    padding = {}
    fitting = lengths[lengths <= ROW]
    for documents in (256, 512, 1024, 2048):
        rows = 0
        for first in range(0, len(fitting) // documents * documents, documents):
            part = np.ascontiguousarray(fitting[first : first + documents])
            rows += packing.pack_decreasing(
                part,
                row_length=ROW,
                best_fit=True,
                document=np.empty(documents, np.int64),
                splits=np.empty(documents + 1, np.int64),
            )
        used = int(fitting[: len(fitting) // documents * documents].sum())
        padding[str(documents)] = round(1 - used / (rows * ROW), 5)
    return {"best_fit_wrap": ratio(found["pack"], found["kernel"]), "best_fit padding": padding}


def lanes(datasets: list[zephon.Dataset], repeats: int) -> dict[str, Any]:
    counts = (1, 8, 64, 512)

    def first(count: int, draw: int = 0) -> float:
        stream = make(datasets, count)
        cursors = (LaneCursor(DocumentCursor(draw)),) * count
        stream.position = Position(count, cursors) if draw else None
        found = seconds(lambda: convert_text_batch(next(iter(stream))))
        stream.close()
        return found

    def state(count: int) -> tuple[float, int]:
        stream = make(datasets, count)
        for _ in islice(stream, 2 * count):
            pass
        found = median(seconds(stream.local_state) for _ in range(9)), len(stream.local_state())
        stream.close()
        return found

    measures: dict[str, Callable[[], float]] = {}
    for count in counts:
        measures[f"batch {count}"] = lambda c=count: stream_seconds(make(datasets, c), 512)  # type: ignore[misc]
        measures[f"first {count}"] = lambda c=count: first(c)  # type: ignore[misc]
    measures["far"] = lambda: first(1, 10**9)
    found = turns(repeats, measures)
    states = {count: state(count) for count in counts}
    return {
        "time per batch, of 1 lane": {
            str(c): ratio(found[f"batch {c}"], found["batch 1"]) for c in counts
        },
        "first batch, of 1 lane": {
            str(c): ratio(found[f"first {c}"], found["first 1"]) for c in counts
        },
        "first batch at draw 10^9, of draw 0": ratio(found["far"], found["first 1"]),
        "local_state us": {str(c): round(1e6 * s[0]) for c, s in states.items()},
        "state bytes": {str(c): s[1] for c, s in states.items()},
    }


def draws() -> dict[str, float]:
    """A draw among 4,096 sources, and the memory for the order of 10^9 documents."""
    units = [
        SourceUnits(
            name=str(i),
            first_row=np.arange(0, 100_001, 100, dtype=np.int64),
            shuffle_units=True,
            shuffle_rows=True,
        )
        for i in range(4096)
    ]
    lane = PlannedLane(endless_plan([2**20] * 4096, 1, 16384), SourceOrder(units, 0), 0)
    lane.draws(0, 1 << 15)  # tables of a pass are made
    per_draw = seconds(
        lambda: [lane.draws(n, 1024) for n in range(1 << 16, 1 << 17, 1024)], 1 << 16
    )
    whole = SourceUnits(
        name="all",
        first_row=np.arange(0, 10**9 + 1, 5000, dtype=np.int64),
        shuffle_units=True,
        shuffle_rows=True,
    )
    order = SourceOrder([whole], 0)
    arrays = [value for value in vars(order).values() if isinstance(value, np.ndarray)]
    per_unit = sum(array.nbytes for array in arrays) / len(whole.first_row)
    return {"draw us": round(1e6 * per_draw, 3), "bytes per unit": round(per_unit, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpora = {
            kind.__name__: [
                write_corpus(folder / f"{n}-{kind.__name__}", given.documents, i, kind)
                for i, n in enumerate("ab")
            ]
            for kind in (np.uint16, np.int32)
        }
        for kind, datasets in corpora.items():
            call = compile_limit(folder, kind)
            if call is None:
                sys.exit("no C compiler found: the limit is a loop in C")
            report[f"kernel, {kind}"] = kernel(datasets, call, given.turns)
            if kind == "uint16":
                report["stream, of the C loop"] = whole_stream(datasets, call, given.turns)
                report["packing"] = packing_share(datasets, given.turns)
                report["lanes"] = lanes(datasets, max(given.turns // 2, 1))
        report["draws"] = draws()
    if given.json:
        print(json.dumps(report))
        return
    for title, values in report.items():
        print(title)
        for name, value in values.items():
            print(f"  {name}: {value}")


if __name__ == "__main__":
    main()
