"""megatron-core: a BlendedDataset of two GPTDatasets behind PyTorch's DataLoader."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, main

ABOUT = {
    "name": "megatron-core GPTDataset",
    "package": "megatron-core",
    "variants": {"loader": "BlendedDataset and a DataLoader without workers"},
    "emits": "ids, labels, loss mask, positions",
    "blended": True,
    "shuffled": "samples, documents",
    "resumable": True,
}


class Tokenizer:
    vocab_size = 50_000
    eod = 0
    pad = 49_999
    unique_identifiers = {"class": "benchmark"}  # noqa: RUF012


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from megatron.core.datasets.blended_megatron_dataset_builder import (
            BlendedMegatronDatasetBuilder,
        )
        from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    import torch.distributed
    from torch.utils.data import DataLoader

    cache.mkdir(parents=True, exist_ok=True)
    # Where indices are cached, ranks wait for each other; a file store needs no network.
    store = cache / f"store-{os.getpid()}"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=0, world_size=1
    )
    config = GPTDatasetConfig(
        random_seed=1234,
        sequence_length=ROW - 1,
        blend=([str(corpus / name) for name in "ab"], list(SHARES)),
        split="1,0,0",
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        path_to_cache=str(cache),
    )
    cache.mkdir(parents=True, exist_ok=True)
    tokens = (corpus / "a.bin").stat().st_size // 2
    samples = tokens // ROW // BATCH * BATCH
    builder = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config)
    dataset = builder.build()[0]
    for _ in itertools.count():
        for batch in DataLoader(dataset, batch_size=BATCH, drop_last=True):
            yield batch["tokens"].numel()


if __name__ == "__main__":
    main(build)
