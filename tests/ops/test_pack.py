from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import wrap
from zephon.block import TokenBlock, TokenDocuments
from zephon.cursor import LaneCursor
from zephon.errors import ConfigError, ConfigTypeError, DataError, StateError
from zephon.ops import documents as documents_module
from zephon.ops import pack as pack_module
from zephon.ops.documents import DocumentStream
from zephon.ops.pack import make_packer
from zephon.ops.pack_options import ALGORITHMS, PackOptions
from zephon.ops.row_source import RowSource
from zephon.ops.shuffle import Shuffle, ShuffleOptions
from zephon.rows import Rows

LENGTHS = st.lists(st.integers(0, 14), min_size=1, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def _small_windows() -> Iterator[None]:
    """Windows small enough that a few documents fill several."""
    before = pack_module.WINDOW_DOCUMENTS, pack_module.WINDOW_ROWS
    pack_module.WINDOW_DOCUMENTS, pack_module.WINDOW_ROWS = 5, 3
    yield
    pack_module.WINDOW_DOCUMENTS, pack_module.WINDOW_ROWS = before


def blocks(lengths: list[int], size: int, first: int, changed: int = -1) -> Iterator[TokenBlock]:
    """Documents ``first``... in blocks of ``size``; token = 100 * document + place."""
    for begin in range(first, len(lengths), size):
        part = np.array(lengths[begin : begin + size], dtype=np.int64)
        tokens = [
            100 * (begin + i) + np.arange(n) + 7 * (begin + i == changed)
            for i, n in enumerate(part)
        ]
        count = len(part)
        yield TokenBlock(
            begin,
            np.zeros(count, np.int32),
            np.arange(begin, begin + count),
            TokenDocuments(
                (np.concatenate(tokens).astype(np.int32),),
                np.zeros(count, np.int32),
                np.cumsum(part) - part,
                part,
            ),
        )


def source(
    lengths: list[int],
    options: PackOptions,
    *,
    size: int = 5,
    cursor: LaneCursor | None = None,
    pad_tail: bool = False,
    shuffle: int = 0,
    changed: int = -1,
) -> RowSource:
    """The rows of a lane from a cursor on, put together as the runtime does."""
    cursor = cursor or LaneCursor()
    inner = replace(cursor.without_check() if cursor.shuffled else cursor, window=0, shuffled=0)
    documents = DocumentStream(
        blocks(lengths, size, inner.documents.draw, changed),
        inner.documents,
        check=b"" if inner.rows else inner.check,
        longest=options.max_length,
        drop_oversized=options.drops_oversized,
        split=not options.wraps and not options.drops_oversized,
        names=["memory"],
        patience=50,
    )
    packer = make_packer(documents, options, inner, pad_tail=pad_tail, vocab_size=0)
    return Shuffle(packer, ShuffleOptions(buffer_size=shuffle), 3, cursor) if shuffle else packer


def saved(cursor: LaneCursor) -> LaneCursor:
    """What a state keeps of a cursor."""
    return replace(cursor, _evidence=cursor.check if cursor.is_open else b"")


def tokens_of(rows: Rows) -> list[list[int]]:
    return [
        [int(t) for s in range(*rows.splits[b : b + 2].tolist()) for t in rows.tokens(s)]
        for b in range(len(rows))
    ]


def drain(rows: RowSource, count: int) -> list[list[int]]:
    found = []
    while (part := rows.take(count)) is not None:
        assert len(part) <= count
        found += tokens_of(part)
    return found


@st.composite
def options(draw: st.DrawFn) -> PackOptions:
    algorithm = draw(st.sampled_from(ALGORITHMS))
    return PackOptions(
        max_length=draw(st.integers(2, 9)),
        algorithm=algorithm,
        num_bins=None if "wrap" in algorithm else draw(st.sampled_from([None, 1, 9])),
        max_sequences_per_bin=draw(st.sampled_from([None, 1, 2, 4])),
        drop_oversized=draw(st.sampled_from([None, True, False])),
    )


@given(LENGTHS, st.integers(2, 9), st.integers(1, 4), st.integers(1, 7))
def test_wrap_lays_documents_end_to_end(
    lengths: list[int], row: int, count: int, size: int
) -> None:
    expected = list(wrap.rows(lengths, row))
    pack = source(lengths, PackOptions(max_length=row), size=size)
    for begin in range(0, len(expected) - count + 1, count):
        rows = pack.take(count)
        assert rows is not None
        want = expected[begin : begin + count]
        assert tokens_of(rows) == [[100 * d + p for d, p in r] for r in want]
        runs = [run for r in want for run in wrap.segments(r)]
        found = list(
            zip(rows.row.tolist(), rows.offset.tolist(), rows.length.tolist(), strict=True)
        )
        assert found == runs
        assert np.diff(rows.splits).tolist() == [len(wrap.segments(r)) for r in want]


@given(LENGTHS, options(), st.booleans(), st.integers(1, 4), st.sampled_from([0, 1, 4]))
def test_every_token_comes_out_once_or_is_counted_as_dropped(
    lengths: list[int], packing: PackOptions, pad_tail: bool, count: int, shuffle: int
) -> None:
    rows = source(lengths, packing, pad_tail=pad_tail, shuffle=shuffle)
    found = drain(rows, count)
    tokens = Counter(token for row in found for token in row)
    assert max(tokens.values(), default=1) == 1
    for row in found:
        assert 1 <= len(row) <= packing.max_length
        documents = [token // 100 for token in row]
        if packing.max_sequences_per_bin:
            assert len(set(documents)) <= packing.max_sequences_per_bin
    dropped = rows.cursor().documents.dropped
    oversized = [n for n in lengths if n > packing.max_length and packing.drops_oversized]
    assert dropped.empty == lengths.count(0)
    assert (dropped.oversized, dropped.oversized_tokens) == (len(oversized), sum(oversized))
    assert sum(tokens.values()) + dropped.oversized_tokens + dropped.tail_tokens == sum(lengths)
    if pad_tail:
        assert dropped.tail_tokens == 0
    assert dropped.tail_tokens < packing.max_length
    if packing.algorithm == "wrap" and packing.max_sequences_per_bin is None and not pad_tail:
        assert all(len(row) == packing.max_length for row in found)
    if not packing.wraps and not shuffle:
        whole = Counter(token // 100 for row in found for token in row)
        for document, n in whole.items():
            if lengths[document] <= packing.max_length:
                assert n == lengths[document]


@given(LENGTHS, options(), st.booleans(), st.integers(1, 3), st.integers(1, 7), st.data())
def test_every_cursor_continues_with_the_same_rows(
    lengths: list[int],
    packing: PackOptions,
    pad_tail: bool,
    count: int,
    size: int,
    data: st.DataObject,
) -> None:
    shuffle = data.draw(st.sampled_from([0, 0, 1, 4]))
    expected = drain(source(lengths, packing, pad_tail=pad_tail, shuffle=shuffle), 100)
    rows = source(lengths, packing, size=size, pad_tail=pad_tail, shuffle=shuffle)
    done = 0
    cursors = []
    while (part := rows.take(count)) is not None:
        done += len(part)
        cursors.append((done, rows.cursor()))
    total = rows.cursor().documents.dropped
    for done, cursor in cursors:
        again = source(
            lengths,
            packing,
            size=data.draw(st.integers(1, 9)),
            cursor=saved(cursor),
            pad_tail=pad_tail,
            shuffle=shuffle,
        )
        assert drain(again, data.draw(st.integers(1, 3))) == expected[done:]
        assert again.cursor().documents.dropped == total


@given(LENGTHS, options(), st.integers(1, 3), st.sampled_from([0, 4]))
def test_positions_do_not_depend_on_how_documents_were_loaded(
    lengths: list[int], packing: PackOptions, count: int, shuffle: int
) -> None:
    one = source(lengths, packing, size=1, shuffle=shuffle)
    other = source(lengths, packing, size=50, shuffle=shuffle)
    while (part := one.take(count)) is not None:
        same = other.take(count)
        assert same is not None
        assert tokens_of(part) == tokens_of(same)
        assert (one.cursor(), one.cursor().check) == (other.cursor(), other.cursor().check)
    assert other.take(count) is None


def test_a_cursor_right_after_restoring_is_the_one_restored() -> None:
    for algorithm in ALGORITHMS:
        packing = PackOptions(max_length=5, algorithm=algorithm)
        rows = source([7, 3, 4, 2, 9], replace(packing, drop_oversized=False))
        rows.take(1)
        cursor = saved(rows.cursor())
        again = source([7, 3, 4, 2, 9], replace(packing, drop_oversized=False), cursor=cursor)
        assert (again.cursor(), again.cursor().check) == (cursor, cursor.check)


def test_a_changed_open_document_is_refused_by_name() -> None:
    packing = PackOptions(max_length=5)
    rows = source([7, 7], packing)
    rows.take(1)
    cursor = saved(rows.cursor())
    assert (cursor.documents.draw, cursor.documents.token) == (0, 5)
    for lengths, changed in (([4, 7], -1), ([7, 7], 0)):
        with pytest.raises(
            StateError, match=r"document 0 of dataset 'memory' is not the one of wh"
        ):
            source(lengths, packing, cursor=cursor, changed=changed).take(1)


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit", "best_fit_wrap"])
@pytest.mark.parametrize("shuffle", [0, 4])
def test_a_window_that_comes_out_otherwise_is_refused(algorithm: Any, shuffle: int) -> None:
    packing = PackOptions(max_length=5, algorithm=algorithm)
    lengths = [4, 3, 2, 1, 4, 3, 2, 1]
    rows = source(lengths, packing, shuffle=shuffle)
    part = rows.take(2)
    assert part is not None
    document = tokens_of(part)[-1][0] // 100
    cursor = saved(rows.cursor())
    assert cursor.shuffled or cursor.rows
    with pytest.raises(StateError, match=r"(packing|shuffle) window .* \(row 2 of it\) comes out"):
        source(lengths, packing, cursor=cursor, shuffle=shuffle, changed=document).take(1)


def test_data_without_any_token_is_an_error_and_not_an_endless_search() -> None:
    with pytest.raises(DataError, match=r"5\d documents in a row have no tokens .*datasets memory"):
        drain(source([3] + [0] * 100, PackOptions(max_length=4)), 1)


def test_leaving_out_long_documents_is_said_once_with_the_way_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module.OVERSIZED_TOLD, "said", False)
    packing = PackOptions(max_length=5, algorithm="best_fit")
    with caplog.at_level(logging.WARNING, "zephon.ops.documents"):
        drain(source([3, 9, 4, 8, 7], packing, size=1), 1)
    [record] = caplog.records
    assert "document 1 of dataset 'memory' has 9 tokens, more than a row of 5" in record.message
    assert "drop_oversized=False splits them" in record.message
    with pytest.raises(DataError, match="are longer than a row of 5 .drop_oversized=False keeps"):
        drain(source([9] * 100, packing), 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_pad_tail_gives_the_last_row_and_no_pad_tail_counts_it(algorithm: Any) -> None:
    packing = PackOptions(max_length=5, algorithm=algorithm)
    padded = source([4, 4, 4], packing, pad_tail=True)
    dropping = source([4, 4, 4], packing, pad_tail=False)
    assert len(drain(padded, 1)) == len(drain(dropping, 1)) + 1
    assert padded.cursor().documents.dropped.tail_tokens == 0
    assert dropping.cursor().documents.dropped.tail_tokens == {"wrap": 2, "best_fit_wrap": 2}.get(
        algorithm, 4
    )


def test_split_documents_keep_their_places() -> None:
    packing = PackOptions(max_length=5, algorithm="best_fit", drop_oversized=False)
    rows = source([12, 2], packing, pad_tail=True).take(10)
    assert rows is not None
    parts = sorted(zip(rows.row.tolist(), rows.offset.tolist(), rows.length.tolist(), strict=True))
    assert parts == [(0, 0, 5), (0, 5, 5), (0, 10, 2), (1, 0, 2)]


def test_shuffled_windows_hold_the_rows_of_the_stream_in_another_order() -> None:
    packing = PackOptions(max_length=2)
    plain = drain(source([100], packing), 1)
    mixed = drain(source([100], packing, shuffle=10), 1)
    assert mixed != plain
    for begin in range(0, 50, 10):
        window = mixed[begin : begin + 10]
        assert sorted(window) == plain[begin : begin + 10]
    assert [row[0] // 2 % 10 for row in mixed[:10]] != [row[0] // 2 % 10 for row in mixed[10:20]]


@pytest.mark.parametrize(
    ("given_options", "error", "message"),
    [
        ({"max_length": 1}, ConfigError, "max_length is 1, expected 2 to"),
        ({"max_length": True}, ConfigTypeError, "max_length is True, expected an int"),
        ({"max_length": 8.0}, ConfigTypeError, "max_length is 8.0"),
        (
            {"algorithm": "magic"},
            ConfigError,
            "Unknown algorithm 'magic', expected one of wrap, fir",
        ),
        ({"num_bins": 4}, ConfigError, "num_bins does not apply to 'wrap'"),
        ({"algorithm": "best_fit", "num_bins": 0}, ConfigError, "num_bins must be positive"),
        ({"algorithm": "best_fit", "num_bins": -3}, ConfigError, "num_bins must be positive"),
        ({"algorithm": "best_fit", "num_bins": 1.5}, ConfigTypeError, "num_bins is 1.5, expected"),
        ({"max_sequences_per_bin": 0}, ConfigError, "max_sequences_per_bin is 0, expected 1 to"),
        ({"pad_token_id": -1}, ConfigError, "pad_token_id is -1, expected 0 to"),
        ({"drop_oversized": 1}, ConfigTypeError, "drop_oversized is 1, expected True, False or"),
    ],
)
def test_options_out_of_range_are_named(
    given_options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PackOptions(**{"max_length": 8, **given_options})


def test_shuffle_options_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match="buffer_size is 0, expected 1 to"):
        ShuffleOptions(buffer_size=0)
    with pytest.raises(ConfigTypeError, match="seed is 'x', expected an int"):
        ShuffleOptions(seed="x")  # type: ignore[arg-type]
