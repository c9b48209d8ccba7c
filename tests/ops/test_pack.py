from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import wrap
from zephon.block import TokenBlock, TokenDocuments
from zephon.cursor import LaneCursor
from zephon.errors import ConfigError, ConfigTypeError, DataError, StateError
from zephon.ops.pack import PackOptions, WrapPacker
from zephon.rows import Rows

LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def blocks(lengths: list[int], size: int, first: int = 0) -> Iterator[TokenBlock]:
    """Documents ``first``... in blocks of ``size``; token = 100 * document + place."""
    for begin in range(first, len(lengths), size):
        part = np.array(lengths[begin : begin + size], dtype=np.int64)
        tokens = np.concatenate(
            [100 * (begin + i) + np.arange(n) for i, n in enumerate(part)]
        ).astype(np.int32)
        count = len(part)
        yield TokenBlock(
            begin,
            np.zeros(count, np.int32),
            np.arange(begin, begin + count),
            TokenDocuments((tokens,), np.zeros(count, np.int32), np.cumsum(part) - part, part),
        )


def packer(
    lengths: list[int], row: int, size: int = 5, cursor: LaneCursor | None = None
) -> WrapPacker:
    cursor = cursor or LaneCursor()
    source = blocks(lengths, size, cursor.draw)
    return WrapPacker(source, row, cursor, vocab_size=0, names=["memory"], patience=50)


def tokens_of(rows: Rows) -> list[list[int]]:
    return [
        [int(t) for s in range(rows.splits[b], rows.splits[b + 1]) for t in rows.tokens(s)]
        for b in range(len(rows))
    ]


@given(LENGTHS, st.integers(2, 9), st.integers(1, 4), st.integers(1, 7))
def test_wrap_lays_documents_end_to_end(
    lengths: list[int], row: int, count: int, size: int
) -> None:
    expected = list(wrap.rows(lengths, row))
    pack = packer(lengths, row, size)
    for begin in range(0, len(expected) - count + 1, count):
        rows, _ = pack.take(count)
        want = expected[begin : begin + count]
        assert tokens_of(rows) == [[100 * d + p for d, p in r] for r in want]
        runs = [run for r in want for run in wrap.segments(r)]
        found = list(
            zip(rows.row.tolist(), rows.offset.tolist(), rows.length.tolist(), strict=True)
        )
        assert found == runs
        assert np.diff(rows.splits).tolist() == [len(wrap.segments(r)) for r in want]


@given(LENGTHS, st.integers(2, 9), st.integers(1, 3), st.integers(1, 7), st.integers(1, 3))
def test_every_cursor_continues_with_the_same_rows(
    lengths: list[int], row: int, count: int, size: int, other: int
) -> None:
    expected = list(wrap.rows(lengths, row))
    pack = packer(lengths, row, size)
    for done in range(count, len(expected), count):
        _, cursor = pack.take(count)
        left = (len(expected) - done) // other * other
        again = packer(lengths, row, other, cursor)
        for begin in range(done, done + left, other):
            rows, _ = again.take(other)
            want = expected[begin : begin + other]
            assert tokens_of(rows) == [[100 * d + p for d, p in r] for r in want]


def test_documents_without_tokens_are_counted_once_wherever_a_stream_stops() -> None:
    lengths = [0, 3, 0, 0, 5, 0, 4, 0, 0, 0, 4]
    whole = packer(lengths, 4)
    _, cursor = whole.take(4)
    cut = LaneCursor()
    for _ in range(4):
        _, cut = packer(lengths, 4, 3, cut).take(1)
    assert (cut.draw, cut.token, cut.empty) == (cursor.draw, cursor.token, cursor.empty)
    assert cursor.draw == 11
    assert cursor.empty == 7


def test_a_changed_open_document_is_refused_by_name() -> None:
    _, cursor = packer([7, 7], 5).take(1)
    assert (cursor.draw, cursor.token) == (0, 5)
    with pytest.raises(StateError, match=r"document 0 of dataset 'memory' is not the one of which"):
        packer([4, 7], 5, cursor=cursor).take(1)
    forged = LaneCursor(0, 5, 0, b"\0" * 8)
    with pytest.raises(StateError, match="5 tokens were delivered"):
        packer([7, 7], 5, cursor=forged).take(1)


def test_data_without_any_token_is_an_error_and_not_an_endless_search() -> None:
    with pytest.raises(DataError, match=r"5\d documents in a row have no tokens \(datasets memory"):
        packer([3] + [0] * 100, 4).take(1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_length": 1}, ConfigError, "max_length is 1, expected 2 to"),
        ({"max_length": True}, ConfigTypeError, "max_length is True, expected an int"),
        ({"max_length": 8.0}, ConfigTypeError, "max_length is 8.0"),
        (
            {"max_length": 8, "algorithm": "magic"},
            ConfigError,
            "Unknown algorithm 'magic'; this version has: wrap",
        ),
    ],
)
def test_options_out_of_range_are_named(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PackOptions(**options)  # type: ignore[arg-type]
