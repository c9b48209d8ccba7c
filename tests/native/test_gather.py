import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.gpt_sample import gpt_sample
from oracles.sample_index import sample_index
from zephon._native.gather import SampleGather

DTYPES = [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64]


def tables(documents, length, *, extra=1, drop_last=False, dtype=np.int64, wide=False, seed=0):
    """Arrays of an index over ``documents``, shuffled, and the same in plain lists."""
    sizes = [len(document) for document in documents]
    random = np.random.RandomState(seed)
    order = random.permutation(len(documents)).tolist()
    rows = sample_index(sizes, order, length, 1, sum(sizes), drop_last, extra)
    shuffle = random.permutation(len(rows) - 1)
    text = [token for document in order for token in documents[document]]
    samples = [text[k * length : (k + 1) * length + extra] for k in shuffle]
    arrays = {
        "tokens": np.array([token for document in documents for token in document], dtype),
        "starts": np.cumsum([0, *sizes])[:-1].astype(np.int64),
        "lengths": np.array(sizes, np.int32),
        "document_index": np.array(order, np.int32),
        "sample_index": np.array(rows, np.int64 if wide else np.int32),
        "shuffle_index": shuffle.astype(np.int64 if wide else np.uint32),
    }
    return arrays, samples


def outputs(rows, length):
    return [
        np.full((rows, length), -7, np.int64),
        np.full((rows, length), -7, np.int64),
        np.full((rows, length), -7, np.float32),
        np.full((rows, length), -7, np.int64),
        np.full((rows, length), 7, np.uint8),
    ]


DOCUMENTS = [[1, 2, 3, 9], [4, 9], [], [5, 6, 7, 8, 9, 9], [3]]


@pytest.fixture
def arrays():
    return tables(DOCUMENTS, 4)[0]


@given(
    documents=st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=12),
    length=st.integers(2, 9),
    extra=st.booleans(),
    drop_last=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    wide=st.booleans(),
    pad=st.none() | st.integers(0, 5),
    eod=st.integers(0, 5),
    mask_eod=st.booleans(),
    restart=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=300, deadline=None)
def test_every_sample_equals_the_oracle(
    documents, length, extra, drop_last, dtype, wide, pad, eod, mask_eod, restart, seed
):
    if sum(map(len, documents)) < 2:
        documents = [*documents, [1, 2]]
    arrays, samples = tables(
        documents, length, extra=int(extra), drop_last=drop_last, dtype=dtype, wide=wide, seed=seed
    )
    gather = SampleGather(
        **arrays,
        sequence_length=length,
        add_extra_token=extra,
        pad_id=pad,
        eod_id=eod,
        mask_eod=mask_eod,
        restart_at_eod=restart,
    )
    out = outputs(len(samples), length)
    which = np.arange(len(samples))
    gather.gather(which, which[::-1].copy(), *out)
    for sample, text in enumerate(samples):
        expected = gpt_sample(text, length, pad=pad, eod=eod, mask_eod=mask_eod, restart=restart)
        for found, wanted in zip(out, expected, strict=True):
            assert found[len(samples) - 1 - sample].tolist() == wanted


@given(st.booleans(), st.booleans(), st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_a_block_holds_one_sample_as_a_row_of_its_own_does(positions, ends, length):
    reader = SampleGather(
        **tables(DOCUMENTS, length)[0], sequence_length=length, add_extra_token=True,
        pad_id=3, eod_id=9, mask_eod=True, restart_at_eod=True,
    )  # fmt: skip
    samples = len(tables(DOCUMENTS, length)[1])
    for sample in range(samples):
        tokens, labels, loss, position_ids, document_ends = outputs(1, length)
        reader.gather(
            np.array([sample]), np.zeros(1, np.int64), tokens, labels, loss, position_ids,
            document_ends,
        )  # fmt: skip
        begins = (3 if positions else 2) * length
        block = np.full(begins + (length + 1) // 2, -7, np.int64)
        found = np.full(length, 7, np.uint8)
        reader.gather_one(sample, block, found if ends else None)
        wanted = [*tokens[0], *labels[0], *(position_ids[0] if positions else [])]
        assert block[:begins].tolist() == wanted
        assert block[begins:].view(np.float32)[:length].tolist() == loss[0].tolist()
        assert found.tolist() == (document_ends[0].tolist() if ends else [7] * length)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, np.zeros(14, np.int64)), ValueError, r"sample must lie in \[0, 2\], got -1"),
        ((4, np.zeros(14, np.int64)), ValueError, r"sample must lie in \[0, 2\], got 4"),
        ((0.0, np.zeros(14, np.int64)), TypeError, "sample must be an integer, got 0.0"),
        ((0, np.zeros(14, np.int32)), TypeError, "block must be an int64 array, got format"),
        ((0, np.zeros(13, np.int64)), ValueError, "have 10 items, or 14 with positions, got 13"),
        ((0, np.zeros((14, 1), np.int64)), ValueError, "block must have one dimension, got 2"),
        ((0, np.zeros(28, np.int64)[::2]), ValueError, "block must be C-contiguous"),
        ((0, np.zeros(14, np.int64), np.zeros(5, np.uint8)), ValueError, "document_ends must have"),
    ],
)
def test_arguments_of_a_block_are_checked(arrays, arguments, error, message):
    reader = SampleGather(**arrays, sequence_length=4, add_extra_token=True, eod_id=9)
    with pytest.raises(error, match=message):
        reader.gather_one(*arguments)


