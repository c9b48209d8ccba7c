"""The position of one lane: what its stream can be continued from.

A lane's rows come out of windows: a packing window (some documents) and, with a
shuffle, a shuffle window (some rows). A position is where the present windows
began and how many of their rows were delivered. Restoring computes the windows
again, so their content is never saved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon._native import cursors

CHECK_TOKENS = 256
"""How many delivered tokens of an open document a cursor vouches for."""

Tokens = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was drawn and not delivered, by reason.

    Attributes
    ----------
    empty : int
        Documents without tokens.
    oversized, oversized_tokens : int
        Documents longer than a row, and their tokens.
    tail_tokens : int
        Tokens at the end of a lane that filled no row or no batch.
    filtered : int
        Documents that an operator left out.
    """

    empty: int = 0
    oversized: int = 0
    oversized_tokens: int = 0
    tail_tokens: int = 0
    filtered: int = 0

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(*(a + b for a, b in zip(self.counts(), other.counts(), strict=True)))

    def counts(self) -> tuple[int, int, int, int, int]:
        """The counts in the order of the fields."""
        return (
            self.empty,
            self.oversized,
            self.oversized_tokens,
            self.tail_tokens,
            self.filtered,
        )


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    """The next token of a lane's documents.

    Attributes
    ----------
    draw : int
        Draw of the document that the token belongs to.
    token : int
        Tokens of that document that come before it.
    dropped : Dropped
        What was left out before it.
    child : int
        Documents that come out at that draw before it, where operators make several of
        one, or leave some out.
    """

    draw: int = 0
    token: int = 0
    dropped: Dropped = Dropped()
    child: int = 0


@dataclass(frozen=True, slots=True)
class LaneCursor:
    """The next row of a lane.

    Attributes
    ----------
    documents : DocumentCursor
        Where the present packing window began.
    rows : int
        Rows of it that lie before the next row, or before the shuffle window.
    window : int
        Number of the present shuffle window.
    shuffled : int
        Rows of it that were delivered.
    check : bytes
        Eight bytes over delivered tokens that restoring comes across again (of each
        document in the last delivered row of the window, or the end of what was delivered
        of the open document), empty if there are none. A changed file, tokenizer or
        function is noticed by them.
    """

    documents: DocumentCursor = DocumentCursor()
    rows: int = 0
    window: int = 0
    shuffled: int = 0
    _evidence: bytes | Iterable[Tokens] = field(default=b"", repr=False, compare=False)

    @property
    def check(self) -> bytes:
        """Computed when it is asked for, so that a batch does not pay for it."""
        if isinstance(self._evidence, bytes):
            return self._evidence
        return check_tokens(self._evidence)

    @property
    def is_open(self) -> bool:
        """Whether a window or a document has been begun, so that there is a check."""
        return bool(self.documents.token or self.rows or self.shuffled)

    def without_check(self) -> LaneCursor:
        """The same place, taken on trust: what lies above it checks more."""
        return replace(self, _evidence=b"")


class _Rows(Protocol):
    """Rows that know the position behind each; they never change."""

    def cursor(self, rows: int) -> LaneCursor:
        """The position behind so many of them."""
        ...


class CursorLater:
    """A position of which the cursor is made when somebody asks: few batches are saved.

    Parameters
    ----------
    rows : object with ``cursor``
        Never changes, so that it is the same cursor whenever it is made.
    taken : int
        Of those rows.
    """

    __slots__ = ("_made", "_rows", "_taken")

    def __init__(self, rows: _Rows, taken: int) -> None:
        self._rows, self._taken = rows, taken
        self._made: LaneCursor | None = None

    def cursor(self) -> LaneCursor:
        """The position behind the rows taken; made once."""
        if self._made is None:
            self._made = self._rows.cursor(self._taken)
        return self._made


Behind = LaneCursor | CursorLater
"""What a batch is handed out with."""


def cursor_of(behind: Behind) -> LaneCursor:
    """The cursor itself, made now if it was not."""
    return behind if isinstance(behind, LaneCursor) else behind.cursor()


def check_tokens(parts: Iterable[Tokens]) -> bytes:
    """Eight bytes over token ids, whatever integer type they have."""
    return cursors.hash_tokens(parts)
