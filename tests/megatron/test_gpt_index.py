import logging
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.gpt_index import epochs_needed, gpt_index
from oracles.sample_index import sample_index
from zephon.errors import ConfigError, DataError
from zephon.megatron.gpt_index import (
    GPTIndex,
    build_index,
    check_sequences,
    last_row,
    misfit,
    plan_index,
)
from zephon.megatron.progress import ProgressLog


def plan(tokens, samples, length=4, extra=True, drop_last=True):
    return plan_index(
        tokens_per_epoch=tokens,
        num_samples=samples,
        sequence_length=length,
        add_extra_token=extra,
        drop_last=drop_last,
    )


def build(sizes, sequences, planned, seed=1234):
    with ProgressLog(logging.getLogger("test"), "an index") as progress:
        return build_index(
            planned,
            sequences=np.array(sequences, np.int32),
            lengths=np.array(sizes, np.int32),
            random_seed=seed,
            progress=progress,
        )


CORPORA = st.lists(st.integers(0, 12), min_size=1, max_size=20).filter(lambda s: sum(s) > 1)


@st.composite
def configurations(draw):
    sizes = draw(CORPORA)
    sequences = draw(st.permutations(range(len(sizes))))[: draw(st.integers(1, len(sizes)))]
    if sum(sizes[s] for s in sequences) < 2:
        sequences = list(range(len(sizes)))
    length = draw(st.integers(2, 12))
    samples = draw(st.none() | st.integers(1, 60))
    return sizes, sequences, length, samples, draw(st.booleans()), draw(st.booleans())


