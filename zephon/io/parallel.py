"""Opening many files at once."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MOST = 8

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(action: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """``action`` of each item, by some threads that end with the call; of errors the first."""
    if len(items) < 2:
        return [action(item) for item in items]
    threads = min(_MOST, len(items), 2 * len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads, thread_name_prefix="zephon-open") as pool:
        # Each thread sees the caller's context: the options in force are part of it.
        futures = [pool.submit(contextvars.copy_context().run, action, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
