from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import cursor_bytes, token_hash
from zephon._native.cursors import encode_cursors, hash_tokens
from zephon.cursor import CHECK_TOKENS, DocumentCursor, Dropped, LaneCursor
from zephon.rows import Rows, RowTokens

KINDS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8"]
COUNTS = st.integers(0, 2**63 - 1)


@given(
    st.lists(st.integers(-128, 127), max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.data(),
)
def test_the_hash_depends_on_the_ids_alone_and_not_on_types_or_cuts(
    ids: list[int], cuts: list[int], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        ids, kinds = [abs(i) % 128 for i in ids], KINDS
    else:
        kinds = ["i1", "i2", "i4", "i8"]
    bounds = [0, *sorted(cuts), len(ids)]
    parts = [
        np.array(ids[a:b], data.draw(st.sampled_from(kinds))) for a, b in itertools.pairwise(bounds)
    ]
    assert hash_tokens(parts) == token_hash.token_hash(i for part in parts for i in part.tolist())


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=20), st.data())
def test_another_id_another_order_or_another_number_gives_another_hash(
    ids: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(ids) - 1))
    before = hash_tokens([np.array(ids)])
    changed = [*ids[:at], ids[at] + 1, *ids[at + 1 :]]
    assert hash_tokens([np.array(changed)]) != before
    assert hash_tokens([np.array([*ids, 0])]) != before
    if ids != ids[::-1]:
        assert hash_tokens([np.array(ids[::-1])]) != before


def table_of(rows: list[list[tuple[int, int, int]]], kinds: list[str]) -> Rows:
    """Rows of (buffer, start, length) out of a buffer of 400 ids of each kind."""
    buffers = tuple(np.arange(400).astype(kind) for kind in kinds)
    buffer, start, length = np.array([s for row in rows for s in row]).reshape(-1, 3).T
    splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    columns = [np.ascontiguousarray(c, np.int64) for c in (start, length)]
    zero = np.zeros(len(start), np.int64)
    return Rows(buffers, buffer.astype(np.int32), *columns, zero, zero, zero, splits, 1000)


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 19), st.integers(0, 100), st.integers(1, 300)), max_size=300
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from(KINDS), min_size=20, max_size=20),
)
def test_a_row_is_hashed_by_its_table_as_by_the_first_tokens_of_its_segments(
    rows: list[list[tuple[int, int, int]]], kinds: list[str]
) -> None:
    table = table_of(rows, kinds)
    cursors = []
    for number, row in enumerate(rows):
        each = max(CHECK_TOKENS // max(len(row), 1), 1)
        ids = [
            int(table.buffers[buffer][i])
            for buffer, start, length in row
            for i in range(start, start + min(length, each))
        ]
        expected = token_hash.token_hash(iter(ids))
        tokens = RowTokens(table, number)
        assert hash_tokens(tokens) == hash_tokens(list(tokens)) == expected
        cursors.append(LaneCursor(DocumentCursor(1), 1, _evidence=tokens))
        assert encode_cursors(cursors).endswith(expected)


@pytest.mark.parametrize(
    ("column", "value", "error", "told"),
    [
        ("start", np.array([399]), ValueError, "segment 0 leaves its buffer"),
        ("start", np.array([-1]), ValueError, "segment 0 leaves its buffer"),
        ("length", np.array([2**63 - 1]), ValueError, "segment 0 leaves its buffer"),
        ("length", np.array([1, 1]), ValueError, "column 2 of rows does not fit the others"),
        ("start", np.zeros(1, np.int32), ValueError, "column 1 of rows does not fit the others"),
        ("buffer", np.zeros(1), TypeError, "a column of rows must be a contiguous 1-D array"),
        ("splits", np.array([0]), ValueError, "row 0 is none of 0"),
        ("splits", np.array([0, 2]), ValueError, "row 0 has the segments 0 to 2 of 1"),
        ("buffers", (np.zeros(3),), TypeError, "tokens must be a contiguous 1-D array of integers"),
        ("buffers", (), IndexError, "index out of range"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    column: str, value: Any, error: type[Exception], told: str
) -> None:
    table = table_of([[(0, 5, 10)]], ["i4"])
    object.__setattr__(table, column, value)
    with pytest.raises(error, match=told):
        hash_tokens(RowTokens(table, 0))


def test_what_holds_no_token_ids_is_refused() -> None:
    for part, told in (
        ("text", "must be an array of integers, got str"),
        (np.zeros(3), r"parts\[1\] must be a 1-D array of int8 to int64 .* of format 'd'"),
        (np.zeros((2, 2), np.int32), "got 2 axes"),
        (np.zeros(2, np.uint64), "format 'L'"),
        (np.zeros(2, ">i4"), "format '>i'"),
    ):
        with pytest.raises(TypeError, match=told):
            hash_tokens([np.zeros(1, np.int32), part])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"parts\[0\] must be contiguous"):
        hash_tokens([np.zeros(4, np.int32)[::2]])
    with pytest.raises(ValueError, match="aligned to its 4 byte items"):
        hash_tokens([np.zeros(9, np.uint8)[1:].view(np.int32)])


@given(
    st.lists(
        st.builds(
            LaneCursor,
            st.builds(
                DocumentCursor, COUNTS, COUNTS, st.builds(Dropped, COUNTS, COUNTS, COUNTS, COUNTS)
            ),
            COUNTS,
            COUNTS,
            COUNTS,
            st.one_of(
                st.binary(min_size=8, max_size=8),
                st.lists(st.integers(0, 99)).map(lambda ids: (np.array(ids, np.int64),)),
            ),
        ),
        max_size=5,
    )
)
def test_cursors_become_the_bytes_of_the_oracle(cursors: list[LaneCursor]) -> None:
    assert encode_cursors(cursors) == cursor_bytes.encode_cursors(cursors)


@pytest.mark.parametrize("value", [-1, 2**63])
def test_a_count_that_is_none_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=f"a count in a cursor is {value}, expected 0 to"):
        encode_cursors([LaneCursor(DocumentCursor(value))])
