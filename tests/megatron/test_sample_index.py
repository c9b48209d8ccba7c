import hashlib
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import sample_index as oracle
from zephon._native.helpers_cpp import build_sample_idx_int32, build_sample_idx_int64
from zephon.megatron import helpers


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(0, 40) | st.just(0), min_size=1, max_size=40))
    epochs = draw(st.integers(1, 5))
    documents = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=150))
    held = sum(sizes[document] for document in documents * epochs)
    per_epoch = held // epochs - draw(st.integers(0, 3))
    if per_epoch < 2:
        sizes[documents[0]] = 30
        held = sum(sizes[document] for document in documents * epochs)
        per_epoch = held // epochs
    length = draw(st.integers(2, 60))
    return sizes, documents * epochs, length, epochs, per_epoch


@given(problems(), st.booleans(), st.sampled_from([0, 1]))
def test_rows_are_those_of_the_definition(problem, drop, extra):
    expected = oracle.sample_index(*problem, drop, extra)
    for build, dtype in (
        (build_sample_idx_int32, np.int32),
        (build_sample_idx_int64, np.int64),
    ):
        rows = build(*problem, drop, extra)
        assert rows.dtype == dtype
        assert rows.flags.c_contiguous
        assert rows.tolist() == expected


@given(problems(), st.sampled_from([0, 1]))
def test_samples_cover_the_tokens_without_gap_or_overlap(problem, extra):
    sizes, documents, length, epochs, per_epoch = problem
    rows = build_sample_idx_int32(*problem, False, extra).tolist()
    before = np.concatenate([[0], np.cumsum([sizes[document] for document in documents])])
    starts = [int(before[document]) + offset for document, offset in rows]
    steps = np.diff(starts).tolist()
    assert all(step == length for step in steps[:-1])
    assert all(0 < step <= length for step in steps[-1:])
    assert starts[-1] >= epochs * per_epoch - extra


# sizes[i] = (i * 7919 + 13) % 97, the thousand documents three times over.
@pytest.mark.parametrize(
    ("length", "extra", "drop", "rows", "last", "digest"),
    [
        (2, 0, True, 71887, [2999, 65], "ec707cfbc0da69aa"),
        (2, 0, False, 71887, [2999, 65], "ec707cfbc0da69aa"),
        (2, 1, True, 71886, [2999, 63], "38b246c0d507e776"),
        (2, 1, False, 71887, [2999, 64], "f874846d900522d8"),
        (16, 0, True, 8986, [2999, 53], "1f290d061badbb1a"),
        (16, 0, False, 8987, [2999, 65], "4f0f40320c6628b5"),
        (16, 1, True, 8986, [2999, 53], "0a578c6bd5e7725c"),
        (16, 1, False, 8987, [2999, 64], "93150ceda1c5c749"),
        (128, 0, True, 1124, [2999, 37], "1364a94d2a0a254f"),
        (128, 0, False, 1125, [2999, 65], "251a03fc38762b28"),
        (128, 1, True, 1124, [2999, 37], "c2adf10fcf148fdd"),
        (128, 1, False, 1125, [2999, 64], "9f94f8087c62eedd"),
        (4096, 0, True, 36, [2990, 67], "ca52b90121fe88ec"),
        (4096, 0, False, 37, [2999, 65], "77b90ee33c3d9104"),
        (4096, 1, True, 36, [2990, 67], "8519dd520229b7c9"),
        (4096, 1, False, 37, [2999, 64], "5ddb2c3ae48e7738"),
    ],
)
def test_rows_hash_to_the_reference_values(length, extra, drop, rows, last, digest):
    sizes = ((np.arange(1000) * 7919 + 13) % 97).astype(np.int32)
    documents = np.tile(np.arange(1000, dtype=np.int32), 3)
    result = build_sample_idx_int32(sizes, documents, length, 3, int(sizes.sum()), drop, extra)
    assert (len(result), result[-1].tolist()) == (rows, last)
    assert hashlib.sha256(result.tobytes()).hexdigest()[:16] == digest


