"""What convert_text_batch adds to the time of a batch of [8, 4096], beside a stream of tokens.

The stream reads, mixes and packs documents of 16 bits (lognormal, 800 tokens on average), and the
collation kernel writes ids, labels, positions, document ids and padding mask into fresh tensors:
that is the time of a batch. convert_text_batch does the same and prepares what a model asks for;
what it takes more is what it adds. A block-causal mask is no part of this: it is
16 million values a row, and asked for by name.

    python benchmarks/loader.py [--documents 20000] [--batches 600] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

import zephon
from zephon.loader import convert_text_batch
from zephon.megatron.builder import IndexedDatasetBuilder
from zephon.packing import PackingContract
from zephon.types import SampleBatch

ROWS, LENGTH = 8, 4096
FIELDS = ("input_ids", "labels", "positions", "document_ids")


def stream(folder: Path, documents: int) -> Iterator[SampleBatch]:
    datasets = []
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        lengths = np.maximum(1, rng.lognormal(np.log(485), 1.0, documents)).astype(int)
        builder = IndexedDatasetBuilder(folder / f"{name}.bin", dtype=np.uint16)
        for length in lengths.tolist():
            builder.add_document(rng.integers(1, 50_000, length, dtype=np.uint16), [length])
        builder.finalize(folder / f"{name}.idx")
        datasets.append(zephon.Dataset.from_path(name, folder / name))
    work = zephon.StaticMixtureWorkSource(
        datasets, {"a": 0.7, "b": 0.3}, shuffle_block_size="auto", exhausted_policy="repeat"
    )
    made = zephon.Pipeline(work).pack_flat(LENGTH + 1).batch(ROWS).prefetch(0)
    return iter(made.options(vocab_size=50_000))


def collate(batch: SampleBatch) -> dict[str, torch.Tensor]:
    """The tensors of a batch and nothing else."""
    shape = (ROWS, LENGTH)
    fields = {name: torch.empty(shape, dtype=torch.int64) for name in FIELDS}
    fields["padding_mask"] = torch.empty(shape, dtype=torch.bool)
    batch.collate(batch.rows(), shift=True, ignore_index=-100, mask_segment_starts=False, **fields)
    return fields


DOCUMENT_IDS = PackingContract(packed_mask_type="document_ids")
METADATA = PackingContract(packed_mask_type="document_ids", return_packed_sequence_metadata=True)
FORMS: dict[str, Callable[[SampleBatch], object]] = {
    "no contract": convert_text_batch,
    "cross-document attention": lambda b: convert_text_batch(
        b, allow_cross_document_attention=True
    ),
    "document_ids": lambda b: convert_text_batch(b, DOCUMENT_IDS),
    "document_ids and metadata": lambda b: convert_text_batch(b, METADATA),
    "thd": lambda b: convert_text_batch(b, DOCUMENT_IDS, output_format="thd"),
}


def measure(batches: Iterator[SampleBatch], count: int) -> dict[str, object]:
    """Added time by form as parts of the stream's own.

    Each batch is collated and made into the form, now one first and now the other, so that what
    else the machine does falls on both alike.
    """
    added, seconds = {}, []
    for name, form in FORMS.items():
        base, more = [], []
        for turn in range(count):
            began = time.perf_counter()
            batch = next(batches)
            read = time.perf_counter() - began
            both = [timed(one, batch) for one in ((collate, form), (form, collate))[turn % 2]]
            alone, whole = both if turn % 2 == 0 else both[::-1]
            base.append(read + alone)
            more.append(whole - alone)
        added[name] = median(more) / median(base)
        seconds.append(median(base))
    return {"shape": [ROWS, LENGTH], "stream_seconds": median(seconds), "added": added}


def timed(form: Callable[[SampleBatch], object], batch: SampleBatch) -> float:
    began = time.perf_counter()
    form(batch)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=600)
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        batches = stream(Path(folder), given.documents)
        for batch in islice(batches, 20):
            convert_text_batch(batch)
        found = measure(batches, given.batches)
    if given.json:
        print(json.dumps(found))
        return
    print(f"stream: {1e3 * found['stream_seconds']:.2f} ms per batch of {found['shape']}")
    for name, part in found["added"].items():
        print(f"{name}: {part:+.1%}")


if __name__ == "__main__":
    main()
