"""The whole stream from Python: lanes, far positions, and 10^9 documents."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import corpus
from harness import BATCH, ROW, TOKENS, VOCABULARY, Row, Settings, Spread, Table, alternate, ratios

import zephon
from zephon.cursor import DocumentCursor, LaneCursor
from zephon.loader import convert_text_batch
from zephon.runtime.position import Position

LANES = (1, 8, 64, 512)


def datasets(folder: Path) -> list[zephon.Dataset]:
    return [zephon.Dataset.from_path(name, folder / name) for name in corpus.NAMES]


def make(
    sources: list[zephon.Dataset], *, lanes: int = 1, algorithm: str = "wrap", ahead: int = 0,
    row: int = ROW, shares: dict[str, float] | None = None,
) -> zephon.Pipeline:  # fmt: skip
    work = zephon.StaticMixtureWorkSource(
        sources,
        shares or corpus.SHARES,
        shuffle_block_size="auto",
        exhausted_policy="repeat",
    )
    stream = zephon.Pipeline(work).pack_flat(row, algorithm=algorithm).batch(BATCH)
    return stream.prefetch(ahead).options(canonical_replicas=lanes, vocab_size=VOCABULARY)


def per_batch(stream: zephon.Pipeline, batches: int, before: int = 2) -> float:
    """Seconds per batch as tensors, behind ``before`` batches that do not count."""
    iterator = iter(stream)
    for batch in islice(iterator, before):
        convert_text_batch(batch)
    began = time.perf_counter()
    for batch in islice(iterator, batches):
        convert_text_batch(batch)
    taken = (time.perf_counter() - began) / batches
    stream.close()
    return taken


def first_batch(stream: zephon.Pipeline) -> float:
    began = time.perf_counter()
    convert_text_batch(next(iter(stream)))
    taken = time.perf_counter() - began
    stream.close()
    return taken


def far(stream: zephon.Pipeline, draw: int, lanes: int = 1) -> zephon.Pipeline:
    """The stream with every lane at ``draw``."""
    stream.position = Position(lanes, (LaneCursor(DocumentCursor(draw)),) * lanes)
    return stream


def state_seconds(stream: zephon.Pipeline) -> float:
    began = time.perf_counter()
    for _ in range(10):
        stream.local_state()
    return (time.perf_counter() - began) / 10


def measure(settings: Settings) -> list[Table]:
    sources = datasets(corpus.tokens(settings))
    return [lanes(settings, sources), positions(settings, sources), simulated(settings)]


def lanes(settings: Settings, sources: list[zephon.Dataset]) -> Table:
    batches = settings.sized(256, 64)
    rate: dict[str, Callable[[], float]] = {}
    first: dict[str, Callable[[], float]] = {}
    state: dict[str, Callable[[], float]] = {}
    sizes = {}
    for count in LANES:
        stream = make(sources, lanes=count)
        per_batch(stream, 1)
        sizes[count] = len(stream.local_state())
        name = str(count)
        state[name] = lambda stream=stream: state_seconds(stream)
        first[name] = lambda count=count: first_batch(make(sources, lanes=count))
        rate[name] = lambda count=count: per_batch(make(sources, lanes=count), batches, 2 * count)
    rates = alternate(settings.turns, rate)
    firsts = alternate(settings.turns, first)
    states = alternate(settings.turns, state)
    rows = []
    for name in map(str, LANES):
        rows += [
            Row(what=f"{name} lanes: tokens/s", value=TOKENS / Spread.of(rates[name]).median / 1e6,
                unit="Mtok/s", kind="share", ratio=ratios(rates["1"], rates[name]),
                of="the speed with one lane"),
            Row(what=f"{name} lanes: time to the first batch",
                value=1e3 * Spread.of(firsts[name]).median, unit="ms", kind="cost",
                ratio=ratios(firsts[name], firsts["1"]), of="that with one lane"),
            Row(what=f"{name} lanes: local_state()", value=1e6 * Spread.of(states[name]).median,
                unit="µs", kind="cost", ratio=ratios(states[name], states["1"]),
                of="that with one lane", note=f"{sizes[int(name)]:,} bytes"),
        ]  # fmt: skip
    return Table(
        id="lanes", title="Lanes",
        text="chunk_size 16384 (the default), wrap, prefetch(0), batches as tensors; a pipeline "
        "made anew for each first batch, with its files open.",
        rows=rows,
    )  # fmt: skip


def positions(settings: Settings, sources: list[zephon.Dataset]) -> Table:
    found = alternate(
        settings.turns,
        {
            "near": lambda: first_batch(make(sources)),
            "far": lambda: first_batch(far(make(sources), 10**9)),
            "near, 512": lambda: first_batch(make(sources, lanes=512)),
            "far, 512": lambda: first_batch(far(make(sources, lanes=512), 10**9, 512)),
        },
    )
    rows = [
        Row(what=f"first batch at draw 10^9{where}", value=1e3 * Spread.of(found[b]).median,
            unit="ms", kind="cost", ratio=ratios(found[b], found[a]), of="that at draw 0")
        for a, b, where in (("near", "far", ""), ("near, 512", "far, 512", ", 512 lanes"))
    ]  # fmt: skip
    return Table(
        id="seek", title="Far positions",
        text="A position is computed and not reached: no document before it is read.", rows=rows,
    )  # fmt: skip


SIMULATED = """
import sys
import numpy as np
import torch
import zephon
import zephon.loader
from zephon.io.shard import Place, Shard
from zephon.block import TokenDocuments

