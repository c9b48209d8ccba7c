from __future__ import annotations

import signal
import sys
import time
import weakref

import pytest

from zephon.cli.interrupt import interrupts_kept


class Thing:
    pass


def test_an_interrupt_in_a_callback_is_raised_behind_it() -> None:
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGALRM)

    def work() -> None:
        thing = Thing()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        with interrupts_kept():
            del thing
            assert reference() is None
            time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert (sys.unraisablehook, signal.getsignal(signal.SIGALRM)) == (hook, handler)


def test_other_errors_in_callbacks_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))
    thing = Thing()
    reference = weakref.ref(thing, lambda _: [][0])
    with interrupts_kept():
        del thing
    assert reference() is None
    assert told == [IndexError]
