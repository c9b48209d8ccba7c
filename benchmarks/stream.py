"""A stream of token documents beside the memory's limit, and what lanes and positions cost.

Lognormal documents (mean 800 tokens, 16 bits) of two sources, 0.7 to 0.3, rows of
4,097, batches of 8, one process, one thread of work; full batches (ids, labels,
positions, document ids and padding mask as int64 and bool). The limit writes the
same bytes into four batches in turn from one sequential source, widening included,
without documents: what a loop with nothing to decide can do.

    python benchmarks/stream.py [--documents 60000] [--turns 7] [--write docs/performance.md]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

import zephon
from zephon import state as state_format
from zephon.cursor import DocumentCursor, LaneCursor
from zephon.loader import convert_text_batch
from zephon.megatron.builder import IndexedDatasetBuilder
from zephon.runtime.position import Position

sys.path.insert(0, str(Path(__file__).parent))  # not there with python -P
from report import machine, write_section

BEGIN, END = "<!-- stream: written by the benchmark -->", "<!-- stream: end -->"
ROW, BATCH, VOCABULARY = 4097, 8, 50_000
TOKENS = BATCH * (ROW - 1)


def write_corpus(prefix: Path, documents: int, seed: int) -> zephon.Dataset:
    rng = np.random.default_rng(seed)
    lengths = np.maximum(1, rng.lognormal(np.log(485), 1.0, documents)).astype(int)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for length in lengths.tolist():
        builder.add_document(rng.integers(1, VOCABULARY, length, dtype=np.uint16), [length])
    builder.finalize(f"{prefix}.idx")
    return zephon.Dataset.from_path(prefix.name, prefix)


def make(
    datasets: list[zephon.Dataset], *, lanes: int = 1, algorithm: str = "wrap", ahead: int = 0
) -> zephon.Pipeline:
    work = zephon.StaticMixtureWorkSource(
        datasets, {"a": 0.7, "b": 0.3}, shuffle_block_size="auto", exhausted_policy="repeat"
    )
    stream = zephon.Pipeline(work).pack_flat(ROW, algorithm=algorithm).batch(BATCH)
    return stream.prefetch(ahead).options(canonical_replicas=lanes, vocab_size=VOCABULARY)


def limit(tokens: np.ndarray, batches: int) -> float:
    """Seconds per batch for the same bytes without documents."""
    shape = (BATCH, ROW - 1)
    ring = [
        ([np.empty(shape, np.int64) for _ in range(4)], np.empty(shape, np.bool_)) for _ in range(4)
    ]
    counting = np.arange(ROW - 1, dtype=np.int64)
    began = time.perf_counter()
    for i in range(batches):
        (ids, labels, positions, documents), mask = ring[i % 4]
        part = tokens[i % 50 * TOKENS : i % 50 * TOKENS + TOKENS + 1]
        np.copyto(ids, part[:-1].reshape(shape))
        np.copyto(labels, part[1:].reshape(shape))
        np.copyto(positions, counting)
        documents.fill(1)
        mask.fill(False)
    return (time.perf_counter() - began) / batches


def whole(stream: zephon.Pipeline, batches: int) -> float:
    """Seconds per batch from Python, fresh tensors included."""
    iterator = iter(stream)
    for batch in islice(iterator, 2 * stream._said.options.lanes):
        convert_text_batch(batch)
    began = time.perf_counter()
    for batch in islice(iterator, batches):
        convert_text_batch(batch)
    seconds = (time.perf_counter() - began) / batches
    stream.close()
    return seconds


def first_batch(stream: zephon.Pipeline) -> float:
    began = time.perf_counter()
    convert_text_batch(next(iter(stream)))
    seconds = time.perf_counter() - began
    stream.close()
    return seconds


def far(stream: zephon.Pipeline, draw: int) -> zephon.Pipeline:
    """The stream with every lane at ``draw``."""
    lanes = stream._said.options.lanes
    stream.position = Position(lanes, (LaneCursor(DocumentCursor(draw)),) * lanes)
    return stream


def turns(count: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Each measure ``count`` times, in turn."""
    return [list(row) for row in zip(*[[m() for m in measures] for _ in range(count)], strict=True)]


def spread(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}, {max(values):.2f})"


def report(datasets: list[zephon.Dataset], repeats: int) -> list[str]:
    tokens = datasets[0].read(np.zeros(1, np.int64)).buffers[0]  # type: ignore[union-attr]
    cases = {
        "wrap": make(datasets),
        "best_fit": make(datasets, algorithm="best_fit"),
        "best_fit_wrap": make(datasets, algorithm="best_fit_wrap"),
        "wrap, packed ahead in a thread": make(datasets, ahead=1024),
    }
    found = turns(
        repeats,
        lambda: limit(tokens, 150),
        *(lambda stream=stream: whole(stream, 150) for stream in cases.values()),
    )
    lines = [
        "| stream | Mtok/s | of the limit in the same turn: median (least, most) |",
        "|---|---|---|",
    ]
    lines.append(f"| limit | {TOKENS / median(found[0]) / 1e6:.0f} | |")
    for name, seconds in zip(cases, found[1:], strict=True):
        ratios = [one / other for one, other in zip(found[0], seconds, strict=True)]
        lines.append(f"| {name} | {TOKENS / median(seconds) / 1e6:.0f} | {spread(ratios)} |")
    lines += [
        "",
        "| lanes | first batch ms | time per batch, of that at 1 lane | state bytes | state µs |",
    ]
    lines.append("|---|---|---|---|---|")
    base = median(whole(make(datasets), 256) for _ in range(3))
    for lanes in (1, 8, 64, 512):
        stream = make(datasets, lanes=lanes)
        first = median(first_batch(make(datasets, lanes=lanes)) for _ in range(3))
        ratio = whole(stream, 512) / base
        began = time.perf_counter()
        for _ in range(20):
            state = stream.local_state()
        micro = (time.perf_counter() - began) / 20 * 1e6
        state_format.decode(state)
        lines.append(
            f"| {lanes} | {1e3 * first:.1f} | {ratio:.2f} | {len(state):,} | {micro:.0f} |"
        )
    near, there = turns(
        repeats,
        lambda: first_batch(make(datasets)),
        lambda: first_batch(far(make(datasets), 10**9)),
    )
    ratio = [b / a for a, b in zip(near, there, strict=True)]
    lines += ["", f"First batch at draw 10^9 beside draw 0: {spread(ratio)} times as long."]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        datasets = [write_corpus(Path(folder, n), given.documents, i) for i, n in enumerate("ab")]
        lines = report(datasets, given.turns)
    command = f"python benchmarks/stream.py --documents {given.documents} --turns {given.turns}"
    text = "\n".join(["## A stream of tokens", "", machine("", given.turns, command), "", *lines])
    print(text)
    if given.write:
        write_section(given.write, text, BEGIN, END)


if __name__ == "__main__":
    main()
