"""Kernels beside plain loops that write the same bytes, in one process, in turns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import corpus
import numpy as np
from harness import (
    BATCH,
    ROW,
    TOKENS,
    VOCABULARY,
    Row,
    Settings,
    Spread,
    Table,
    alternate,
    ratios,
    seconds,
)
from numpy.typing import NDArray

sys.path.append(str(corpus.Path(__file__).parents[1] / "limit"))
from limit import RING, loop

from zephon._native import collate, order, packing
from zephon.ops.pack_options import WINDOW_DOCUMENTS, WINDOW_ROWS

WIDTH = ROW - 1
FULL = ("input_ids", "labels", "positions", "document_ids", "padding_mask")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The segment table of one batch of full rows."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    row_splits: NDArray[np.int64]
    buffer: NDArray[np.int32]


def wrapped_batches(tokens: int) -> list[Batch]:
    """Documents that lie in a file one after the other, shuffled, wrapped into rows."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(corpus.lengths(tokens // 400, 0))
    ends = ends[ends <= tokens]
    starts = np.concatenate(([0], ends[:-1]))
    chosen = rng.permutation(len(ends))
    stream = np.cumsum((ends - starts)[chosen])  # where each shuffled document ends
    batches = []
    for first in range(0, int(stream[-1]) - BATCH * ROW, BATCH * ROW):
        borders = first + ROW * np.arange(BATCH + 1)
        inside = stream[(stream > first) & (stream < borders[-1])]
        cuts = np.unique(np.concatenate((borders, inside)))
        which = np.searchsorted(stream, cuts[:-1], side="right")
        batches.append(
            Batch(
                start=ends[chosen[which]] - (stream[which] - cuts[:-1]),
                length=np.diff(cuts),
                row_splits=np.searchsorted(cuts, borders).astype(np.int64),
                buffer=np.zeros(len(cuts) - 1, np.int32),
            )
        )
    return batches


def kernel(
    source: NDArray[Any], batches: list[Batch], names: tuple[str, ...], vocabulary: int
) -> Callable[[], float]:
    """Seconds for all batches through a ring; the full batch with cumulative lengths."""
    outputs = [
        {n: np.zeros((BATCH, WIDTH), bool if n == "padding_mask" else np.int64) for n in names}
        for _ in range(RING)
    ]
    cumulative, most = np.zeros((BATCH, 256), np.int32), np.zeros(BATCH, np.int32)

    def run() -> None:
        for i, batch in enumerate(batches):
            outside = collate.collate_rows(
                [source], batch.buffer, batch.start, batch.length, batch.row_splits,
                row_length=ROW, shift=True, pad_id=0, ignore_index=-100, vocab_size=vocabulary,
                **outputs[i % RING],
            )  # fmt: skip
            assert outside is None
            if names == FULL:
                collate.row_cu_seqlens(
                    batch.length, batch.row_splits, width=WIDTH, include_padding=True,
                    fill=WIDTH, cu_seqlens=cumulative, max_seqlen=most,
                )  # fmt: skip

    return lambda: seconds(run)


AIMS = {("uint16", True): ">= 0.75", ("int32", True): ">= 0.70", ("uint16", False): ">= 0.60",
        ("int32", False): ">= 0.60"}  # fmt: skip


def measure(settings: Settings) -> list[Table]:
    size = settings.sized(40_000_000, 2_000_000)
    batches = wrapped_batches(size)
    rng = np.random.default_rng(1)
    rows = []
    for dtype in (np.uint16, np.int32):
        source = rng.integers(0, VOCABULARY, size, dtype=dtype)
        name = np.dtype(dtype).name
        measures: dict[str, Callable[[], float]] = {}
        for full in (True, False):
            plain = loop(settings.work, source, BATCH, WIDTH, full=full)
            names = FULL if full else FULL[:2]
            measures[f"loop {full}"] = lambda plain=plain: plain(len(batches))
            measures[f"kernel {full}"] = kernel(source, batches, names, VOCABULARY)
        measures["unchecked"] = kernel(source, batches, FULL, 0)
        found = alternate(settings.turns, measures)
        for full in (True, False):
            what = "full batch" if full else "ids and labels alone"
            mtok = TOKENS * len(batches) / 1e6
            limit, ours = found[f"loop {full}"], found[f"kernel {full}"]
            rows.append(
                Row(what=f"plain C loop, {name}, {what}", value=mtok / Spread.of(limit).median,
                    unit="Mtok/s", kind="limit")
            )  # fmt: skip
            rows.append(
                Row(what=f"kernel, {name}, {what}", value=mtok / Spread.of(ours).median,
                    unit="Mtok/s", kind="share", ratio=ratios(limit, ours), of="that loop",
                    aim=AIMS[name, full])
            )  # fmt: skip
        rows.append(
            Row(what=f"full batch, {name}, with the vocabulary check", kind="cost", aim="<= 1.10",
                ratio=ratios(found["kernel True"], found["unchecked"]), of="without it")
        )  # fmt: skip
    table = Table(
        id="kernels",
        title="The kernel beside a plain loop",
        text=(
            "The loop reads a file in order and writes the bytes of a batch with nothing to "
            "decide, compiled with -O3. The kernel writes the same arrays from shuffled "
            "documents, checks each id against the vocabulary and derives positions, document "
            "ids and cumulative lengths from the segment table. Both write through a ring of "
            "four batches, called from Python once a batch, without allocations."
        ),
        rows=rows,
    )
    return [table, windows(settings, batches), draws(settings)]


