"""The same documents from Parquet, Arrow, JSONL and memory are the same stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zephon
from zephon.errors import DataError, StateError
from zephon.io import Dataset, InMemoryShard, decoded
from zephon.io.columns import ColumnShard
from zephon.io.recycled import MEMORY
from zephon.work import source_order

Rows = list[dict[str, Any]]
FORMATS = ["parquet", "arrow file", "arrow stream", "memory", "jsonl"]


def corpus(seed: int, shards: int, text: bool) -> list[Rows]:
    rng = np.random.default_rng(seed)
    made = []
    for shard in range(shards):
        rows: Rows = []
        for i in range(0 if shard == 1 else int(rng.integers(40, 90))):
            count = int(rng.integers(0, 30))
            row: dict[str, Any] = {"url": f"{shard}/{i}", "score": None if i % 7 == 0 else i}
            if text:
                row["text"] = " ".join(rng.choice(["fox", "dog", "é", "the"], count + 1).tolist())
            else:
                row["tokens"] = rng.integers(0, 1000, count).tolist()
                row["loss_mask"] = rng.integers(0, 2, count).tolist()
                row["weight"] = rng.random(count).tolist()
            rows.append(row)
        made.append(rows)
    return made


def write(folder: Path, kind: str, shards: list[Rows], units: int = 16) -> Dataset:
    """A dataset ``c`` of these rows in a format, in units of so many rows."""
    if kind == "memory":
        return Dataset.from_dict("c", {i: InMemoryShard(rows) for i, rows in enumerate(shards)})
    folder = folder / kind.replace(" ", "_")
    folder.mkdir(exist_ok=True)
    names = list(shards[0][0])
    types = {
        "tokens": pa.list_(pa.int32()),
        "loss_mask": pa.list_(pa.uint8()),
        "weight": pa.list_(pa.float64()),
        "score": pa.int64(),
    }
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    for i, rows in enumerate(shards):
        table = pa.Table.from_pylist(rows, schema)
        if kind == "jsonl":
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{i}.jsonl").write_text(lines)
        elif kind == "parquet":
            pq.write_table(table, folder / f"{i}.parquet", row_group_size=units)
        else:
            open_ = pa.ipc.new_file if kind == "arrow file" else pa.ipc.new_stream
            with open_(folder / f"{i}.arrow", schema) as writer:
                writer.write_table(table, max_chunksize=units)
    return Dataset.from_path("c", folder)


def pipeline(
    dataset: Dataset,
    tokenizer: Path | None,
    *,
    ahead: int = 0,
    algorithm: str = "wrap",
    lanes: int = 2,
    rank: int = 0,
    ranks: int = 1,
    **order: Any,
) -> zephon.Pipeline:
    work = zephon.StaticMixtureWorkSource(
        [dataset], {"c": 1.0}, seed=5, chunk_size=16, exhausted_policy="repeat", **order
    )
    made = zephon.Pipeline(work).prefetch(ahead)
    if tokenizer is not None:
        made = made.tokenize(tokenizer, field="text")
    made = made.pack_flat(33, algorithm=algorithm).batch(2)
    return made.options(canonical_replicas=lanes, dp_degree=ranks, dp_group_id=rank)


def take(stream: zephon.Pipeline, count: int, text: bool) -> list[dict[str, Any]]:
    fields = [] if text else ["weight"]
    out = []
    for batch in islice(iter(stream), count):
        got = batch.to_training(return_labels=True, extra_fields=fields, return_loss_mask=True)
        arrays = {name: value.tolist() for name, value in got.items() if hasattr(value, "tolist")}
        documents = [
            [{key: one[key] for key in ("url", "score")} for one in record.meta.tags["documents"]]
            for record in (batch.records if len(out) < 2 else ())
        ]
        out.append(arrays | {"documents": documents})
    stream.close()
    return out


def _data(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what is looked at in the first batches only."""
    return [{k: v for k, v in batch.items() if k != "documents"} for batch in batches]


ORDERS: dict[str, dict[str, Any]] = {
    "file order": {"shuffle_shards": False},
    "within shards": {"shuffle_within_shard": True},
    "blocks": {"shuffle_block_size": 10},
    "global": {"shuffle_block_size": "global"},
}


@pytest.mark.parametrize("text", [True, False], ids=["text", "tokens"])
@pytest.mark.parametrize("order", ORDERS)
def test_every_format_gives_the_same_stream(
    tmp_path: Path, tokenizer_folder: Path, text: bool, order: str
) -> None:
    shards = corpus(1, 3, text)
    tokenizer = tokenizer_folder if text else None
    memory = take(pipeline(write(tmp_path, "memory", shards), tokenizer, **ORDERS[order]), 6, text)
    assert len(memory) == 6
    for kind in FORMATS if text else FORMATS[:-1]:  # token ids of JSONL are not read
        dataset = write(tmp_path, kind, shards)
        for ahead, limit in ((0, 1 << 29), (64, 1)):
            decoded.UNITS.set_limit(limit)
            stream = pipeline(dataset, tokenizer, ahead=ahead, **ORDERS[order])
            assert take(stream, 6, text) == memory, (kind, ahead, limit)


