"""mosaicml-streaming: rows packed beforehand into MDS shards, two streams, its own DataLoader."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, Documents, main, without_image_operators

ABOUT = {
    "name": "mosaicml-streaming",
    "package": "mosaicml-streaming",
    "variants": {"mds": "rows written beforehand as MDS, StreamingDataLoader without workers"},
    "emits": "ids (labels are views of them); packed beforehand",
    "blended": True,
    "shuffled": "rows",
    "resumable": True,
}


def prepare(corpus: Path, cache: Path) -> None:
    without_image_operators()
    from streaming import MDSWriter

    for name in "ab":
        tokens = Documents(corpus, name).tokens
        with MDSWriter(out=str(cache / name), columns={"ids": "ndarray:int64"}) as writer:
            for at in range(0, len(tokens) - ROW, ROW):
                writer.write({"ids": tokens[at : at + ROW].astype("int64")})


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    without_image_operators()
    from streaming import Stream, StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    streams = [
        Stream(local=str(cache / name), proportion=share)
        for name, share in zip("ab", SHARES, strict=True)
    ]
    data = StreamingDataset(streams=streams, batch_size=BATCH, shuffle=True, shuffle_seed=0)
    for _ in itertools.count():
        for batch in StreamingDataLoader(data, batch_size=BATCH, drop_last=True):
            yield batch["ids"][:, 1:].numel()


if __name__ == "__main__":
    main(build, prepare)
