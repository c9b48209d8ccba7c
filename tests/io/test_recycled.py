"""Memory comes back when nobody looks at it any more, and not before."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from zephon.io.recycled import STEP, Recycler


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    memory = Recycler(8 * STEP)
    first = memory.empty(STEP, np.int32)
    first[:] = 7
    at, view = address(first), first[10:20]
    del first
    other = memory.empty(STEP, np.int32)
    assert address(other) != at
    other[:] = 8
    assert view.tolist() == [7] * 10
    assert memory.nbytes == 8 * STEP
    part = memoryview(view)
    del view
    third = memory.empty(STEP, np.int32)
    assert address(third) not in (at, address(other))
    assert part.tolist() == [7] * 10
    part.release()
    assert address(memory.empty(STEP, np.uint32)) == at


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_there_is_room_for_what_was_asked_for_and_not_for_twice_as_much(dtype: type) -> None:
    memory = Recycler(64 * STEP)
    size = np.dtype(dtype).itemsize
    large = memory.empty(6 * STEP // size, dtype)
    del large
    for count in (STEP // size, 3 * STEP // size + 1, 5 * STEP // size - 1, 6 * STEP // size):
        array = memory.empty(count, dtype)
        assert array.dtype == dtype
        assert count <= len(array) <= 2 * count
        assert array.flags.c_contiguous
        assert array.flags.aligned
        array[-1] = 1


def test_what_is_small_is_not_kept() -> None:
    memory = Recycler(8 * STEP)
    assert len(memory.empty(1000, np.int32)) == 1000
    assert memory.nbytes == 0


def test_no_more_waits_than_the_limit_says_and_no_size_waits_for_ever() -> None:
    memory = Recycler(4 * STEP)
    arrays = [memory.empty(2 * STEP, np.uint8) for _ in range(5)]
    assert memory.nbytes == 10 * STEP
    arrays.clear()
    assert memory.nbytes == 4 * STEP
    kept = [memory.empty(100 * STEP, np.uint8) for _ in range(2)]
    del kept
    assert memory.nbytes == 0


def test_threads_never_share_memory() -> None:
    memory = Recycler(16 * STEP)
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(30):
            array = memory.empty(STEP + turn, np.uint8)
            array[:STEP:4096] = number
            if not (array[:STEP:4096] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert memory.nbytes <= 16 * STEP


def test_a_forked_child_finds_the_lock_open() -> None:
    memory = Recycler(8 * STEP)
    with memory._lock:
        child = os.fork()
        if not child:
            memory.start_anew()
            done = threading.Thread(target=lambda: memory.empty(STEP, np.uint8))
            done.start()
            done.join(5)
            os._exit(int(done.is_alive()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
