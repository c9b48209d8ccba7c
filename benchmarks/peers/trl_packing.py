"""TRL: ``pack_dataset`` over a whole dataset before training, then a DataLoader."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, main

ABOUT = {
    "name": "TRL pack_dataset",
    "package": "trl",
    "variants": {
        "wrapped": "packed beforehand, inside the time to the first batch; then a DataLoader",
        "bfd": "best fit decreasing beforehand, documents truncated to a row; then a DataLoader",
    },
    "emits": "ids (labels are views of them)",
    "blended": True,
    "shuffled": "rows",
    "resumable": "by the trainer, skipping batches",
}
DOCUMENTS = 8000


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    import datasets
    import torch
    from torch.utils.data import DataLoader
    from trl import pack_dataset

    datasets.disable_progress_bars()
    datasets.disable_caching()
    parts = [
        datasets.load_dataset(
            "parquet",
            data_files=str(corpus / "parquet" / name / "*.parquet"),
            split=f"train[:{round(DOCUMENTS * share)}]",
            cache_dir=str(cache),
        )
        for name, share in zip("ab", SHARES, strict=True)
    ]
    mixed = datasets.concatenate_datasets(parts).shuffle(seed=0)
    packed = pack_dataset(mixed, ROW, variant).with_format("torch")

    def collate(rows: list[dict[str, torch.Tensor]]) -> tuple[torch.Tensor, int]:
        ids = torch.zeros(BATCH, ROW, dtype=torch.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row["input_ids"])] = row["input_ids"]
        return ids, sum(len(row["input_ids"]) - 1 for row in rows)

    for _ in itertools.count():
        loader = DataLoader(packed, BATCH, shuffle=True, drop_last=True, collate_fn=collate)
        for _, tokens in loader:
            yield tokens


if __name__ == "__main__":
    main(build)