def test_boundary_without_extra_token_stays_at_the_end_of_the_earlier_document():
    assert build_sample_idx_int32([4, 4], [0, 1], 2, 1, 8, True, 0).tolist() == [
        [0, 0], [0, 2], [0, 4], [1, 2], [1, 4],
    ]  # fmt: skip
    assert build_sample_idx_int32([4, 4], [0, 1], 2, 1, 8, True, 1).tolist() == [
        [0, 0], [0, 2], [1, 0], [1, 2],
    ]  # fmt: skip


def test_kept_sample_that_ends_in_empty_documents_ends_at_the_last_token():
    rows = build_sample_idx_int32([5, 6, 0], [0, 1, 2, 2], 8, 1, 11, False, 1)
    assert rows.tolist() == [[0, 0], [1, 3], [1, 5]]


def test_arguments_may_be_given_by_name():
    rows = build_sample_idx_int64(
        add_extra_token_to_sequence=True,
        drop_last_partial_sequence=np.True_,
        tokens_per_epoch=np.int64(18),
        num_epochs=1,
        seq_length=4,
        document_idx=range(3),
        sizes=(5, 6, 7),
    )
    assert rows.tolist() == [[0, 0], [0, 4], [1, 3], [2, 1], [2, 5]]


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "u8", ">i4"])
def test_integer_arrays_of_any_width_are_read_where_the_values_fit(dtype):
    rows = build_sample_idx_int32(
        np.array([5, 6, 7], dtype), np.arange(3).astype(dtype), 4, 1, 18, True, 1
    )
    assert rows.tolist() == [[0, 0], [0, 4], [1, 3], [2, 1], [2, 5]]


def test_unaligned_arrays_are_read():
    buffer = b"\0\0" + np.array([5, 6, 7], np.int32).tobytes()
    sizes = np.frombuffer(buffer, np.int32, offset=2)
    assert not sizes.flags.aligned
    rows = build_sample_idx_int32(sizes, [0, 1, 2], 4, 1, 18, True, 1)
    assert rows.tolist() == [[0, 0], [0, 4], [1, 3], [2, 1], [2, 5]]


def test_inputs_are_left_as_they_were():
    sizes = np.array([5, 6, 7], np.int32)
    documents = np.arange(3, dtype=np.int32)
    sizes.flags.writeable = documents.flags.writeable = False
    build_sample_idx_int32(sizes, documents, 4, 1, 18, True, 1)
    assert (sizes.tolist(), documents.tolist()) == ([5, 6, 7], [0, 1, 2])


BASE = {
    "sizes": [5, 6, 7],
    "document_idx": [0, 1, 2],
    "seq_length": 4,
    "num_epochs": 1,
    "tokens_per_epoch": 18,
    "drop_last_partial_sequence": True,
    "add_extra_token_to_sequence": 1,
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sizes": [5, -6, 7]}, ValueError, r"sizes\[1\] is -6; a document has no negative size"),
        ({"sizes": [5, 2**31, 7]}, ValueError, r"sizes\[1\] is 2147483648, .* fit int32"),
        ({"sizes": [5, 2**70]}, ValueError, "sizes has a value that does not fit int32"),
        ({"sizes": [5, 2**63]}, ValueError, "sizes has a value that does not fit int32"),
        ({"sizes": np.array([5, 2**63], "u8")}, ValueError, r"\[1\] is 9223372036854775808"),
        ({"sizes": [5.0, 6, 7]}, TypeError, "sizes must hold integers, got dtype float64"),
        ({"sizes": [True, False]}, TypeError, "sizes must hold integers, got dtype bool"),
        ({"sizes": [5, None]}, TypeError, "sizes must hold integers, got dtype object"),
        ({"sizes": 5}, ValueError, r"sizes must have one dimension, got shape \(\)"),
        ({"sizes": []}, ValueError, r"document_idx\[0\] is 0, but there are 0 sizes"),
        ({"document_idx": [0, 3]}, ValueError, r"document_idx\[1\] is 3, but there are 3 sizes"),
        ({"document_idx": [0, -1]}, ValueError, r"document_idx\[1\] is -1, but there are 3 s"),
        ({"document_idx": []}, ValueError, "is 18, but .* hold 0 tokens"),
        ({"document_idx": np.array(0)}, ValueError, "document_idx must have one dimension"),
        ({"document_idx": np.zeros(3)}, TypeError, "document_idx must hold integers"),
        ({"seq_length": 1}, ValueError, "seq_length must be from 2 to 2147483647, got 1"),
        ({"seq_length": 2**31}, ValueError, "seq_length must be from 2"),
        ({"seq_length": 4.0}, TypeError, "seq_length must be an integer, got float"),
        ({"num_epochs": 0}, ValueError, "num_epochs must be from 1 to 2147483647, got 0"),
        ({"tokens_per_epoch": 1}, ValueError, "tokens_per_epoch must be from 2 .* got 1"),
        ({"tokens_per_epoch": 19}, ValueError, "is 19, but the documents .* hold 18 tokens"),
        ({"tokens_per_epoch": 2**62}, ValueError, "is 4611686018427387904, but .* 18 tokens"),
        ({"num_epochs": 2}, ValueError, "is 36, but the documents of document_idx hold 18"),
        (
            {"num_epochs": 2**31 - 1, "tokens_per_epoch": 2**40},
            ValueError,
            r"num_epochs \* tokens_per_epoch is \d+, which does not fit 64 bits",
        ),
        ({"drop_last_partial_sequence": None}, TypeError, "must be a bool, got NoneType"),
        ({"add_extra_token_to_sequence": 2}, ValueError, "must be a bool, 0 or 1, got 2"),
    ],
)
def test_argument_that_cannot_work_is_named(change, error, message):
    for build in (build_sample_idx_int32, build_sample_idx_int64):
        with pytest.raises(error, match=message):
            build(**{**BASE, **change})


