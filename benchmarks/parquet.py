"""A stream of Parquet tokens beside reading the same column with pyarrow alone.

Lognormal documents (mean 800 tokens, Zipf ids, list<int32>, zstd) in row groups of 2,000
documents, shuffled by blocks, rows of 4,097, batches of 8, full batches (ids, labels,
positions, document ids and padding mask). Beside it pyarrow reads the column of each row
group in turn and does nothing with it, in one thread and in two. The same tokens as an
Arrow file that is not compressed and as .bin/.idx show what is not decoding.

    python benchmarks/parquet.py [--documents 30000] [--turns 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import zephon
from zephon.io.decoded import UNITS
from zephon.loader import convert_text_batch
from zephon.megatron.builder import IndexedDatasetBuilder

ROW, BATCH, VOCABULARY, GROUP = 4097, 8, 50_000, 2000


def write_corpus(folder: Path, documents: int) -> int:
    """The corpus as three files; its number of tokens."""
    rng = np.random.default_rng(0)
    lengths = np.maximum(1, rng.lognormal(np.log(485), 1.0, documents)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    ids = np.minimum(rng.zipf(1.2, int(offsets[-1])), VOCABULARY - 1).astype(np.int32)
    url = [f"https://example.org/{i}" for i in range(documents)]
    column = pa.ListArray.from_arrays(offsets, pa.array(ids))
    table = pa.table({"tokens": column, "url": url})
    pq.write_table(table, folder / "t.parquet", row_group_size=GROUP, compression="zstd")
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=GROUP)
    builder = IndexedDatasetBuilder(str(folder / "t.bin"), dtype=np.int32)
    for first, length in zip(offsets.tolist(), lengths.tolist(), strict=False):
        builder.add_document(ids[first : first + length], [length])
    builder.finalize(str(folder / "t.idx"))
    return len(ids)


def alone(path: Path, threads: int) -> int:
    """Read the column of every row group; returns the tokens."""

    def read(part: int) -> int:
        file, count = pq.ParquetFile(path), 0
        for group in range(part, file.num_row_groups, threads):
            column = file.read_row_group(group, columns=["tokens"], use_threads=False).column(0)
            count += sum(len(chunk.values) for chunk in column.chunks)
        return count

    if threads == 1:
        return read(0)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(read, range(threads)))


def stream(path: Path, ahead: int) -> int:
    """Deliver one pass; returns the tokens."""
    UNITS.start_anew()
    dataset = zephon.Dataset.from_path("d", path)
    work = zephon.StaticMixtureWorkSource([dataset], {"d": 1.0}, shuffle_block_size="auto")
    pipeline = zephon.Pipeline(work).pack_flat(ROW).batch(BATCH).prefetch(ahead)
    count = 0
    for batch in pipeline.options(vocab_size=VOCABULARY):
        count += int(convert_text_batch(batch)["input_ids"].numel())
    pipeline.close()
    return count


def timed(job: Callable[[], int]) -> tuple[float, float]:
    """Tokens per second of time and of processor time."""
    cpu, wall = time.process_time(), time.perf_counter()
    tokens = job()
    return tokens / (time.perf_counter() - wall), tokens / (time.process_time() - cpu)


def measure(folder: Path, turns: int) -> dict[str, dict[str, list[float]]]:
    """Mtok/s of each job in each turn, by time and by processor time."""
    parquet = folder / "t.parquet"
    jobs: dict[str, Callable[[], int]] = {
        "pyarrow, 1 thread": lambda: alone(parquet, 1),
        "pyarrow, 2 threads": lambda: alone(parquet, 2),
        "stream of Parquet": lambda: stream(parquet, 1024),
        "stream of Parquet, prefetch(0)": lambda: stream(parquet, 0),
        "stream of Arrow, prefetch(0)": lambda: stream(folder / "t.arrow", 0),
        "stream of .bin/.idx, prefetch(0)": lambda: stream(folder / "t.bin", 0),
    }
    for job in jobs.values():
        job()  # imports, the page cache
    found: dict[str, dict[str, list[float]]] = {n: {"wall": [], "cpu": []} for n in jobs}
    for _ in range(turns):
        for name, job in jobs.items():
            wall, cpu = timed(job)
            found[name]["wall"].append(wall / 1e6)
            found[name]["cpu"].append(cpu / 1e6)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> list[str]:
    lines = [
        "| what | Mtok/s | Mtok per processor second | of pyarrow in 1 thread, same turn: median "
        "(least, most) | of pyarrow in 2 threads |",
        "|---|---|---|---|---|",
    ]
    for name, values in found.items():
        ratios = []
        for threads in ("1 thread", "2 threads"):
            base = found[f"pyarrow, {threads}"]["wall"]
            ratio = [a / b for a, b in zip(values["wall"], base, strict=True)]
            ratios.append(f"{median(ratio):.2f} ({min(ratio):.2f}, {max(ratio):.2f})")
        lines.append(
            f"| {name} | {median(values['wall']):.0f} | {median(values['cpu']):.0f} | "
            + " | ".join(ratios)
            + " |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=30_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="all turns, as JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), given.documents)
        found = measure(Path(folder), given.turns)
    if given.json:
        print(json.dumps(found))
        return
    print("\n".join([f"pyarrow {pa.__version__}", "", *table(found)]))


if __name__ == "__main__":
    main()