def test_a_block_must_be_writable_and_ends_need_an_id(arrays):
    reader = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    block = np.zeros(14, np.int64)
    with pytest.raises(ValueError, match="document_ends needs eod_id, which is None"):
        reader.gather_one(0, block, np.zeros(4, np.uint8))
    block.flags.writeable = False
    with pytest.raises(ValueError, match="block must be writable, got a read-only array"):
        reader.gather_one(0, block)


def test_a_damaged_index_is_an_error_for_a_block_too(arrays):
    arrays["document_index"][:] = 99
    reader = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    with pytest.raises(ValueError, match="sample 0 cannot be read: document_index names a seq"):
        reader.gather_one(0, np.zeros(14, np.int64))


def test_outputs_that_are_not_wanted_and_other_rows_stay_as_they_are(arrays):
    gather = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    tokens, labels, *_ = outputs(3, 4)
    gather.gather(np.array([0]), np.array([1]), tokens, labels)
    assert (tokens[[0, 2]] == -7).all()
    assert (labels[[0, 2]] == -7).all()
    assert (tokens[1] != -7).all()


def test_one_row_may_have_one_dimension(arrays):
    gather = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    flat = [out[0] for out in outputs(1, 4)[:4]]
    deep = outputs(1, 4)[:4]
    for out in (flat, deep):
        gather.gather(np.array([1]), np.array([0]), *out)
    for one, other in zip(flat, deep, strict=True):
        assert one.tolist() == other[0].tolist()


def damaged(arrays, name, at, value):
    copy = {**arrays, name: arrays[name].copy()}
    copy[name][at] = value
    return copy


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("shuffle_index", 2, 99, "shuffle_index names a sample that is not there"),
        ("sample_index", (1, 0), -1, "rows of sample_index do not span one sample"),
        ("sample_index", (1, 0), 2**31 - 1, "rows of sample_index do not span one sample"),
        ("sample_index", (0, 1), -1, "an offset outside its sequence"),
        ("sample_index", (0, 1), 2**31 - 1, "an offset outside its sequence"),
        ("sample_index", (1, 1), 2**31 - 1, "an offset outside its sequence"),
        ("document_index", 0, 5, "document_index names a sequence that is not there"),
        ("document_index", 0, -1, "document_index names a sequence that is not there"),
        ("starts", slice(None), 12, "a sequence lies outside the tokens"),
        ("starts", slice(None), -1, "a sequence lies outside the tokens"),
        ("starts", slice(None), 2**63 - 1, "a sequence lies outside the tokens"),
        ("lengths", slice(None), 2**31 - 1, "sequence"),
    ],
)
def test_a_damaged_index_is_an_error_that_names_the_sample(arrays, name, at, value, message):
    arrays["shuffle_index"][:] = 0
    gather = SampleGather(**damaged(arrays, name, at, value), sequence_length=4, add_extra_token=1)
    with pytest.raises(ValueError, match=f"sample 2 cannot be read: .*{message}"):
        gather.gather(np.array([2]), np.array([0]), *outputs(1, 4)[:4])


