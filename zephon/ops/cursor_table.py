"""The positions behind many rows, found together and made into cursors one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zephon.cursor import CHECK_TOKENS, DocumentCursor, Dropped, LaneCursor, Tokens

NOTHING = Dropped()


class CursorTable:
    """Cursors that few ask for: one row of numbers each, which never changes.

    A state of 512 lanes asks for 512 of them at once, each in memory that nothing has
    touched since: a row is read as a whole and from one place.

    Parameters
    ----------
    buffers : sequence of arrays
        Where tokens lie.
    buffer : int32 ``[m]``
        In which of them the open document lies.
    end : int64 ``[m]``
        Tokens of the buffer up to the position.
    done, whole : int64 ``[m]``
        Tokens of the document before the position, and in all; at least one is before it.
    draw, child, final : int64 ``[m]``
        The document's, as in :class:`zephon.block.Entries`.
    dropped : int64 ``[m, 5]`` or ``[1, 5]``
        What was left out before it.
    """

    def __init__(
        self,
        buffers: Sequence[Tokens],
        *,
        buffer: NDArray[np.int32],
        end: NDArray[np.int64],
        done: NDArray[np.int64],
        whole: NDArray[np.int64],
        draw: NDArray[np.int64],
        child: NDArray[np.int64],
        final: NDArray[np.int64],
        dropped: NDArray[np.int64],
    ) -> None:
        finished = done == whole
        ended = finished & (final != 0)  # the draw, too
        table = np.empty((len(done), 11), dtype=np.int64)
        table[:, 0] = draw + ended
        table[:, 1] = done * ~finished
        table[:, 2] = (child + finished) * ~ended
        table[:, 3] = buffer
        table[:, 4] = end
        table[:, 5] = np.minimum(done, CHECK_TOKENS)
        table[:, 6:] = dropped
        self._buffers, self._table = buffers, table

    def cursor(self, row: int) -> LaneCursor:
        """The position behind a row."""
        draw, token, child, buffer, end, before, *dropped = self._table[row].tolist()
        documents = DocumentCursor(
            draw, token, Dropped(*dropped) if any(dropped) else NOTHING, child
        )
        if not token:
            return LaneCursor(documents)
        return LaneCursor(documents, _evidence=(self._buffers[buffer][end - before : end],))
