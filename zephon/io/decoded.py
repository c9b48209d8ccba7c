"""What was decoded and may be needed again, up to a number of bytes for the whole process."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

DEFAULT_LIMIT = 1 << 29
"""Bytes. Enough for units of 8 MiB of 64 readers; a unit that is greater is held by itself."""

Key = tuple[int, Hashable]
"""Number of the owner, and what of it."""


class DecodedUnits:
    """Decoded values by key, those that were least recently asked for dropped first.

    Any thread may ask. A value that one thread is decoding is waited for by the
    others. Whoever uses a value keeps it alive, dropped or not.

    Parameters
    ----------
    limit : int
        Bytes of all values together. The value asked for last is held in any case.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._numbers = itertools.count()
        self._gone: deque[int] = deque()  # owners whose values are to be dropped
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[Key, tuple[Any, int]] = OrderedDict()  # value, bytes
        self._decoding: dict[Key, Future[Any]] = {}
        self.nbytes = 0

    def register(self, owner: object) -> int:
        """A number for ``owner``; when it is collected its values are dropped."""
        number = next(self._numbers)
        # The collector may run this while this very thread holds the lock.
        weakref.finalize(owner, self._gone.append, number).atexit = False
        return number

    def get(self, key: Key, decode: Callable[[], tuple[T, int]]) -> T:
        """The value of ``key``; ``decode`` gives it with its size in bytes if it is not there.

        An error of ``decode`` reaches everybody who waited for this value, and the
        next one who asks tries again.
        """
        with self._lock:
            self._drop_gone()
            if key in self._held:
                self._held.move_to_end(key)
                found: T = self._held[key][0]
                return found
            waiting = self._decoding.get(key)
            if waiting is None:
                mine = self._decoding[key] = Future()
        if waiting is not None:
            given: T = waiting.result()
            return given
        try:
            value, nbytes = decode()
        except BaseException as error:
            with self._lock:
                self._decoding.pop(key, None)
            mine.set_exception(error)
            raise
        with self._lock:
            self._decoding.pop(key, None)
            self._held[key] = value, nbytes
            self.nbytes += nbytes
            self._shrink()
        mine.set_result(value)
        return value

    def set_limit(self, limit: int) -> None:
        """Hold ``limit`` bytes at most from now on."""
        with self._lock:
            self.limit = limit
            self._drop_gone()
            self._shrink()

    def _shrink(self) -> None:
        while self.nbytes > self.limit and len(self._held) > 1:
            self.nbytes -= self._held.popitem(last=False)[1][1]

    def _drop_gone(self) -> None:
        gone = {self._gone.popleft() for _ in range(len(self._gone))}
        for key in [key for key in self._held if key[0] in gone] if gone else ():
            self.nbytes -= self._held.pop(key)[1]


UNITS = DecodedUnits(DEFAULT_LIMIT)
"""Those of this process."""

# A fork may happen while another thread holds the lock or decodes; neither follows it.
os.register_at_fork(after_in_child=UNITS._forget)
