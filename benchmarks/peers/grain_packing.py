"""grain: documents from mapped files, mixed, packed and batched by its own transformations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, Documents, main

ABOUT = {
    "name": "grain",
    "package": "grain",
    "variants": {
        "concat": "ConcatThenSplit",
        "first_fit": "FirstFitPack, 64 bins",
        "best_fit": "BestFitPack, 64 bins",
    },
    "emits": "ids, positions, segment ids (labels are views of the ids)",
    "blended": True,
    "shuffled": "documents",
    "resumable": True,
}


class Source:
    def __init__(self, documents: Documents, longest: int | None) -> None:
        self.documents, self.longest = documents, longest

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"ids": self.documents[index][: self.longest].astype("int64")}


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    import grain
    from grain import experimental

    longest = None if variant == "concat" else ROW
    parts = [
        grain.MapDataset.source(Source(Documents(corpus, name), longest)).seed(i).shuffle().repeat()
        for i, name in enumerate("ab")
    ]
    mixed = grain.MapDataset.mix(parts, weights=list(SHARES)).to_iter_dataset(
        grain.ReadOptions(num_threads=0)
    )
    lengths = {"ids": ROW}
    if variant == "concat":
        packed = experimental.ConcatThenSplitIterDataset(mixed, length_struct=lengths)
    else:
        packer = {
            "first_fit": experimental.FirstFitPackIterDataset,
            "best_fit": experimental.BestFitPackIterDataset,
        }[variant]
        packed = packer(mixed, length_struct=lengths, num_packing_bins=64)
    for batch in packed.batch(BATCH, drop_remainder=True):
        labels = batch["ids"][:, 1:]
        # Padding, which packing by fit leaves, is no token.
        real = labels.size
        if variant != "concat":
            real = int((batch["ids_segment_ids"][:, 1:] > 0).sum())
        yield real


if __name__ == "__main__":
    main(build)
