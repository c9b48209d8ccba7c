"""The position of one lane: what its stream can be continued from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHECK_TOKENS = 256
"""How many delivered tokens of the open document a cursor vouches for."""


@dataclass(frozen=True, slots=True)
class LaneCursor:
    """The next token that a lane delivers, and what it left out so far.

    Attributes
    ----------
    draw : int
        Draw of the document that the next token belongs to.
    token : int
        Tokens of that document that were delivered already.
    empty : int
        Documents without tokens that were drawn so far.
    check : bytes
        Eight bytes over the last delivered tokens of that document, if ``token``
        is not 0. Restoring reads the document again and compares: a changed file,
        tokenizer or function is noticed.
    """

    draw: int = 0
    token: int = 0
    empty: int = 0
    _tail: NDArray[np.integer[Any]] | bytes = field(default=b"", repr=False, compare=False)

    @property
    def check(self) -> bytes:
        """Computed when it is asked for, so that a batch does not pay for it."""
        return self._tail if isinstance(self._tail, bytes) else check_tokens(self._tail)


def check_tokens(tail: NDArray[np.integer[Any]]) -> bytes:
    """Eight bytes over token ids, whatever integer type they have."""
    return hashlib.blake2b(tail.astype("<i8").tobytes(), digest_size=8).digest()