@given(configurations(), st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_an_index_equals_the_oracle(configuration, seed):
    sizes, sequences, length, samples, extra, drop_last = configuration
    tokens = sum(sizes[s] for s in sequences)
    planned = plan(tokens, samples, length, extra, drop_last)
    index = build(sizes, sequences, planned, seed)
    order, rows, shuffle = gpt_index(
        sizes, list(sequences), samples, length, seed, int(extra), drop_last
    )
    assert index.document_index.tolist() == order
    assert index.document_index.dtype == np.int32
    assert index.sample_index.tolist() == rows
    assert index.shuffle_index.tolist() == shuffle
    assert index.shuffle_index.dtype == np.uint32
    assert last_row(planned, index.document_index, np.array(sizes, np.int32)) == tuple(rows[-1])
    for checksummed in (True, False):
        assert fits(index, planned, sizes, sequences, checksummed) is None


def fits(index, planned, sizes, sequences, checksummed):
    return misfit(
        index,
        planned,
        sequences=np.array(sequences, np.int32),
        lengths=np.array(sizes, np.int32),
        checksummed=checksummed,
    )


def test_the_recorded_shuffle_of_two_epochs_is_the_same():
    """Five documents twice with seed 1234, then the samples in two parts: 4 and 3."""
    index = build([4] * 5, range(5), plan(20, 7, length=5, extra=False))
    assert index.document_index.tolist() == [2, 2, 4, 1, 0, 3, 4, 0, 1, 3]


@given(st.integers(1, 10**4), st.none() | st.integers(0, 500), st.integers(2, 64), st.booleans())
def test_epochs_in_closed_form_are_those_of_the_loop(tokens, samples, length, extra):
    assert plan(tokens, samples, length, extra).epochs == epochs_needed(
        tokens, samples or None, length, int(extra)
    )


def test_epochs_of_a_tiny_dataset_take_no_time():
    begin = time.perf_counter()
    assert plan(3, 10**12, length=8192).epochs == (10**12 * 8192 + 3) // 3
    assert time.perf_counter() - begin < 1


def test_samples_of_no_token_are_an_error_and_not_an_endless_loop():
    with pytest.raises(DataError, match="5 samples are wanted, but there is no token"):
        plan(0, 5)


@pytest.mark.parametrize("samples", [None, 0])
def test_no_token_makes_no_sample_where_none_is_asked_for(samples):
    index = build([0, 0], [0, 1], plan(0, samples))
    assert index.sample_index.tolist() == [[0, 0]]
    assert index.shuffle_index.tolist() == []


def test_a_negative_number_of_samples_is_refused():
    with pytest.raises(ConfigError, match="num_samples must not be negative, got -1"):
        plan(5, -1)


def test_a_dataset_of_one_token_fills_samples_by_its_epochs():
    index = build([1], [0], plan(1, 2, length=4))
    assert index.document_index.tolist() == [0] * 9
    assert index.sample_index.tolist() == sample_index([1], [0] * 9, 4, 9, 1, True, 1)


@pytest.mark.parametrize("samples", [2**32 - 3, 2**32 - 2])
def test_the_shuffle_index_widens_where_the_reference_widens_it(samples):
    expected = np.int64 if samples >= 2**32 - 2 else np.uint32
    assert plan(samples * 4 + 1, None).samples == samples
    assert plan(samples * 4 + 1, None).shuffle_dtype is expected


SIZES = [5, 7, 0, 9, 3, 6]


@pytest.fixture
def stored():
    planned = plan(sum(SIZES), 20)
    return planned, build(SIZES, range(6), planned)


def changed(index, name, at, value):
    arrays = index.arrays()
    arrays[name] = arrays[name].copy()
    arrays[name][at] = value
    return GPTIndex(**arrays)


@pytest.mark.parametrize(
    ("name", "at", "value", "reason"),
    [
        ("document_index", 3, 99, "the end of its document index names no documents"),
        ("document_index", 0, -1, "the end of its document index names no documents"),
        ("document_index", slice(0, 2), 3, "does not hold every document once per epoch"),
        ("shuffle_index", 0, 2**31, "names samples that are not there"),
        ("shuffle_index", slice(0, 2), 3, "does not hold every sample once"),
        ("sample_index", (3, 1), 0, "is not that of its document index"),
        ("sample_index", -1, 0, r"its last sample ends at \(0, 0\), not at"),
        ("document_index", -1, 99, "the end of its document index names no documents"),
    ],
)
def test_damage_to_a_stored_index_without_a_checksum_is_seen(stored, name, at, value, reason):
    planned, index = stored
    damaged = changed(index, name, at, value)
    assert damaged.arrays()[name].tolist() != index.arrays()[name].tolist()
    found = fits(damaged, planned, SIZES, range(6), False)
    assert found is not None
    assert re.search(reason, found)


def test_damage_far_from_the_end_of_a_document_index_is_seen():
    sizes = SIZES * 300
    planned = plan(sum(sizes), None)
    index = build(sizes, range(len(sizes)), planned)
    assert fits(index, planned, sizes, range(len(sizes)), False) is None
    for value in (-1, len(sizes)):
        damaged = changed(index, "document_index", 3, value)
        assert fits(damaged, planned, sizes, range(len(sizes)), True) is None
        found = fits(damaged, planned, sizes, range(len(sizes)), False)
        assert found == "its document index names sequences that are not there"


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("document_index", lambda a: a.astype(np.int64), "its document index is int64"),
        ("document_index", lambda a: a[:-1], "it orders 17 documents, this configuration 18"),
        ("sample_index", lambda a: a.astype(np.float32), "its sample index is float32"),
        ("sample_index", lambda a: a.reshape(-1), "its sample index is int32"),
        ("sample_index", lambda a: a[:-1], "it has 21 samples, this configuration 22"),
        ("shuffle_index", lambda a: a.astype(np.int32), "its shuffle index is int32"),
        ("shuffle_index", lambda a: a[:-1], "samples, this configuration 22"),
    ],
)
@pytest.mark.parametrize("checksummed", [True, False])
def test_a_stored_index_of_another_shape_is_not_used(stored, name, change, reason, checksummed):
    planned, index = stored
    arrays = index.arrays()
    arrays[name] = change(arrays[name])
    assert reason in fits(GPTIndex(**arrays), planned, SIZES, range(6), checksummed)


def test_an_index_of_other_lengths_does_not_fit(stored):
    planned, index = stored
    other = [6, 6, 0, 9, 3, 6]  # as many tokens, other boundaries
    assert fits(index, planned, other, range(6), False) is not None


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, 5], r"indices must lie in \[0, 5\), got 0 to 5"),
        ([-1, 2], r"indices must lie in \[0, 5\), got -1 to 2"),
        ([[0]], "indices must be integers"),
        ([0.5], "indices must be integers"),
    ],
)
def test_sequence_numbers_are_checked(indices, message):
    with pytest.raises(ConfigError, match=message):
        check_sequences(np.array(indices), 5)


def test_more_sequences_than_int32_numbers_are_refused():
    with pytest.raises(ConfigError, match="2147483648 sequences; an index numbers at most"):
        check_sequences(np.array([0]), 2**31)
