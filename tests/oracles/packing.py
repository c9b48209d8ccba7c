"""What the packers mean, written to be read: every row is looked at for every document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """Tokens ``offset`` to ``offset + length - 1`` of a document."""

    document: int
    offset: int
    length: int


class Wrapped(NamedTuple):
    rows: list[list[Piece]]
    documents: int  # the next row begins in this one,
    tokens: int  # here


def decreasing(
    lengths: Sequence[int], row_length: int, max_segments: int, *, best_fit: bool
) -> list[list[int]]:
    """Documents of each row, in the order they were placed."""
    rows: list[list[int]] = []

    def room(row: list[int]) -> int:
        return row_length - sum(lengths[document] for document in row)

    for document in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        fitting = [
            row
            for row in rows
            if room(row) >= lengths[document] and (max_segments == 0 or len(row) < max_segments)
        ]
        if not fitting:
            rows.append([document])
        elif best_fit:
            min(fitting, key=room).append(document)  # the first of the fullest
        else:
            fitting[0].append(document)
    return rows


def best_fit_wrap(lengths: Sequence[int], row_length: int, max_segments: int) -> list[list[Piece]]:
    """Pieces of each row, in the order they were placed."""
    pool = []  # in order of arrival
    for document, length in enumerate(lengths):
        for offset in range(0, length, row_length):
            pool.append(Piece(document, offset, min(row_length, length - offset)))

    rows = []
    while pool:
        row: list[Piece] = []
        room = row_length
        while pool and room > 0 and (max_segments == 0 or len(row) < max_segments):
            # max() takes the first of the longest, which has been there longest.
            fitting = [piece for piece in pool if piece.length <= room]
            piece = max(fitting or pool, key=lambda piece: piece.length)
            pool.remove(piece)
            used = min(piece.length, room)
            row.append(Piece(piece.document, piece.offset, used))
            if used < piece.length:
                pool.append(Piece(piece.document, piece.offset + used, piece.length - used))
            room -= used
        rows.append(row)
    return rows


def wrap(
    lengths: Sequence[int], row_length: int, max_segments: int, *, rows: int, skip: int
) -> Wrapped:
    """At most ``rows`` complete rows of the documents from token ``skip`` on, token by token."""
    tokens = [
        (document, place) for document, length in enumerate(lengths) for place in range(length)
    ][skip:]
    done = Wrapped([], 0, skip)
    row: list[Piece] = []
    for document, place in tokens:
        if len(done.rows) == rows:
            break
        if row and row[-1].document == document:
            row[-1] = row[-1]._replace(length=row[-1].length + 1)
        else:
            row.append(Piece(document, place, 1))
        last = place + 1 == lengths[document]
        full = sum(piece.length for piece in row) == row_length
        if full or (last and len(row) == max_segments):
            behind = (document + 1, 0) if last else (document, place + 1)
            done = Wrapped([*done.rows, row], *behind)
            row = []
    return done
