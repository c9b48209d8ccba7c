from __future__ import annotations

import mmap
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.lines import records
from zephon._native.text import count_lines, index_lines, index_records

TEXTS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"\x00", b"line"])).map(b"".join),
)


def newlines(data: bytes) -> list[int]:
    return [i for i, byte in enumerate(data) if byte == 10]


@given(data=TEXTS, base=st.integers(0, 2**62), spare=st.integers(0, 3))
def test_newlines_are_counted_and_their_positions_written(
    data: bytes, base: int, spare: int
) -> None:
    view = np.frombuffer(data, np.uint8)
    expected = newlines(data)
    out = np.full(len(expected) + spare, -7, np.int64)
    assert count_lines(view) == len(expected)
    assert index_lines(view, base, out) == len(expected)
    assert out.tolist() == [base + i for i in expected] + [-7] * spare


@given(data=TEXTS.filter(lambda data: b"\n" in data))
def test_an_output_without_room_is_refused_before_it_is_written(data: bytes) -> None:
    found = len(newlines(data))
    out = np.full(found - 1, -7, np.int64)
    message = f"out has room for {found - 1} offsets, data holds {found} newlines"
    with pytest.raises(ValueError, match=message):
        index_lines(np.frombuffer(data, np.uint8), 0, out)
    assert (out == -7).all()


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\nthree")
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        assert count_lines(np.frombuffer(view, np.uint8)) == 2


def test_arrays_of_another_type_are_refused() -> None:
    with pytest.raises(ValueError, match="Buffer dtype mismatch"):
        count_lines(np.zeros(3, np.int32))
    nothing: Any = None
    with pytest.raises(TypeError, match="data"):
        count_lines(nothing)
    with pytest.raises(ValueError, match="Buffer dtype mismatch"):
        index_lines(np.zeros(3, np.uint8), 0, np.zeros(3, np.int32))


def scan(data: bytes, cuts: list[int], begin: int = 0) -> list[tuple[int, int, int]]:
    """Records of ``data``, found piece by piece."""
    found: list[tuple[int, int, int]] = []
    line, number, blank = begin, 1, True
    edges = sorted({0, len(data), *cuts})
    for base, end in pairwise(edges):
        piece = np.frombuffer(data[base:end], np.uint8)
        out = np.full((3, count_lines(piece) + 1), -7, np.int64)
        count, line, number, blank = index_records(piece, base, line, number, blank, out)
        assert (out[:, count:] == -7).all()
        found += [tuple(row) for row in out[:, :count].T.tolist()]
    return found


@given(
    data=st.one_of(
        TEXTS,
        st.lists(st.sampled_from([b"\n", b" ", b"\t", b"\r", b"\x0c", b"{}"])).map(b"".join),
    ),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    begin=st.integers(0, 3),
)
def test_the_records_are_the_lines_that_are_not_blank_wherever_the_text_is_cut(
    data: bytes, cuts: list[int], begin: int
) -> None:
    text = b"\xef\xbb\xbf"[:begin] + data  # what stands before the first line ends none
    first = [cut for cut in cuts if begin <= cut <= len(text)]
    assert scan(text, first, begin) == records(text, begin)


def test_the_line_that_stays_open_is_handed_on() -> None:
    out = np.zeros((3, 0), np.int64)
    nothing = np.frombuffer(b"", np.uint8)
    assert index_records(nothing, 9, 4, 2, False, out) == (0, 4, 2, False)
    white = np.frombuffer(b" \t", np.uint8)
    assert index_records(white, 9, 4, 2, False, out) == (0, 4, 2, False)
    assert index_records(white, 9, 9, 2, True, out) == (0, 9, 2, True)
    assert index_records(np.frombuffer(b" x", np.uint8), 9, 9, 2, True, out) == (0, 9, 2, False)


@pytest.mark.parametrize(
    ("base", "begin", "shape", "message"),
    [
        (-1, 0, (3, 2), "the line begins at 0 and the data at -1, expected 0 <= begin"),
        (0, 5, (3, 2), "the line begins at 5 and the data at 0"),
        (0, -1, (3, 2), "the line begins at -1"),
        (2**62 + 1, 0, (3, 2), "the data at 4611686018427387905"),
        (0, 0, (2, 2), "out has 2 rows, expected 3"),
        (0, 0, (3, 1), "out has room for 1 records, data holds 2 newlines"),
    ],
)
def test_a_place_outside_the_data_and_a_small_output_are_refused(
    base: int, begin: int, shape: tuple[int, int], message: str
) -> None:
    data = np.frombuffer(b"a\nb\n", np.uint8)
    with pytest.raises(ValueError, match=message):
        index_records(data, base, begin, 1, True, np.zeros(shape, np.int64))