@pytest.mark.parametrize("text", [True, False], ids=["text", "tokens"])
@pytest.mark.parametrize("kind", ["parquet", "arrow stream"])
@pytest.mark.parametrize("algorithm", ["wrap", "best_fit"])
def test_a_stop_inside_a_row_group_goes_on_on_one_or_two_ranks(
    tmp_path: Path, tokenizer_folder: Path, text: bool, kind: str, algorithm: str
) -> None:
    tokenizer = tokenizer_folder if text else None
    dataset = write(tmp_path, kind, corpus(2, 3, text))
    options: dict[str, Any] = {"algorithm": algorithm, "shuffle_block_size": "auto"}
    whole = take(pipeline(dataset, tokenizer, **options), 16, text)
    for stop in (1, 6):
        first = pipeline(dataset, tokenizer, ahead=64, **options)
        assert len(list(islice(iter(first), stop))) == stop
        state = first.checkpoint()
        first.close()
        again = pipeline(write(tmp_path, kind, corpus(2, 3, text)), tokenizer, **options)
        again.restore(state)
        assert _data(take(again, 16 - stop, text)) == _data(whole[stop:])
        ranks = [pipeline(dataset, tokenizer, rank=r, ranks=2, **options) for r in (0, 1)]
        for rank, one in enumerate(ranks):
            one.restore(state)
            assert _data(take(one, 4, text)) == _data(whole[stop + rank :: 2][:4])


def test_rows_that_changed_under_the_same_name_are_noticed_on_resume(tmp_path: Path) -> None:
    shards = corpus(3, 2, False)
    stream = pipeline(write(tmp_path, "parquet", shards), None)
    next(iter(stream))
    state = stream.checkpoint()
    stream.close()
    shards[0][5]["tokens"] = [1, 2, 3]
    again = pipeline(write(tmp_path, "parquet", shards), None)
    with pytest.raises(StateError, match=r"What differs \(saved, now\): 'c'"):
        again.restore(state)


@pytest.mark.parametrize("kind", ["parquet", "arrow file"])
def test_auto_blocks_are_whole_row_groups_and_each_is_decoded_once_in_a_pass(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_order, "AUTO_BLOCK_BYTES", 1500)
    shards = corpus(4, 4, False)
    dataset = write(tmp_path, kind, shards)
    decoded.UNITS.start_anew()
    decoded.UNITS.set_limit(1)  # what is not in use is forgotten
    begun: list[tuple[int, int]] = []
    original: Callable[..., Any] = ColumnShard._decode_tokens

    def spy(self: ColumnShard, unit: int) -> Any:
        begun.append((self._number, unit))
        return original(self, unit)

    monkeypatch.setattr(ColumnShard, "_decode_tokens", spy)
    work = zephon.StaticMixtureWorkSource([dataset], {"c": 1.0}, shuffle_block_size="auto")
    rows = sum(len(rows) for rows in shards)
    for first in range(0, rows, 7):
        dataset.read(work.lane(0, 1).draws(first, 7).rows)
    units = dataset.units()
    assert units is not None
    # Neighbouring reads share a unit, which is read again only at a border inside of a read.
    assert len(set(begun)) == len(units)
    assert len(begun) <= 2 * len(units)
    first_rows = work._order.sources[0].first_row
    assert set(first_rows[:-1].tolist()) <= set(units.tolist())


def test_memory_of_many_row_groups_is_bounded(tmp_path: Path) -> None:
    """Forty row groups of 2 MB through a limit of 8 MB."""
    rng = np.random.default_rng(0)
    flat = rng.integers(0, 2**31 - 1, 500_000, dtype=np.int32)
    offsets = np.arange(0, 500_001, 500, dtype=np.int32)
    table = pa.table({"tokens": pa.ListArray.from_arrays(offsets, pa.array(flat))})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for _ in range(40):
            writer.write_table(table)
    dataset = Dataset.from_path("c", tmp_path / "a.parquet")
    decoded.UNITS.start_anew()
    decoded.UNITS.set_limit(8 << 20)
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated() + MEMORY.nbytes, 0
    stream = pipeline(dataset, None, ahead=1024, lanes=1, shuffle_block_size="auto")
    for _ in islice(iter(stream), 600):
        most = max(most, pool.bytes_allocated() + MEMORY.nbytes - before)
    stream.close()
    assert 2 << 20 < most < 24 << 20


@pytest.fixture(autouse=True)
def _limit() -> Any:
    yield
    decoded.UNITS.set_limit(decoded.DEFAULT_LIMIT)


def test_decoding_ahead_is_done_by_other_threads_and_an_error_comes_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards: list[Rows] = [[{"tokens": [i] * 40} for i in range(400)]]
    shards[0][250]["tokens"] = [1, None]
    dataset = write(tmp_path, "parquet", shards, units=100)
    names: list[str] = []
    original: Callable[..., Any] = ColumnShard._decode_tokens

    def spy(self: ColumnShard, unit: int) -> Any:
        names.append(threading.current_thread().name)
        return original(self, unit)

    monkeypatch.setattr(ColumnShard, "_decode_tokens", spy)
    counts = []
    for ahead in (0, 1024):
        decoded.UNITS.start_anew()
        stream = pipeline(dataset, None, ahead=ahead, lanes=1, shuffle_shards=False)
        delivered: list[Any] = []
        with pytest.raises(DataError, match="record 251, byte"):
            delivered.extend(stream)
        stream.close()
        counts.append(stream.checkpoint())
    assert counts[0] == counts[1]
    assert any(name.startswith("zephon-read") for name in names)
