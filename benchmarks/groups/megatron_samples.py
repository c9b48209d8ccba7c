"""Reading samples: our GPTDataset, blend and rows beside megatron-core's, in one process.

One corpus of 16-bit tokens in the page cache, the same configuration on both
sides, alternating turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Row, Settings, Spread, Table
from torch.utils.data import DataLoader

import zephon.megatron as ours
from zephon.types import SampleBatch

SEED, BATCH, VOCABULARY = 1234, 8, 50_000


class Tokenizer:
    """Of the reference's kind: ids of the end of a document and of padding."""

    vocab_size = VOCABULARY
    eod = 0
    pad = VOCABULARY - 1
    unique_identifiers = {"class": "benchmark"}  # noqa: RUF012


def write_corpus(prefix: Path, documents: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = np.maximum(1, rng.lognormal(np.log(606), 1.0, documents)).astype(int)
    builder = ours.IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for length in lengths.tolist():
        builder.add_document(rng.integers(1, VOCABULARY - 1, length, dtype=np.uint16), [length])
    builder.finalize(f"{prefix}.idx")


def build(package: Any, prefixes: list[str], samples: int, length: int) -> tuple[Any, Any]:
    """The dataset of the first prefix alone, and the blend of all."""
    made = []
    for blend in ((prefixes[:1], None), (prefixes, [0.7, 0.3])):
        config = package.GPTDatasetConfig(
            random_seed=SEED,
            sequence_length=length,
            blend=blend,
            split="1,0,0",
            tokenizer=Tokenizer(),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
        )
        builder = package.BlendedMegatronDatasetBuilder(
            package.GPTDataset, [samples, 0, 0], lambda: True, config
        )
        made.append(builder.build()[0])
    return made[0], made[1]


def reference(folder: Path) -> Any:
    sys.path.append(str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from megatron.core.datasets import blended_megatron_dataset_builder as builder
        from megatron.core.datasets import gpt_dataset
    gpt_dataset.BlendedMegatronDatasetBuilder = builder.BlendedMegatronDatasetBuilder
    return gpt_dataset


def seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def check(mine: dict[str, Any], other: dict[str, Any]) -> None:
    for name in ("tokens", "labels", "loss_mask", "position_ids"):
        if not torch.equal(mine[name], other[name]):
            sys.exit(f"the samples differ in {name}")


def table(settings: Settings, folder: Path) -> Table:
    """``folder`` is the site-packages that megatron-core is installed in."""
    theirs = reference(folder)
    documents, length = settings.sized(30_000, 2000), settings.sized(4096, 512)
    with tempfile.TemporaryDirectory() as scratch:
        prefixes = [f"{scratch}/{name}" for name in ("web", "books")]
        for seed, prefix in enumerate(prefixes):
            write_corpus(Path(prefix), documents, seed)
        samples = documents // 8
        return measure(
            settings,
            build(ours, prefixes, samples, length),
            build(theirs, prefixes, samples, length),
            f"{length:,} tokens a sample, {documents:,} documents a source.",
        )


def measure(settings: Settings, mine: Any, other: Any, told: str) -> Table:
    (my_single, my_blend), (single, blend) = mine, other
    chosen = list(range(min(2000, len(single))))
    batches = [chosen[i : i + BATCH] for i in range(0, len(chosen), BATCH)]
    loader = DataLoader(blend, batch_sampler=batches)
    my_loader = DataLoader(my_blend, batch_sampler=batches)
    source = ours.MegatronWorkSource(my_blend)
    lane = source.lane_rows(0, 1, BATCH)

    def tensors(batch: list[int]) -> dict[str, Any]:
        # The same fields: inputs, labels, a mask and positions.
        rows = lane.take(batch[0], len(batch))
        made = SampleBatch.from_rows(rows, datasets=source.datasets, lane=0, number=0)
        return made.to_training(return_labels=True)

    for index in chosen[:50]:
        check(my_single[index], single[index])
        check(my_blend[index], blend[index])
    first = next(iter(my_loader))
    check(first, next(iter(loader)))
    if not torch.equal(tensors(batches[0])["input_ids"], first["tokens"]):
        sys.exit("the rows differ from the samples")
    cases: list[tuple[str, Callable[[], object], Callable[[], object], int]] = [
        (
            "GPTDataset[i]",
            # None is kept: holding thousands of samples would measure fresh memory.
            lambda: [None for i in chosen if my_single[i] is None],
            lambda: [None for i in chosen if single[i] is None],
            len(chosen),
        ),
        (
            f"blend, batches of {BATCH} by a DataLoader without workers",
            lambda: [None for _ in my_loader],
            lambda: [None for _ in loader],
            len(batches),
        ),
        (
            f"blend, batches of {BATCH}: BlendedDataset.batch beside that DataLoader",
            lambda: [None for batch in batches if my_blend.batch(batch) is None],
            lambda: [None for _ in loader],
            len(batches),
        ),
        (
            f"blend, batches of {BATCH}: MegatronWorkSource beside that DataLoader",
            lambda: [None for batch in batches if tensors(batch) is None],
            lambda: [None for _ in loader],
            len(batches),
        ),
    ]
    aims = {0: ">= 8", 3: ">= 8"}
    rows = []
    for number, (name, mine_turn, their_turn, count) in enumerate(cases):
        pairs = []
        for turn in range(settings.turns + 1):  # the first turn only warms up
            pair = [seconds(their_turn), seconds(mine_turn)]
            if turn:
                pairs.append(pair)
        ratio = Spread.of([a / b for a, b in pairs])
        value = Spread.of([pair[1] for pair in pairs]).median / count * 1e6
        rows.append(
            Row(what=name, value=value, unit="µs", kind="peer", ratio=ratio,
                of="zephon's speed over megatron-core's", aim=aims.get(number, ""))
        )  # fmt: skip
    return Table(id="megatron-samples", title="Reading Megatron's samples", text=told, rows=rows)
