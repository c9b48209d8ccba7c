"""Every recorded call of the reference's helpers, and what ours says to it."""

import json
from pathlib import Path

import numpy as np
import pytest

from oracles import sample_index
from zephon import _threads
from zephon._native import helpers_cpp
from zephon.megatron import helpers

DATA = Path(__file__).parents[1] / "data" / "helpers"
INDEX = json.loads((DATA / "index.json").read_text())
RECORDED = {case["id"]: case for case in INDEX if case["file"]}
WRITTEN_OUT = {case["id"]: case for case in INDEX if not case["file"]}
ERRORS = {"ValueError": ValueError, "TypeError": TypeError}


@pytest.fixture(autouse=True, params=[1, 2], ids=["alone", "two_threads"])
def threads(request, monkeypatch):
    """The same with as many threads, however little there is to do for them."""
    monkeypatch.setattr(_threads, "LEAST_ITEMS", 1)
    monkeypatch.setattr(_threads, "get_threads", lambda: request.param)


def load(case):
    arrays = np.load(DATA / case["file"])
    inputs = {name[3:]: arrays[name].copy() for name in arrays if name.startswith("in_")}
    outputs = {name: arrays[name] for name in arrays if name.startswith("out")}
    args = [
        inputs[arg[1:]] if isinstance(arg, str) and arg.startswith("@") else arg
        for arg in case["args"]
    ]
    module = helpers if case["function"] == "build_sample_idx" else helpers_cpp
    return getattr(module, case["function"]), args, inputs, outputs


def of_kind(cases, *kinds):
    return [name for name, case in cases.items() if case["ours"] in kinds]


@pytest.mark.parametrize("name", of_kind(RECORDED, "same"))
def test_recorded_call_gives_the_recorded_result(name):
    function, args, inputs, outputs = load(RECORDED[name])
    result = function(*args)
    if "out" in outputs:
        assert result.flags.c_contiguous
        assert result.dtype == outputs["out"].dtype
        np.testing.assert_array_equal(result, outputs["out"], strict=True)
    else:
        assert result is None
        for output, expected in outputs.items():
            np.testing.assert_array_equal(inputs[output[4:]], expected, strict=True)


@pytest.mark.parametrize("name", of_kind(RECORDED, *ERRORS))
def test_recorded_call_that_means_nothing_is_refused(name):
    function, args, _, _ = load(RECORDED[name])
    with pytest.raises(ERRORS[RECORDED[name]["ours"]]):
        function(*args)


@pytest.mark.parametrize("name", of_kind(RECORDED, "exact-count"))
def test_large_sample_counts_are_exact_where_the_reference_rounds(name):
    function, args, inputs, outputs = load(RECORDED[name])
    result = function(*args)
    length, epochs, tokens, drop, extra = args[2:]
    exact = sample_index.exact_sample_count(epochs * tokens, length, extra, drop)
    assert len(result) == exact + 1 != len(outputs["out"])
    shared = min(len(result), len(outputs["out"])) - 1
    np.testing.assert_array_equal(result[:shared], outputs["out"][:shared])
    assert result.tolist() == sample_index.sample_index(
        inputs["sizes"].tolist(), inputs["docs"].tolist(), *args[2:]
    )


def i4(*values):
    return np.array(values, np.int32)


def index(sizes, documents, *args):
    return helpers_cpp.build_sample_idx_int32(sizes, documents, *args).tolist()


def blend(ids, weights, datasets, size, verbose=False):
    samples = np.zeros(len(ids), np.int64)
    helpers_cpp.build_blending_indices(ids, samples, weights, datasets, size, verbose)
    return ids.tolist()


def exhaust(size, sizes, datasets):
    ids = np.zeros(size, "i2")
    samples = np.zeros(size, "i8")
    helpers_cpp.build_exhaustive_blending_indices(ids, samples, sizes, datasets)


def sentences(*args):
    return helpers_cpp.build_mapping(np.array([0, 3]), i4(5, 6, 7), *args)


def read_only(array):
    array.flags.writeable = False
    return array


