"""Columns of lists as runs, against a plain reading of the same column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import DataError
from zephon.io.column_lists import ListRuns, contiguous, gather, join_lists, list_runs
from zephon.io.column_tokens import make_unit_tokens
from zephon.io.recycled import Recycler

LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 100), max_size=5), max_size=12)
KINDS = [
    pa.list_(pa.int16()), pa.large_list(pa.int64()), pa.list_view(pa.uint8()),
    pa.large_list_view(pa.int32()), pa.list_(pa.float32()),
]  # fmt: skip


def plain(runs: ListRuns) -> list[list[float]]:
    return [
        runs.values[start : start + length].tolist()
        for start, length in zip(runs.start, runs.length, strict=True)
    ]


@given(LISTS, st.sampled_from(KINDS), st.integers(0, 4), st.integers(0, 4))
def test_runs_are_the_lists_of_any_slice_of_any_type(
    lists: list[list[int | None] | None], kind: pa.DataType, left: int, right: int
) -> None:
    array = pa.array(lists, kind)
    array = array.slice(left, max(len(array) - left - right, 0))
    expected = lists[left : left + len(array)]
    runs = list_runs(array)
    assert [i for i, one in enumerate(expected) if one and None in one] == runs.damaged.tolist()
    for made in (runs, contiguous(runs)):
        for mine, theirs in zip(plain(made), expected, strict=True):
            if theirs is None:
                assert mine == []
            elif None not in theirs:
                assert mine == theirs
    assert contiguous(runs).in_order
    valid = [True] * len(expected) if runs.valid is None else runs.valid.tolist()
    assert valid == [one is not None for one in expected]


@given(LISTS, st.randoms(use_true_random=False))
def test_gathered_lists_stand_where_they_were_told_to(
    lists: list[list[int | None] | None], random: object
) -> None:
    lists = [[x for x in one if x is not None] for one in lists if one is not None]
    runs = list_runs(pa.array(lists, pa.list_(pa.int32())))
    rows = np.arange(len(lists))
    random.shuffle(rows)  # type: ignore[attr-defined]
    at = np.cumsum(runs.length[rows]) - runs.length[rows] + 2
    out = np.full(int(runs.length.sum()) + 4, -1, dtype=np.int32)
    gather(runs, rows, out, at)
    assert out.tolist() == [-1, -1, *[x for row in rows for x in lists[row] or []], -1, -1]


@given(st.lists(LISTS, max_size=4), st.sampled_from(KINDS), st.integers(0, 20))
def test_joined_lists_are_those_of_all_parts(
    parts: list[list[list[int | None] | None]], kind: pa.DataType, count: int
) -> None:
    """Whatever is said of how many there are."""
    runs = [list_runs(pa.array(lists, kind)) for lists in parts]
    joined = join_lists(iter(runs), count, Recycler(0))
    expected = [one for lists in parts for one in lists]
    assert [one for part in joined for one in plain(part)] == [
        one for part in runs for one in plain(part)
    ]
    assert sum(len(part) for part in joined) == len(expected)
    first, damaged, valid = 0, [], []
    for part in joined:
        damaged += (part.damaged + first).tolist()
        valid += [True] * len(part) if part.valid is None else part.valid.tolist()
        first += len(part)
    assert damaged == [i for i, one in enumerate(expected) if one and None in one]
    assert valid == [one is not None for one in expected]


def test_parts_are_put_together_in_one_array_that_grows() -> None:
    def parts() -> Iterator[ListRuns]:
        for number in range(40):
            lists = [[number] * (number * 500)] * 5
            yield list_runs(pa.array(lists, pa.list_(pa.int32())))

    memory = Recycler(0)
    (joined,) = join_lists(parts(), 200, memory)
    assert plain(joined) == [[number] * (number * 500) for number in range(40) for _ in range(5)]
    assert joined.in_order
    assert joined.nbytes == memory.nbytes < 3 * joined.values.nbytes


def test_overlapping_views_are_copied_where_something_goes_along() -> None:
    array = pa.ListViewArray.from_arrays([0, 1, 0], [3, 2, 1], pa.array([5, 6, 7], pa.int32()))
    runs = list_runs(array)
    assert plain(runs) == [[5, 6, 7], [6, 7], [5]]
    assert not runs.in_order
    assert plain(contiguous(runs)) == [[5, 6, 7], [6, 7], [5]]


def test_offsets_that_lead_out_of_the_values_are_damage() -> None:
    offsets = pa.py_buffer(np.array([0, 9, 3], dtype=np.int32))
    array = pa.ListArray.from_buffers(
        pa.list_(pa.int32()), 2, [None, offsets], children=[pa.array([1, 2, 3], pa.int32())]
    )
    with pytest.raises(DataError, match="lists that lie outside of their values"):
        list_runs(array)


def test_a_column_of_more_than_2_gib_is_read_where_it_lies() -> None:
    """Memory that nobody wrote to is not there: 5 GB of it cost nothing."""
    count = 2_500_000_000
    values = np.zeros(count, dtype=np.uint16)
    values[-3:] = 7, 8, 9
    values[2**31 : 2**31 + 2] = 4, 5
    offsets = np.array([0, 2**31, 2**31 + 2, count - 3, count], dtype=np.int64)
    kind = pa.large_list(pa.uint16())
    child = pa.Array.from_buffers(pa.uint16(), count, [None, pa.py_buffer(values)])
    array = pa.LargeListArray.from_buffers(kind, 4, [None, pa.py_buffer(offsets)], children=[child])
    many = pa.chunked_array([array, pa.array([[1]], kind), array.slice(3)])
    before = pa.total_allocated_bytes()
    unit = make_unit_tokens(
        [list_runs(chunk) for chunk in many.chunks], None, (), lambda name: many
    )
    documents = unit.documents(np.array([1, 3, 4, 5]))
    assert [documents.tokens(i).tolist() for i in range(4)] == [[4, 5], [7, 8, 9], [1], [7, 8, 9]]
    assert int(documents.start[1]) == count - 3
    assert documents.buffers[0].ctypes.data == values.ctypes.data
    assert pa.total_allocated_bytes() == before
