"""Counts and sequences of chunks: the promises about shares."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import lanes as lane_oracle
from oracles import mixture as oracle
from zephon._native import order as native

lanes = st.sampled_from([1, 2, 3, 4, 8, 16])
small = st.lists(st.integers(1, 60), min_size=1, max_size=8)
large = st.lists(st.integers(2**20, 2**30), min_size=1, max_size=40)


def counts(weights, lane, count, t0, t1):
    out = [np.empty(len(weights), np.int64) for _ in range(3)]
    native.chunk_counts(np.array(weights), sum(weights), lane, count, t0, t1, *out)
    return out


def sequence(weights, t0, given_, taken):
    length = int(np.sum(taken))
    out = np.empty(length, np.uint16)
    scratch = np.empty(native.sequence_scratch(len(weights), length), np.uint64)
    held = native.chunk_sequence(
        np.array(weights), sum(weights), t0, np.array(given_), np.array(taken), scratch, out
    )
    return out, held


def chunk_length(weights, size):
    return max(size, -(-sum(weights) // min(weights)))


@given(small, lanes, st.data())
def test_the_kernels_agree_with_their_twins(weights, count, data):
    lane = data.draw(st.integers(0, count - 1))
    length = chunk_length(weights, data.draw(st.integers(1, 40)))
    t0 = length * data.draw(st.integers(0, 30))
    before, taken, first = counts(weights, lane, count, t0, t0 + length)

    end = oracle.lane_counts(weights, lane, count, t0 + length)
    assert before.tolist() == oracle.lane_counts(weights, lane, count, t0)
    assert (before + taken).tolist() == end
    ordinals = lane_oracle.first_ordinals(weights, lane, count, t0, t0 + length)
    assert first.tolist() == ordinals
    out, held = sequence(weights, t0, before, taken)
    assert (out.tolist(), held) == oracle.chunk_sequence(weights, t0, before, taken)


@given(large, lanes, st.integers(0, 2**40), st.data())
def test_lanes_round_up_to_the_rounding_of_the_whole(weights, count, t0, data):
    # Hermite: sum over lanes of floor(x + (2l+1)/(2R)) = floor(R x + 1/2).
    total = sum(weights)
    t1 = t0 + data.draw(st.integers(1, 2**20))
    parts = [counts(weights, lane, count, t0, t1) for lane in range(count)]
    cumulative = np.cumsum([0, *weights]).tolist()
    for t, per_lane in (
        (t0, [before for before, _, _ in parts]),
        (t1, [before + taken for before, taken, _ in parts]),
    ):
        whole = [(2 * count * c * t + total) // (2 * total) for c in cumulative]
        assert np.sum(per_lane, axis=0).tolist() == np.diff(whole).tolist()


@given(large, lanes, st.integers(0, 2**40), st.data())
def test_lane_and_whole_are_less_than_one_document_off_wherever_chunks_end(weights, count, t, data):
    total = sum(weights)
    lane = data.draw(st.integers(0, count - 1))
    before, _, _ = counts(weights, lane, count, t, t)
    assert sum(before) == t
    whole = counts(weights, 0, count, t, t)[2]  # with no lane before, all that was given
    assert sum(whole) == t * count
    for weight, own, all_lanes in zip(weights, before.tolist(), whole.tolist(), strict=True):
        assert abs(own - Fraction(weight * t, total)) < 1
        assert abs(all_lanes - Fraction(weight * t * count, total)) < 1


@given(large, lanes, st.integers(0, 1000), st.data())
def test_every_draw_is_less_than_two_documents_off(weights, count, number, data):
    lane = data.draw(st.integers(0, count - 1))
    length = chunk_length(weights, 64)
    t0 = number * length
    before, taken, _ = counts(weights, lane, count, t0, t0 + length)
    assert (taken >= 0).all()
    out, held = sequence(weights, t0, before, taken)
    assert np.bincount(out, minlength=len(weights)).tolist() == taken.tolist()
    given_ = before + np.cumsum(out[:, None] == np.arange(len(weights)), axis=0)  # [C, K]
    share = np.outer(np.arange(t0 + 1, t0 + length + 1), np.array(weights) / sum(weights))
    assert np.abs(given_ - share).max() < (1 if held else 2) + 1e-6


def test_a_chunk_shorter_than_the_rarest_share_would_take_documents_back():
    # Why a chunk is at least ceil(1 / w_min) draws long.
    def takes_back(weights, length):
        return any(
            (counts(weights, lane, 2, t, t + length)[1] < 0).any()
            for lane in range(2)
            for t in range(0, 40 * length, length)
        )

    assert takes_back([1, 1, 3], 2)
    assert not takes_back([1, 1, 3], chunk_length([1, 1, 3], 2))


def test_no_lane_is_left_out_of_a_small_share():
    # Giving each lane every R-th chunk of one order gave lane 0 none of 5,000 here.
    weights, count, t = [5, 95], 2, 100_000
    assert [counts(weights, lane, count, t, t)[0][0] for lane in range(count)] == [5000, 5000]


def test_a_unit_that_cannot_be_taken_in_time_makes_the_chunk_follow_its_own_rates():
    weights = [12, 11, 5, 11]
    out, held = sequence(weights, 24, [8, 6, 4, 6], [2, 3, 0, 3])
    assert out.tolist() == [1, 3, 0, 1, 3, 0, 1, 3]
    assert not held


# Weights 1, 2, 5 on 4 lanes: taken before, taken, first ordinals of each chunk.
GOLDEN = {
    16: [
        [([0, 0, 0], [2, 4, 10], [2 * k, 4 * k, 10 * k]) for k in range(4)],
        [([2, 4, 10], [2, 4, 10], [8 + 2 * k, 16 + 4 * k, 40 + 10 * k]) for k in range(4)],
        [([4, 8, 20], [2, 4, 10], [16 + 2 * k, 32 + 4 * k, 80 + 10 * k]) for k in range(4)],
    ],
    13: [
        [
            ([0, 0, 0], [1, 4, 8], [0, 0, 0]),
            ([0, 0, 0], [2, 3, 8], [1, 4, 8]),
            ([0, 0, 0], [2, 3, 8], [3, 7, 16]),
            ([0, 0, 0], [2, 3, 8], [5, 10, 24]),
        ],
        [
            ([1, 4, 8], [2, 2, 9], [7, 13, 32]),
            ([2, 3, 8], [1, 4, 8], [9, 15, 41]),
            ([2, 3, 8], [1, 4, 8], [10, 19, 49]),
            ([2, 3, 8], [2, 3, 8], [11, 23, 57]),
        ],
        [
            ([3, 6, 17], [2, 3, 8], [13, 26, 65]),
            ([3, 7, 16], [2, 3, 8], [15, 29, 73]),
            ([3, 7, 16], [2, 3, 8], [17, 32, 81]),
            ([4, 6, 16], [1, 4, 8], [19, 35, 89]),
        ],
    ],
}


@pytest.mark.parametrize("length", GOLDEN)
def test_counts_never_change(length):
    for turn, chunks in enumerate(GOLDEN[length]):
        for lane, expected in enumerate(chunks):
            found = counts([1, 2, 5], lane, 4, length * turn, length * (turn + 1))
            assert tuple(array.tolist() for array in found) == expected


def test_the_sequence_of_a_chunk_never_changes():
    before, taken, _ = counts([1, 2, 5], 3, 4, 13, 26)
    assert sequence([1, 2, 5], 13, before, taken)[0].tolist() == [
        2,
        1,
        2,
        2,
        1,
        2,
        2,
        2,
        0,
        1,
        2,
        2,
        0,
    ]
