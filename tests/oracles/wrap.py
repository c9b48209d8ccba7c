"""Packing by wrap, one token at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Token = tuple[int, int]  # (document, place in it)


def rows(lengths: Iterable[int], row_length: int) -> Iterator[list[Token]]:
    """Rows of (document, place in the document); an unfinished last row does not come out."""
    row: list[Token] = []
    for document, length in enumerate(lengths):
        for place in range(length):
            row.append((document, place))
            if len(row) == row_length:
                yield row
                row = []


def segments(row: list[Token]) -> list[tuple[int, int, int]]:
    """The runs of one document in a row as (document, first place, length)."""
    runs: list[tuple[int, int, int]] = []
    for document, place in row:
        if runs and runs[-1][0] == document:
            runs[-1] = (document, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((document, place, 1))
    return runs
