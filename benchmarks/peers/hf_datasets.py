"""Hugging Face datasets: Parquet interleaved, rows concatenated and cut by ``map``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, main

ABOUT = {
    "name": "Hugging Face datasets",
    "package": "datasets",
    "variants": {"stream": "iterable datasets interleaved, concatenated and cut in map, arrow"},
    "emits": "ids (labels are views of them)",
    "blended": True,
    "shuffled": "documents in a buffer",
    "resumable": "approximately",
}


def cut(column: Any) -> dict[str, Any]:
    """Documents of a batch end to end and cut into rows; what is left over is dropped."""
    import numpy as np
    import pyarrow as pa

    values = column["input_ids"].combine_chunks().flatten()
    rows = len(values) // ROW
    flat = np.asarray(values)[: rows * ROW]
    offsets = np.arange(0, rows * ROW + 1, ROW, dtype=np.int32)
    return pa.table({"input_ids": pa.ListArray.from_arrays(offsets, pa.array(flat))})


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    import datasets

    datasets.disable_progress_bars()
    parts = [
        datasets.load_dataset(
            "parquet",
            data_files=str(corpus / "parquet" / name / "*.parquet"),
            split="train",
            streaming=True,
            cache_dir=str(cache),
        ).shuffle(seed=0, buffer_size=1000)
        for name in "ab"
    ]
    mixed = datasets.interleave_datasets(
        parts, probabilities=list(SHARES), seed=0, stopping_strategy="all_exhausted"
    )
    packed = mixed.with_format("arrow").map(cut, batched=True, batch_size=1000)
    for epoch in itertools.count():
        packed.set_epoch(epoch)
        for batch in packed.with_format("torch").batch(BATCH, drop_last_batch=True):
            yield batch["input_ids"][:, 1:].numel()


if __name__ == "__main__":
    main(build)
