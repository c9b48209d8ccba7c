"""What was decoded and may be needed again, up to a number of bytes for the whole process."""

from __future__ import annotations

import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from zephon.io.unit_cache import UnitCache

T = TypeVar("T")

DEFAULT_LIMIT = 1 << 28
"""Bytes, as ``CacheOptions.rg_cache_bytes`` has it. A unit that is greater is held by itself."""

Key = tuple[int, Hashable]
"""Number of the owner, and what of it."""


class DecodedUnits(UnitCache):
    """Decoded values by key, those that were least recently asked for dropped first.

    Any thread may ask. A value that one thread is decoding is waited for by the
    others. Whoever uses a value keeps it alive, dropped or not.

    Parameters
    ----------
    limit : int
        Bytes of all values together. The value asked for last is held in any case.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._numbers = itertools.count()
        self._gone: deque[int] = deque()  # owners whose values are to be dropped
        self._decoding: dict[Key, Future[Any]] = {}

    def register(self, owner: object) -> int:
        """A number for ``owner``; when it is collected its values are dropped."""
        number = next(self._numbers)
        # The collector may run this while this very thread holds the lock.
        weakref.finalize(owner, self._gone.append, number).atexit = False
        return number

    def get_or_decode(self, key: Key, decode: Callable[[], tuple[T, int]]) -> T:
        """The value of ``key``; ``decode`` gives it with its size in bytes if it is not there.

        An error of ``decode`` reaches everybody who waited for this value, and the
        next one who asks tries again.
        """
        with self._lock:
            self._drop_gone()
            if key in self._items:
                self._items.move_to_end(key)
                found: T = self._items[key][0]
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
            self._hold(key, value, nbytes)
        mine.set_result(value)
        return value

    def set_limit(self, limit: int) -> None:
        """Hold ``limit`` bytes at most from now on."""
        with self._lock:
            self._drop_gone()
        super().set_limit(limit)

    def start_anew(self) -> None:
        """In a forked child: neither the lock's holder nor who decodes has followed."""
        super().start_anew()
        self._decoding = {}

    def _drop_gone(self) -> None:
        gone = {self._gone.popleft() for _ in range(len(self._gone))}
        for key in list(self._items) if gone else ():
            owner, _ = cast(Key, key)
            if owner in gone:
                self._drop(key)


UNITS = DecodedUnits(DEFAULT_LIMIT)
"""Those of this process."""

os.register_at_fork(after_in_child=UNITS.start_anew)