def test_more_positions_than_32_bits_count_are_refused_at_once():
    positions = np.broadcast_to(np.int32(0), 2**31)
    with pytest.raises(ValueError, match="document_idx has 2147483648 entries, .*_int64"):
        build_sample_idx_int32([1], positions, 2, 2**30, 2, True, 0)


def test_claim_far_beyond_the_content_allocates_nothing():
    sizes = np.zeros(100_000, np.int32)
    sizes[0] = 2**31 - 1
    documents = np.arange(100_000, dtype=np.int32)
    with pytest.raises(ValueError, match=r"is \d{15}, but the documents .* hold 2147483647 tokens"):
        build_sample_idx_int32(sizes, documents, 2, 1, 200_000 * 10**9, True, 0)


def test_long_documents_have_many_rows():
    rows = build_sample_idx_int32([100_001], [0], 2, 1, 100_001, True, 1)
    np.testing.assert_array_equal(rows[:, 1], np.arange(50_001) * 2)


def test_arguments_have_no_defaults():
    with pytest.raises(TypeError):
        build_sample_idx_int32([5, 6, 7], [0, 1, 2], 4, 1, 18)


def test_threads_get_the_same_rows():
    sizes = np.random.default_rng(1).integers(0, 100, 1000).astype(np.int32)
    documents = np.tile(np.arange(1000, dtype=np.int32), 20)
    args = (sizes, documents, 64, 20, int(sizes.sum()), True, 1)
    expected = build_sample_idx_int32(*args)
    results = [None] * 4

    def work(slot):
        results[slot] = build_sample_idx_int32(*args)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_wrapper_picks_32_bit_rows_where_they_fit(monkeypatch):
    rows = helpers.build_sample_idx([5, 6, 7], [0, 1, 2], 4, 1, 18)
    assert rows.dtype == np.int32
    assert rows.tolist() == [[0, 0], [0, 4], [1, 3], [2, 1], [2, 5]]
    monkeypatch.setattr(helpers, "_INT32_MAX", 2)
    assert helpers.build_sample_idx([5, 6, 7], [0, 1, 2], 4, 1, 18).dtype == np.int64


def test_wrapper_takes_the_names_of_the_reference():
    rows = helpers.build_sample_idx(
        sizes=np.array([5, 6, 7], np.int32),
        document_indices=np.arange(3, dtype=np.int32),
        sequence_length=4,
        num_epochs=1,
        tokens_per_epoch=18,
        drop_last_partial_sequence=False,
        add_extra_token_to_sequence=False,
    )
    assert rows.tolist() == [[0, 0], [0, 4], [1, 3], [2, 1], [2, 5], [2, 7]]


def test_wrapper_refuses_an_empty_collection():
    with pytest.raises(ValueError, match="sizes is empty"):
        helpers.build_sample_idx([], [], 4, 1, 18)
