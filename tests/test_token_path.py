"""Token files, whose documents are only places, against the same documents read one by one."""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zephon
from zephon import state as state_format
from zephon.block import SharedBuffers, mapping_of
from zephon.errors import DataError, StateError
from zephon.megatron.builder import IndexedDatasetBuilder
from zephon.ops import pack as pack_module
from zephon.ops.pack_options import ALGORITHMS
from zephon.runtime import lane as lane_module
from zephon.runtime import places as places_module
from zephon.runtime.metrics import Metrics
from zephon.types import SampleBatch

KINDS = ["u1", "i2", "u2", "i4", "i8"]
Make = Callable[[list[list[list[int]]], str], list[zephon.Dataset]]


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_module, "WINDOW_DOCUMENTS", 6)
    monkeypatch.setattr(pack_module, "WINDOW_ROWS", 3)
    monkeypatch.setattr(places_module, "_FIRST", 3)  # blocks of 3, 12, 40, 40, ...
    monkeypatch.setattr(places_module, "_MOST", 40)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Datasets of documents of given lengths: for each source a list for each file."""
    made: dict[str, list[zephon.Dataset]] = {}

    def write(path: Path, lengths: list[int], kind: str) -> None:
        rng = np.random.default_rng(len(lengths))
        builder = IndexedDatasetBuilder(f"{path}.bin", dtype=np.dtype(kind).type)
        for n in lengths:
            builder.add_document(rng.integers(0, 100, n).astype(kind), [n])
        builder.finalize(f"{path}.idx")

    def make(sources: list[list[list[int]]], kind: str) -> list[zephon.Dataset]:
        key = repr((sources, kind))
        if key not in made:
            folder = tmp_path_factory.mktemp("files")
            made[key] = []
            for i, shards in enumerate(sources):
                for k, lengths in enumerate(shards):
                    write(folder / f"{i}-{k}", lengths, kind)
                paths = [folder / f"{i}-{k}" for k in range(len(shards))]
                made[key].append(zephon.Dataset.from_path("abc"[i], paths))
        return made[key]

    return make


LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=25)
SOURCES = st.lists(
    st.lists(LENGTHS, min_size=1, max_size=3).filter(lambda shards: any(map(any, shards))),
    min_size=1,
    max_size=3,
)


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    """Everything that makes a stream, but for its data."""
    pack = {
        "max_length": draw(st.integers(2, 20)),
        "algorithm": draw(st.sampled_from(("wrap", *ALGORITHMS))),
        "max_sequences_per_bin": draw(st.sampled_from([None, 3])),
        "drop_oversized": draw(st.sampled_from([None, False])),
        "pad_token_id": draw(st.sampled_from([None, 7])),
    }
    return {
        "work": {
            "seed": draw(st.integers(0, 2**32)),
            "chunk_size": draw(st.sampled_from([2, 16, 64])),
            "shuffle_within_shard": draw(st.booleans()),
            "shuffle_block_size": draw(st.sampled_from([None, 2, 5, "auto", "global"])),
            "exhausted_policy": draw(st.sampled_from([None, "stop", "redistribute", "repeat"])),
        },
        "pack": pack,
        "shuffle": draw(st.sampled_from([0, 3])),
        "lanes": draw(st.sampled_from([1, 2, 4, 6])),
        "batch": draw(st.sampled_from([1, 2, 5])),
        "drop_last": draw(st.booleans()),
        "options": {
            "tail": draw(st.sampled_from([None, "drop", "pad"])),
            "end": draw(st.sampled_from(["agree", "filler"])),
            "vocab_size": draw(st.sampled_from([None, 100])),
        },
    }


def build(datasets: list[zephon.Dataset], shape: dict[str, Any]) -> zephon.Pipeline:
    weights = {dataset.name: 1.0 + 2 * i for i, dataset in enumerate(datasets)}
    work = zephon.StaticMixtureWorkSource(datasets, weights, **shape["work"])
    stream = zephon.Pipeline(work).pack_flat(**shape["pack"])
    if shape["shuffle"]:
        stream.shuffle(shape["shuffle"])
    stream.batch(shape["batch"], drop_last=shape["drop_last"]).prefetch(0)
    return stream.options(canonical_replicas=shape["lanes"], **shape["options"])


def content(batch: SampleBatch) -> tuple[Any, ...]:
    """All that can be seen of a batch."""
    tensors = batch.to_training(
        return_labels=True,
        dtype=np.int64,
        return_document_ids=True,
        return_padding_mask=True,
        return_cu_seqlens=True,
        mask_segment_starts=True,
    )
    return (
        {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in tensors.items()},
        [_told(record.meta) for record in batch.records],
        batch.token_counts(),
        batch.document_counts(),
        batch.chunk_ids,
        batch.lane_ids,
    )


def _told(meta: zephon.types.SampleMeta) -> zephon.types.SampleMeta:
    tags = {name: value for name, value in meta.tags.items() if name != "documents"}
    return replace(meta, tags=tags)


def read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "placed_reader", lambda datasets: None)


def watched(stream: zephon.Pipeline, count: int) -> Iterator[Any]:
    """Each batch, the state and the counts behind it."""
    for batch in islice(stream, count):
        yield content(batch), stream.local_state(), stream.dropped()


MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@MANY
@given(SOURCES, shapes(), st.sampled_from(KINDS), st.data())
def test_places_give_the_batches_states_and_counts_of_documents_that_are_read(
    files: Make,
    lengths: list[list[list[int]]],
    shape: dict[str, Any],
    kind: str,
    data: st.DataObject,
) -> None:
    datasets = files(lengths, kind)
    fits = [n for shards in lengths for some in shards for n in some]
    if all(n > shape["pack"]["max_length"] or n == 0 for n in fits):
        shape["pack"]["drop_oversized"] = False
    total = 4 * shape["lanes"]
    placed = build(datasets, shape)
    found = list(watched(placed, total))
    with pytest.MonkeyPatch.context() as patch:
        read_one_by_one(patch)
        expected = list(watched(build(datasets, shape), total))
    assert found == expected
    # And from any of the states on, in either way.
    if found:
        at = data.draw(st.integers(0, len(found) - 1))
        with pytest.MonkeyPatch.context() as patch:
            if data.draw(st.booleans()):
                read_one_by_one(patch)
            again = build(datasets, shape)
            again.restore(found[at][1])
            assert list(watched(again, len(found) - at - 1)) == found[at + 1 :]


@MANY
@given(SOURCES, shapes(), st.data())
def test_ranks_stops_and_other_batch_sizes_leave_the_rows_of_every_lane_as_they_are(
    files: Make, lengths: list[list[list[int]]], shape: dict[str, Any], data: st.DataObject
) -> None:
    datasets = files(lengths, "u2")
    shape["work"]["exhausted_policy"] = "repeat"
    if shape["pack"]["algorithm"] in ("first_fit", "best_fit"):
        shape["pack"]["drop_oversized"] = False
    lanes, size = shape["lanes"], 2

    def make(batch: int, rank: int = 0, ranks: int = 1) -> zephon.Pipeline:
        stream = build(datasets, {**shape, "batch": batch})
        return stream.options(dp_degree=ranks, dp_group_id=rank)

    def rows(batch: SampleBatch) -> list[Any]:
        tokens = batch.to_training(dtype=np.int64, return_document_ids=True)
        return list(zip(tokens["input_ids"].tolist(), tokens["document_ids"].tolist(), strict=True))

    expected: dict[int, list[Any]] = {lane: [] for lane in range(lanes)}
    stream = make(size)
    for batch in islice(stream, 12 * lanes):
        expected[batch.lane_ids[0]] += rows(batch)
    stream.close()
    found: dict[int, list[Any]] = {lane: [] for lane in range(lanes)}
    state: bytes | None = None
    for _ in range(3):
        ranks = data.draw(st.sampled_from([n for n in (1, 2, 3, 4) if lanes % n == 0]))
        steps, size = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 2, 3]))
        parts = []
        for rank in range(ranks):
            stream = make(size, rank, ranks)
            if state is not None:
                stream.restore(state)
            for batch in islice(stream, steps):
                found[batch.lane_ids[0]] += rows(batch)
            stream.close()
            parts.append(stream.local_state())
        state = state_format.merge(parts)
    for lane, some in found.items():
        common = min(len(some), len(expected[lane]))
        assert some[:common] == expected[lane][:common]


@MANY
@given(SOURCES, shapes())
def test_a_pass_of_cut_rows_leaves_out_less_than_a_batch_and_a_row_of_each_lane(
    files: Make, lengths: list[list[list[int]]], shape: dict[str, Any]
) -> None:
    datasets = files(lengths, "u2")
    shape["work"]["exhausted_policy"] = "redistribute"
    shape["options"] |= {"tail": None, "end": "filler"}
    shape["shuffle"] = 0
    shape["pack"] |= {"algorithm": "wrap", "max_sequences_per_bin": None, "drop_oversized": None}
    stream = build(datasets, shape)
    given_tokens = sum(sum(batch.token_counts().values()) for batch in stream)
    whole = sum(n for shards in lengths for some in shards for n in some)
    row, lanes = shape["pack"]["max_length"], shape["lanes"]
    size = shape["batch"] if shape["drop_last"] else 0
    assert 0 <= whole - given_tokens < lanes * row * (1 + size)


def test_token_files_are_places_and_start_no_thread(files: Make) -> None:
    import threading

    datasets = files([[[5, 9, 0, 7] * 40]], "u2")
    shape: dict[str, Any] = {"max_length": 16}
    work = zephon.StaticMixtureWorkSource(datasets, {"a": 1}, exhausted_policy="repeat")
    before = threading.active_count()
    stream = zephon.Pipeline(work).pack_flat(**shape).batch(2)
    assert stream._said.stream_plan(work, Metrics()).lane.placed is not None
    assert "token files are packed without threads" in stream.explain()
    for _ in islice(stream, 50):
        assert threading.active_count() == before
    stream.close()


def test_a_lane_holds_few_documents_where_lanes_are_many(
    files: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    datasets = files([[[5, 9, 0, 7] * 40]], "u2")
    reader = places_module.PlacedReader(tuple(datasets))
    for lanes, sizes in ((1, [64, 256, 1024, 1024]), (512, [64, 256, 256]), (2**16, [32, 32])):
        work = zephon.StaticMixtureWorkSource(datasets, {"a": 1}, exhausted_policy="repeat")
        blocks = reader.blocks(work.lane(0, lanes), 0, lanes)
        assert [len(block) for block in islice(blocks, len(sizes))] == sizes


def test_a_mixture_of_many_files_keeps_one_table_of_buffers(files: Make) -> None:
    lengths = [[[3, 4, 5]] * 20, [[6, 7]] * 20]
    datasets = files(lengths, "i4")
    for algorithm in ALGORITHMS:
        work = zephon.StaticMixtureWorkSource(
            datasets, {"a": 1, "b": 2}, exhausted_policy="repeat", chunk_size=8
        )
        stream = zephon.Pipeline(work).pack_flat(9, algorithm=algorithm).batch(4)
        tables = {id(batch.rows().buffers) for batch in islice(stream, 40)}
        assert len(tables) == 1
        stream.close()


def test_a_buffer_knows_the_file_that_it_is_mapped_from(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_bytes(bytes(8192))
    mapped = np.memmap(tmp_path / "tokens", np.uint16, "r")
    with open(tmp_path / "tokens", "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(mapping, np.uint8)[100:].view(np.uint16)
    assert mapping_of(array) is mapping
    assert mapping_of(mapped[3:]) is not None
    assert mapping_of(np.zeros(3)) is None
    told: list[int] = []
    buffers = SharedBuffers.of((np.zeros(3, np.int32), array), told.append)
    assert len(buffers.native) == 2
    used = np.array([1, 1, 0], np.int32)
    buffers.check(used)
    (tmp_path / "tokens").write_bytes(bytes(100))
    buffers.check(used[2:])
    assert not told
    buffers.check(used)
    assert told == [1]


def test_documents_that_must_be_joined_are_read(tmp_path: Path) -> None:
    builder = IndexedDatasetBuilder(f"{tmp_path / 'a'}.bin", dtype=np.int32)
    for n in (4, 6):
        builder.add_document(np.arange(n), [n])
    builder.finalize(f"{tmp_path / 'a'}.idx")
    dataset = zephon.Dataset.from_path("a", tmp_path / "a")
    assert dataset.token_places() is not None
    memory = zephon.Dataset.from_dict("m", {0: zephon.InMemoryShard([{"tokens": [1, 2]}])})
    assert memory.token_places() is None
    assert places_module.placed_reader((dataset, memory)) is None


def test_a_file_that_was_cut_is_told_and_not_read(tmp_path: Path) -> None:
    builder = IndexedDatasetBuilder(f"{tmp_path / 'a'}.bin", dtype=np.int32)
    for _ in range(200):
        builder.add_document(np.arange(100), [100])
    builder.finalize(f"{tmp_path / 'a'}.idx")
    dataset = zephon.Dataset.from_path("a", tmp_path / "a")

    work = zephon.StaticMixtureWorkSource([dataset], {"a": 1}, shuffle_block_size="global")
    stream = zephon.Pipeline(work).pack_flat(64).batch(1)
    iterator = iter(stream)
    next(iterator)
    state = stream.local_state()
    batch = next(iterator)
    with open(tmp_path / "a.bin", "r+b") as file:
        file.truncate(400)
    with pytest.raises(DataError, match="it was truncated while in use"):
        batch.to_training()
    stream.close()
    stream.restore(state)
    with pytest.raises(DataError, match="it was truncated while in use"):
        next(iter(stream))


def test_an_open_document_that_has_changed_is_noticed(tmp_path: Path) -> None:
    builder = IndexedDatasetBuilder(f"{tmp_path / 'a'}.bin", dtype=np.int32)
    for _ in range(5):
        builder.add_document(np.arange(100), [100])
    builder.finalize(f"{tmp_path / 'a'}.idx")
    dataset = zephon.Dataset.from_path("a", tmp_path / "a")
    work = zephon.StaticMixtureWorkSource([dataset], {"a": 1}, shuffle_shards=False)
    stream = zephon.Pipeline(work).pack_flat(64).batch(1)
    next(iter(stream))
    saved = state_format.decode(stream.local_state())
    with open(tmp_path / "a.bin", "r+b") as file:
        file.seek(4 * 30)
        file.write(b"\x07")
    stream.close()
    stream.restore(state_format.encode(saved))
    with pytest.raises(StateError, match="is not the one of which 64 tokens were delivered"):
        next(iter(stream))


def test_datasets_without_a_token_end_with_an_error(
    files: Make, caplog: pytest.LogCaptureFixture
) -> None:
    datasets = files([[[0, 0, 0]], [[30, 30]]], "u2")
    for weights, algorithm in (({"a": 1}, "wrap"), ({"b": 1}, "best_fit")):
        chosen = [dataset for dataset in datasets if dataset.name in weights]
        work = zephon.StaticMixtureWorkSource(chosen, weights, exhausted_policy="repeat")
        stream = zephon.Pipeline(work).pack_flat(8, algorithm=algorithm).batch(1)
        with caplog.at_level(logging.ERROR), pytest.raises(DataError, match="have no tokens"):
            next(iter(stream))
