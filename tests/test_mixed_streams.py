"""Sources of every format, text beside tokens, with operators, in every runner: one stream.

What comes out is compared with the same documents in memory, read by one process in its own thread.
"""

from __future__ import annotations

import gzip
import json
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import zephon
from random_operators import EITHER, STEP, add
from random_stops import stopped_anywhere
from zephon.block import TokenDocuments
from zephon.megatron.builder import IndexedDatasetBuilder
from zephon.ops.pack_options import ALGORITHMS
from zephon.types import SampleBatch

Rows = list[dict[str, Any]]
Delivered = tuple[int, bytes]
UNIT = 3  # documents of a row group, a frame, a member
TEXT = ("memory", "jsonl", "jsonl.gz", "jsonl.zst", "parquet", "arrow", "arrow stream")
TOKENS = ("memory", "bin", "parquet", "arrow", "arrow stream")
WORDS = ("the quick", "brown", "fox jumps over", "lazy dog", "\u00e9t\u00e9", "the the")


pytestmark = pytest.mark.usefixtures("small_windows")


def rows_of(number: int, lengths: Sequence[int], text: bool) -> Rows:
    if text:
        return [
            {"text": " ".join(WORDS[(i + at) % len(WORDS)] for at in range(1 + n % 7))}
            for i, n in enumerate(lengths)
        ]
    return [
        {"tokens": [number * 100 + (i + at) % 90 for at in range(n)]} for i, n in enumerate(lengths)
    ]


def write_lines(path: Path, rows: Rows, kind: str) -> None:
    parts = [
        "".join(json.dumps(row) + "\n" for row in rows[at : at + UNIT]).encode()
        for at in range(0, len(rows), UNIT)
    ]
    pack: Callable[[bytes], bytes] = {
        "jsonl": bytes,
        "jsonl.gz": gzip.compress,
        "jsonl.zst": zstandard.compress,
    }[kind]
    path.write_bytes(b"".join(map(pack, parts)))


def write_table(path: Path, rows: Rows, kind: str) -> None:
    types = {"text": pa.string(), "tokens": pa.list_(pa.int32())}
    schema = pa.schema([(name, types[name]) for name in rows[0]])
    table = pa.Table.from_pylist(rows, schema)
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=UNIT)
        return
    open_ = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    with open_(path, schema) as writer:
        writer.write_table(table, max_chunksize=UNIT)


def make_dataset(name: str, folder: Path, kind: str, rows: Rows, shards: int) -> zephon.Dataset:
    parts = [[rows[i] for i in part] for part in np.array_split(np.arange(len(rows)), shards)]
    if kind == "memory":
        shard = [
            zephon.InMemoryShard(
                [
                    {k: np.array(v, np.int32) if k == "tokens" else v for k, v in row.items()}
                    for row in part
                ]
            )
            for part in parts
        ]
        return zephon.Dataset.from_dict(name, dict(enumerate(shard)))
    folder.mkdir()
    for number, part in enumerate(parts):
        if kind == "bin":
            builder = IndexedDatasetBuilder(str(folder / f"{number}.bin"), dtype=np.uint16)
            for row in part:
                builder.add_document(np.array(row["tokens"], np.uint16), [len(row["tokens"])])
            builder.finalize(str(folder / f"{number}.idx"))
        elif kind.startswith("jsonl"):
            write_lines(folder / f"{number}.{kind}", part, kind)
        else:
            write_table(folder / f"{number}.{kind.split()[0]}", part, kind)
    return zephon.Dataset.from_path(name, folder)


