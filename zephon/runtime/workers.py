"""Where documents are read and given to functions: here, in threads, or in processes.

The processes are plain children that are asked over a socket, one block of draws at a time.
They are started when the first block is due, each by a thread of its own that waits for its
answers. A process ends when its socket does, when the pipe that its parent holds open is
closed, and when it has another parent than it was born to: no death of the parent leaves one
behind. A process that dies is noticed by its socket; which document it was at stands in a
page of memory that both sides see.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from zephon.errors import ConfigError, LifecycleError, OperatorError
from zephon.runtime.lookahead import STOP_FIRST

if TYPE_CHECKING:
    from zephon.block import TokenBlock
    from zephon.runtime.documents import DocumentReader
    from zephon.runtime.lane import LanePlan
    from zephon.work.base import Draws

READERS = "zephon-read"

PROGRESS = struct.Struct("<qq")
"""Document of the block, and operator, that a process is at; -1 for none."""

_POLL = 0.1  # seconds after which a thread looks whether its process lives and it is wanted


def open_executor(plan: LanePlan) -> Executor | None:
    """What reads blocks of documents for ``plan``; None if they are read when they are due."""
    if not plan.ahead:
        if plan.runner == "process":
            raise ConfigError("runner='process' works ahead: give prefetch(...) a buffer above 0")
        return None
    threads = max(
        plan.prefetch.threads,
        *(operator.parallelism or 1 for operator in plan.chain.operators),
        1,
    )
    if plan.runner == "process":
        return WorkerPool(plan.reader, threads)
    return ThreadPoolExecutor(threads, thread_name_prefix=READERS)


class WorkerError(Exception):
    """The traceback of an error in another process, as text."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"\n\n{text}")


class WorkerPool(Executor):
    """Processes that read documents.

    Parameters
    ----------
    reader : DocumentReader
        A copy of it goes to each process.
    count : int
        How many processes.
    """

    def __init__(self, reader: DocumentReader, count: int) -> None:
        self._reader = reader
        self._setup = dump(reader)
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._workers = [_Worker(self._setup, reader) for _ in range(count)]
        self._threads = [
            threading.Thread(
                target=_serve, args=(worker, self._tasks), name=f"{READERS}-{i}", daemon=True
            )
            for i, worker in enumerate(self._workers)
        ]
        self._started = False
        self._closed = False
        STOP_FIRST.add(self)
        weakref.finalize(self, _abandon, self._workers, self._tasks).atexit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Read ``args[0]``, draws, for the lane of the reader that ``fn`` is the method of."""
        if self._closed:
            raise LifecycleError("the processes that read documents were closed")
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        task = _Task(fn.__self__.lane, args[0])  # type: ignore[attr-defined]
        self._tasks.put(task)
        return task.future

    def stop(self) -> None:
        """Let all processes end, without waiting for them."""
        self.shutdown(wait=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes; what they were at is forgotten."""
        self._closed = True
        _abandon(self._workers, self._tasks)
        if wait and self._started:
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()


class _Task:
    def __init__(self, lane: int, draws: Draws) -> None:
        self.lane, self.draws = lane, draws
        self.future: Future[TokenBlock] = Future()


def _abandon(workers: list[_Worker], tasks: SimpleQueue[_Task | None]) -> None:
    """Let all end, without waiting for them."""
    for worker in workers:
        worker.stopped = True
    while not tasks.empty():
        with contextlib.suppress(Exception):
            task = tasks.get_nowait()
            if task is not None:
                task.future.cancel()
    for worker in workers:
        tasks.put(None)
        worker.kill()


def _serve(worker: _Worker, tasks: SimpleQueue[_Task | None]) -> None:
    """What the thread of a worker does: ask it for one block after the other."""
    try:
        while (task := tasks.get()) is not None and not worker.stopped:
            if not task.future.set_running_or_notify_cancel():
                continue
            try:
                block = worker.read(task.lane, task.draws)
            except BaseException as error:
                task.future.set_exception(error)
            else:
                task.future.set_result(block)
            del task
    finally:
        worker.close()


