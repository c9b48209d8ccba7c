import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon import _threads
from zephon.megatron import compile_helper, set_threads

helper = compile_helper()
COUNTS = [2, 3, 8]
LEAST = st.sampled_from([1, 10, 300, 4000])


@pytest.fixture(autouse=True)
def default():
    yield
    set_threads(None)


def with_threads(count, least, build, *args):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_threads, "LEAST_ITEMS", least)
        set_threads(count)
        return build(*args)


def same_for_every_count(least, build, *args):
    expected = with_threads(1, least, build, *args)
    for count in COUNTS:
        result = with_threads(count, least, build, *args)
        for got, array in zip(result, expected, strict=True):
            np.testing.assert_array_equal(got, array, strict=True)


def blend(weights, size, ids):
    index = np.full(size, -1, ids)
    samples = np.full(size, -1, np.int64)
    args = (index, samples, weights, len(weights), size, False)
    return index, samples, helper.build_blending_indices_counted(*args)


@given(
    st.integers(1, 70), st.sampled_from([1, 3, 1000]), st.integers(0, 2**32 - 1),
    st.integers(0, 40_000), st.sampled_from([1.0, 1.0, 1.0, 1 + 1e-9, 0.6, 1.7]),
    st.sampled_from([np.int16, np.int32]), LEAST,
)  # fmt: skip
def test_blend_is_the_same_for_every_number_of_threads(
    datasets, kinds, seed, size, total, ids, least
):
    random = np.random.default_rng(seed)
    weights = random.lognormal(0, 3, kinds)[random.integers(0, kinds, datasets)]
    same_for_every_count(least, blend, weights * (total / weights.sum()), size, ids)


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1e-9, 0.1, 1 / 3]), min_size=1,
                max_size=9), st.integers(0, 2000), LEAST)  # fmt: skip
def test_blend_of_any_weights_is_the_same_for_every_number_of_threads(weights, size, least):
    same_for_every_count(least, blend, weights, size, np.int16)


def exhaust(sizes):
    index = np.full(sum(sizes), -1, np.int16)
    samples = np.full(sum(sizes), -1, np.int64)
    helper.build_exhaustive_blending_indices(index, samples, sizes, len(sizes))
    return index, samples


@given(st.integers(1, 30), st.sampled_from([1, 3, 1000]), st.integers(0, 2**32 - 1), LEAST)
def test_exhaustive_blend_is_the_same_for_every_number_of_threads(datasets, largest, seed, least):
    sizes = np.random.default_rng(seed).integers(1, largest, datasets, endpoint=True).tolist()
    same_for_every_count(least, exhaust, sizes)


def place(build, *args):
    return (build(*args),)


@given(
    st.integers(1, 3000), st.sampled_from([2, 60, 3000]), st.integers(2, 500),
    st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.integers(0, 2), LEAST,
)  # fmt: skip
def test_sample_index_is_the_same_for_every_number_of_threads(
    documents, longest, length, seed, drop, extra, unused, least
):
    random = np.random.default_rng(seed)
    sizes = random.integers(0, longest, documents) * random.integers(0, 2, documents)
    sizes[0] = 10
    order = random.integers(0, documents, 3 * documents)
    order[0] = 0
    tokens = max(2, int(sizes[order].sum()) - unused)
    for build in (helper.build_sample_idx_int32, helper.build_sample_idx_int64):
        args = (sizes, order, length, 1, tokens, drop, extra)
        same_for_every_count(least, place, build, *args)


@pytest.mark.parametrize("count", [1, *COUNTS])
def test_errors_are_the_same_for_every_number_of_threads(count):
    def build(sizes, order, tokens):
        return with_threads(
            count, 1, helper.build_sample_idx_int32, sizes, order, 4, 1, tokens, True, 1
        )

    order = np.arange(100_000)
    sizes = np.ones(100_000, np.int32)
    with pytest.raises(ValueError, match="is 100001, but the documents .* hold 100000 tokens"):
        build(sizes, order, 100_001)
    with pytest.raises(ValueError, match=r"document_idx\[99999\] is 100000"):
        build(sizes, order + (order == 99_999), 100_000)
    sizes[99_998] = -1
    with pytest.raises(ValueError, match=r"sizes\[99998\] is -1"):
        build(sizes, order, 100_000)


def test_only_large_inputs_ask_for_threads(monkeypatch):
    asked = []
    monkeypatch.setattr(_threads, "LEAST_ITEMS", 1000)
    monkeypatch.setattr(_threads, "get_threads", lambda: asked.append(1) or 2)
    blend([0.3, 0.7], 1999, np.int16)
    exhaust([999, 1000])
    helper.build_sample_idx_int32([9], np.zeros(1999, int), 4, 1, 9, True, 1)
    assert asked == []
    blend([0.3, 0.7], 2000, np.int16)
    exhaust([1000, 1000])
    helper.build_sample_idx_int32([9], np.zeros(2000, int), 4, 1, 9, True, 1)
    assert asked == [1, 1, 1]


def test_threads_run_while_the_call_does_and_are_gone_after_it():
    seen = set()
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            seen.update(os.listdir("/proc/self/task"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = set(os.listdir("/proc/self/task"))
    for _ in range(10):
        with_threads(3, 1000, blend, [0.3, 0.7], 1_000_000, np.int16)
        if seen - before:
            break
    stop.set()
    watcher.join()
    assert seen - before
    assert not set(os.listdir("/proc/self/task")) & (seen - before)


def test_call_that_gets_no_threads_does_the_work_alone():
    code = """
import resource, threading
import numpy as np
from zephon.megatron import compile_helper, set_threads
helper = compile_helper()
ids = np.zeros((2, 2_000_000), np.int16)
samples = np.zeros((2, 2_000_000), np.int64)
def build(row, threads):
    set_threads(threads)
    helper.build_blending_indices(ids[row], samples[row], [0.3, 0.7], 2, 2_000_000, False)
build(0, 1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 20), resource.RLIM_INFINITY))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("no thread")
build(1, 8)
print((ids[0] == ids[1]).all(), (samples[0] == samples[1]).all())
"""
    out = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out == "no thread\nTrue True\n"
