import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon._native.mersenne import NumpyShuffle


@given(
    st.integers(0, 2**32 - 1),
    st.lists(
        st.tuples(st.integers(0, 700), st.sampled_from(["i4", "u4", "i8", "u8", ">i4"])),
        max_size=4,
    ),
)
def test_shuffles_are_those_of_numpy_one_after_the_other(seed, arrays):
    ours, theirs = NumpyShuffle(seed), np.random.RandomState(seed)
    for size, dtype in arrays:
        mine = np.arange(size).astype(dtype)
        expected = mine.copy()
        ours.shuffle(mine)
        theirs.shuffle(expected)
        np.testing.assert_array_equal(mine, expected, strict=True)


@pytest.mark.parametrize("size", [1023, 1024, 1025, 65536, 100_003])
def test_long_shuffles_are_those_of_numpy(size):
    mine = np.arange(size, dtype=np.int32)
    expected = mine.copy()
    NumpyShuffle(1234).shuffle(mine)
    np.random.RandomState(1234).shuffle(expected)
    np.testing.assert_array_equal(mine, expected)


def test_ranges_of_one_array_are_shuffled_in_place():
    values = np.array([0, 1, 2, 3, 4] * 2, np.int32)
    random = NumpyShuffle(1234)
    random.shuffle(values)
    assert values.tolist() == [2, 2, 4, 1, 0, 3, 4, 0, 1, 3]
    order = np.arange(7, dtype=np.uint32)
    random.shuffle(order[:4])
    random.shuffle(order[4:])
    assert order.tolist() == [3, 0, 2, 1, 5, 4, 6]


def read_only():
    array = np.arange(4)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        ([1, 2], TypeError, "array must be a numpy array, got list"),
        (np.zeros(3), TypeError, "integers of 32 or 64 bits, got float64"),
        (np.zeros(3, "i2"), TypeError, "integers of 32 or 64 bits, got int16"),
        (np.zeros((2, 2), "i4"), ValueError, r"one-dimensional, .* got shape \(2, 2\)"),
        (np.zeros(6, "i4")[::2], ValueError, r"contiguous .* with strides \(8,\)"),
        (read_only(), ValueError, "writable, got .*, read-only"),
    ],
)
def test_array_that_cannot_be_shuffled_in_place_is_refused(array, error, message):
    with pytest.raises(error, match=message):
        NumpyShuffle(1).shuffle(array)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seed_is_that_of_numpy(seed):
    with pytest.raises(ValueError, match=f"seed must be from 0 to 4294967295, got {seed}"):
        NumpyShuffle(seed)
