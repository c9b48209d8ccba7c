"""Draws of a lane: any stretch, in any order, the same documents."""

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import lanes as oracle
from zephon.errors import ConfigError, ConfigTypeError
from zephon.work.lanes import PlannedLane
from zephon.work.plan import endless_plan
from zephon.work.source_order import SourceOrder, cut_units


def order_of(documents, seed=0, **modes):
    sources = [
        cut_units(f"s{i}", np.array([n]), np.array([n]), **modes) for i, n in enumerate(documents)
    ]
    return SourceOrder(sources, seed)


def lane_of(weights, lane=0, lanes=1, chunk_size=16, documents=None):
    documents = documents or [10_000_000] * len(weights)
    plan = endless_plan(weights, lanes, chunk_size)
    return PlannedLane(plan, order_of(documents, shuffle_shards=False), lane)


def pairs(draws):
    return list(zip(draws.sources.tolist(), draws.rows.tolist(), strict=True))


weights = st.lists(st.integers(1, 60), min_size=1, max_size=6)


@given(weights, st.integers(1, 6), st.data())
def test_chunks_follow_each_other_as_the_twin_has_them(weights, lanes, data):
    lane = data.draw(st.integers(0, lanes - 1))
    size = max(16, -(-sum(weights) // min(weights)))
    found = lane_of(weights, lane, lanes).draws(0, 3 * size)
    expected = [oracle.chunk(weights, lane, lanes, t, t + size) for t in range(0, 3 * size, size)]
    assert pairs(found) == [draw for part in expected for draw in part]


@given(weights, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), max_size=8))
def test_any_stretch_is_that_part_of_the_whole(weights, stretches):
    whole = pairs(lane_of(weights).draws(0, 300))
    lane = lane_of(weights)
    for first, count in stretches:
        draws = lane.draws(first, count)
        assert draws.first == first
        assert pairs(draws) == whole[first : first + count]


@given(weights, st.integers(1, 8))
def test_the_lanes_of_whole_rounds_share_every_ordinal_once(weights, lanes):
    size = max(16, -(-sum(weights) // min(weights)))
    taken = []
    for lane in range(lanes):
        taken += pairs(lane_of(weights, lane, lanes).draws(0, 4 * size))
    for source in range(len(weights)):
        ordinals = sorted(row for which, row in taken if which == source)
        assert ordinals == list(range(len(ordinals)))


def test_a_chunk_takes_neighbouring_documents_of_each_source():
    draws = lane_of([1, 3], lane=2, lanes=4, chunk_size=64).draws(128, 64)
    for source in (0, 1):
        assert (np.diff(draws.rows[draws.sources == source]) == 1).all()


def test_a_source_that_repeats_counts_its_passes():
    draws = lane_of([1, 1], documents=[3, 1000]).draws(0, 16)
    mine = draws.sources == 0
    assert draws.rows[mine].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert draws.passes[mine].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]


def test_draws_have_the_types_that_they_promise():
    for count in (0, 5, 100):
        draws = lane_of([1, 2]).draws(7, count)
        assert len(draws) == count
        assert [a.dtype for a in (draws.sources, draws.rows, draws.passes)] == ["i4", "i8", "i8"]


def test_the_last_draw_of_all_can_be_asked_for():
    weights, lanes, documents = [2**31, 2**30, 2**30], 2**16, [7, 7, 7]
    draws = lane_of(weights, lanes - 1, lanes, documents=documents).draws(2**45 - 3, 3)
    for source, row, turn in zip(draws.sources, draws.rows, draws.passes, strict=True):
        asked = 2**61 * weights[source] // 2**32  # by all lanes
        assert abs(int(turn) * 7 + int(row) - asked) < 16 * lanes


def test_a_copy_and_other_threads_draw_the_same():
    whole = pairs(lane_of([1, 2, 5]).draws(0, 1000))
    lane = pickle.loads(pickle.dumps(lane_of([1, 2, 5])))
    failed = []

    def read(start):
        for first in range(start, 960, 7):
            if pairs(lane.draws(first, 40)) != whole[first : first + 40]:
                failed.append(first)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_an_endless_lane_has_no_length():
    assert lane_of([1, 2]).length() is None


@pytest.mark.parametrize(("first", "count"), [(-1, 5), (0, -1), (2**45 - 4, 5)])
def test_draws_outside_of_a_lane_are_refused(first, count):
    with pytest.raises(ConfigError, match=f"draws {first} to {first + count - 1} are asked for"):
        lane_of([1]).draws(first, count)


@pytest.mark.parametrize(
    ("lane", "lanes", "error", "message"),
    [
        (4, 4, ConfigError, "lane is 4, expected 0 to 3"),
        (-1, 4, ConfigError, "lane is -1, expected 0 to 3"),
        (0, 1.0, ConfigTypeError, "lanes must be an int, not float"),
        (True, 4, ConfigTypeError, "lane must be an int, not bool"),
    ],
)
def test_a_lane_that_is_none_is_refused(lane, lanes, error, message):
    with pytest.raises(error, match=message):
        lane_of([1], lane, lanes)
