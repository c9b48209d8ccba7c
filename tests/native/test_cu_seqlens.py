from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles.collate import cu_seqlens, documents
from zephon._native.collate import count_documents, row_cu_seqlens

INT32_MAX = 2**31 - 1


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Rows of segment lengths that sum to at most ``width + 1``, and the width."""
    width = draw(st.sampled_from([0, 1, 2, 7, 30, INT32_MAX - 1, INT32_MAX]))
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        left, row = width + 1, []
        while left > 0 and draw(st.integers(0, 5)) > 0:
            row.append(draw(st.integers(1, left) | st.just(left)))
            left -= row[-1]
        rows.append(row)
    return rows, width


def arguments(rows: list[list[int]], width: int, slots: int, **more: Any) -> dict[str, Any]:
    return {
        "seg_length": np.array([n for row in rows for n in row], np.int64),
        "row_splits": np.cumsum([0] + [len(row) for row in rows], dtype=np.int64),
        "width": width,
        "include_padding": False,
        "fill": -1,
        "cu_seqlens": np.full((len(rows), slots), 77, np.int32),
        "max_seqlen": np.full(len(rows), 77, np.int32),
        **more,
    }


@given(
    table=tables(),
    include_padding=st.booleans(),
    fill=st.integers(-(2**31), INT32_MAX),
    spare=st.integers(0, 3),
)
@example(table=([[3, 3]], 5), include_padding=True, fill=-1, spare=0)
@example(table=([[5, 1], [6], [], [5]], 5), include_padding=True, fill=-1000, spare=0)
@example(table=([[1]], 0), include_padding=True, fill=9, spare=1)
def test_boundaries_are_those_of_the_oracle(
    table: tuple[list[list[int]], int], include_padding: bool, fill: int, spare: int
) -> None:
    rows, width = table
    expected = [cu_seqlens(row, width=width, include_padding=include_padding) for row in rows]
    used = max(map(len, expected), default=0)
    call = arguments(rows, width, used + spare, include_padding=include_padding, fill=fill)
    assert row_cu_seqlens(**call) == used
    for i, boundaries in enumerate(expected):
        unused = [fill] * (used + spare - len(boundaries))
        steps = np.diff(boundaries).tolist()
        assert call["cu_seqlens"][i].tolist() == boundaries + unused
        assert all(step > 0 for step in steps)
        assert call["max_seqlen"][i] == max(steps, default=0)


@given(table=tables(), joined=st.booleans())
@example(table=([[5, 1], [6], [], [5]], 5), joined=False)
@example(table=([[3, 2], [2, 2]], 5), joined=True)
def test_documents_are_counted_as_the_oracle_does(
    table: tuple[list[list[int]], int], joined: bool
) -> None:
    rows, width = table
    found = [documents(row, width=width, joined=joined) for row in rows]
    call = arguments(rows, width, 1)
    assert count_documents(call["seg_length"], call["row_splits"], width=width, joined=joined) == (
        max(map(len, found), default=0),
        max((n for row in found for n in row), default=0),
        next((i for i, row in enumerate(found) if not row), -1),
    )


def test_documents_of_a_wrong_table_are_not_counted() -> None:
    length, splits = np.array([3, 2]), np.array([0, 2])
    with pytest.raises(ValueError, match=r"sum to at most width \+ 1 = 4 in each row"):
        count_documents(length, splits, width=3, joined=False)
    with pytest.raises(ValueError, match="width must lie in .* got -1"):
        count_documents(length, splits, width=-1, joined=False)
    with pytest.raises(TypeError, match="row_splits must be an int64 array, got list"):
        count_documents(length, [0, 2], width=5, joined=True)  # type: ignore[arg-type]


def test_an_ordinary_batch_reads_as_expected() -> None:
    call = arguments([[3, 2], [2, 2, 2], [1]], 5, 5, include_padding=True)
    assert row_cu_seqlens(**call) == 4
    assert call["cu_seqlens"].tolist() == [
        [0, 3, 5, -1, -1],
        [0, 2, 4, 5, -1],
        [0, 1, 5, -1, -1],
    ]
    assert call["max_seqlen"].tolist() == [3, 2, 4]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cu_seqlens", np.zeros((2, 2), np.int32), "at least 3 slots in each row, got 2"),
        ("cu_seqlens", np.zeros((3, 4), np.int32), r"shape \[2, any\], got int32 \[3, 4\]"),
        ("cu_seqlens", np.zeros((2, 8), np.int32)[:, ::2], "cu_seqlens must be C-contiguous"),
        ("cu_seqlens", read_only(np.zeros((2, 4), np.int32)), "cu_seqlens must be writable"),
        ("max_seqlen", np.zeros(3, np.int32), r"max_seqlen must have shape \[2\], got int32 \[3\]"),
        ("width", -1, r"width must lie in \[0, 2147483647\], got -1"),
        ("width", 2**31, "width must lie in .* got 2147483648"),
        ("width", 3, r"sum to at most width \+ 1 = 4 in each row, got more in row 0"),
        ("fill", 2**31, r"fill must lie in \[-2147483648, 2147483647\], got 2147483648"),
        ("seg_length", np.array([3, 0, 1]), "seg_length must be at least 1, got 0 at index 1"),
        ("seg_length", np.array([3, 2**63 - 1, 1]), "got more in row 0"),
        ("row_splits", np.array([0, 1, 2]), "must end at the number of segments, 3, got 2"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        row_cu_seqlens(**{**arguments([[3, 2], [1]], 5, 4), name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cu_seqlens", np.zeros((2, 4), np.int64), "cu_seqlens must be an int32 array, got int64"),
        ("max_seqlen", None, "max_seqlen must be an int32 array, got NoneType"),
        ("seg_length", np.zeros(3, np.int32), "seg_length must be an int64 array, got int32"),
        ("width", 5.0, "width must be an integer, got 5.0"),
        ("fill", None, "fill must be an integer, got None"),
    ],
)
def test_a_wrong_type_is_refused_by_name(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        row_cu_seqlens(**{**arguments([[3, 2], [1]], 5, 4), name: value})