def test_a_sample_longer_than_a_row_is_an_error(arrays):
    arrays["sample_index"][1] = arrays["sample_index"][2]
    arrays["shuffle_index"][:] = 0
    gather = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    with pytest.raises(ValueError, match="do not span one sample"):
        gather.gather(np.array([0]), np.array([0]), *outputs(1, 4)[:2])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tokens": np.zeros(13)}, TypeError, "tokens must be an int8 to int64"),
        ({"tokens": np.zeros(13, np.uint64)}, TypeError, "tokens must be an int8 to int64"),
        ({"tokens": np.zeros((1, 13), np.int64)}, ValueError, "tokens must have one dimension"),
        ({"tokens": [1, 2]}, TypeError, "tokens must be .*, got list"),
        ({"starts": np.zeros(5, np.int32)}, TypeError, "starts must be an int64 array"),
        ({"starts": np.zeros(4, np.int64)}, ValueError, "starts has 4 sequences, .* has 5"),
        ({"lengths": np.zeros(5, np.int64)}, TypeError, "lengths must be an int32 array"),
        ({"document_index": np.zeros(5, np.int64)}, TypeError, "document_index must be an int32"),
        ({"document_index": np.zeros(9, np.int32)[::2]}, ValueError, "must be C-contiguous"),
        ({"sample_index": np.zeros((4, 2), np.int16)}, TypeError, "sample_index must be an int32"),
        ({"sample_index": np.zeros((4, 3), np.int32)}, ValueError, "shape .samples . 1, 2"),
        ({"sample_index": np.zeros((0, 2), np.int32)}, ValueError, "shape .samples . 1, 2"),
        ({"shuffle_index": np.zeros(3, np.int32)}, TypeError, "shuffle_index must be a uint32"),
        ({"shuffle_index": np.zeros(7, np.uint32)}, ValueError, "one entry for each of the 3"),
        ({"sequence_length": 0}, ValueError, "sequence_length must lie in .1, .* got 0"),
        ({"sequence_length": 4.0}, TypeError, "sequence_length must be an integer, got 4.0"),
        ({"pad_id": 2**63}, ValueError, "pad_id must lie in"),
        ({"mask_eod": True}, ValueError, "need eod_id"),
        ({"restart_at_eod": True}, ValueError, "need eod_id"),
    ],
)
def test_arguments_of_the_index_are_checked(arrays, changes, error, message):
    good = {**arrays, "sequence_length": 4, "add_extra_token": True}
    with pytest.raises(error, match=message):
        SampleGather(**{**good, **changes})


def aligned_off_by_one():
    return np.zeros(33, np.uint8)[1:].view(np.int64).reshape(1, 4)


@pytest.mark.parametrize(
    ("at", "value", "error", "message"),
    [
        (0, np.array([3]), ValueError, "samples must lie in .0, 3., got 3 at index 0"),
        (0, np.array([-1]), ValueError, "samples must lie in .0, 3., got -1"),
        (0, np.array([0, 1]), ValueError, "rows must have one entry for each of the 2 samples"),
        (0, np.array([0.0]), TypeError, "samples must be an int64 array"),
        (1, np.array([1]), ValueError, "rows must lie in .0, 1., got 1"),
        (1, np.array([[0]]), ValueError, "rows must have one dimension"),
        (2, np.zeros((1, 5), np.int64), ValueError, "tokens must have rows of 4 items, got 5"),
        (2, np.zeros((1, 4), np.int32), TypeError, "tokens must be an int64 array"),
        (2, aligned_off_by_one(), ValueError, "tokens must be aligned to its 8 byte items"),
        (3, np.zeros((2, 4), np.int64), ValueError, "labels must have 1 rows of 4 items, got 8"),
        (4, np.zeros((1, 4)), TypeError, "loss_mask must be a float32 array"),
        (5, np.zeros((1, 3), np.int64), ValueError, "position_ids must have 1 rows of 4"),
        (6, np.zeros((1, 4), np.uint8), ValueError, "document_ends needs eod_id"),
    ],
)
def test_arguments_of_a_call_are_checked(arrays, at, value, error, message):
    gather = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    arguments = [np.array([0]), np.array([0]), *outputs(1, 4)[:4], None]
    arguments[at] = value
    with pytest.raises(error, match=message):
        gather.gather(*arguments)


def test_a_read_only_output_is_refused(arrays):
    gather = SampleGather(**arrays, sequence_length=4, add_extra_token=True)
    tokens, labels, *_ = outputs(1, 4)
    labels.flags.writeable = False
    with pytest.raises(ValueError, match="labels must be writable"):
        gather.gather(np.array([0]), np.array([0]), tokens, labels)
