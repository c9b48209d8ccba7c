"""An iterator that runs ahead of its consumer in one thread, in order."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from zephon.errors import LifecycleError

T = TypeVar("T")


class _Shared(Generic[T]):
    """What consumer and thread share; the thread holds no reference to the consumer."""

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self.source = source
        self.room = threading.Semaphore(depth)
        self.items: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        self.stopped = False


class Lookahead(Generic[T]):
    """Takes up to ``depth`` items of ``source`` in a thread before they are asked for.

    An error of the source reaches the consumer at its place in the order. The
    thread ends with the source, at :meth:`close`, when the object is dropped and
    at the end of the process.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._shared = _Shared(source, depth)
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=_run, args=(self._shared,), name="zephon-lookahead", daemon=True
        )
        # The collector may run this in any thread, also in one that this one waits for, so it
        # signals and does not wait.
        weakref.finalize(self, _signal, self._shared).atexit = False
        if not _RUNNING:
            atexit.register(_close_all)
        _RUNNING.add(self)
        self._thread.start()

    def __iter__(self) -> Lookahead[T]:
        return self

    def __next__(self) -> T:
        if os.getpid() != self._pid:
            raise LifecycleError(
                "the iterator was made in another process, and its threads did not follow the "
                "fork: iterate the pipeline anew in this process"
            )
        if self._shared.stopped:
            raise StopIteration
        item, error = self._shared.items.get()
        if error is not None:
            self.close()
            raise error
        self._shared.room.release()
        return item  # type: ignore[return-value]

    def depth(self) -> Callable[[], int]:
        """What tells how many items were taken and not asked for yet; keeps nothing alive."""
        return self._shared.items.qsize

    def abandon(self) -> None:
        """Let the thread end, without waiting for it."""
        _signal(self._shared)

    def close(self) -> None:
        """Stop the thread and wait for it; nothing that it took is delivered any more.

        A thread that is waiting for the next item gets StopIteration.
        """
        _signal(self._shared)
        _RUNNING.discard(self)
        # In a forked copy the thread is not there.
        if os.getpid() == self._pid and self._thread is not threading.current_thread():
            self._thread.join()


STOP_FIRST: weakref.WeakSet[Any] = weakref.WeakSet()
"""What the threads may wait for; at the end of the process its ``stop()`` is called first."""

_RUNNING: weakref.WeakSet[Lookahead[Any]] = weakref.WeakSet()


def _close_all() -> None:
    for one in list(STOP_FIRST):
        one.stop()
    for lookahead in list(_RUNNING):
        lookahead.close()


def _run(shared: _Shared[T]) -> None:
    try:
        while True:
            shared.room.acquire()
            if shared.stopped:
                return
            shared.items.put((next(shared.source), None))
    except BaseException as error:  # the consumer gets it, StopIteration included
        shared.items.put((None, error))


def _signal(shared: _Shared[Any]) -> None:
    if not shared.stopped:
        shared.stopped = True
        shared.room.release()
        shared.items.put((None, StopIteration()))  # for whoever waits for an item