def windows(settings: Settings, batches: list[Batch]) -> Table:
    """Packing windows: their time beside the kernel's, and what they leave as padding."""
    length = corpus.lengths(settings.sized(60_000, 4000), 3)
    per_window = WINDOW_ROWS * ROW
    ends = np.searchsorted(np.cumsum(length), np.arange(1, 200) * per_window)
    cuts = [length[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True) if b - a > 1]
    outputs = [np.zeros(4 * len(length), np.int64) for _ in range(4)]

    def best_fit_wrap() -> None:
        for window in cuts:
            packing.pack_best_fit_wrap(
                window, row_length=ROW, document=outputs[0], offset=outputs[1],
                seg_length=outputs[2], splits=outputs[3],
            )  # fmt: skip

    packed = sum(int(window.sum()) for window in cuts)
    source = np.zeros(settings.sized(40_000_000, 2_000_000), np.uint16)
    some = batches[: max(1, packed // TOKENS)]
    run = kernel(source, some, FULL, VOCABULARY)
    found = alternate(settings.turns, {"pack": lambda: seconds(best_fit_wrap), "kernel": run})
    scale = len(some) * TOKENS / packed
    per_token = [value * scale for value in found["pack"]]
    short = np.minimum(length, ROW)
    rows_made, tokens = 0, 0
    for at in range(0, len(short), WINDOW_DOCUMENTS):
        window = short[at : at + WINDOW_DOCUMENTS]
        rows_made += packing.pack_decreasing(
            window, row_length=ROW, best_fit=True, document=outputs[0], splits=outputs[1]
        )
        tokens += int(window.sum())
    padding = 1 - tokens / (rows_made * ROW)
    spread = Spread.of([padding])
    documents = sum(len(w) for w in cuts)
    return Table(
        id="windows",
        title="Packing windows",
        text=f"best_fit_wrap over {WINDOW_ROWS} rows, best_fit over {WINDOW_DOCUMENTS} documents.",
        rows=[
            Row(what="best_fit_wrap, per document",
                value=1e9 * Spread.of(found["pack"]).median / documents, unit="ns",
                kind="cost", aim="<= 0.05", ratio=ratios(per_token, found["kernel"]),
                of="the kernel's time for the same tokens"),
            Row(what="best_fit, share of padding at the default window", kind="cost",
                ratio=spread, of="all tokens of its rows"),
        ],
    )  # fmt: skip


def draws(settings: Settings) -> Table:
    """What a draw of the mixture costs."""
    rows = []
    base: list[float] = []
    for sources in (2, 64, 4096):
        weights = np.random.default_rng(0).integers(500, 1000, sources).astype(np.int64)
        total = int(weights.sum())
        length = max(16384, -(-total // int(weights.min())))
        given, taken, first = (np.zeros(sources, np.int64) for _ in range(3))
        scratch = np.zeros(order.sequence_scratch(sources, length), np.uint64)
        out = np.zeros(length, np.uint16)

        def run(w: Any = weights, p: int = total, n: int = length, o: Any = (given, taken, first),
                s: Any = scratch, q: Any = out) -> None:  # fmt: skip
            order.chunk_counts(w, p, 0, 1, 0, n, *o)
            order.chunk_sequence(w, p, 0, o[0], o[1], s, q)

        values = alternate(settings.turns, {"draw": lambda run=run: seconds(run)})["draw"]
        each = [1e9 * value / length for value in values]
        base = base or each
        rows.append(
            Row(what=f"a draw at {sources:,} sources", value=Spread.of(each).median, unit="ns",
                kind="cost", ratio=ratios(each, base), of="a draw at 2 sources")
        )  # fmt: skip
    return Table(
        id="draws", title="Drawing from a mixture",
        text="One chunk of one lane, divided by its draws.", rows=rows,
    )  # fmt: skip
