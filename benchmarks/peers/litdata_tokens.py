"""litdata: tokens written by ``optimize``, read by its TokensLoader in blocks of a row."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, Documents, main

ABOUT = {
    "name": "litdata TokensLoader",
    "package": "litdata",
    "variants": {
        "blend": "CombinedStreamingDataset and a StreamingDataLoader without workers",
        "single": "one StreamingDataset and a StreamingDataLoader without workers",
    },
    "emits": "ids (labels are views of them)",
    "blended": True,
    "shuffled": "blocks",
    "resumable": True,
}


def documents(path: str) -> Iterator[Any]:
    import torch

    corpus, name = path.rsplit(":", 1)
    source = Documents(Path(corpus), name)
    for i in range(len(source)):
        yield torch.from_numpy(source[i].astype("int32"))


def prepare(corpus: Path, cache: Path) -> None:
    from litdata import TokensLoader, optimize

    for name in "ab":
        optimize(
            fn=documents,
            inputs=[f"{corpus}:{name}"],
            output_dir=str(cache / name),
            chunk_size=ROW * 2048,
            item_loader=TokensLoader(block_size=ROW),
            num_workers=1,
        )


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    from litdata import (
        CombinedStreamingDataset,
        StreamingDataLoader,
        StreamingDataset,
        TokensLoader,
    )

    def source(name: str) -> Any:
        return StreamingDataset(
            str(cache / name),
            item_loader=TokensLoader(block_size=ROW),
            shuffle=True,
            drop_last=True,
        )

    for _ in itertools.count():
        data = (
            CombinedStreamingDataset(
                [source(name) for name in "ab"], seed=0, weights=SHARES, iterate_over_all=False
            )
            if variant == "blend"
            else source("a")
        )
        for batch in StreamingDataLoader(data, batch_size=BATCH, num_workers=0):
            ids, labels = batch[:, :-1], batch[:, 1:]
            assert ids.shape == labels.shape
            yield labels.numel()


if __name__ == "__main__":
    main(build, prepare)
