"""zephon itself, in the same form as its peers: from Python, fresh tensors included."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, main

ABOUT = {
    "name": "zephon",
    "package": None,
    "variants": {
        "wrap": "wrap, prefetch(0): all in the consumer's thread",
        "ahead": "wrap, packed ahead in a thread (the default)",
        "int32": "wrap, prefetch(0), 32-bit tokens",
        "first_fit": "first_fit, prefetch(0)",
        "best_fit": "best_fit, prefetch(0)",
        "best_fit_wrap": "best_fit_wrap, prefetch(0)",
    },
    "emits": "ids, labels, positions, document ids, padding mask",
    "blended": True,
    "shuffled": "documents",
    "resumable": True,
}


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    import zephon
    from zephon.loader import convert_text_batch

    folder = corpus / "int32" if variant == "int32" else corpus
    datasets = [zephon.Dataset.from_path(name, folder / name) for name in "ab"]
    work = zephon.StaticMixtureWorkSource(
        datasets,
        dict(zip("ab", SHARES, strict=True)),
        shuffle_block_size="auto",
        exhausted_policy="repeat",
    )
    algorithm = "wrap" if variant in ("wrap", "ahead", "int32") else variant
    stream = zephon.Pipeline(work).pack_flat(
        ROW, algorithm=algorithm, drop_oversized=False if algorithm.endswith("_fit") else None
    )
    stream = stream.batch(BATCH).prefetch(1024 if variant == "ahead" else 0)
    padded = algorithm.endswith("_fit")
    for batch in stream.options(vocab_size=50_000):
        made = convert_text_batch(batch)
        labels = made["labels"]
        yield int((~made["padding_mask"]).sum()) if padded else labels.numel()


if __name__ == "__main__":
    main(build)
