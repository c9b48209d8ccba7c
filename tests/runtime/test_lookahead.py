from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Iterator

import pytest

from zephon.errors import LifecycleError
from zephon.runtime.lookahead import Lookahead


def threads() -> int:
    return sum(thread.name == "zephon-lookahead" for thread in threading.enumerate())


def test_items_come_in_order_and_the_thread_ends_with_them() -> None:
    assert list(Lookahead(iter(range(100)), 3)) == list(range(100))
    assert threads() == 0


def test_no_more_than_depth_items_are_taken_ahead() -> None:
    taken: list[int] = []

    def source() -> Iterator[int]:
        for i in itertools.count():
            taken.append(i)
            yield i

    ahead = Lookahead(source(), 4)
    assert next(ahead) == 0
    deadline = time.monotonic() + 10
    while len(taken) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(taken) == 5  # one delivered, four waiting
    ahead.close()


def test_an_error_comes_at_its_place_and_ends_the_thread() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk on fire")

    ahead = Lookahead(source(), 4)
    assert next(ahead) == 1
    with pytest.raises(OSError, match="disk on fire"):
        next(ahead)
    with pytest.raises(StopIteration):
        next(ahead)
    assert threads() == 0


def test_close_ends_the_thread_and_may_be_repeated() -> None:
    ahead = Lookahead(itertools.count(), 2)
    next(ahead)
    ahead.close()
    ahead.close()
    assert threads() == 0
    with pytest.raises(StopIteration):
        next(ahead)


def test_dropping_the_iterator_ends_the_thread() -> None:
    ahead = Lookahead(itertools.count(), 2)
    next(ahead)
    del ahead
    gc.collect()
    assert threads() == 0


def test_a_forked_process_is_told_to_iterate_anew() -> None:
    ahead = Lookahead(itertools.count(), 2)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(ahead)
        except LifecycleError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"iterate the pipeline anew" in os.read(read, 1000)
    os.close(read)
    os.close(write)
    ahead.close()
