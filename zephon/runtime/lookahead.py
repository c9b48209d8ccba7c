"""An iterator that runs ahead of its consumer in one thread, in order."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

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
        self._finalizer = weakref.finalize(self, _stop, self._shared, self._thread, self._pid)
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

    def close(self) -> None:
        """Stop the thread and wait for it; nothing that it took is delivered any more."""
        self._finalizer()


def _run(shared: _Shared[T]) -> None:
    try:
        while True:
            shared.room.acquire()
            if shared.stopped:
                return
            shared.items.put((next(shared.source), None))
    except BaseException as error:  # the consumer gets it, StopIteration included
        shared.items.put((None, error))


def _stop(shared: _Shared[T], thread: threading.Thread, pid: int) -> None:
    shared.stopped = True
    if os.getpid() != pid:
        return  # a forked copy: the thread is not there
    shared.room.release()
    if thread is not threading.current_thread():
        thread.join()
