from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import packing as oracle
from oracles.packed import CAPS, decreasing, windows


@given(window=windows(), cap=CAPS, best_fit=st.booleans(), spare=st.integers(0, 2))
def test_whole_documents_go_where_the_oracle_puts_them(
    window: tuple[list[int], int], cap: int, best_fit: bool, spare: int
) -> None:
    lengths, row_length = window
    rows = decreasing(lengths, row_length, cap, best_fit=best_fit, spare=spare)
    assert rows == oracle.decreasing(lengths, row_length, cap, best_fit=best_fit)
    assert sorted(document for row in rows for document in row) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in row) <= row_length for row in rows)
    assert all(1 <= len(row) <= (cap or len(lengths)) for row in rows)


@pytest.mark.parametrize("best_fit", [False, True])
@pytest.mark.parametrize("cap", [0, 3])
@pytest.mark.parametrize(("row_length", "low", "high"), [(256, 1, 90), (5000, 100, 4000)])
def test_windows_of_a_thousand_documents_agree_with_the_oracle(
    best_fit: bool, cap: int, row_length: int, low: int, high: int
) -> None:
    lengths = np.random.default_rng(row_length + cap).integers(low, high, 1000).tolist()
    expected = oracle.decreasing(lengths, row_length, cap, best_fit=best_fit)
    assert decreasing(lengths, row_length, cap, best_fit=best_fit) == expected


LENGTHS = [7, 14, 1, 5, 12, 3, 20, 6, 2, 9, 1, 7]


@pytest.mark.parametrize(
    ("best_fit", "cap", "expected"),
    [
        (False, 0, [[6], [1, 7], [4, 0, 2], [9, 11, 5, 10], [3, 8]]),
        (True, 0, [[6], [1, 7], [4, 0, 2], [9, 11, 5, 10], [3, 8]]),
        (False, 2, [[6], [1, 7], [4, 0], [9, 11], [3, 5], [8, 2], [10]]),
        (True, 1, [[6], [1], [4], [9], [0], [11], [7], [3], [5], [8], [2], [10]]),
    ],
)
def test_rows_of_whole_documents_are_pinned(
    best_fit: bool, cap: int, expected: list[list[int]]
) -> None:
    assert decreasing(LENGTHS, 20, cap, best_fit=best_fit) == expected


def test_the_best_fit_takes_the_fuller_row_where_the_first_fit_takes_the_earlier() -> None:
    lengths = [14, 10, 7, 3, 3]
    assert decreasing(lengths, 20, 0, best_fit=False) == [[0, 3, 4], [1, 2]]
    assert decreasing(lengths, 20, 0, best_fit=True) == [[0, 4], [1, 2, 3]]


def test_of_equally_full_rows_the_earliest_is_taken_also_if_it_filled_up_later() -> None:
    assert decreasing([14, 12, 7, 5, 1], 20, 0, best_fit=True) == [[0, 3, 4], [1, 2]]


@pytest.mark.parametrize(
    ("documents", "percent", "within"), [(64, 4.34, 0.15), (256, 0.98, 0.06), (1024, 0.245, 0.03)]
)
def test_larger_windows_leave_less_padding(documents: int, percent: float, within: float) -> None:
    random = np.random.default_rng(7)
    rows = filled = 0
    for _ in range(2**18 // documents):
        lengths = random.integers(5, 199, documents, endpoint=True)
        rows += len(decreasing(lengths.tolist(), 256, 0, best_fit=True))
        filled += int(lengths.sum())
    assert 100 * (1 - filled / (256 * rows)) == pytest.approx(percent, abs=within)