class _Worker:
    """One process; used by one thread."""

    def __init__(self, setup: bytes, reader: DocumentReader) -> None:
        self._setup, self._reader = setup, reader
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._life: int | None = None
        self._lock = threading.RLock()  # the collector may call kill() in any thread
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self.stopped = False

    def read(self, lane: int, draws: Draws) -> TokenBlock:
        """The documents of ``draws``."""
        connection = self._start()
        try:
            connection.send((lane, draws))
            answer = self._receive(connection)
        except (EOFError, OSError):
            raise self._death(draws) from None
        kind, content, counted = answer
        self._reader.metrics.merge(counted)
        if kind == "error":
            raise _error(content)
        block: TokenBlock = content
        return block

    def kill(self) -> None:
        """End the process at once, if there is one."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def close(self) -> None:
        """End the process and wait until it has."""
        self.stopped = True
        if self._connection is not None:
            self._connection.close()
        self.kill()
        if self._process is not None:
            self._process.wait()
        if self._life is not None:
            os.close(self._life)
            self._life = None
        self._page.close()

    def _receive(self, connection: Connection[Any, Any]) -> Any:
        assert self._process is not None
        while not connection.poll(_POLL):
            if self.stopped:
                raise LifecycleError("the stream was closed")
            if self._process.poll() is not None and not connection.poll(0):
                raise EOFError
        return connection.recv()

    def _start(self) -> Connection[Any, Any]:
        if self._connection is not None:
            return self._connection
        page = os.memfd_create("zephon-progress")
        ours, theirs = socket.socketpair()
        life, held = os.pipe()
        try:
            os.ftruncate(page, mmap.PAGESIZE)
            self._page.close()
            self._page = mmap.mmap(page, mmap.PAGESIZE)
            PROGRESS.pack_into(self._page, 0, -1, -1)
            given = (theirs.fileno(), life, page)
            with self._lock:
                if self.stopped:
                    raise LifecycleError("the stream was closed")
                # Ctrl-C goes to the whole terminal; the process inherits that it waits.
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    self._process = subprocess.Popen(
                        [sys.executable, *_flags(), "-c", _bootstrap(given)],
                        stdin=subprocess.DEVNULL,
                        pass_fds=given,
                    )
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        finally:
            theirs.close()
            os.close(life)
            os.close(page)
        self._life = held
        self._connection = Connection(ours.detach())
        try:
            self._connection.send_bytes(self._setup)
            answer = self._receive(self._connection)
        except (EOFError, OSError):
            code = self._ended()
            raise OperatorError(
                f"a process for the functions of the pipeline {code} while it was starting; what "
                "it wrote to stderr may say why",
                operator="runner='process'",
            ) from None
        if answer[0] == "error":
            raise _error(answer[1])
        return self._connection

    def _ended(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code >= 0:
            return f"ended with exit status {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def _death(self, draws: Draws) -> OperatorError:
        """What is known of a process that died while it read ``draws``."""
        if self.stopped:
            raise LifecycleError("the stream was closed")
        how = self._ended()
        origin, number = PROGRESS.unpack_from(self._page, 0)
        operators = self._reader.chain.operators
        name = str(operators[number]) if 0 <= number < len(operators) else "reading"
        killed = " (was the machine out of memory?)" if how.endswith("SIGKILL") else ""
        if not 0 <= origin < len(draws):
            return OperatorError(
                f"the process that read documents {how}{killed} before it came to a function",
                operator=name,
            )
        dataset = self._reader.datasets[int(draws.sources[origin])]
        row = int(draws.rows[origin])
        return OperatorError(
            f"the process that ran {name} {how}{killed}; it was at document {row} of dataset "
            f"{dataset.name!r}",
            operator=name,
            **dataset.place(row).as_kwargs(),
        )


def _flags() -> list[str]:
    """Interpreter flags that the process shares with this one."""
    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _bootstrap(given: tuple[int, int, int]) -> str:
    path = [os.getcwd() if entry == "" else entry for entry in sys.path]
    return (
        f"import sys; sys.path[:] = {path!r}; "
        f"from zephon.runtime.worker import main; main{(*given, os.getpid())}"
    )


def _error(content: tuple[BaseException, BaseException | None, str]) -> BaseException:
    """An error of another process, with its cause and where it happened there."""
    error, cause, text = content
    if cause is None:
        error.__cause__ = WorkerError(text)
    else:
        cause.__cause__ = WorkerError(text)
        error.__cause__ = cause
    return error


def dump(reader: DocumentReader) -> bytes:
    """A reader as bytes for another process; ConfigError for what cannot go there."""
    try:
        import cloudpickle

        dumps: Callable[[Any], bytes] = cloudpickle.dumps
    except ImportError:
        dumps = _plain_dumps
    try:
        return dumps(reader)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"runner='process' sends the functions, the tokenizer and the datasets to other "
            f"processes, and one of them cannot be pickled ({type(error).__name__}: {error}). "
            "runner='threads' sends nothing"
        ) from error


def _plain_dumps(reader: DocumentReader) -> bytes:
    out = io.BytesIO()
    _Pickler(out, protocol=5).dump(reader)
    return out.getvalue()


class _Pickler(pickle.Pickler):
    """Refuses what another process could not find again."""

    def reducer_override(self, value: Any) -> Any:
        """What is a function or class of the script itself, or has no name of its own."""
        if isinstance(value, type) or hasattr(value, "__code__"):
            name = getattr(value, "__qualname__", "")
            if getattr(value, "__module__", None) == "__main__" or "<" in name:
                raise ConfigError(
                    f"runner='process' cannot send {value.__module__}.{name} to other processes, "
                    "because they could not import it: define it in a module, or install "
                    "cloudpickle (extra 'process')"
                )
        return NotImplemented
