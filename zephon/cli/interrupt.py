"""An interrupt is not lost where Python cannot raise it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_LATER = 0.01
"""Seconds until it is raised again."""


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise a KeyboardInterrupt again that came while Python ran a callback.

    What a weak reference's callback or a ``__del__`` raises is printed and dropped.
    Importing a module runs such callbacks, for each module's lock, so Ctrl-C in the
    first second of a command was lost now and then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _LATER)  # raised here it would be dropped again
        else:
            before(dropped)

    handler = signal.signal(signal.SIGALRM, _interrupt)
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
