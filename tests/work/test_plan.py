"""Finite plans: where sources end, and that nothing is lost."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import plan as oracle
from zephon.errors import ConfigError
from zephon.work.lanes import PlannedLane
from zephon.work.plan import MAX_ENDING_SOURCES, ending_plan, endless_plan, passes_plan
from zephon.work.source_order import SourceOrder, cut_units

lane_counts = st.sampled_from([1, 2, 3, 8, 64])
sources = st.lists(
    st.tuples(st.one_of(st.integers(1, 3), st.integers(1, 1500)), st.integers(1, 1000)),
    min_size=1,
    max_size=6,
)
few_sources = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 20)), min_size=1, max_size=4)


def counts(plan):
    """Pieces and tail as the twin has them."""
    pieces = [
        dict(zip(piece.sources.tolist(), piece.weights.tolist(), strict=True))
        for piece in plan.pieces
    ]
    return pieces, list(zip(plan.tail_sources.tolist(), plan.tail_ordinals.tolist(), strict=True))


def twin(pieces, tail):
    given_ = Counter()
    for piece in pieces:
        given_.update(piece)
    return [{i: n for i, n in piece.items() if n > 0} for piece in pieces], oracle.tail_order(
        tail, given_
    )


def lane_draws(plan, lane, documents):
    """(source, ordinal) of every draw of a lane."""
    units = [
        cut_units(f"s{i}", np.array([n]), np.array([n]), shuffle_shards=False)
        for i, n in enumerate(documents)
    ]
    order = PlannedLane(plan, SourceOrder(units, 0), lane)
    assert order.length() is not None
    draws = order.draws(0, order.length() + 5)
    assert len(draws) == order.length()
    ordinals = draws.passes * np.array(documents)[draws.sources] + draws.rows
    return list(zip(draws.sources.tolist(), ordinals.tolist(), strict=True))


@given(sources, st.lists(st.sampled_from(["leaves", "stops", "repeats"]), min_size=6), lane_counts)
def test_plans_of_sources_that_end_agree_with_their_twin(sources, kinds, lanes):
    weights = [weight for _, weight in sources]
    limits = [None if k == "repeats" else n for (n, _), k in zip(sources, kinds, strict=False)]
    if all(n is None for n in limits):
        limits[0] = sources[0][0]
    stops = [k == "stops" and n is not None for k, n in zip(kinds, limits, strict=False)]
    plan = ending_plan(limits, stops, weights, lanes, 8)
    pieces, tail, endless = oracle.ending(limits, stops, weights, lanes)
    assert counts(plan) == twin(pieces, tail)
    assert (plan.length(0) is None) is endless


@given(sources, st.integers(1, 4), lane_counts)
def test_plans_of_whole_passes_agree_with_their_twin(sources, passes, lanes):
    documents, weights = zip(*sources, strict=True)
    plan = passes_plan(documents, weights, passes, lanes, 8)
    pieces, tail = oracle.passes(documents, weights, passes, lanes)
    assert counts(plan) == twin(pieces, tail)
    given_ = Counter()
    for piece in [*pieces, tail]:
        given_.update(piece)
    over = [given_[i] - passes * n for i, n in enumerate(documents)]
    assert min(over) == 0


@given(few_sources, lane_counts, st.sampled_from([1, 8, 32]))
def test_lanes_draw_what_the_twin_draws_and_every_document_once(sources, lanes, chunk_size):
    documents, weights = (list(column) for column in zip(*sources, strict=True))
    stops = [False] * len(sources)
    plan = ending_plan(documents, stops, weights, lanes, chunk_size)
    pieces, tail, _ = oracle.ending(documents, stops, weights, lanes)
    taken = []
    for lane in range(lanes):
        draws = lane_draws(plan, lane, documents)
        if lane in (0, lanes - 1):
            assert draws == oracle.lane_draws(pieces, tail, lane, lanes, chunk_size)
        taken += draws
    assert sorted(taken) == [(i, o) for i, n in enumerate(documents) for o in range(n)]
    lengths = {plan.length(lane) for lane in range(lanes)}
    assert max(lengths) - min(lengths) <= 1


@given(sources, lane_counts)
def test_every_source_ends_in_a_piece_and_the_tail_is_short(sources, lanes):
    documents, weights = zip(*sources, strict=True)
    plan = ending_plan(documents, [False] * len(sources), weights, lanes, 16)
    assert len(plan.pieces) <= len(sources)
    assert len(plan.tail_sources) <= len(sources) * (lanes + 1)


def test_the_plan_of_a_tiny_a_large_and_a_small_source_never_changes():
    plan = ending_plan([2, 1000, 37], [False] * 3, [1, 2, 5], 8, 16)
    assert counts(plan) == (
        [{0: 2, 1: 4, 2: 10}, {1: 9, 2: 23}, {1: 984}],
        [(1, 997), (2, 33), (2, 34), (1, 998), (2, 35), (1, 999), (2, 36)],
    )
    even = ending_plan([2, 1000, 37], [False] * 3, [1, 1, 1], 8, 16)
    assert counts(even)[0] == [{1: 36, 2: 36}, {1: 960}]
    passes = passes_plan([2, 1000, 37], [1, 2, 5], 1, 8, 16)
    assert counts(passes) == ([{0: 500, 1: 1000, 2: 2500}], [])


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_two_documents_are_enough_for_any_number_of_lanes(lanes):
    for plan in (
        ending_plan([2], [False], [1], lanes, 16384),
        ending_plan([2], [True], [1], lanes, 16384),
        passes_plan([2], [1], 1, lanes, 16384),
    ):
        taken = [draw for lane in range(lanes) for draw in lane_draws(plan, lane, [2])]
        assert sorted(taken) == [(0, 0), (0, 1)]


def test_a_source_that_stops_gives_all_its_documents_and_ends_the_run():
    for n in (100, 101, 107):
        plan = ending_plan([n, 1000], [True, False], [1, 1], 8, 16)
        taken = Counter(s for lane in range(8) for s, _ in lane_draws(plan, lane, [n, 1000]))
        assert taken[0] == n
        assert abs(taken[1] - n) <= 8


def test_shares_hold_until_a_source_ends_and_then_keep_their_ratio():
    documents = [300, 10_000, 10_000]
    plan = ending_plan(documents, [False] * 3, [10, 60, 30], 2, 16)
    draws = np.array([source for source, _ in lane_draws(plan, 0, documents)])
    before, after = draws[:1500], draws[1500:3000]
    assert np.bincount(before).tolist() == pytest.approx([150, 900, 450], abs=1)
    assert np.bincount(after, minlength=3).tolist() == pytest.approx([0, 1000, 500], abs=2)


def test_endless_sources_go_on_after_the_others_with_nothing_lost():
    plan = ending_plan([2, None, 37], [False] * 3, [1, 2, 5], 8, 16)
    assert plan.length(3) is None
    assert plan.pieces[-1].sources.tolist() == [1]
    finite = Counter()
    for piece in plan.pieces[:-1]:
        assert piece.total == piece.draws * 8
        finite.update(dict(zip(piece.sources.tolist(), piece.weights.tolist(), strict=True)))
    assert finite[0] == 2
    assert finite[2] == 37
    assert plan.pieces[-1].base.tolist() == [finite[1]]


def test_the_last_chunk_of_a_piece_takes_what_is_left():
    plan = passes_plan([100], [1], 1, 1, 30)
    assert [plan.pieces[0].chunk(t) for t in (0, 29, 30, 59, 60, 99)] == [
        (0, 30), (0, 30), (30, 60), (30, 60), (60, 100), (60, 100),
    ]  # fmt: skip
    assert passes_plan([59], [1], 1, 1, 30).pieces[0].chunk(58) == (0, 59)
    assert endless_plan([1], 1, 30).pieces[0].chunk(95) == (90, 120)


def test_plans_too_long_or_too_wide_are_refused():
    many = MAX_ENDING_SOURCES + 1
    with pytest.raises(ConfigError, match="4097 datasets end one by one, the most is 4096"):
        ending_plan([1] * many, [False] * many, [1] * many, 1, 16)
    with pytest.raises(ConfigError, match=r"1 passes .* are 562949953421312 draws"):
        passes_plan([2**48, 1], [1, 1], 1, 1, 16)
    with pytest.raises(ConfigError, match=r"a finite run of .* documents is planned"):
        ending_plan([2**40] * 512, [False] * 512, [1] * 512, 1, 16)
