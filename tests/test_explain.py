"""What explain() says, and what estimate_steps() promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zephon
from zephon import estimate
from zephon.errors import ConfigError
from zephon.ops.pack_options import ALGORITHMS
from zephon.runtime import lengths as lengths_module
from zephon.work import TokenEstimation
from zephon.work.plan import ending_plan, endless_plan, passes_plan

MakeDataset = Callable[..., zephon.Dataset]
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Grouped(zephon.InMemoryShard):
    """Records that are decoded fifty at a time, as row groups are."""

    unit_documents = 50


def grouped(name: str, count: int) -> zephon.Dataset:
    rows = [{"tokens": np.arange(4)} for _ in range(count)]
    return zephon.Dataset.from_dict(name, {0: Grouped(rows)})


def two(make: MakeDataset, **options: Any) -> zephon.StaticMixtureWorkSource:
    datasets = [make("web", [10, 12] * 300, shards=2), make("books", [50] * 100, base=10**6)]
    return zephon.StaticMixtureWorkSource(
        datasets, {"web": 0.75, "books": 0.25}, **{"chunk_size": 64, **options}
    )


def test_explain_is_the_whole_plan_in_words(memory_dataset: MakeDataset) -> None:
    stream = (
        zephon.Pipeline(two(memory_dataset, exhausted_policy="redistribute"))
        .pack_flat(65, algorithm="best_fit", num_bins=3000)
        .shuffle(16)
        .batch(2)
        .prefetch(64, 3)
        .options(canonical_replicas=6, dp_degree=3, dp_group_id=1)
    )
    assert (
        stream.explain()
        == """\
stages
  pack_flat  max_length=65, algorithm='best_fit', num_bins=3000, pad_token_id=0
  shuffle    buffer_size=16, seed=0
  batch      microbatch_size=2, drop_last=True
  prefetch   buffer_size=64, parallelism=3: 3 threads read and tokenize
  options    canonical_replicas=6, dp_degree=3, dp_group_id=1, aggregate_timeout=300.0, \
end='agree', on_change='refuse'
sources
  web: 3221225472/2**32 = 75.0000% of draws, 600 documents in 2 shards, memory
    policy redistribute, each document decoded 1.00 times a pass
  books: 1073741824/2**32 = 25.0000% of draws, 100 documents in 1 shards, memory
    policy redistribute, each document decoded 1.00 times a pass
lanes
  6 lanes, fixed for the run; this is rank 1 of 3
  legal data-parallel sizes: 1, 2, 3, 6
  chunks of 64 draws of a lane: at the end of each every source has its share to within a document
plan
  a pass has 116 to 117 documents in each lane and ends by end='agree'
  piece 1: 66 documents in each lane, chunks of 64: web 75.00%, books 25.00%
  piece 2: 50 documents in each lane, chunks of 64: web 100.00%
  tail: 4 documents, dealt to the lanes in turn
