"""A stream that is stopped anywhere and continued on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

import zephon
from zephon import state as state_format

T = TypeVar("T")


def stopped_anywhere(
    draw: Callable[..., int],
    total: int,
    sizes: Sequence[int],
    make: Callable[[int, int], zephon.Pipeline],
    take: Callable[[zephon.Pipeline, int], list[T]],
) -> list[T]:
    """What ``total`` lane-batches are, taken in turns of random length on random numbers of ranks.

    ``sizes`` are the numbers of ranks, ``make`` makes the pipeline of a rank of so many, and
    ``take`` takes so many batches and closes it. All ranks are restored from the state before.
    """
    found: list[T] = []
    state: bytes | None = None
    while len(found) < total:
        ranks = draw(st.sampled_from(sizes))
        count = min(draw(st.integers(1, 4)), (total - len(found)) // ranks)
        if count == 0:
            ranks, count = 1, total - len(found)
        parts = []
        for rank in range(ranks):
            stream = make(rank, ranks)
            if state is not None:
                stream.restore(state)
            found += take(stream, count)
            parts.append(stream.local_state())
        state = state_format.merge(parts)
    return found
