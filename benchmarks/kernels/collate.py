"""How near collate_rows comes to the plain widening copy of the same bytes.

The limit is NumPy: per row, one ``copyto`` from the source's own width into each
int64 output (and a fill of the mask), sources read in file order, no documents.
The kernel takes the same outputs from documents in shuffled order. Both write
through a ring of batches, in alternating turns, so that only their ratio counts.
It can exceed 1: NumPy reads the source again for every output, the kernel once.

    python benchmarks/kernels/collate.py [--tokens 40000000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native.collate import collate_rows

ROWS, ROW_LENGTH, RING = 8, 4097, 4
WIDTH = ROW_LENGTH - 1
MEAN_DOCUMENT = 800
VOCABULARY = 50_000
OUTPUT_SETS = {
    "input_ids": ("input_ids",),
    "input_ids + labels": ("input_ids", "labels"),
    "all": ("input_ids", "labels", "positions", "document_ids", "padding_mask"),
}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The segment table of one batch of full rows."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    row_splits: NDArray[np.int64]
    buffer: NDArray[np.int32]


def wrapped_batches(tokens: int, rng: np.random.Generator) -> list[Batch]:
    """Documents of about log-normal length, shuffled, wrapped into rows."""
    lengths = np.maximum(1, rng.lognormal(np.log(MEAN_DOCUMENT) - 0.5, 1.0, tokens // 400))
    ends = np.cumsum(lengths.astype(np.int64))
    ends = ends[ends <= tokens]
    starts = np.concatenate(([0], ends[:-1]))
    order = rng.permutation(len(ends))
    stream = np.cumsum((ends - starts)[order])  # where each shuffled document ends
    batches = []
    for first in range(0, int(stream[-1]) - ROWS * ROW_LENGTH, ROWS * ROW_LENGTH):
        borders = first + ROW_LENGTH * np.arange(ROWS + 1)
        inside = stream[(stream > first) & (stream < borders[-1])]
        cuts = np.unique(np.concatenate((borders, inside)))
        which = np.searchsorted(stream, cuts[:-1], side="right")
        document = order[which]
        batches.append(
            Batch(
                start=ends[document] - (stream[which] - cuts[:-1]),
                length=np.diff(cuts),
                row_splits=np.searchsorted(cuts, borders).astype(np.int64),
                buffer=np.zeros(len(cuts) - 1, np.int32),
            )
        )
    return batches


def kernel_turn(source: NDArray[Any], batches: list[Batch], ring: list[dict[str, Any]]) -> None:
    for i, batch in enumerate(batches):
        outside = collate_rows(
            [source],
            batch.buffer,
            batch.start,
            batch.length,
            batch.row_splits,
            row_length=ROW_LENGTH,
            shift=True,
            pad_id=0,
            ignore_index=-100,
            vocab_size=VOCABULARY,
            **ring[i % RING],
        )
        assert outside is None


def limit_turn(source: NDArray[Any], batches: list[Batch], ring: list[dict[str, Any]]) -> None:
    at = 0
    for i in range(len(batches)):
        outputs = ring[i % RING]
        for row in range(ROWS):
            for out in outputs.values():
                if out.dtype == np.int64:
                    np.copyto(out[row], source[at : at + WIDTH])
                else:
                    out[row].fill(0)
            at += ROW_LENGTH


def seconds(turn: Callable[..., None], *args: Any) -> float:
    begin = time.perf_counter()
    turn(*args)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=40_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    batches = wrapped_batches(args.tokens, rng)
    count = len(batches) * ROWS * WIDTH
    print(f"{len(batches)} batches of [{ROWS}, {WIDTH}], ring of {RING}; Mtok/s and their ratio")
    for dtype in (np.uint16, np.int32):
        source = rng.integers(0, VOCABULARY, args.tokens, dtype=dtype)
        for label, names in OUTPUT_SETS.items():
            ring: list[dict[str, Any]] = [
                {
                    n: np.zeros((ROWS, WIDTH), bool if n == "padding_mask" else np.int64)
                    for n in names
                }
                for _ in range(RING)
            ]
            pairs = []
            for turn in range(args.repeats + 1):  # the first turn only warms up
                limit = seconds(limit_turn, source, batches, ring)
                kernel = seconds(kernel_turn, source, batches, ring)
                if turn > 0:
                    pairs.append((limit, kernel))
            limit, kernel = (median(side) for side in zip(*pairs, strict=True))
            ratio = median(a / b for a, b in pairs)
            print(
                f"{np.dtype(dtype).name:7} {label:20} kernel {count / kernel / 1e6:6.0f}"
                f"  limit {count / limit / 1e6:6.0f}  ratio {ratio:.2f}"
            )


if __name__ == "__main__":
    main()
