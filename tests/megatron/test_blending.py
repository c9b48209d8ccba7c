import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import blending as oracle
from zephon._native.helpers_cpp import (
    build_blending_indices,
    build_blending_indices_counted,
    build_blending_indices_int32,
    build_exhaustive_blending_indices,
    build_exhaustive_blending_indices_int32,
)


def blend(weights, size, ids=np.int16, build=build_blending_indices):
    index = np.zeros(size, ids)
    samples = np.zeros(size, np.int64)
    assert build(index, samples, weights, len(weights), size, False) is None
    return index, samples


def blend_lists(*args, **kwargs):
    return tuple(array.tolist() for array in blend(*args, **kwargs))


WEIGHTS = st.lists(
    st.floats(0, 1) | st.sampled_from([0.0, 0.1, 0.25, 1e-9, 1 / 3]), min_size=1, max_size=12
)


@given(WEIGHTS, st.integers(0, 300), st.sampled_from([None, 0.6, 1.0, 1.7]))
def test_blend_is_that_of_the_definition(weights, size, total):
    if total is not None and sum(weights) > 0:
        weights = [min(w / sum(weights) * total, 1e300) for w in weights]
    assert blend_lists(weights, size) == oracle.weighted(weights, size)


@given(
    st.integers(1, 200),
    st.sampled_from([1, 3, 1000]),
    st.integers(0, 2**32 - 1),
    st.integers(250, 900),
    st.sampled_from([1.0, 1.0, 0.6, 1.7]),
)
def test_blend_of_many_datasets_is_that_of_the_definition(datasets, kinds, seed, size, total):
    # One, three or many different weights among up to two hundred.
    random = np.random.default_rng(seed)
    weights = random.lognormal(0, 2, kinds)[random.integers(0, kinds, datasets)]
    weights *= total / weights.sum()
    assert blend_lists(weights, size) == oracle.weighted(weights.tolist(), size)


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_exhaustive_blend_of_many_datasets_is_that_of_the_definition(datasets, largest, seed):
    sizes = np.random.default_rng(seed).integers(1, largest, datasets, endpoint=True).tolist()
    assert tuple(array.tolist() for array in exhaust(sizes)) == oracle.exhaustive(sizes)


@given(st.lists(st.floats(0, 1e308), min_size=1, max_size=5), st.integers(0, 50))
def test_weights_of_any_finite_size_are_used_as_given(weights, size):
    assert blend_lists(weights, size) == oracle.weighted(weights, size)


@pytest.mark.parametrize(
    ("weights", "size", "ids", "samples"),
    [
        ([0.25, 0.75], 1000, "5d49f5f33ed89160", "b19d476445033e4d"),
        ([1 / 3] * 3, 1000, "75bad66dff608b53", "4a70205e9cb55558"),
        ([0.7, 0.2, 0.1], 10007, "183cadbc199bb201", "29526463d8b417c1"),
    ],
)
def test_blend_hashes_to_the_reference_values(weights, size, ids, samples):
    result = blend(weights, size)
    digests = [hashlib.sha256(array.tobytes()).hexdigest()[:16] for array in result]
    assert digests == [ids, samples]


def test_step_zero_and_step_one_use_the_same_multiplier():
    assert blend_lists([0.25, 0.75], 8)[0] == [1, 0, 1, 1, 0, 1, 1, 1]


def test_weights_that_sum_to_more_than_one_are_not_normalised():
    assert blend_lists([3, 1], 6)[0] == [0] * 6


def test_many_datasets_fit_a_32_bit_index():
    weights = np.full(40000, 1 / 40000)
    result = blend(weights, 40000, np.int32, build_blending_indices_int32)
    # Rounding aside, each is drawn once before any is drawn twice.
    assert result[0].min() == 0
    assert result[0].max() == 39999
    assert np.array_equal(np.bincount(result[0]) - 1, np.maximum.reduceat(
        result[1][np.argsort(result[0], kind="stable")],
        np.searchsorted(np.sort(result[0]), np.arange(40000)),
    ))  # fmt: skip


