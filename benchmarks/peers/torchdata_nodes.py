"""torchdata nodes: samplers of documents, a weighted mixture, packing in a node of our own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, Documents, main

ABOUT = {
    "name": "torchdata nodes",
    "package": "torchdata",
    "variants": {"nodes": "MultiNodeWeightedSampler; it has no packing, so a plain loop packs"},
    "emits": "ids (labels are views of them)",
    "blended": True,
    "shuffled": "documents",
    "resumable": True,
}


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    import torch
    from torch.utils.data import RandomSampler
    from torchdata.nodes import MapStyleWrapper, MultiNodeWeightedSampler, StopCriteria

    sources = {
        name: MapStyleWrapper(documents, RandomSampler(documents))  # type: ignore[arg-type]
        for name in "ab"
        for documents in (Documents(corpus, name),)
    }
    mixed = MultiNodeWeightedSampler(
        sources, dict(zip("ab", SHARES, strict=True)), StopCriteria.CYCLE_FOREVER, seed=0
    )
    held: list[Any] = []
    size = 0
    mixed.reset()
    for document in mixed:
        part = torch.from_numpy(document.astype("int64"))
        held.append(part)
        size += len(part)
        if size >= BATCH * ROW:
            flat = torch.cat(held)
            batch = flat[: BATCH * ROW].view(BATCH, ROW)
            held, size = [flat[BATCH * ROW :]], size - BATCH * ROW
            yield batch[:, 1:].numel()


if __name__ == "__main__":
    main(build)