FIVE_SIX_SEVEN = [[0, 0], [0, 4], [1, 3], [2, 1], [2, 5]]
CALLS = {
    "si_c2_tokens_claim_too_big": lambda: index(i4(5, 6, 7), i4(0, 1, 2), 4, 1, 100, True, 1),
    "si_c3_seq_zero": lambda: index(i4(5, 6, 7), i4(0, 1, 2), 0, 1, 18, True, 1),
    "si_c4_seq_one": lambda: index(i4(5, 6), i4(0, 1), 1, 1, 11, True, 1),
    "si_c5_zero_tokens": lambda: index(i4(0, 0), i4(0, 1), 8, 1, 0, True, 1),
    "si_c6_doc_id_out_of_range": lambda: index(i4(5, 6), i4(0, 10**8), 4, 1, 11, True, 1),
    "si_c7_int64_sizes_silently_cast": lambda: index(
        np.array([5, 6, 2**32 + 7]), i4(0, 1, 2), 4, 1, 18, True, 1
    ),
    "si_c8_float_sizes": lambda: index(np.array([5.9, 6.9, 7.9]), i4(0, 1, 2), 4, 1, 18, True, 1),
    "si_c9_noncontiguous": lambda: index(
        i4(5, 99, 6, 99, 7, 99)[::2], i4(0, 1, 2), 4, 1, 18, True, 1
    ),
    "si_c10_2d_input": lambda: index(np.ones((2, 3), "i4"), i4(0, 1, 2), 4, 1, 18, True, 1),
    "bl_c1_wrong_out_dtype": lambda: blend(np.zeros(6, "i4"), [0.5, 0.5], 2, 6),
    "bl_c2_out_too_small": lambda: blend(np.zeros(4, "i2"), [0.5, 0.5], 2, 5000000),
    "bl_c3_num_datasets_bigger": lambda: blend(np.zeros(9, "i2"), [0.5, 0.5], 4, 9),
    "bl_c4_readonly_out": lambda: blend(read_only(np.zeros(9, "i2")), [0.5, 0.5], 2, 9),
    "bl_c5_stack_overflow": lambda: blend(
        np.zeros(2, "i2"), np.full(3000000, 1 / 3000000), 3000000, 2
    ),
    "bl_c6_verbose": lambda: blend(np.zeros(10, "i2"), [0.3, 0.7], 2, 10, True),
    "ex_c1_zero_size": lambda: exhaust(50, np.array([0, 50]), 2),
    "ex_c2_all_zero": lambda: exhaust(50, np.array([0, 0]), 2),
    "ex_c3_negative": lambda: exhaust(50, np.array([-3, 50]), 2),
    "ex_c4_float_sizes": lambda: exhaust(10, [3.0, 7.0], 2),
    "bm_c1_seed0": lambda: sentences(1, 9, 10, 0.1, 0, False, 2),
    "bm_c2_neg_max": lambda: sentences(1, -1, 10, 0.1, 1, False, 2),
    "bm_c3_none_max": lambda: sentences(1, None, 10, 0.1, 1, False, 2),
    "bm_c4_maxlen1": lambda: sentences(1, 9, 1, 1.0, 1, False, 2),
    "bm_c5_int_max_epochs_nothing": lambda: helpers_cpp.build_mapping(
        np.array([0, 1]), i4(5), 2**31 - 2, 9, 10, 0.1, 1, False, 2
    ),
}
RESULTS = {
    "si_c9_noncontiguous": FIVE_SIX_SEVEN,
    "bl_c6_verbose": [1, 0, 1, 1, 0, 1, 1, 0, 1, 1],
}


def test_every_case_of_the_index_is_tested_or_undefined():
    covered = set(of_kind(RECORDED, "same", "exact-count", *ERRORS)) | set(CALLS)
    left = {case["id"]: case["ours"] for case in INDEX if case["id"] not in covered}
    assert set(left.values()) <= {"undefined"}
    assert CALLS.keys() <= WRITTEN_OUT.keys()


@pytest.mark.parametrize("name", of_kind(WRITTEN_OUT, *ERRORS))
def test_call_that_aborts_or_loses_its_result_in_the_reference_is_refused(name):
    with pytest.raises(ERRORS[WRITTEN_OUT[name]["ours"]]):
        CALLS[name]()


@pytest.mark.parametrize("name", of_kind(WRITTEN_OUT, "same"))
def test_odd_but_valid_call_gives_the_same_result(name):
    assert CALLS[name]() == RESULTS[name]


def test_verbose_prints_what_the_reference_prints(capsys):
    CALLS["bl_c6_verbose"]()
    assert capsys.readouterr().out == (
        "> building indices for blended datasets ...\n"
        " > sample ratios:\n"
        "   dataset 0, input: 0.3, achieved: 0.3\n"
        "   dataset 1, input: 0.7, achieved: 0.7\n"
    )