@given(
    st.integers(1, 90), st.integers(0, 700), st.integers(0, 2**32 - 1),
    st.sampled_from([np.int16, np.int32]),
)  # fmt: skip
def test_draws_of_each_dataset_are_returned_on_request(datasets, size, seed, dtype):
    weights = np.random.default_rng(seed).dirichlet(np.ones(datasets))
    ids = np.zeros(size, dtype)
    samples = np.zeros(size, np.int64)
    counts = build_blending_indices_counted(ids, samples, weights, datasets, size, False)
    np.testing.assert_array_equal(counts, np.bincount(ids, minlength=datasets))
    expected = blend(weights, size)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(samples, expected[1])


def test_strided_outputs_are_written_in_place():
    ids = np.full(20, -1, np.int16)
    samples = np.full(20, -1, np.int64)
    build_blending_indices(ids[::2], samples[::-2], [0.25, 0.75], 2, 8, False)
    assert ids[:16:2].tolist() == [1, 0, 1, 1, 0, 1, 1, 1]
    assert samples[::-2][:8].tolist() == [0, 0, 1, 2, 1, 3, 4, 5]
    assert set(ids[1::2].tolist()) == set(samples[::2].tolist()) == {-1}


def test_longer_outputs_keep_what_lies_behind_the_blend():
    ids = np.full(10, -1, np.int16)
    samples = np.full(10, -1, np.int64)
    build_blending_indices(ids, samples, [0.25, 0.75], 2, 8, False)
    assert ids.tolist() == [1, 0, 1, 1, 0, 1, 1, 1, -1, -1]


def test_arguments_may_be_given_by_name():
    ids = np.zeros(2, np.int16)
    samples = np.zeros(2, np.int64)
    build_blending_indices(
        dataset_index=ids, dataset_sample_index=samples, weights=[0.25, 0.75], num_datasets=2,
        size=2, verbose=False,
    )  # fmt: skip
    assert ids.tolist() == [1, 0]


def test_verbose_report_of_no_samples_has_no_ratio(capsys):
    build_blending_indices(np.zeros(0, "i2"), np.zeros(0, "i8"), [1e-7, 1], 2, 0, True)
    assert "   dataset 0, input: 1e-07, achieved: nan\n" in capsys.readouterr().out


BASE = {
    "dataset_index": np.zeros(4, np.int16),
    "dataset_sample_index": np.zeros(4, np.int64),
    "weights": [0.5, 0.5],
    "num_datasets": 2,
    "size": 4,
    "verbose": False,
}
READ_ONLY = np.zeros(4, np.int64)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weights": [0.5, float("nan")]}, ValueError, r"weights\[1\] is nan; a weight must be"),
        ({"weights": [float("inf"), 1]}, ValueError, r"weights\[0\] is inf"),
        ({"weights": [-0.5, 1]}, ValueError, r"weights\[0\] is -0.5; .* not negative"),
        ({"weights": [0.5]}, ValueError, "num_datasets is 2, but there are 1 weights"),
        ({"weights": [0.5] * 3}, ValueError, "num_datasets is 2, but there are 3 weights"),
        ({"weights": ["a", "b"]}, TypeError, "weights must hold numbers"),
        ({"weights": [[1, 2]]}, ValueError, r"weights must have one dimension, got shape \(1, 2\)"),
        ({"num_datasets": 0}, ValueError, "num_datasets must be from 1 to 2147483647, got 0"),
        ({"num_datasets": 2.0}, TypeError, "num_datasets must be an integer"),
        ({"size": -1}, ValueError, "size must be from 0"),
        ({"size": 5}, ValueError, "dataset_index has room for 4 samples, but there are 5"),
        ({"verbose": "no"}, TypeError, "verbose must be a bool, got str"),
        ({"dataset_index": [0] * 4}, TypeError, "must be a numpy array to write to, got list"),
        ({"dataset_index": np.zeros(4, "i4")}, TypeError, "must have dtype int16, got int32: its"),
        ({"dataset_index": np.zeros(4, ">i2")}, TypeError, "must have dtype int16, got >i2"),
        ({"dataset_index": np.zeros((2, 2), "i2")}, ValueError, "one dimension"),
        ({"dataset_sample_index": np.zeros(4, "i4")}, TypeError, "must have dtype int64"),
        (
            {"dataset_sample_index": np.zeros(3, "i8")},
            ValueError,
            "room for 3 samples, but there are 4",
        ),
        ({"dataset_sample_index": READ_ONLY}, ValueError, "dataset_sample_index is read-only"),
        (
            {"weights": [1 / 32768] * 32768, "num_datasets": 32768},
            ValueError,
            "num_datasets is 32768, but an int16 .* that ends in _int32",
        ),
    ],
)
def test_argument_that_cannot_work_is_named(change, error, message):
    with pytest.raises(error, match=message):
        build_blending_indices(**{**BASE, **change})


