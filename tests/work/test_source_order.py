"""The order of documents inside a source."""

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import units as oracle
from zephon.errors import ConfigError, ConfigTypeError
from zephon.work.source_order import AUTO_BLOCK_BYTES, SourceOrder, cut_units, decode_factor

shards = st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(sum)
blocks = st.sampled_from([None, 1, 3, 7, 100, "global"])


def cut(counts, name="web", bytes_per_document=1000, **modes):
    counts = np.array(counts)
    return cut_units(name, counts, counts * bytes_per_document, **modes)


def rows_of(source, ordinals, seed=0):
    ordinals = np.asarray(ordinals)
    return SourceOrder([source], seed).locate(np.zeros(len(ordinals), np.int32), ordinals)


@given(shards, st.booleans(), st.booleans(), blocks, st.booleans(), st.integers(0, 9), st.data())
def test_the_kernel_agrees_with_its_twin(counts, by_shard, within, block, reshuffle, seed, data):
    source = cut(
        counts,
        shuffle_shards=by_shard,
        shuffle_within_shard=within,
        shuffle_block_size=block,
        reshuffle=reshuffle,
    )
    n = sum(counts)
    ordinals = data.draw(st.lists(st.integers(0, 5 * n), min_size=1, max_size=20))
    rows, passes = rows_of(source, ordinals, seed)

    size = block if isinstance(block, int) else n
    units = [n] if block == "global" else oracle.cut(counts, size)
    modes = (block is not None or by_shard, block is not None or within)
    if block is None and not any(modes):
        units = [n]
    expected = [oracle.locate(units, *modes, seed, "web", reshuffle, o) for o in ordinals]
    assert list(zip(rows.tolist(), passes.tolist(), strict=True)) == expected


@given(shards, st.booleans(), st.booleans(), blocks)
def test_each_pass_takes_every_document_once(counts, by_shard, within, block):
    source = cut(
        counts, shuffle_shards=by_shard, shuffle_within_shard=within, shuffle_block_size=block
    )
    n = sum(counts)
    rows, passes = rows_of(source, np.arange(3 * n))
    assert (passes == np.repeat([0, 1, 2], n)).all()
    for turn in range(3):
        assert (np.sort(rows[turn * n : (turn + 1) * n]) == np.arange(n)).all()


def test_nothing_shuffled_is_file_order():
    rows, _ = rows_of(cut([3, 0, 5], shuffle_shards=False), np.arange(8))
    assert rows.tolist() == list(range(8))


def test_shuffled_shards_keep_their_documents_in_order():
    rows, _ = rows_of(cut([4] * 20), np.arange(80))
    runs = rows.reshape(20, 4)
    assert (runs == runs[:, :1] + np.arange(4)).all()
    assert (runs[:, 0] % 4 == 0).all()
    assert runs[:, 0].tolist() != list(range(0, 80, 4))


