"""Decoded units of all datasets of the process, the least recently used ones forgotten."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any


class UnitCache:
    """Values by key, with a size each and a limit for all of them; for any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Bytes that are held at most."""
        self._used = 0
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of the values that are held."""
        return self._used

    def set_limit(self, limit: int) -> None:
        """Hold ``limit`` bytes at most from now on."""
        with self._lock:
            self.limit = limit
            self._shrink()

    def get(self, key: Hashable) -> Any:
        """The value of ``key``, None if it is not held."""
        with self._lock:
            if (item := self._items.get(key)) is None:
                return None
            self._items.move_to_end(key)
            return item[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Hold ``value``, and forget others until the limit is kept."""
        with self._lock:
            self._hold(key, value, size)

    def pop(self, key: Hashable) -> Any:
        """The value of ``key``, which is held no longer; None if it was not."""
        with self._lock:
            return self._drop(key)

    def _hold(self, key: Hashable, value: Any, size: int) -> None:
        self._drop(key)
        self._items[key] = (value, size)
        self._used += size
        self._shrink()

    def _drop(self, key: Hashable) -> Any:
        value, size = self._items.pop(key, (None, 0))
        self._used -= size
        return value

    def _shrink(self) -> None:
        # The newest stays in any case: who reads on in order finds what the last step left.
        while self._used > self.limit and len(self._items) > 1:
            _, (_, size) = self._items.popitem(last=False)
            self._used -= size

    def start_anew(self) -> None:
        """In a forked child: a thread that is not there may have held the lock."""
        self._lock = threading.Lock()
        self._items = OrderedDict()
        self._used = 0


class ProcessLock:
    """A lock that a forked child finds open, whatever the parent's threads were doing."""

    def __init__(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; whether it was taken."""
        if self._pid != os.getpid():
            self._pid, self._lock = os.getpid(), threading.Lock()
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Open it."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


UNITS = UnitCache(256 * 1024**2)
"""The one that all datasets share; ``CacheOptions.rg_cache_bytes`` limits it."""

os.register_at_fork(after_in_child=UNITS.start_anew)
