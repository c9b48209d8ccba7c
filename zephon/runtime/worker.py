"""The other side of :mod:`zephon.runtime.workers`: what a process for functions runs."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import signal
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from zephon.runtime.workers import PROGRESS

_LOOK = 0.5  # seconds after which a process looks whether it still has its parent


def main(connection: int, life: int, page: int, parent: int) -> None:
    """Read blocks of documents for the process ``parent`` until it ends or has enough."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_watch, args=(life, parent), daemon=True).start()
    progress = mmap.mmap(page, mmap.PAGESIZE)
    os.close(page)
    asked: Connection[Any, Any] = Connection(connection)
    with contextlib.suppress(EOFError, OSError):
        _serve(asked, progress)
    # Nothing that a function has left running keeps the process.
    os._exit(0)


def _watch(life: int, parent: int) -> None:
    """End with the parent, whatever a function is doing."""
    while os.getppid() == parent:
        if select.select([life], [], [], _LOOK)[0]:
            break  # closed: the parent is gone or wants no more
    os._exit(1)


def _serve(asked: Connection[Any, Any], progress: mmap.mmap) -> None:
    try:
        reader = pickle.loads(asked.recv_bytes())
    except EOFError:
        raise
    except BaseException as error:
        asked.send(("error", _told(error)))
        return
    reader.mark = lambda origin, number: PROGRESS.pack_into(progress, 0, origin, number)
    asked.send(("ready",))
    while True:
        lane, draws = asked.recv()
        PROGRESS.pack_into(progress, 0, -1, -1)
        try:
            block = reader.of_lane(lane).read(draws)
            answer = pickle.dumps(("block", block, reader.metrics.take()), protocol=5)
        except BaseException as error:
            answer = pickle.dumps(("error", _told(error), reader.metrics.take()), protocol=5)
        asked.send_bytes(answer)


def _told(error: BaseException) -> tuple[BaseException, BaseException | None, str]:
    """An error, its cause and its traceback, as far as they can be sent."""
    text = "".join(traceback.format_exception(error))
    cause = error.__cause__
    if not isinstance(error, Exception):  # such as SystemExit, which is not for the parent
        error, cause = RuntimeError(f"{type(error).__name__}: {error}"), None
    return _sendable(error), None if cause is None else _sendable(cause), text


def _sendable(error: BaseException) -> BaseException:
    try:
        made = pickle.loads(pickle.dumps(error))
    except Exception:
        made = None
    if type(made) is type(error) and str(made) == str(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
