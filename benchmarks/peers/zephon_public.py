"""The registry's ``zephon``, another project of this name: documents in memory, packed by wrap."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, Documents, main

ABOUT = {
    "name": "zephon of the registry",
    "package": "zephon",
    "variants": {
        "threads": "documents in memory, pack_flat wrap, threads runner",
        "inline": "documents in memory, pack_flat wrap, inline runner",
    },
    "emits": "ids, labels, positions, padding mask, cu_seqlens",
    "blended": True,
    "shuffled": "documents",
    "resumable": True,
}
DOCUMENTS = 12_000  # of each source: it holds a dictionary for each


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    from zephon import Dataset, InMemoryShard, MixtureSpec, Pipeline, StaticMixtureWorkSource

    datasets = []
    for name in "ab":
        documents = Documents(corpus, name)
        rows = [{"input_ids": documents[i]} for i in range(min(DOCUMENTS, len(documents)))]
        shards = [InMemoryShard(rows[at : at + 2000]) for at in range(0, len(rows), 2000)]
        datasets.append(Dataset.from_dict(name, dict(enumerate(shards))))
    work = StaticMixtureWorkSource(
        datasets=datasets,
        mixture=MixtureSpec(dict(zip("ab", SHARES, strict=True))),
        seed=0,
        shuffle_block_size="auto",
        exhausted_policy="repeat",
    )
    pipeline = Pipeline(work).pack_flat(ROW, algorithm="wrap", pad_token_id=0).batch(BATCH)
    for batch in pipeline.options(runner=variant):
        made = batch.to_training(
            return_labels=True, return_padding_mask=True, return_cu_seqlens=True
        )
        yield made["labels"].numel() if "labels" in made else BATCH * (ROW - 1)


if __name__ == "__main__":
    main(build)
