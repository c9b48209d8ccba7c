"""How costs grow with sources, shards, documents and the length of rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from harness import BATCH, Plot, Settings, Spread, alternate, seconds

import zephon
from groups.stream import datasets, make, per_batch
from zephon.megatron import compile_helper, set_threads
from zephon.megatron.builder import IndexedDatasetBuilder

Points = list[tuple[float, float]]


def small(folder: Path, documents: int) -> Path:
    """One shard of documents of 400 tokens."""
    prefix = folder / f"small-{documents}"
    if not Path(f"{prefix}.idx").exists():
        folder.mkdir(parents=True, exist_ok=True)
        builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
        ids = np.arange(400, dtype=np.uint16)
        for _ in range(documents):
            builder.add_document(ids, [400])
        builder.finalize(f"{prefix}.idx")
    return prefix


def copies(prefix: Path, folder: Path, count: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number in range(count):
        target = folder / f"{prefix.name}-{number:04d}"
        for suffix in (".bin", ".idx"):
            if not Path(f"{target}{suffix}").exists():
                shutil.copy(f"{prefix}{suffix}", f"{target}{suffix}")
        made.append(target)
    return made


def curve(
    settings: Settings, counts: tuple[int, ...], make_call: Callable[[int], Callable[[], float]],
    scale: float,
) -> Points:  # fmt: skip
    calls = {str(count): make_call(count) for count in counts}
    found = alternate(min(3, settings.turns), calls)
    return [(float(name), scale * Spread.of(values).median) for name, values in found.items()]


def measure(settings: Settings) -> list[Plot]:
    folder = settings.work / "corpus" / "scaling"
    batches = settings.sized(60, 15)
    counts = (1, 4, 16, 64, 256) if not settings.quick else (1, 8)
    prefix = small(folder, 200)
    files = copies(prefix, folder / "copies", counts[-1])
    two = datasets(corpus.tokens(settings))

    def by_sources(count: int) -> Callable[[], float]:
        sources = [zephon.Dataset.from_path(f"s{i}", files[i]) for i in range(count)]
        shares = {f"s{i}": 1.0 for i in range(count)}
        return lambda: per_batch(make(sources, shares=shares), batches)

    def by_shards(count: int) -> Callable[[], float]:
        source = [zephon.Dataset.from_path("s", files[:count])]
        return lambda: per_batch(make(source, shares={"s": 1.0}), batches)

    def by_lanes(count: int) -> Callable[[], float]:
        return lambda: per_batch(make(two, lanes=count), max(batches, count), count)

    def by_documents(count: int) -> Callable[[], float]:
        source = [zephon.Dataset.from_path("s", small(folder, count))]
        return lambda: per_batch(make(source, shares={"s": 1.0}), batches)

    def by_row(length: int) -> Callable[[], float]:
        count = max(5, batches * 1024 // length)
        return lambda: per_batch(make(two, row=length + 1), count) / (BATCH * length)

    documents = (200, 2000, 20_000, 200_000) if not settings.quick else (200, 2000)
    rows = (256, 1024, 4096, 16384, 65536) if not settings.quick else (256, 1024)
    return [
        Plot(
            id="scaling-batch", title="Time of a batch", x="how many of them", y="µs a batch",
            series={
                "sources": curve(settings, counts, by_sources, 1e6),
                "shards of a source": curve(settings, counts, by_shards, 1e6),
                "lanes": curve(settings, counts, by_lanes, 1e6),
                "documents of a source": curve(settings, documents, by_documents, 1e6),
            },
        ),
        Plot(
            id="scaling-rows", title="Time of a token", x="tokens of a row", y="ns a token",
            series={"wrap": curve(settings, rows, by_row, 1e9)},
        ),
        indices(settings, folder),
    ]  # fmt: skip


def indices(settings: Settings, folder: Path) -> Plot:
    """Opening a source, which indexes it, and Megatron's sample index, by documents."""
    counts = (1000, 10_000, 100_000) if not settings.quick else (1000, 4000)
    helper = compile_helper()
    set_threads(1)

    def jsonl(count: int) -> Callable[[], float]:
        path = folder / f"lines-{count}.jsonl"
        if not path.exists():
            line = json.dumps({"text": "x" * 1000}) + "\n"
            path.write_text(line * count)
        return lambda: seconds(lambda: zephon.Dataset.from_path("s", path))

    def indexed(count: int) -> Callable[[], float]:
        prefix = small(folder, count)
        return lambda: seconds(lambda: zephon.Dataset.from_path("s", prefix))

    def samples(count: int) -> Callable[[], float]:
        sizes = corpus.lengths(count, 1).astype(np.int32)
        order = np.random.default_rng(0).permutation(count).astype(np.int32)
        total = int(sizes.sum())
        arguments: Any = (sizes, order, 4096, 1, total, True, 1)
        return lambda: seconds(lambda: helper.build_sample_idx_int32(*arguments))

    made = Plot(
        id="indices", title="Building indices", x="documents", y="ms",
        series={
            "JSONL, lines of 1 kB": curve(settings, counts, jsonl, 1e3),
            ".bin/.idx": curve(settings, counts, indexed, 1e3),
            "Megatron's sample index": curve(settings, counts, samples, 1e3),
        },
    )  # fmt: skip
    set_threads(None)
    return made