compatibility
  num_bins=3000: no rows are kept open; best_fit packs windows of 3000 documents"""
    )


def test_explain_says_what_is_missing_and_does_not_fail(memory_dataset: MakeDataset) -> None:
    text = zephon.Pipeline(two(memory_dataset, token_estimation=TokenEstimation())).explain()
    assert "pack_flat  is missing" in text
    assert "batch      is missing" in text
    assert "the weights below are shares of tokens" in text
    assert "75.0000% of tokens" in text
    assert "plan" not in text.splitlines()


def test_explain_reads_no_text_that_nothing_tokenizes(write_jsonl: Callable[..., Path]) -> None:
    source = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_path("t", write_jsonl("t.jsonl", ["a"]))],
        {"t": 1},
        token_estimation=TokenEstimation(),
    )
    assert "of tokens" in zephon.Pipeline(source).pack_flat(9).explain()


def test_of_many_sources_fewer_documents_are_read_if_no_weight_depends_on_it(
    write_jsonl: Callable[..., Path], tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths_module, "_IN_ALL", 300)
    path = write_jsonl("t.jsonl", ["word " * (1 + i % 9) for i in range(500)])
    datasets = [zephon.Dataset.from_path(name, path) for name in "abc"]
    for estimation, expected in ((None, 100), (TokenEstimation(calibration_samples=300), 300)):
        source = zephon.StaticMixtureWorkSource(
            datasets, dict.fromkeys("abc", 1.0), token_estimation=estimation
        )
        stream = zephon.Pipeline(source).tokenize(tokenizer_folder, field="text").pack_flat(9)
        stream.batch(1).estimate_steps()
        assert stream._lengths is not None
        assert [len(one.lengths) for one in stream._lengths] == [
            pytest.approx(expected, abs=44)
        ] * 3


def test_explain_gives_token_shares_with_their_certainty(
    memory_dataset: MakeDataset, write_jsonl: Callable[..., Path], tokenizer_folder: Path
) -> None:
    source = two(memory_dataset, token_estimation=TokenEstimation(), exhausted_policy="repeat")
    text = zephon.Pipeline(source).pack_flat(65).batch(2).explain()
    assert "11.0 tokens a draw (exact), 75.00% of tokens" in text
    assert "50.0 tokens a draw (exact), 25.00% of tokens" in text
    assert "the stream has no end" in text
    path = write_jsonl("t.jsonl", ["word " * (1 + i % 9) for i in range(500)])
    sampled = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_path("t", path)],
        {"t": 1},
        token_estimation=TokenEstimation(calibration_samples=100),
    )
    stream = zephon.Pipeline(sampled).tokenize(tokenizer_folder, field="text").pack_flat(65)
    text = stream.batch(1).explain()
    assert "tokenize   field='text', missing_field='error', special_tokens='bos_eos', trunc" in text
    assert "tokens a draw (+- " in text
    assert "ends when every source has been gone through 1 times" in text


def test_explain_tells_how_often_units_are_decoded_by_lanes() -> None:
    def text(chunk_size: int, lanes: int) -> str:
        source = zephon.StaticMixtureWorkSource(
            [grouped("rare", 500), grouped("web", 500)],
            {"rare": 1, "web": 9},
            chunk_size=chunk_size,
        )
        stream = zephon.Pipeline(source).pack_flat(8).options(canonical_replicas=lanes)
        return stream.explain()

    # 50 / 10 + 1 - 1 / 10 for ten documents a chunk
    assert "decoded 5.90 times a pass" in text(100, 2)
    assert "decoded 1.54 times a pass" in text(100, 2)
    assert text(100, 1).count("decoded 1.00 times a pass") == 2


def test_many_sources_are_not_listed_one_by_one(memory_dataset: MakeDataset) -> None:
    datasets = [memory_dataset(f"s{i}", [4]) for i in range(40)]
    shares = {dataset.name: 1.0 for dataset in datasets}
    source = zephon.StaticMixtureWorkSource(datasets, shares, exhausted_policy="repeat")
    text = zephon.Pipeline(source).explain()
    assert "s31: " in text
    assert "s32: " not in text
    assert "and 8 more sources" in text
    assert "s7 2.50% and 32 more" in text


@pytest.mark.parametrize(
    ("algorithm", "policy", "steps"),
    [
        ("wrap", "repeat", 60),
        ("wrap", "redistribute", 80),  # into the second piece
        ("best_fit", "repeat", 4800),  # windows of 1,024 documents, the longest of each first
        ("best_fit_wrap", "repeat", 1200),
    ],
)
def test_expected_passes_are_those_that_the_steps_take(
    memory_dataset: MakeDataset, algorithm: Any, policy: Any, steps: int
) -> None:
    stream = zephon.Pipeline(two(memory_dataset, exhausted_policy=policy)).pack_flat(
        65, algorithm=algorithm
    )
    stream.batch(2).options(canonical_replicas=4)
    said = {
        line.split(":")[0].strip(): float(line.split()[1])
        for line in stream.explain(steps).split(f"expected after {steps:,} steps")[1].splitlines()
        if "passes" in line
    }
    seen: Counter[int] = Counter()
    for batch in islice(iter(stream), steps):
        for record in batch.records:
            seen.update(record.meta.component_token_counts)
    stream.close()
    means = {0: 11, 1: 50}
    assert seen[0] / means[0] / 600 == pytest.approx(said["web"], rel=0.06)
    assert seen[1] / means[1] / 100 == pytest.approx(said["books"], rel=0.06)


def test_explain_says_if_a_pass_ends_before_the_steps(memory_dataset: MakeDataset) -> None:
    stream = zephon.Pipeline(two(memory_dataset, exhausted_policy="redistribute"))
    text = stream.pack_flat(65).batch(2).explain(10**6)
    assert "the pass ends before that; what it gives is" in text
    assert "web: 1.00 passes, 600 documents" in text
    with pytest.raises(ConfigError, match="steps is 0, expected 1 to"):
        stream.explain(0)
    with pytest.raises(ConfigError, match="not complete"):
        zephon.Pipeline(two(memory_dataset)).explain(5)


@QUICK
@given(
    st.lists(
        st.lists(st.integers(0, 30), min_size=1, max_size=25).filter(any), min_size=1, max_size=3
    ),
    st.data(),
)
def test_steps_of_a_pass_over_known_lengths_are_exact(
    memory_dataset: MakeDataset, lengths: list[list[int]], data: st.DataObject
) -> None:
    draw = data.draw
    datasets = [memory_dataset("abc"[i], some, base=i * 10**6) for i, some in enumerate(lengths)]
    source = zephon.StaticMixtureWorkSource(
        datasets,
        {dataset.name: 1.0 + i for i, dataset in enumerate(datasets)},
        chunk_size=draw(st.sampled_from([2, 16])),
        shuffle_block_size=draw(st.sampled_from([None, 5, "global"])),
        exhausted_policy=draw(st.sampled_from([None, "stop", "redistribute"])),
        token_estimation=draw(st.sampled_from([None, TokenEstimation()])),
    )
    stream = zephon.Pipeline(source).pack_flat(
        draw(st.integers(31, 40)),
        algorithm=draw(st.sampled_from(ALGORITHMS)),
        max_sequences_per_bin=draw(st.sampled_from([None, 2])),
    )
    if draw(st.booleans()):
        stream.shuffle(3)
    stream.batch(draw(st.integers(1, 3)), drop_last=draw(st.booleans())).prefetch(0)
    stream.options(
        canonical_replicas=draw(st.sampled_from([1, 2, 3])),
        tail=draw(st.sampled_from([None, "drop", "pad"])),
        end=draw(st.sampled_from(["agree", "filler"])),
    )
    for _ in range(2):  # the second pass has another order
        promised = stream.estimate_steps()
        assert promised is not None
        low, high = promised
        assert low == high == sum(1 for _ in stream)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_steps_from_a_sample_of_lengths_are_bounds_that_hold_and_are_not_wide(
    memory_dataset: MakeDataset, algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(1).lognormal(3, 0.7, 4000)
    lengths = np.clip(drawn, 1, 60).astype(int).tolist()
    source = zephon.StaticMixtureWorkSource([memory_dataset("a", lengths)], {"a": 1})
    stream = zephon.Pipeline(source).pack_flat(65, algorithm=algorithm).batch(2)
    stream.options(canonical_replicas=2)
    exact = stream.estimate_steps()
    monkeypatch.setattr(estimate, "EXACT_DRAWS", 100)
    monkeypatch.setattr(estimate, "SAMPLE_DRAWS", 1000)
    bounds = stream.estimate_steps()
    assert exact is not None
    assert bounds is not None
    assert bounds[0] <= exact[0] == exact[1] <= bounds[1]
    assert bounds[1] - bounds[0] < 0.4 * exact[0]


def test_steps_over_text_hold_though_only_a_sample_is_read(
    write_jsonl: Callable[..., Path], tokenizer_folder: Path
) -> None:
    path = write_jsonl("t.jsonl", ["word " * (1 + i % 9) for i in range(1000)])
    source = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_path("t", path)],
        {"t": 1},
        token_estimation=TokenEstimation(calibration_samples=300),
    )
    stream = zephon.Pipeline(source).tokenize(tokenizer_folder, field="text").pack_flat(65).batch(2)
    bounds = stream.estimate_steps()
    assert bounds is not None
    assert bounds[0] < sum(1 for _ in stream) < bounds[1]


def test_a_stream_without_end_has_no_number_of_steps(memory_dataset: MakeDataset) -> None:
    stream = zephon.Pipeline(two(memory_dataset, exhausted_policy="repeat")).pack_flat(9).batch(1)
    assert stream.estimate_steps() is None
    with pytest.raises(ConfigError, match="not complete"):
        zephon.Pipeline(two(memory_dataset)).estimate_steps()


def test_steps_are_those_of_one_rank(memory_dataset: MakeDataset) -> None:
    def steps(ranks: int) -> tuple[int, int] | None:
        stream = zephon.Pipeline(two(memory_dataset)).pack_flat(65).batch(2)
        return stream.options(canonical_replicas=4, dp_degree=ranks).estimate_steps()

    alone, shared = steps(1), steps(4)
    assert alone is not None
    assert shared == (alone[0] // 4, alone[1] // 4)


def test_a_plan_expects_what_it_gives() -> None:
    plans = [
        ending_plan([100, 37, 5], [False] * 3, [3, 2, 1], lanes=4, chunk_size=8),
        passes_plan([100, 37, 5], [3, 2, 1], 2, lanes=4, chunk_size=8),
    ]
    means = np.array([2.0, 3.0, 0.0])
    for plan in plans:
        given_in_all = plan.documents(3)
        assert plan.expected(1e9, means) == pytest.approx(given_in_all)
        assert plan.expected(0, means)[:2].sum() == 0
        half = plan.expected(given_in_all @ means / 2, means)
        assert half @ means == pytest.approx(given_in_all @ means / 2)
        assert (half <= given_in_all + 1e-9).all()
    endless = endless_plan([3, 1], lanes=4, chunk_size=8)
    assert endless.expected(100, np.array([1.0, 1.0])).tolist() == [75, 25]