@st.composite
def sources(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Documents of one to three sources, the first of text, and the format of each."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        text = number == 0 or draw(st.booleans())
        lengths = draw(st.lists(st.integers(0, 20), min_size=4, max_size=20).filter(any))
        found.append(
            {
                "rows": rows_of(number, lengths, text),
                "kind": draw(st.sampled_from(TEXT if text else TOKENS)),
                "shards": draw(st.integers(1, 3)),
            }
        )
    return found


@st.composite
def shapes(draw: st.DrawFn, *, finite: bool) -> dict[str, Any]:
    """Everything that makes a stream, but for its data."""
    return {
        "work": {
            "seed": draw(st.integers(0, 2**32)),
            "chunk_size": draw(st.sampled_from([4, 16])),
            "shuffle_within_shard": draw(st.booleans()),
            "shuffle_block_size": draw(st.sampled_from([None, 2, 5, "global"])),
            "exhausted_policy": "redistribute" if finite else "repeat",
        },
        "pack": {
            "max_length": draw(st.integers(4, 16)),
            "algorithm": draw(st.sampled_from(ALGORITHMS)),
            "drop_oversized": False,
        },
        "before": draw(st.lists(EITHER, max_size=2)),
        "after": draw(st.lists(st.one_of(STEP, st.just(("noise",))), max_size=2)),
        "shuffle": draw(st.sampled_from([0, 3])),
        "lanes": draw(st.sampled_from([1, 2, 4])),
    }


def build(
    datasets: list[zephon.Dataset],
    tokenizer: Path,
    shape: dict[str, Any],
    *,
    runner: str = "inline",
    ahead: int = 0,
    **options: Any,
) -> zephon.Pipeline:
    weights = {dataset.name: 1.0 + i for i, dataset in enumerate(datasets)}
    stream = zephon.Pipeline(zephon.StaticMixtureWorkSource(datasets, weights, **shape["work"]))
    for step in shape["before"]:
        add(stream, step)
    stream.tokenize(str(tokenizer), field="text")
    for step in shape["after"]:
        add(stream, step)
    stream.pack_flat(**shape["pack"])
    if shape["shuffle"]:
        stream.shuffle(shape["shuffle"])
    return (
        stream.batch(2, drop_last=False)
        .prefetch(ahead, 2)
        .options(canonical_replicas=shape["lanes"], runner=runner, vocab_size=2000, **options)
    )


def content(batch: SampleBatch) -> Delivered:
    tensors = batch.to_training(
        return_labels=True, dtype=np.int64, return_document_ids=True, return_padding_mask=True
    )
    data = b"".join(value.tobytes() for value in tensors.values() if isinstance(value, np.ndarray))
    lineage = [ref.cursor.lineage for r in batch.records for ref in r.meta.contribution_refs()]
    return batch.chunk_ids[0], data + repr((batch.ids, batch.lane_ids, lineage)).encode()


def take(stream: zephon.Pipeline, count: int) -> list[Delivered]:
    found = [content(batch) for batch in islice(iter(stream), count)]
    stream.close()
    return found


def both(folder: Path, made: list[dict[str, Any]]) -> tuple[list[zephon.Dataset], ...]:
    """The datasets as they are to be read, and in memory."""
    read, held = [], []
    for number, one in enumerate(made):
        name, rows, shards = "abc"[number], one["rows"], min(one["shards"], len(one["rows"]))
        read.append(make_dataset(name, folder / name, one["kind"], rows, shards))
        held.append(make_dataset(name, folder / name, "memory", rows, shards))
    return read, held


def goes_on_anywhere(
    tokenizer: Path,
    made: list[dict[str, Any]],
    shape: dict[str, Any],
    runners: Sequence[str],
    data: st.DataObject,
) -> None:
    draw = data.draw
    made = [*made, {"rows": rows_of(9, [5, 2], False), "kind": "memory", "shards": 1}][-3:]
    shape = {**shape, "after": [step for step in shape["after"] if step[0] != "drop_every"]}
    with tempfile.TemporaryDirectory() as folder:
        read, held = both(Path(folder), made)
        total = 4 * shape["lanes"]
        expected = take(build(held, tokenizer, shape), total)
        assert [number for number, _ in expected] == list(range(total))

        def make(rank: int, ranks: int) -> zephon.Pipeline:
            runner = draw(st.sampled_from(runners))
            ahead = draw(st.sampled_from([5, 60] if runner == "process" else [0, 5, 60]))
            more = {"runner": runner, "ahead": ahead, "dp_degree": ranks, "dp_group_id": rank}
            return build(read, tokenizer, shape, **more)

        sizes = [n for n in (1, 2, 4) if shape["lanes"] % n == 0]
        found = stopped_anywhere(draw, total, sizes, make, take)
        assert sorted(found) == expected


RANDOM = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # making one smaller takes minutes
)


@RANDOM
@given(sources(), shapes(finite=False), st.data())
def test_any_formats_operators_ranks_threads_and_stops_give_what_memory_gives(
    tokenizer_folder: Path, made: list[dict[str, Any]], shape: dict[str, Any], data: st.DataObject
) -> None:
    goes_on_anywhere(tokenizer_folder, made, shape, ("inline", "threads"), data)


