"""Memory for decoded values that is used again.

A unit takes megabytes and is forgotten when others take its place. An allocator gives
such memory back to the system soon, and getting it anew, page by page, was found to take
as long as decoding. So what is no longer looked at waits here for the next unit.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

STEP = 1 << 18
"""Bytes that sizes are multiples of; what is smaller is not kept, since it costs little."""


class Recycler:
    """Arrays whose memory comes back when the last view of them is gone; for any thread.

    Parameters
    ----------
    limit : int
        Bytes that may wait for use at most.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._idle: list[NDArray[np.uint8]] = []
        self._waiting = self._lent = 0
        self.start_anew()

    @property
    def nbytes(self) -> int:
        """Bytes that are in use or wait for it."""
        return self._waiting + self._lent

    def empty(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """At least ``count`` values of ``dtype``, whatever they are, and not twice as many."""
        kind = np.dtype(dtype)
        size = count * kind.itemsize
        if size < STEP:
            return np.empty(count, dtype=kind)
        memory = self._take(size)
        if memory is None:
            memory = np.empty(-(-size // STEP) * STEP, dtype=np.uint8)
        with self._lock:
            self._lent += len(memory)
        # Views of this array have it as their base and keep it, not the memory, alive.
        lent = np.frombuffer(memory.data, dtype=np.uint8)
        weakref.finalize(lent, self._give_back, memory).atexit = False
        return lent[: len(memory) // kind.itemsize * kind.itemsize].view(kind)

    def start_anew(self) -> None:
        """In a forked child: a thread that is not there may have held the lock."""
        # The collector may give memory back in the very thread that holds the lock.
        self._lock = threading.RLock()

    def _take(self, size: int) -> NDArray[np.uint8] | None:
        with self._lock:
            fits = (size <= len(memory) < 2 * size for memory in self._idle)
            at = next((number for number, fit in enumerate(fits) if fit), None)
            if at is None and not self._idle:
                return None
            memory = self._idle.pop(at or 0)
            self._waiting -= len(memory)
            # Of a size that is not asked for it would wait for ever.
            return None if at is None else memory

    def _give_back(self, memory: NDArray[np.uint8]) -> None:
        with self._lock:
            self._lent -= len(memory)
            if self._waiting + len(memory) <= self.limit:
                self._waiting += len(memory)
                self._idle.append(memory)  # at the end: somebody may be counting from the front


MEMORY = Recycler(1 << 26)
"""That of this process."""

os.register_at_fork(after_in_child=MEMORY.start_anew)
