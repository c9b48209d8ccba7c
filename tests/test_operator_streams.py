"""Streams with random operators: as the oracle says, wherever they run and stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import user_functions as functions
import zephon
from oracles import operators as oracle
from random_operators import STEPS, add
from random_stops import stopped_anywhere
from zephon.ops.pack_options import ALGORITHMS
from zephon.types import SampleBatch

MakeDataset = Callable[..., zephon.Dataset]
RANDOM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


pytestmark = pytest.mark.usefixtures("small_windows")


LENGTHS = st.lists(st.integers(0, 20), min_size=1, max_size=25).filter(any)
SOURCES = st.lists(LENGTHS, min_size=1, max_size=3)


def build(
    datasets: list[zephon.Dataset],
    steps: list[tuple[Any, ...]],
    *,
    policy: str = "repeat",
    pack: dict[str, Any] | None = None,
    shuffle: int = 0,
    tokenizer: Any = None,
    after: int = 0,
    ahead: int = 0,
    **options: Any,
) -> zephon.Pipeline:
    weights = {dataset.name: 1.0 + i for i, dataset in enumerate(datasets)}
    work = zephon.StaticMixtureWorkSource(
        datasets, weights, chunk_size=16, shuffle_block_size=4, exhausted_policy=policy
    )
    stream = zephon.Pipeline(work)
    if tokenizer is None:
        after = 0
    for step in steps[: len(steps) - after]:
        add(stream, step)
    if tokenizer is not None:
        stream.tokenize(str(tokenizer), field="text")
    for step in steps[len(steps) - after :]:
        add(stream, step)
    stream.pack_flat(**(pack or {"max_length": 8}))
    if shuffle:
        stream.shuffle(shuffle)
    return stream.batch(2, drop_last=False).prefetch(ahead, 2).options(**options)


def make_datasets(make: MakeDataset, lengths: list[list[int]]) -> list[zephon.Dataset]:
    return [make("abcd"[i], some, base=i * 10**6) for i, some in enumerate(lengths)]


def expected_documents(
    stream: zephon.Pipeline, steps: list[tuple[Any, ...]], lanes: int
) -> list[list[list[int]]]:
    """By lane: tokens of the documents that the oracle lets out of one pass."""
    work = stream.ws
    sources = len(work.datasets)
    shares = {i: (1.0 + i) / (sources * (sources + 1) / 2) for i in range(sources)}
    found = []
    for lane in range(lanes):
        order = work.lane(lane, lanes)
        length = order.length()
        assert length is not None
        draws = order.draws(0, length)
        documents = []
        for at in range(length):
            source, row = int(draws.sources[at]), int(draws.rows[at])
            (record,) = work.datasets[source].read(np.array([row])).records  # type: ignore[union-attr]
            documents.append(oracle.Document(record["tokens"].tolist(), at, source))
        out = oracle.run(documents, length, steps, shares)
        found.append([d.tokens for d in out if d.tokens])
    return found


@RANDOM
@given(SOURCES, STEPS, st.sampled_from([1, 2, 3]), st.sampled_from([0, 30]))
def test_a_pass_gives_what_the_oracle_gives_token_for_token(
    memory_dataset: MakeDataset,
    lengths: list[list[int]],
    steps: list[tuple[Any, ...]],
    lanes: int,
    ahead: int,
) -> None:
    datasets = make_datasets(memory_dataset, lengths)
    stream = build(
        datasets,
        steps,
        policy="redistribute",
        ahead=ahead,
        canonical_replicas=lanes,
        tail="pad",
        end="filler",
    )
    expected = expected_documents(stream, steps, lanes)
    found: list[list[int]] = [[] for _ in range(lanes)]
    dropped = 0
    for batch in stream:
        dropped = stream.dropped().filtered
        rows = batch.rows()
        for segment in np.flatnonzero(rows.source >= 0).tolist():
            found[batch.lane_ids[0]] += rows.tokens(segment).tolist()
    assert found == [[t for document in some for t in document] for some in expected]
    if all(name == "drop_every" for name, *_ in steps) and any(map(any, expected)):
        total = sum(map(len, lengths))
        empty = sum(n == 0 for some in lengths for n in some)
        kept = sum(map(len, expected))
        assert dropped <= total - empty - kept  # the last window may leave some behind its rows


@RANDOM
@given(
    SOURCES,
    STEPS,
    st.sampled_from(ALGORITHMS),
    st.sampled_from([0, 3]),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.data(),
)
def test_any_ranks_threads_and_stops_give_the_sequence_of_one_process(
    memory_dataset: MakeDataset,
    lengths: list[list[int]],
    steps: list[tuple[Any, ...]],
    algorithm: str,
    shuffle: int,
    lanes: int,
    noise: bool,
    data: st.DataObject,
) -> None:
    draw = data.draw
    datasets = make_datasets(memory_dataset, [*lengths, [5, 2]])  # something always comes out
    shape: dict[str, Any] = {
        "pack": {"max_length": 8, "algorithm": algorithm, "drop_oversized": False},
        "shuffle": shuffle,
        "canonical_replicas": lanes,
    }
    steps = [*steps, ("noise",)] if noise else steps
    total = 5 * lanes
    expected = take(build(datasets, steps, **shape), total)

    def make(rank: int, ranks: int) -> zephon.Pipeline:
        ahead = draw(st.sampled_from([0, 0, 40]))
        return build(datasets, steps, **shape, ahead=ahead, dp_degree=ranks, dp_group_id=rank)

    sizes = [n for n in (1, 2, 4) if lanes % n == 0]
    found = stopped_anywhere(draw, total, sizes, make, take)
    assert sorted(found) == expected


def take(stream: zephon.Pipeline, count: int) -> list[tuple[int, bytes]]:
    found = [content(batch) for batch in islice(iter(stream), count)]
    stream.close()
    return found


def content(batch: SampleBatch) -> tuple[int, bytes]:
    tensors = batch.to_training(return_labels=True, dtype=np.int64, return_document_ids=True)
    data = b"".join(value.tobytes() for value in tensors.values() if isinstance(value, np.ndarray))
    lineage = [ref.cursor.lineage for r in batch.records for ref in r.meta.contribution_refs()]
    return batch.chunk_ids[0], data + repr((batch.ids, batch.lane_ids, lineage)).encode()


def text_datasets() -> list[zephon.Dataset]:
    words = ["the quick", "brown fox jumps", "over", "the lazy dog and the fox", "jumps"]
    rows = [{"text": words[i % 5] + " " + words[i * 3 % 5]} for i in range(23)]
    return [
        zephon.Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)}),
        zephon.Dataset.from_dict("b", {0: zephon.InMemoryShard(rows[:7])}),
    ]


@settings(max_examples=12, deadline=None)
@given(STEPS, st.sampled_from(ALGORITHMS), st.integers(1, 9))
def test_operators_on_tokens_of_text_go_on_after_any_stop(
    tokenizer_folder: Any, steps: list[tuple[Any, ...]], algorithm: str, stop: int
) -> None:
    def make(ahead: int) -> zephon.Pipeline:
        return build(
            text_datasets(),
            steps,
            after=len(steps),
            tokenizer=tokenizer_folder,
            ahead=ahead,
            pack={"max_length": 9, "algorithm": algorithm, "drop_oversized": False},
            canonical_replicas=2,
        )

    expected = take(make(0), 10)
    stream = make(40)
    found = take(stream, stop)
    again = make(0)
    again.restore(stream.checkpoint())
    assert found + take(again, 10 - stop) == expected


def test_every_runner_gives_the_same_and_goes_on_where_another_stopped(
    memory_dataset: MakeDataset,
) -> None:
    datasets = make_datasets(memory_dataset, [[3, 9, 0, 14, 5, 8, 2, 11, 6], [4, 4, 17]])
    steps: list[tuple[Any, ...]] = [
        ("drop_every", 3000),
        ("cut", 5),
        ("noise",),
        ("backwards", 4),
        ("hold_one", 8),
        ("ensure_mixture", 8, None),
    ]

    def make(runner: str) -> zephon.Pipeline:
        return build(datasets, steps, ahead=40, canonical_replicas=2, runner=runner)

    expected = take(make("inline"), 24)
    found: list[tuple[int, bytes]] = []
    state = None
    for runner in ("process", "threads", "inline", "process"):
        stream = make(runner)
        if state is not None:
            stream.restore(state)
        found += take(stream, 6)
        state = stream.checkpoint()
    assert found == expected


def test_a_multiset_of_documents_survives_fan_out_and_several_lanes(
    memory_dataset: MakeDataset,
) -> None:
    datasets = make_datasets(memory_dataset, [list(range(30))])
    stream = build(
        datasets,
        [("cut", 4), ("backwards", 3)],
        policy="redistribute",
        pack={"max_length": 16, "algorithm": "best_fit"},
        canonical_replicas=3,
        end="filler",
    )
    found: Counter[int] = Counter()
    for batch in stream:
        rows = batch.rows()
        for segment in np.flatnonzero(rows.source >= 0).tolist():
            assert len(rows.tokens(segment)) <= 4
            found.update(rows.tokens(segment).tolist())
    assert found == Counter(1000 * i + n for i in range(30) for n in range(i))


def test_text_is_tokenized_in_processes_to_the_same(tokenizer_folder: Any) -> None:
    def make(runner: str) -> zephon.Pipeline:
        stream = zephon.Pipeline(
            zephon.StaticMixtureWorkSource(
                text_datasets(), {"a": 1, "b": 1}, exhausted_policy="repeat", shuffle_block_size=4
            )
        )
        stream.map_transform(functions.upper).tokenize(str(tokenizer_folder), field="text")
        return stream.pack_flat(9).batch(2).options(runner=runner)

    assert take(make("process"), 6) == take(make("threads"), 6)