@pytest.mark.slow
@settings(RANDOM, max_examples=6)
@given(sources(), shapes(finite=False), st.data())
def test_processes_give_the_same_of_any_formats_and_operators(
    tokenizer_folder: Path, made: list[dict[str, Any]], shape: dict[str, Any], data: st.DataObject
) -> None:
    goes_on_anywhere(tokenizer_folder, made, shape, ("process", "process", "threads"), data)


@RANDOM
@given(sources(), shapes(finite=True), st.sampled_from(["inline", "threads"]))
def test_a_pass_over_any_formats_has_the_documents_of_memory_each_once(
    tokenizer_folder: Path, made: list[dict[str, Any]], shape: dict[str, Any], runner: str
) -> None:
    shape = {**shape, "after": [s for s in shape["after"] if s[0] not in ("drop_every", "noise")]}
    options: dict[str, Any] = {"tail": "pad", "end": "filler"}
    with tempfile.TemporaryDirectory() as folder:
        read, held = both(Path(folder), made)
        expected = take(build(held, tokenizer_folder, shape, **options), 10_000)
        stream = build(read, tokenizer_folder, shape, runner=runner, ahead=9, **options)
        tokens: Counter[int] = Counter()
        found = []
        for batch in stream:
            found.append(content(batch))
            rows = batch.rows()
            for segment in np.flatnonzero(rows.source >= 0).tolist():
                tokens.update(rows.tokens(segment).tolist())
        assert found == expected
        encode = zephon.Pipeline(  # each document once, untouched
            zephon.StaticMixtureWorkSource(
                held, {d.name: 1.0 for d in held}, exhausted_policy="redistribute"
            )
        )
        encode.tokenize(str(tokenizer_folder), field="text").pack_flat(8).batch(1, drop_last=False)
        encode.options(tail="pad", end="filler")
        if all(step[0] != "shout" for step in shape["before"]):
            once: Counter[int] = Counter()
            for batch in encode:
                rows = batch.rows()
                for segment in np.flatnonzero(rows.source >= 0).tolist():
                    once.update(rows.tokens(segment).tolist())
            assert tokens == once


@pytest.mark.parametrize("kind", TEXT)
def test_a_dataset_read_as_text_opens_again_in_another_process(tmp_path: Path, kind: str) -> None:
    rows = [{"text": f"{i} fox", "tokens": [i, 1]} for i in range(7)]
    if kind.startswith("jsonl"):
        rows = [{"text": row["text"]} for row in rows]
    dataset = make_dataset("a", tmp_path / "a", kind, rows, 2)
    if kind not in ("memory", "jsonl", "jsonl.gz", "jsonl.zst"):  # tokens, unless text is asked for
        assert isinstance(dataset.read(np.arange(7)), TokenDocuments)
    again = pickle.loads(pickle.dumps(dataset.as_text("text")))
    documents = again.read(np.array([6, 0]))
    assert [record["text"] for record in documents.records] == ["6 fox", "0 fox"]
    assert again.digest() == dataset.digest()


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("operators", [False, True])
def test_tokens_stay_as_they_are_beside_text_that_is_tokenized(
    tmp_path: Path, tokenizer_folder: Path, kind: str, operators: bool
) -> None:
    tokens = make_dataset("b", tmp_path / "b", kind, [{"tokens": [7, 8]}, {"tokens": [9]}], 1)
    text = make_dataset("a", tmp_path / "a", "memory", [{"text": "fox"}], 1)
    shape: dict[str, Any] = {
        "work": {"exhausted_policy": "redistribute"},
        "pack": {"max_length": 32},
        "before": [("shout",)] if operators else [],
        "after": [],
        "shuffle": 0,
        "lanes": 1,
    }
    stream = build([text, tokens], tokenizer_folder, shape, tail="pad")
    (batch,) = list(stream)
    rows = batch.rows()
    found = {int(rows.source[i]): rows.tokens(i).tolist() for i in range(len(rows.source))}
    both_of_b = [rows.tokens(i).tolist() for i in np.flatnonzero(rows.source == 1)]
    assert sorted(both_of_b) == [[7, 8], [9]]
    assert found[0][0] == 0
    assert len(found[0]) > 2