def exhaust(sizes, ids=np.int16, build=build_exhaustive_blending_indices):
    index = np.zeros(sum(sizes), ids)
    samples = np.zeros(sum(sizes), np.int64)
    assert build(index, samples, sizes, len(sizes)) is None
    return index, samples


@given(st.lists(st.integers(1, 40) | st.sampled_from([1, 7, 100]), min_size=1, max_size=14))
def test_exhaustive_blend_is_that_of_the_definition(sizes):
    expected = oracle.exhaustive(sizes)
    assert tuple(array.tolist() for array in exhaust(sizes)) == expected
    wide = exhaust(sizes, np.int32, build_exhaustive_blending_indices_int32)
    assert tuple(array.tolist() for array in wide) == expected


@pytest.mark.parametrize(
    ("sizes", "ids", "samples"),
    [
        ([3, 5], "3101f209259e0d5d", "cef8f3c72f0981c8"),
        ([1000, 10, 1], "ed5582d258b30127", "ac3f3933dc33b3e2"),
        ([7, 8191, 123], "363f13f9416190c4", "7fb4bb914e6b8180"),
    ],
)
def test_exhaustive_blend_hashes_to_the_reference_values(sizes, ids, samples):
    digests = [hashlib.sha256(array.tobytes()).hexdigest()[:16] for array in exhaust(sizes)]
    assert digests == [ids, samples]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sizes": [0, 50]}, ValueError, r"sizes\[0\] is 0; every dataset needs a sample"),
        ({"sizes": [2, -2]}, ValueError, r"sizes\[1\] is -2"),
        ({"sizes": [2.0, 2.0]}, TypeError, "sizes must hold integers, got dtype float64"),
        ({"sizes": [4]}, ValueError, "num_datasets is 2, but there are 1 sizes"),
        ({"sizes": [2, 3]}, ValueError, "dataset_index has room for 4 samples, but there are 5"),
        ({"sizes": [2**63 - 1, 2**63 - 1]}, ValueError, "room for 4 samples, but there are 1844"),
        ({"num_datasets": 0, "sizes": []}, ValueError, "num_datasets must be from 1"),
        ({"dataset_index": np.zeros(4, "i4")}, TypeError, "must have dtype int16, got int32"),
        (
            {"dataset_index": np.zeros(32768, "i2"), "sizes": [1] * 32768, "num_datasets": 32768,
             "dataset_sample_index": np.zeros(32768, "i8")},
            ValueError,
            "num_datasets is 32768, but an int16 .* of the same name that ends in _int32",
        ),
    ],
)  # fmt: skip
def test_argument_of_an_exhaustive_blend_that_cannot_work_is_named(change, error, message):
    base = {key: BASE[key] for key in ("dataset_index", "dataset_sample_index", "num_datasets")}
    with pytest.raises(error, match=message):
        build_exhaustive_blending_indices(**{**base, "sizes": [2, 2], **change})
