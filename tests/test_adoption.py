"""Continuing a run with other sources or shares."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zephon
from zephon import state as state_format
from zephon.errors import ConfigError, ConfigTypeError, StateError
from zephon.work import TokenEstimation

LENGTHS = {"a": [5, 9, 2, 31, 4], "b": [7, 7, 7], "c": [3, 40, 6, 1]}
BASES = {"a": 0, "b": 10**6, "c": 2 * 10**6, "d": 3 * 10**6}


def dataset(name: str, lengths: Iterable[int] | None = None, shift: int = 0) -> zephon.Dataset:
    """Documents whose tokens tell source, document and place."""
    rows: list[dict[str, object]] = [
        {"tokens": BASES[name] + shift + 1000 * i + np.arange(n, dtype=np.int64)}
        for i, n in enumerate(lengths or LENGTHS.get(name, [6, 6]))
    ]
    return zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(rows)})


def pipeline(
    weights: Mapping[str, float],
    *,
    lanes: int = 2,
    dp: tuple[int, int] = (0, 1),
    algorithm: Any = "wrap",
    shuffle: int = 0,
    on_change: Any = "refuse",
    row: int = 9,
    batch: int = 1,
    operate: Callable[[zephon.Pipeline], object] = lambda stream: None,
    datasets: Mapping[str, zephon.Dataset] | None = None,
    **work: Any,
) -> zephon.Pipeline:
    sources = [(datasets or {}).get(name) or dataset(name) for name in weights]
    options = {"chunk_size": 8, "exhausted_policy": "repeat", "shuffle_shards": False, **work}
    made = zephon.Pipeline(zephon.StaticMixtureWorkSource(sources, weights, **options))
    operate(made)
    extra = {} if algorithm in ("wrap", "best_fit_wrap") else {"drop_oversized": False}
    made.pack_flat(row, algorithm=algorithm, **extra)
    if shuffle:
        made.shuffle(shuffle, seed=3)
    return (
        made.batch(batch)
        .prefetch(0)
        .options(canonical_replicas=lanes, dp_group_id=dp[0], dp_degree=dp[1], on_change=on_change)
    )


def take(stream: zephon.Pipeline, count: int) -> list[int]:
    """Tokens of the next batches, padding left out."""
    found: list[int] = []
    iterator = iter(stream)
    for _ in range(count):
        rows = next(iterator).rows()
        for row in range(len(rows)):
            found += _tokens(rows, row)
    stream.close()
    return found


def _tokens(rows: Any, row: int) -> list[int]:
    segments = range(int(rows.splits[row]), int(rows.splits[row + 1]))
    return [int(token) for segment in segments for token in rows.tokens(segment)]


def state_after(stream: zephon.Pipeline, count: int) -> bytes:
    take(stream, count)
    return bytes(stream.checkpoint()["state"])


def ordinals(work: zephon.WorkSource, lanes: int, first: int, count: int) -> dict[str, list[int]]:
    """Ordinals of each source that draws of all lanes take (no order is shuffled)."""
    found: dict[str, list[int]] = {one.name: [] for one in work.datasets}
    for lane in range(lanes):
        taken = work.lane(lane, lanes).draws(first, count)
        for source, row, number in zip(taken.sources, taken.rows, taken.passes, strict=True):
            one = work.datasets[source]
            found[one.name].append(int(row) + int(number) * one.total())
    return found


NAMES = st.sampled_from(["a", "b", "c"])
MIXTURES = st.dictionaries(NAMES, st.integers(1, 6).map(float), min_size=1)


@given(
    before=MIXTURES,
    after=MIXTURES,
    lanes=st.sampled_from([1, 2, 3]),
    batches=st.integers(1, 30),
    more=st.integers(0, 30),
    last=MIXTURES,
)
@settings(max_examples=60)
def test_a_changed_mixture_takes_every_source_up_where_it_was_left(
    before: dict[str, float],
    after: dict[str, float],
    lanes: int,
    batches: int,
    more: int,
    last: dict[str, float],
) -> None:
    saved = state_after(pipeline(before, lanes=lanes), batches)
    for weights in (after, last):
        stream = pipeline(weights, lanes=lanes, on_change="adopt")
        stream.restore(saved)
        work, history = stream.ws, stream.ws.history
        if history is not None:
            assert work.chunk_size is not None
            span = history.end - history.begin + 5 * work.chunk_size
            for place, numbers in enumerate(ordinals(work, lanes, history.begin, span).values()):
                if work.datasets[place].name in weights:  # else where it stood is not kept
                    base = history.base[place]
                    # Neither a gap nor a repetition, whichever lane took it.
                    assert sorted(numbers) == list(range(base, base + len(numbers)))
        if more:
            saved = state_after(stream, more)


def documents_of(tokens: list[int]) -> Counter[tuple[str, int]]:
    """How many tokens of each document were delivered, by source and document."""
    bases = sorted(((base, name) for name, base in BASES.items()), reverse=True)
    found: Counter[tuple[str, int]] = Counter()
    for token in tokens:
        base, name = next((b, n) for b, n in bases if token >= b)
        found[name, (token - base) // 1000] += 1
    return found


@pytest.mark.parametrize("shuffle", [0, 5])
@pytest.mark.parametrize("algorithm", ["wrap", "first_fit", "best_fit", "best_fit_wrap"])
def test_windows_that_were_begun_come_out_as_they_would_have(algorithm: str, shuffle: int) -> None:
    made: Any = {"algorithm": algorithm, "shuffle": shuffle, "chunk_size": 64}
    whole = take(pipeline({"a": 2, "b": 1}, **made), 60)
    stream = pipeline({"a": 2, "b": 1}, **made)
    first = take(stream, 20)
    changed = pipeline({"c": 3, "a": 1, "b": 1}, on_change="adopt", **made)
    changed.restore(stream.checkpoint())
    rest = take(changed, 40)
    assert first + rest[: len(whole) // 3] == whole[: len(first) + len(whole) // 3]
    later = take(changed, 3000)
    assert {name for name, _ in documents_of(later)} == {"a", "b", "c"}


def test_shares_are_those_asked_for_behind_the_change() -> None:
    saved = state_after(pipeline({"a": 1, "b": 1}), 40)
    stream = pipeline({"a": 1, "b": 9}, on_change="adopt")
    stream.restore(saved)
    work = stream.ws
    assert work.history is not None
    assert work.chunk_size is not None
    draws = work.lane(0, 2).draws(work.history.end, 40 * work.chunk_size)
    shares = np.bincount(draws.sources) / len(draws)
    assert shares[1] == pytest.approx(0.9, abs=1 / 40)


def test_the_state_of_a_changed_run_needs_no_permission_to_be_continued() -> None:
    stream = pipeline({"a": 2, "b": 1}, on_change="adopt")
    changed = {"c": 1.0, "b": 1.0, "a": 1.0}
    stream = pipeline(changed, on_change="adopt")
    stream.restore(state_after(pipeline({"a": 2, "b": 1}), 25))
    for batches in (3, 200):
        saved = state_after(stream, batches)
        expected = take(stream, 30)
        again = pipeline(changed)
        again.restore(saved)
        assert take(again, 30) == expected
        stream = pipeline(changed)
        stream.restore(saved)
    assert stream.ws.history is not None
    assert stream.ws.history.stretches == ()  # all lanes are behind the former mixture
    text = state_format.describe(stream.checkpoint()["state"])
    assert f"the mixture is that since draw {stream.ws.history.end:,} of each lane" in text


def test_a_changed_run_goes_on_the_same_on_any_number_of_ranks() -> None:
    saved = state_after(pipeline({"a": 2, "b": 1}, lanes=4), 22)
    changed = {"a": 1.0, "c": 4.0}
    alone = pipeline(changed, lanes=4, on_change="adopt")
    alone.restore(saved)
    expected = take(alone, 120)
    ranks = [pipeline(changed, lanes=4, dp=(r, 2), on_change="adopt") for r in range(2)]
    for one in ranks:
        one.restore(saved)
    iterators = [iter(one) for one in ranks]
    found: list[int] = []
    for _ in range(60):
        for iterator in iterators:
            found += _tokens(next(iterator).rows(), 0)
    for one in ranks:
        one.close()
    assert found == expected
    assert state_format.merge([one.local_state() for one in ranks]) == alone.local_state()


def test_parts_of_differently_changed_runs_are_not_merged() -> None:
    saved = state_after(pipeline({"a": 2, "b": 1}, lanes=2), 22)
    parts = []
    for rank, early in enumerate((True, False)):
        one = pipeline({"a": 1, "b": 1}, dp=(rank, 2), on_change="adopt")
        one.restore(saved)
        state = state_format.decode(one.local_state())
        if early:
            assert state.history is not None
            state = replace(state, history=replace(state.history, begin=8))
        parts.append(state_format.encode(state))
    with pytest.raises(StateError, match="runs whose mixture was changed in different ways"):
        state_format.merge(parts)


def test_a_source_that_is_taken_out_gives_nothing_more_and_the_others_lose_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = pipeline({"a": 1, "b": 1, "c": 1})
    first = take(stream, 31)
    rest = pipeline({"a": 1, "b": 1}, on_change="adopt")
    with caplog.at_level(logging.INFO, "zephon.adoption"):
        rest.restore(stream.checkpoint())
    assert "source 'c' is gone" in caplog.text
    assert "the changed mixture begins at draw" in caplog.text
    assert "c: taken out" in state_format.describe(rest.checkpoint()["state"])
    later = take(rest, 400)
    assert "c" not in {name for name, _ in documents_of(later)}
    seen = documents_of(first + later)
    for name in "ab":  # every pass gives each document once, and the passes are many
        passes = [seen[name, i] / n for i, n in enumerate(LENGTHS[name])]
        assert max(passes) - min(passes) <= 3
    resumed = pipeline({"a": 1, "b": 1})
    resumed.restore(rest.checkpoint())
    assert [one.name for one in resumed.ws.datasets] == ["a", "b"]  # nothing is left of it


def test_the_rest_of_an_open_document_of_a_source_that_was_taken_out_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = pipeline({"a": 1, "c": 1}, lanes=1)
    while True:  # until the long document of c is open
        last = take(stream, 1)[-1]
        if 2 * 10**6 + 1000 <= last < 2 * 10**6 + 1030:
            break
    rest = pipeline({"a": 1}, lanes=1, on_change="adopt")
    rest.restore(stream.checkpoint())
    assert "the rest of document" in caplog.text
    assert {name for name, _ in documents_of(take(rest, 20))} == {"a"}
    assert rest.dropped().empty >= 1


@pytest.mark.parametrize(
    ("options", "kind"), [({"algorithm": "best_fit"}, "packing"), ({"shuffle": 4}, "shuffle")]
)
def test_a_source_cannot_be_taken_out_in_the_middle_of_a_window(
    options: dict[str, Any], kind: str
) -> None:
    saved = state_after(pipeline({"a": 1, "b": 1}, **options), 3)
    rest = pipeline({"a": 1}, on_change="adopt", **options)
    with pytest.raises(StateError, match=r"source 'b' cannot be taken out here: lane 0 stands in"):
        rest.restore(saved)


# --- which changes are refused, and by what name ---------------------------------------------

START: dict[str, Any] = {"weights": {"a": 2.0, "b": 1.0}}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 1}, "work.seed (0, 1)"),
        ({"chunk_size": 16}, "work.chunk_size (8, 16)"),
        ({"shuffle_shards": True}, "work.shuffle_shards (False, True)"),
        ({"shuffle_within_shard": True}, "work.shuffle_within_shard (False, True)"),
        ({"shuffle_block_size": 2}, "work.shuffle_block_size.a (None, 2)"),
        ({"reshuffle_on_repeat": False}, "work.reshuffle_on_repeat.a (True, False)"),
        (
            {"exhausted_policy": {"a": "repeat", "b": "redistribute"}},
            "work.exhausted_policy.b ('repeat', 'redistribute')",
        ),
        ({"exhausted_policy": "repeat", "max_repeats": 3}, "work.max_repeats.a (None, 3)"),
        ({"stop_after_passes": 3}, "work.stop_after_passes (None, 3)"),
        ({"lanes": 4}, "canonical_replicas (2, 4)"),
        ({"row": 10}, "pack.max_length (9, 10)"),
        ({"algorithm": "best_fit_wrap"}, "pack.algorithm ('wrap', 'best_fit_wrap')"),
        ({"shuffle": 4}, "shuffle (None, {'buffer_size': 4, 'seed': 3})"),
        ({"weights": {"a": 1.0, "b": 1.0}}, "share of 'a' (66.6667%, 50.0000%)"),
        ({"weights": {"a": 2.0, "b": 1.0, "c": 1.0}}, "source 'c' is new"),
        ({"weights": {"a": 1.0}}, "source 'b' is gone"),
        ({"weights": {"b": 1.0, "a": 2.0}}, "the order of sources (a, b; b, a)"),
        ({"datasets": {"a": dataset("a", shift=1)}}, "content of 'a': same size"),
        ({"datasets": {"a": dataset("a", [5, 9])}}, "'a' documents (5, 2)"),
        ({"token_estimation": TokenEstimation()}, "work.token_shares (None, ["),
    ],
)
def test_each_change_of_the_stream_is_refused_by_name(change: dict[str, Any], name: str) -> None:
    saved = state_after(pipeline(**START), 5)
    with pytest.raises(StateError) as caught:
        pipeline(**{**START, **change}).restore(saved)
    assert name in str(caught.value)
    adoptable = set(change) <= {"weights", "chunk_size", "token_estimation"}
    assert ("on_change='adopt'" in str(caught.value)) == adoptable
    adopting = pipeline(**{**START, **change}, on_change="adopt")
    if adoptable:
        adopting.restore(saved)
        assert len(take(adopting, 30)) == 30 * 9
    else:
        with pytest.raises(StateError) as again:
            adopting.restore(saved)
        assert name in str(again.value)


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 3},
        {"dp": (1, 2)},
        {"on_change": "adopt"},
        {"on_change": ["weights", "content"]},
    ],
)
def test_each_change_that_leaves_the_stream_as_it_is_is_accepted(change: dict[str, Any]) -> None:
    saved = state_after(pipeline(**START), 6)
    stream = pipeline(**START, **change)
    stream.restore(saved)
    assert stream.ws.history is None
    plain = pipeline(**START)
    plain.restore(saved)
    if "dp" in change:
        assert take(stream, 1) == take(plain, 2)[9:]
    else:
        # Larger batches take turns between lanes less often; of each lane they are the same.
        assert sorted(take(stream, 2)) == sorted(take(plain, 2 * change.get("batch", 1)))


def test_prefetching_paths_and_options_of_ranks_do_not_matter_either() -> None:
    saved = state_after(pipeline(**START), 6)
    stream = pipeline(**START).prefetch(64, 2).options(run_id="other", vocab_size=10**7)
    stream.restore(saved)
    assert stream.checkpoint()["state"] == saved


def test_changed_files_are_adopted_only_if_that_is_said() -> None:
    saved = state_after(pipeline(**START), 6)
    moved = {"b": dataset("b", shift=500)}
    for on_change in ("adopt", ["weights"]):
        with pytest.raises(StateError, match="or say options.on_change=.*'content'"):
            pipeline(**START, datasets=moved, on_change=on_change).restore(saved)
    stream = pipeline(**START, datasets=moved, on_change=["content"])
    stream.restore(saved)
    assert any(token % 1000 >= 500 for token in take(stream, 30))


def test_only_the_listed_kinds_of_change_are_adopted() -> None:
    saved = state_after(pipeline(**START), 6)
    both = {"a": 1.0, "b": 1.0, "c": 1.0}
    with pytest.raises(StateError, match="source 'c' is new") as caught:
        pipeline(both, on_change=["weights"]).restore(saved)
    assert "share of" not in str(caught.value)
    pipeline(both, on_change=["weights", "added"]).restore(saved)


def backwards(stream: zephon.Pipeline) -> None:
    """An operator whose windows of 40 draws come out in reverse."""
    stream.stateful_transform(
        "backwards",
        init_state=list,
        push=lambda held, records: ([*held, *records], []),
        flush=lambda held: held[::-1],
        window=40,
    )


def test_a_window_of_operators_that_was_begun_comes_out_as_it_would_have() -> None:
    whole = take(pipeline({"a": 2, "b": 1}, operate=backwards), 60)
    stream = pipeline({"a": 2, "b": 1}, operate=backwards)
    first = take(stream, 3)
    changed = pipeline({"c": 3, "a": 1, "b": 1}, operate=backwards, on_change="adopt")
    changed.restore(stream.checkpoint())
    history = changed.ws.history
    assert history is not None
    assert history.end >= 40
    rest = take(changed, 20)
    assert first + rest[:100] == whole[: len(first) + 100]


def test_shares_that_an_operator_keeps_cannot_change_under_it() -> None:
    saved = state_after(pipeline({"a": 2, "b": 1}, operate=lambda s: s.ensure_mixture()), 3)
    changed = pipeline({"a": 1, "b": 1}, operate=lambda s: s.ensure_mixture(), on_change="adopt")
    with pytest.raises(StateError, match=r"ensure_mixture\(...\) orders documents by the shares"):
        changed.restore(saved)

    def own(stream: zephon.Pipeline) -> None:
        stream.ensure_mixture(mixture={"a": 1.0, "b": 1.0})

    saved = state_after(pipeline({"a": 2, "b": 1}, operate=own), 3)
    pipeline({"a": 1, "b": 1}, operate=own, on_change="adopt").restore(saved)


def test_a_pass_that_ends_is_changed_between_passes_and_not_in_the_middle() -> None:
    made: dict[str, Any] = {"exhausted_policy": "redistribute"}
    stream = pipeline({"a": 1, "b": 1}, **made)
    take(stream, 2)
    changed = pipeline({"a": 1, "b": 1, "c": 1}, on_change="adopt", **made)
    with pytest.raises(StateError, match="a run that ends cannot be changed in the middle"):
        changed.restore(stream.checkpoint())
    assert list(stream) is not None  # to the end of the pass
    changed.restore(stream.checkpoint())
    assert changed.passes == 1
    seen = documents_of([t for batch in changed for t in _tokens(batch.rows(), 0)])
    assert {name for name, _ in seen} == {"a", "b", "c"}


def test_a_state_before_the_first_batch_is_changed_without_a_former_mixture() -> None:
    stream = pipeline({"a": 1, "c": 2}, on_change="adopt")
    stream.restore(pipeline({"a": 1, "b": 1}).checkpoint())
    assert stream.ws.history is None
    fresh = pipeline({"a": 1, "c": 2})
    assert take(stream, 9) == take(fresh, 9)


def test_weights_found_from_lengths_are_found_anew_only_for_a_changed_mixture() -> None:
    made: dict[str, Any] = {"token_estimation": TokenEstimation()}
    stream = pipeline({"a": 1, "b": 1}, **made)
    saved = state_after(stream, 12)
    same = pipeline({"a": 1, "b": 1}, on_change="adopt", **made)
    same.restore(saved)
    assert same.ws.history is None
    assert same.ws.weights == stream.ws.weights
    changed = pipeline({"a": 1, "b": 3}, on_change="adopt", **made)
    changed.restore(saved)
    mean = {name: sum(LENGTHS[name]) / len(LENGTHS[name]) for name in "ab"}
    odds = changed.ws.weights[1] / changed.ws.weights[0]
    assert odds == pytest.approx(3 * mean["a"] / mean["b"], rel=1e-6)
    again = pipeline({"a": 1, "b": 3}, **made)
    again.restore(state_after(changed, 4))
    assert again.ws.weights == changed.ws.weights


def test_sizes_of_a_changed_state_keep_to_the_budget() -> None:
    saved = state_after(pipeline({"a": 2, "b": 1}), 25)
    stream = pipeline({"a": 1, "b": 1, "c": 1}, on_change="adopt")
    stream.restore(saved)
    grown = len(stream.checkpoint()["state"])
    fresh = len(pipeline({"a": 1, "b": 1, "c": 1}).checkpoint()["state"])
    assert grown - fresh <= 16 * 3 + 2 * 64


@pytest.mark.parametrize("on_change", ["refuse", "adopt", ["content"]])
def test_flipping_any_bit_is_refused_whatever_may_change(on_change: Any) -> None:
    stream = pipeline({"a": 1, "b": 1, "c": 1}, on_change="adopt")
    stream.restore(state_after(pipeline({"a": 2, "b": 1}), 25))
    state = stream.checkpoint()["state"]
    target = pipeline({"a": 1, "b": 1, "c": 1}, on_change=on_change)
    target.restore(state)
    before = target.local_state()
    for bit in range(8 * len(state)):
        damaged = bytearray(state)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateError):
            target.restore(bytes(damaged))
    assert target.local_state() == before


def test_validating_a_changed_run_expects_nothing_of_a_source_that_was_taken_out() -> None:
    stream = pipeline({"a": 1, "b": 1}, on_change="adopt")
    stream.restore(state_after(pipeline({"a": 1, "b": 1, "c": 1}), 10))
    assert "c" in {one.name for one in stream.ws.datasets}
    assert stream.validate().errors == ()
    assert "c: 0/2**32" in stream.explain()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("error", ConfigError, "on_change is 'error', expected 'refuse', 'adopt' or a collection"),
        (["seed"], ConfigError, "on_change lists 'seed', expected some of 'added'"),
        (3, ConfigTypeError, "on_change is 3, expected"),
    ],
)
def test_other_values_of_on_change_are_refused(
    value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pipeline(**START, on_change=value)


def test_megatron_rows_and_other_work_sources_are_not_changed_in_the_middle() -> None:
    class Plain(zephon.WorkSource):
        datasets = (dataset("a"),)
        weights = (2**32,)
        lane: Callable[..., Any]

        def options(self) -> dict[str, Any]:
            return {"work_source": "plain"}

    Plain.lane = lambda *_: None  # type: ignore[misc, assignment]
    Plain.__abstractmethods__ = frozenset()
    with pytest.raises(StateError, match="Plain has no former mixtures"):
        Plain().continuing(None, (), ())  # type: ignore[arg-type]
