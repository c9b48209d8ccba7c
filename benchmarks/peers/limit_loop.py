"""The plain C loop: the same bytes with nothing to decide, on a ring of four batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, Documents, main

sys.path.append(str(Path(__file__).parents[1] / "limit"))

ABOUT = {
    "name": "plain C loop",
    "package": None,
    "variants": {
        "full": "all the arrays of a batch, 16-bit tokens in file order",
        "pair": "ids and labels alone",
    },
    "emits": "the bytes of ids, labels, positions, document ids, padding mask, cu_seqlens",
    "blended": False,
    "shuffled": "no",
    "resumable": False,
}


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    from limit import loop

    source = Documents(corpus, "a").tokens
    run = loop(cache, source, BATCH, ROW - 1, full=variant == "full")
    run(4)
    while True:
        run(8)
        yield 8 * BATCH * (ROW - 1)


if __name__ == "__main__":
    main(build)
