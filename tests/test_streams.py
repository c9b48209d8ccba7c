"""Whole streams of random shape: stopped anywhere, on any number of ranks and threads."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zephon
from random_stops import stopped_anywhere
from zephon import state as state_format
from zephon.errors import ConfigError, LifecycleError, StateError
from zephon.ops.pack_options import ALGORITHMS
from zephon.types import SampleBatch

MakeDataset = Callable[..., zephon.Dataset]
Delivered = tuple[int, bytes]


pytestmark = pytest.mark.usefixtures("small_windows")


@st.composite
def shapes(draw: st.DrawFn, *, finite: bool) -> dict[str, Any]:
    """Everything that makes a stream, but for its data."""
    algorithm = draw(st.sampled_from(ALGORITHMS))
    policy = draw(st.sampled_from([None, "stop", "redistribute"])) if finite else "repeat"
    return {
        "work": {
            "seed": draw(st.integers(0, 2**32)),
            "chunk_size": draw(st.sampled_from([2, 16, 64])),
            "shuffle_within_shard": draw(st.booleans()),
            "shuffle_block_size": draw(st.sampled_from([None, 2, 5, "auto", "global"])),
            "exhausted_policy": policy,
        },
        "pack": {
            "max_length": draw(st.integers(2, 20)),
            "algorithm": algorithm,
            "max_sequences_per_bin": draw(st.sampled_from([None, 3])),
            "drop_oversized": draw(st.sampled_from([None, False])),
        },
        "shuffle": draw(st.sampled_from([0, 3])),
        "lanes": draw(st.sampled_from([1, 2, 4, 6])),
        "tail": draw(st.sampled_from([None, "drop", "pad"])),
        "end": draw(st.sampled_from(["agree", "filler", "known"])),
    }


LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=25).filter(any)
SOURCES = st.lists(LENGTHS, min_size=1, max_size=3)


def build(
    datasets: list[zephon.Dataset],
    shape: dict[str, Any],
    *,
    ahead: int = 0,
    rank: int = 0,
    ranks: int = 1,
    batch: int = 2,
    drop_last: bool = True,
) -> zephon.Pipeline:
    weights = {dataset.name: 1.0 + 2 * i for i, dataset in enumerate(datasets)}
    stream = zephon.Pipeline(
        zephon.StaticMixtureWorkSource(datasets, weights, **shape["work"])
    ).pack_flat(**shape["pack"])
    if shape["shuffle"]:
        stream.shuffle(shape["shuffle"])
    return (
        stream.batch(batch, drop_last=drop_last)
        .prefetch(ahead, 2)
        .options(
            canonical_replicas=shape["lanes"],
            dp_degree=ranks,
            dp_group_id=rank,
            tail=shape["tail"],
            end=shape["end"],
        )
    )


def content(batch: SampleBatch) -> Delivered:
    tensors = batch.to_training(
        return_labels=True, dtype=np.int64, return_document_ids=True, return_padding_mask=True
    )
    data = b"".join(value.tobytes() for value in tensors.values() if isinstance(value, np.ndarray))
    return batch.chunk_ids[0], data + repr((batch.ids, batch.lane_ids)).encode()


def take(stream: zephon.Pipeline, count: int) -> list[Delivered]:
    iterator = iter(stream)
    found = [content(batch) for batch in islice(iterator, count)]
    stream.close()
    return found


def make_datasets(make: MakeDataset, lengths: list[list[int]]) -> list[zephon.Dataset]:
    return [
        make("abc"[i], some, base=i * 10**6, shards=1 + len(some) % 3)
        for i, some in enumerate(lengths)
    ]


RANDOM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RANDOM
@given(SOURCES, shapes(finite=False), st.data())
def test_any_ranks_and_stops_give_the_sequence_of_one_process(
    memory_dataset: MakeDataset,
    lengths: list[list[int]],
    shape: dict[str, Any],
    data: st.DataObject,
) -> None:
    draw = data.draw
    datasets = make_datasets(memory_dataset, lengths)
    if all(n > shape["pack"]["max_length"] or n == 0 for some in lengths for n in some):
        shape["pack"]["drop_oversized"] = False
    total = 5 * shape["lanes"]
    expected = take(build(datasets, shape), total)
    assert [number for number, _ in expected] == list(range(total))
    legal = [n for n in (1, 2, 3, 4, 6) if shape["lanes"] % n == 0]

    def make(rank: int, ranks: int) -> zephon.Pipeline:
        ahead = draw(st.sampled_from([0, 0, 40]))
        return build(datasets, shape, rank=rank, ranks=ranks, ahead=ahead)

    found = stopped_anywhere(draw, total, legal, make, take)
    assert sorted(found) == expected
    assert [number for number, _ in sorted(found)] == list(range(total))


@RANDOM
@given(SOURCES, shapes(finite=True), st.booleans(), st.data())
def test_a_pass_delivers_every_document_once_or_counts_it_and_resumes_anywhere(
    memory_dataset: MakeDataset,
    lengths: list[list[int]],
    shape: dict[str, Any],
    drop_last: bool,
    data: st.DataObject,
) -> None:
    datasets = make_datasets(memory_dataset, lengths)
    shape["work"]["exhausted_policy"] = "redistribute"
    stream = build(datasets, shape, drop_last=drop_last)
    tokens: Counter[int] = Counter()
    expected = []
    for batch in stream:
        expected.append(content(batch))
        for record in batch.records:
            real = record.meta.tags["_packing_metadata"]["total_length"]
            if record.meta.sample_id[0] >= 0:
                tokens.update(record.payload["input_ids"][:real].tolist())
    assert max(tokens.values(), default=1) == 1
    whole = {
        i * 10**6 + 1000 * d + t
        for i, some in enumerate(lengths)
        for d, n in enumerate(some)
        for t in range(n)
    }
    assert set(tokens) <= whole
    if shape["end"] == "filler" and not drop_last and shape["tail"] == "pad":
        drops = shape["pack"]["drop_oversized"] is None and "wrap" not in shape["pack"]["algorithm"]
        oversized = sum(n for some in lengths for n in some if n > shape["pack"]["max_length"])
        assert len(whole) - len(tokens) == (oversized if drops else 0)
    assert stream.passes == 1

    stop = data.draw(st.integers(0, len(expected)))
    first = build(datasets, shape, drop_last=drop_last, ahead=data.draw(st.sampled_from([0, 40])))
    found = take(first, stop)
    second = build(datasets, shape, drop_last=drop_last)
    second.restore(first.local_state())
    assert found + [content(batch) for batch in second] == expected


@RANDOM
@given(SOURCES, shapes(finite=True), st.booleans(), st.data())
def test_an_end_that_is_known_is_the_one_that_is_agreed_on_for_any_ranks_and_stops(
    memory_dataset: MakeDataset,
    lengths: list[list[int]],
    shape: dict[str, Any],
    drop_last: bool,
    data: st.DataObject,
) -> None:
    datasets = make_datasets(memory_dataset, lengths)
    if all(n > shape["pack"]["max_length"] or n == 0 for some in lengths for n in some):
        shape["pack"]["drop_oversized"] = False
    shape["end"] = "agree"
    agreed = build(datasets, shape, drop_last=drop_last)
    expected = [content(batch) for batch in agreed]
    shape["end"] = "known"
    legal = [n for n in (1, 2, 4) if shape["lanes"] % n == 0]
    found: list[Delivered] = []
    state: bytes | None = None
    # Some steps on some ranks, then the rest on others: none of them meets another.
    for last in (False, True):
        ranks = data.draw(st.sampled_from(legal))
        steps = 10**6 if last else data.draw(st.integers(0, len(expected) // ranks))
        parts = []
        for rank in range(ranks):
            stream = build(datasets, shape, rank=rank, ranks=ranks, drop_last=drop_last)
            if state is not None:
                stream.restore(state)
            found += take(stream, steps)
            if not last and data.draw(st.booleans()):
                iter(stream)  # again in the same process, where other lanes' places are not known
                stream.close()
            parts.append(stream.local_state())
        state = state_format.merge(parts)
    assert sorted(found) == expected
    if expected or state_format.decode(state).passes:
        assert state == agreed.local_state()


def test_an_end_cannot_be_known_where_lengths_are_not(
    write_jsonl: Callable[..., Any], tokenizer_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zephon import estimate

    text = zephon.Dataset.from_path("text", write_jsonl("t.jsonl", ["the fox"] * 5000))

    def make(dataset: zephon.Dataset, **more: Any) -> zephon.Pipeline:
        work = zephon.StaticMixtureWorkSource([dataset], {dataset.name: 1})
        stream = zephon.Pipeline(work).tokenize(tokenizer_folder, field="text")
        return stream.pack_flat(9).batch(1).prefetch(0).options(end="known", **more)

    stream = make(text)
    told = "end='known' needs the length of every document before the first batch, and those of"
    with pytest.raises(ConfigError, match=told):
        next(iter(stream))
    assert [issue.code for issue in stream.validate().errors] == ["end-not-known"]
    tokens = zephon.Dataset.from_dict("m", {0: zephon.InMemoryShard([{"tokens": [1] * 9}] * 9)})
    work = zephon.StaticMixtureWorkSource([tokens], {"m": 1})
    for limit, cap in (("MOST_ADDED_DRAWS", None), ("EXACT_DRAWS", 3)):
        monkeypatch.setattr(estimate, limit, 8)
        whole = zephon.Pipeline(work).pack_flat(9, max_sequences_per_bin=cap).batch(1)
        with pytest.raises(ConfigError, match="the lengths of all 9 documents of a pass"):
            iter(whole.options(end="known"))


def test_the_second_pass_is_another_order_of_the_same_documents(
    memory_dataset: MakeDataset,
) -> None:
    def make() -> zephon.Pipeline:
        source = zephon.StaticMixtureWorkSource(
            [memory_dataset("a", [4] * 40)], {"a": 1}, shuffle_block_size="global"
        )
        return zephon.Pipeline(source).pack_flat(4).batch(1, drop_last=False)

    def documents(stream: zephon.Pipeline) -> list[tuple[int, int, int]]:
        return [batch.ids[0] for batch in stream]

    stream = make()
    first = documents(stream)
    state = stream.checkpoint()
    assert "in pass 2" in state_format.describe(state["state"])
    second = documents(stream)
    assert stream.passes == 2
    assert sorted(first) == sorted(second)
    assert first != second
    again = make()
    again.restore(state)
    assert documents(again) == second


def test_lanes_of_different_length_end_by_agreement_or_with_fillers(
    memory_dataset: MakeDataset, caplog: pytest.LogCaptureFixture
) -> None:
    def run(end: str) -> list[SampleBatch]:
        source = zephon.StaticMixtureWorkSource(
            [memory_dataset("a", [8, 8, 8, 8, 1, 8, 1, 8])],
            {"a": 1},
            shuffle_shards=False,
            chunk_size=4,
        )
        stream = zephon.Pipeline(source).pack_flat(8, pad_token_id=5).batch(1)
        return list(stream.options(canonical_replicas=2, end=end))

    with caplog.at_level(logging.WARNING, "zephon.runtime.stream"):
        agreed = run("agree")
    assert len(agreed) % 2 == 0
    assert "tokens at the ends of lanes" in caplog.text
    filled = run("filler")
    assert len(filled) > len(agreed)
    assert len(filled) % 2 == 0
    fillers = [batch for batch in filled if batch.ids == ((-1, -1, -1),)]
    assert 1 <= len(fillers) < len(filled) - len(agreed)
    out = fillers[0].to_training(
        return_labels=True, return_padding_mask=True, return_num_valid_tokens=True
    )
    assert out["num_valid_tokens"] == 0
    assert out["input_ids"].tolist() == [[5] * 7]
    assert out["padding_mask"].tolist() == [[False] + [True] * 6]
    assert fillers[0].token_counts() == {}


def test_small_datasets_and_many_lanes_lose_nothing(memory_dataset: MakeDataset) -> None:
    source = zephon.StaticMixtureWorkSource([memory_dataset("a", [3, 5])], {"a": 1})
    stream = zephon.Pipeline(source).pack_flat(8).batch(1, drop_last=False)
    stream.options(canonical_replicas=8, tail="pad", end="filler")
    found = [batch.ids[0] for batch in stream if batch.ids[0][0] >= 0]
    assert sorted(found) == [(0, 0, 0), (0, 0, 1)]


def test_what_was_left_out_is_counted_across_a_resume(memory_dataset: MakeDataset) -> None:
    def make() -> zephon.Pipeline:
        source = zephon.StaticMixtureWorkSource(
            [memory_dataset("a", [0, 3, 50, 0, 5, 60, 2])], {"a": 1}, exhausted_policy="repeat"
        )
        return zephon.Pipeline(source).pack_flat(9, algorithm="best_fit").batch(1)

    whole = make()
    take(whole, 60)
    half = make()
    take(half, 31)
    rest = make()
    rest.restore(half.checkpoint())
    take(rest, 29)
    dropped = rest.dropped()
    assert dropped == whole.dropped()
    assert dropped.empty > 0
    assert 50 * dropped.oversized < dropped.oversized_tokens < 60 * dropped.oversized


def test_a_rank_gives_its_part_and_not_the_whole(memory_dataset: MakeDataset) -> None:
    shape: dict[str, Any] = {
        "work": {"exhausted_policy": "repeat"},
        "pack": {"max_length": 8},
        "shuffle": 0,
        "lanes": 4,
        "tail": None,
        "end": "agree",
    }
    datasets = [memory_dataset("a", [5, 6, 7])]
    stream = build(datasets, shape, rank=1, ranks=2)
    with pytest.raises(LifecycleError, match="not initialised: call init_process_group first"):
        stream.checkpoint()
    with pytest.raises(StateError, match="the part of rank 1 of 2 only: join the parts"):
        build(datasets, shape).restore(stream.local_state())
    shape["work"] = {}
    with pytest.raises(LifecycleError, match="not initialised"):
        iter(build(datasets, shape, ranks=2))  # a pass that ends, on ranks that cannot agree


def test_changing_one_document_changes_no_other(memory_dataset: MakeDataset) -> None:
    """Document isolation, for every algorithm: only columns of the changed document move."""
    for algorithm in ALGORITHMS:
        batches = []
        for value in (0, 7):
            rows = [{"tokens": np.full(n, 10 * i)} for i, n in enumerate([5, 3, 9, 4, 6, 2, 8])]
            rows[3]["tokens"] = rows[3]["tokens"] + value
            dataset = zephon.Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)})
            source = zephon.StaticMixtureWorkSource([dataset], {"a": 1})
            stream = zephon.Pipeline(source).pack_flat(12, algorithm=algorithm)
            stream.batch(8, drop_last=False).options(tail="pad")
            [batch] = list(stream)
            batches.append(batch.to_training(dtype=np.int64, return_document_ids=True))
        one, other = batches
        for name in ("positions", "document_ids"):
            assert (one[name] == other[name]).all()
        moved = one["input_ids"] != other["input_ids"]
        assert (one["input_ids"][moved] == 30).all()
        assert moved.sum() == 4
