from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon._native.text import count_lines, index_lines

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