def test_documents_shuffled_within_shards_stay_there():
    source = cut([50, 50], shuffle_shards=False, shuffle_within_shard=True)
    rows, _ = rows_of(source, np.arange(100))
    assert (rows // 50 == np.repeat([0, 1], 50)).all()
    assert rows[:50].tolist() != list(range(50))
    assert rows[:50].tolist() != (rows[50:] - 50).tolist()


def test_blocks_never_straddle_a_shard():
    source = cut([10, 7, 0, 4], shuffle_block_size=4)
    assert source.first_row.tolist() == [0, 4, 8, 10, 14, 17, 21]


def test_a_pass_meets_each_block_once():
    source = cut([1000, 500, 30], shuffle_block_size=64)
    rows, _ = rows_of(source, np.arange(source.documents))
    unit = np.searchsorted(source.first_row, rows, side="right") - 1
    changes = np.count_nonzero(np.diff(unit)) + 1
    assert changes == len(source.first_row) - 1
    assert unit.tolist() != sorted(unit)


def test_auto_blocks_hold_eight_mebibytes_of_documents():
    source = cut([100_000], bytes_per_document=3000, shuffle_block_size="auto")
    assert source.block_size == round(AUTO_BLOCK_BYTES / 3000)
    assert cut([5], bytes_per_document=2**30, shuffle_block_size="auto").block_size == 1
    empty = cut([5, 6], bytes_per_document=0, shuffle_block_size="auto")
    assert empty.first_row.tolist() == [0, 5, 11]


def test_passes_differ_unless_the_order_is_to_be_kept():
    for modes in ({}, {"shuffle_block_size": 5}, {"shuffle_block_size": "global"}):
        for reshuffle in (True, False):
            rows, _ = rows_of(cut([7] * 30, reshuffle=reshuffle, **modes), np.arange(420))
            assert (rows[:210].tolist() == rows[210:].tolist()) is not reshuffle


def test_the_order_depends_on_seed_and_name_alone():
    source = cut([300], shuffle_block_size="global")
    rows, _ = rows_of(source, np.arange(300))
    assert rows.tolist() != rows_of(source, np.arange(300), seed=1)[0].tolist()
    other = cut([300], name="books", shuffle_block_size="global")
    assert rows.tolist() != rows_of(other, np.arange(300))[0].tolist()
    # Beside another source, at another place, asked in any order: the same.
    both = SourceOrder([other, source], 0)
    scattered = np.random.default_rng(0).permutation(600)
    mixed = (scattered % 2).astype(np.int32)
    found, _ = both.locate(mixed, scattered // 2)
    assert (found[mixed == 1] == rows[(scattered // 2)[mixed == 1]]).all()


def test_threads_and_copies_see_the_same_order():
    source = cut([13] * 40, shuffle_block_size=5)
    ordinals = np.arange(4 * 520)
    sources = np.zeros(len(ordinals), np.int32)
    expected = SourceOrder([source], 3).locate(sources, ordinals)[0].tolist()
    shared = pickle.loads(pickle.dumps(SourceOrder([source], 3)))
    found = {}

    def read(turn):
        part = np.roll(ordinals, 500 * turn)
        found[turn] = [np.roll(shared.locate(sources, part)[0], -500 * turn) for _ in range(20)]

    threads = [threading.Thread(target=read, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(rows.tolist() == expected for turn in range(4) for rows in found[turn])


def test_decode_factor_is_what_lanes_of_short_chunks_cost():
    # Measured: 51.7, 6.1, 1.96 and 1.13 for units of 2,538 documents.
    measured = [decode_factor(2538, share) for share in (50, 500, 2650, 20_000)]
    assert measured == pytest.approx([51.7, 6.1, 1.96, 1.13], rel=0.01)
    assert decode_factor(100, 0.25) == 100


def test_decode_factor_counts_the_chunks_that_touch_a_unit():
    units, size, share = 400, 37, 11
    touched = {(o // size, o // share) for o in range(units * size)}
    assert len(touched) / units == pytest.approx(decode_factor(size, share), rel=0.01)


def test_decode_factor_refuses_no_documents():
    with pytest.raises(ConfigError, match="unit_documents is 0 and chunk_documents is 5"):
        decode_factor(0, 5)


def test_an_empty_source_is_refused_by_name():
    with pytest.raises(ConfigError, match="dataset 'web' has no documents"):
        cut([0, 0])


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ConfigError, "dataset 'web': shuffle_block_size is 0, expected at least 1"),
        (2.0, ConfigTypeError, "shuffle_block_size is 2.0, not a number of documents"),
        (True, ConfigTypeError, "shuffle_block_size is True"),
        ("all", ConfigTypeError, "shuffle_block_size is 'all'"),
    ],
)
def test_a_block_size_that_is_none_is_refused(size, error, message):
    with pytest.raises(error, match=message):
        cut([5], shuffle_block_size=size)


def test_counts_that_are_none_are_refused():
    with pytest.raises(ConfigError, match="dataset 'web': documents per shard are"):
        cut([5, -1])


@given(shards, st.integers(1, 60_000), st.randoms(use_true_random=False))
def test_auto_blocks_are_whole_decoded_runs_of_about_8_mib(counts, bytes_per_document, random):
    n, first, decoded = sum(counts), 0, []
    for count in counts:
        if count:
            decoded += sorted({first, *(random.randint(first, first + count - 1) for _ in "abcd")})
        first += count
    source = cut(
        counts,
        bytes_per_document=bytes_per_document,
        shuffle_block_size="auto",
        decoded=np.array(decoded, dtype=np.int64),
    )
    sizes = oracle.group(counts, decoded, source.block_size)
    assert np.diff(source.first_row).tolist() == sizes
    assert set(source.first_row[:-1].tolist()) <= set(decoded)
    longest = max(np.diff([*decoded, n]))
    assert max(sizes) <= source.block_size + 2 * longest


def test_other_block_sizes_are_kept_whatever_is_decoded_together():
    source = cut([10], shuffle_block_size=4, decoded=np.array([0, 5]))
    assert source.first_row.tolist() == [0, 4, 8, 10]
