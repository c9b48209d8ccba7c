"""Let megatron-core build datasets with our helpers in place of its own; a program of its own.

    python wheel_gpt_dataset.py DATA CACHES

For each recorded configuration of ``DATA/gpt/index.json`` that builds, the
indices of megatron-core's datasets go to the folder ``CACHES/<tag>``. Prints
where the helpers came from, and the lengths: one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch.distributed

import zephon.megatron


class Tokenizer:
    """What the recorded configurations had: it names the cache files."""

    vocab_size = 1000
    eod = 0
    pad = 999
    unique_identifiers = {"klass": "GoldenTok", "vocab": 1000}  # noqa: RUF012


def main() -> None:
    data, caches = map(Path, sys.argv[1:])
    zephon.megatron.register()
    from megatron.core.datasets.blended_megatron_dataset_builder import (
        BlendedMegatronDatasetBuilder,
    )
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.utils import compile_helpers

    compile_helpers()
    # With a cache, megatron-core's BlendedDataset needs a process group even when it is alone.
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    os.chdir(data)  # the recorded paths are relative to it
    told: dict[str, Any] = {"lengths": {}}
    for case in json.loads(Path("gpt/index.json").read_text()):
        if case["result"] != "ok":
            continue
        config = GPTDatasetConfig(
            random_seed=case["seed"],
            sequence_length=case["sequence_length"],
            path_to_cache=str(caches / case["tag"]),
            tokenizer=Tokenizer(),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
            **case["config"],
        )
        built = BlendedMegatronDatasetBuilder(
            GPTDataset, case["sizes"], lambda: True, config
        ).build()
        told["lengths"][case["tag"]] = [None if one is None else len(one) for one in built]
    module = sys.modules["megatron.core.datasets.helpers_cpp"]
    told["helpers"] = module.__name__
    told["active"] = zephon.megatron.registration().active
    torch.distributed.destroy_process_group()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
