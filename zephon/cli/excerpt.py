"""Decoded text of one packed row, around the boundaries of its documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zephon.cli.tally import document_starts

_TOKENS = 60
_LINES = 4


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where one document ends and the next begins: the text on both sides, and the sources."""

    token: int
    position: int
    ended: str
    begun: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A row of a batch and its first boundaries."""

    row: int
    boundaries: tuple[Boundary, ...]


def excerpt(
    batch: Mapping[str, Any],
    bos: int,
    source_of: Sequence[str],
    decode: Callable[[list[int]], str],
    *,
    most: int = 2,
) -> Excerpt | None:
    """Choose the first row of the stream's first batch that shows a change of source.

    Parameters
    ----------
    batch : mapping
        The first batch, ``[B, S]``.
    bos : int
        Id of the token that begins every document.
    source_of : sequence of str
        Source of each document, in the order in which the documents begin.
    decode : callable
        Makes text of token ids.
    most : int
        How many boundaries to show.

    Returns
    -------
    Excerpt or None
        None when no document begins inside a row. Without a change of source, the
        first row that has a boundary.
    """
    starts = document_starts(batch, bos)  # bool [B, S + 1]
    begun = np.cumsum(starts).reshape(starts.shape)  # documents begun up to and with a token
    rows: list[tuple[int, list[int]]] = []
    for row in range(len(starts)):
        # The last column is a label only; a boundary at 0 lies between two rows.
        places = [int(place) for place in np.flatnonzero(starts[row, :-1]) if place > 0]
        if places:
            rows.append((row, places))
    if not rows:
        return None

    def sources(row: int, place: int) -> tuple[str, str]:
        number = int(begun[row, place]) - 1
        return source_of[number - 1], source_of[number]

    def first_change(row: int, places: list[int]) -> int | None:
        changes = (k for k, place in enumerate(places) if len(set(sources(row, place))) == 2)
        return next(changes, None)

    chosen = next(((r, p) for r, p in rows if first_change(r, p) is not None), rows[0])
    row, places = chosen
    at = first_change(row, places) or 0
    ids, positions = batch["input_ids"][row].tolist(), batch["position_ids"][row].tolist()
    return Excerpt(
        row,
        tuple(
            Boundary(
                token=place,
                position=positions[place],
                ended=sources(row, place)[0],
                begun=sources(row, place)[1],
                before=_last_lines(decode(ids[max(0, place - _TOKENS) : place])),
                after=_first_lines(decode(ids[place : place + _TOKENS])),
            )
            for place in places[at : at + most]
        ),
    )


def _last_lines(text: str) -> str:
    return "\n".join(text.strip("\n").splitlines()[-_LINES:])


def _first_lines(text: str) -> str:
    return "\n".join(text.strip("\n").splitlines()[:_LINES])
