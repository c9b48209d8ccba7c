"""The packers run on lists, with what they may and may not write checked, and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles.packing import Piece, Wrapped
from zephon._native.packing import (
    best_fit_wrap_room,
    pack_best_fit_wrap,
    pack_decreasing,
    pack_wrap,
)

UNWRITTEN = -77
ROW_LENGTHS = st.integers(1, 12) | st.sampled_from([64, 65, 5000, 2**18 + 1, 2**24])
CAPS = st.just(0) | st.integers(1, 5)


@st.composite
def windows(draw: st.DrawFn, longest_rows: int = 1) -> tuple[list[int], int]:
    """Lengths of documents of up to so many rows, often alike, and the length of a row."""
    row_length = draw(ROW_LENGTHS)
    longest = longest_rows * row_length
    length = st.integers(1, longest) | st.integers(1, min(longest, 4)) | st.just(row_length)
    return draw(st.lists(length, max_size=40)), row_length


class Frame:
    """An output with a margin on both sides, and spare room, that must stay as they were."""

    def __init__(self, size: int, spare: int = 0) -> None:
        self._all = np.full(size + spare + 2, UNWRITTEN, np.int64)
        self.array = self._all[1:-1]

    def first(self, used: int) -> list[int]:
        assert self._all[0] == UNWRITTEN
        assert (self.array[used:] == UNWRITTEN).all()
        assert self._all[-1] == UNWRITTEN
        return self.array[:used].tolist()


def decreasing(
    lengths: Sequence[int], row_length: int, max_segments: int, *, best_fit: bool, spare: int = 0
) -> list[list[int]]:
    n = len(lengths)
    document, splits = Frame(n, spare), Frame(n + 1, spare)
    rows = pack_decreasing(
        np.array(lengths, np.int64),
        row_length=row_length,
        max_segments=max_segments,
        best_fit=best_fit,
        document=document.array,
        splits=splits.array,
    )
    ends = splits.first(rows + 1)
    assert (ends[0], ends[-1]) == (0, n)
    documents = document.first(n)
    return [documents[a:b] for a, b in pairwise(ends)]


def pieces(table: dict[str, NDArray[np.int64]], rows: int) -> list[list[Piece]]:
    splits = table["splits"][: rows + 1].tolist()
    columns = [table[name].tolist() for name in ("document", "offset", "seg_length")]
    segments = [Piece(*each) for each in zip(*columns, strict=True)]
    assert splits[0] == 0
    return [segments[a:b] for a, b in pairwise(splits)]


def best_fit_wrap(
    lengths: Sequence[int], row_length: int, max_segments: int, spare: int = 0
) -> list[list[Piece]]:
    limits = {"row_length": row_length, "max_segments": max_segments}
    segments, rows = best_fit_wrap_room(sum(lengths), len(lengths), **limits)
    frames = {name: Frame(segments, spare) for name in ("document", "offset", "seg_length")}
    frames["splits"] = Frame(rows + 1, spare)
    arrays = {name: frame.array for name, frame in frames.items()}
    rows, segments = pack_best_fit_wrap(np.array(lengths, np.int64), **limits, **arrays)
    for name, frame in frames.items():
        frame.first(rows + 1 if name == "splits" else segments)
    made = pieces(arrays, rows)
    assert sum(map(len, made)) == segments
    return made


def wrap(
    lengths: Sequence[int], row_length: int, max_segments: int, *, rows: int, skip: int
) -> Wrapped:
    segments = Frame(len(lengths) + rows), Frame(len(lengths) + rows), Frame(len(lengths) + rows)
    names = ("document", "offset", "seg_length")
    arrays = {name: frame.array for name, frame in zip(names, segments, strict=True)}
    splits = Frame(rows + 1)
    done, used, documents, tokens = pack_wrap(
        np.array(lengths, np.int64),
        row_length=row_length,
        max_segments=max_segments,
        rows=rows,
        skip=skip,
        **arrays,
        splits=splits.array,
    )
    splits.first(done + 1)
    for frame in segments:
        frame.first(len(frame.array))
    made = pieces({**arrays, "splits": splits.array}, done)
    assert sum(map(len, made)) == used
    return Wrapped(made, documents, tokens)
