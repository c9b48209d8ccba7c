from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oracles import packing as oracle
from oracles.packed import CAPS, best_fit_wrap, windows
from zephon._native.packing import best_fit_wrap_room


@given(window=windows(longest_rows=3), cap=CAPS, spare=st.integers(0, 2))
@example(window=([1] * 7, 7), cap=2, spare=0)
@example(window=([8, 8, 8], 12), cap=0, spare=0)
def test_windows_are_cut_where_the_oracle_cuts_them(
    window: tuple[list[int], int], cap: int, spare: int
) -> None:
    lengths, row_length = window
    rows = best_fit_wrap(lengths, row_length, cap, spare)
    assert rows == oracle.best_fit_wrap(lengths, row_length, cap)

    reached = [0] * len(lengths)
    for piece in (piece for row in rows for piece in row):
        assert piece.offset == reached[piece.document]  # each token once, in ascending order
        assert piece.length >= 1
        reached[piece.document] += piece.length
    assert reached == lengths

    filled = [sum(piece.length for piece in row) for row in rows]
    assert all(n <= row_length for n in filled)
    assert all(
        n == row_length or (len(row) == cap and cap > 0)
        for n, row in zip(filled[:-1], rows[:-1], strict=True)
    )
    assert all(len(row) <= (cap or len(row)) for row in rows)


@given(window=windows(longest_rows=2))
def test_a_row_has_at_most_one_cut_that_whole_documents_did_not_need(
    window: tuple[list[int], int],
) -> None:
    lengths, row_length = window
    rows = best_fit_wrap(lengths, row_length, 0)
    needed = sum(-(-length // row_length) for length in lengths)
    assert sum(map(len, rows)) - needed <= max(len(rows) - 1, 0)


@pytest.mark.parametrize("cap", [0, 4])
@pytest.mark.parametrize(("row_length", "high"), [(256, 200), (300, 1500), (5000, 4000)])
def test_large_windows_agree_with_the_oracle(cap: int, row_length: int, high: int) -> None:
    lengths = np.random.default_rng(high + cap).integers(1, high, 700).tolist()
    expected = oracle.best_fit_wrap(lengths, row_length, cap)
    assert best_fit_wrap(lengths, row_length, cap) == expected


def test_rows_of_a_cut_window_are_pinned() -> None:
    assert best_fit_wrap([7, 25, 9, 6, 4, 9, 3], 10, 0) == [
        [(1, 0, 10)],
        [(1, 10, 10)],
        [(2, 0, 9), (5, 0, 1)],
        [(5, 1, 8), (0, 0, 2)],
        [(3, 0, 6), (4, 0, 4)],
        [(1, 20, 5), (0, 2, 5)],
        [(6, 0, 3)],
    ]
    assert best_fit_wrap([7, 25, 9, 6, 4, 9, 3], 10, 1)[2:] == [
        [(2, 0, 9)],
        [(5, 0, 9)],
        [(0, 0, 7)],
        [(3, 0, 6)],
        [(1, 20, 5)],
        [(4, 0, 4)],
        [(6, 0, 3)],
    ]


def test_of_equal_pieces_the_one_that_has_been_there_longest_is_taken() -> None:
    # Both are 5 tokens long: document 2, and what the first row left of document 1.
    assert best_fit_wrap([7, 6, 5], 8, 0) == [
        [(0, 0, 7), (1, 0, 1)],
        [(2, 0, 5), (1, 1, 3)],
        [(1, 4, 2)],
    ]


def test_the_room_for_a_cut_window_is_what_the_formulas_say() -> None:
    assert best_fit_wrap_room(0, 0, row_length=8) == (0, 0)
    assert best_fit_wrap_room(80, 11, row_length=8) == (21, 10)
    assert best_fit_wrap_room(81, 11, row_length=8) == (21, 11)
    assert best_fit_wrap_room(81, 11, row_length=8, max_segments=4) == (21, 13)
    assert best_fit_wrap_room(81, 11, row_length=8, max_segments=1) == (21, 21)
    assert best_fit_wrap_room(0, 0, row_length=8, max_segments=3) == (0, 0)
    assert best_fit_wrap_room(2**62, 1, row_length=1) == (2**62 + 1, 2**62)