def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

class Simulated(Shard):
    def __init__(self, documents):
        self.documents = documents
        self.buffer = np.ones(4096, np.uint16)
        self.nbytes = documents * 1600
    def __len__(self):
        return self.documents
    def read(self, rows):
        start = np.zeros(len(rows), np.int64)
        return TokenDocuments((self.buffer,), np.zeros(len(rows), np.int32), start,
                              rows % 1600 + 1)
    def check(self):
        pass
    def place(self, row):
        return Place(file="simulated", record=row)
    def digest(self):
        return b"simulated-digest"
    def token_lengths(self):
        return None

documents = int(sys.argv[1])
before = rss()
data = zephon.Dataset("a", "simulated", [Simulated(documents)])
work = zephon.StaticMixtureWorkSource([data], {"a": 1.0}, shuffle_block_size=sys.argv[2],
                                      exhausted_policy="repeat")
stream = zephon.Pipeline(work).pack_flat(4097, algorithm="wrap").batch(8).prefetch(0)
for _, batch in zip(range(20), stream, strict=False):
    batch.to_training()
print(rss() - before)
"""


def simulated(settings: Settings) -> Table:
    """Memory of the order of 10^9 documents, in a process of its own."""
    rows = []
    found: dict[int, list[float]] = {}
    for documents in (10**6, 10**9):
        for _ in range(settings.turns):
            ran = subprocess.run(
                [sys.executable, "-P", "-c", SIMULATED, str(documents), "global"],
                capture_output=True, text=True,
            )  # fmt: skip
            if ran.returncode:
                why = ran.stderr.splitlines()[-1][:160]
                return Table(
                    id="memory",
                    title="Memory",
                    text="",
                    rows=[Row(what="10^9 documents, simulated", note=f"not measured: {why}")],
                )
            found.setdefault(documents, []).append(float(ran.stdout))
    base = found[10**6]
    for documents, values in found.items():
        rows.append(
            Row(what=f"{documents:,} documents in global shuffle, 20 batches",
                value=Spread.of(values).median, unit="MB", kind="cost",
                ratio=ratios(values, base), of="that of 1,000,000 documents")
        )  # fmt: skip
    return Table(
        id="memory", title="Memory of an order",
        text="What the process grows by when a source of so many documents, simulated without "
        "files, is opened, mixed, shuffled and packed.",
        rows=rows,
    )  # fmt: skip
