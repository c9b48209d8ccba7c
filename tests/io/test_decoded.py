"""Decoded values are held up to a limit, decoded once, and forgotten with their owner."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from zephon.io.decoded import DecodedUnits


class Owner:
    pass


def test_the_value_asked_for_least_recently_goes_first() -> None:
    units = DecodedUnits(100)
    for key in "abc":
        assert units.get_or_decode((0, key), lambda key=key: (key, 40)) == key  # type: ignore[misc]
    assert units.used == 80
    assert units.get_or_decode((0, "b"), lambda: ("new", 40)) == "b"
    assert units.get_or_decode((0, "a"), lambda: ("new", 40)) == "new"
    assert units.get_or_decode((0, "b"), lambda: ("newer", 40)) == "b"  # c went
    units.set_limit(40)
    assert units.used == 40
    assert units.get_or_decode((0, "b"), lambda: ("newest", 40)) == "b"


def test_a_value_beyond_the_limit_is_held_by_itself() -> None:
    units = DecodedUnits(10)
    units.get_or_decode((0, 1), lambda: ("small", 5))
    units.get_or_decode((0, 2), lambda: ("large", 50))
    assert units.used == 50
    assert units.get_or_decode((0, 2), lambda: ("again", 50)) == "large"


def test_values_go_with_their_owner() -> None:
    units = DecodedUnits(100)
    one, two = Owner(), Owner()
    numbers = units.register(one), units.register(two)
    for number in numbers:
        units.get_or_decode((number, 0), lambda: ("value", 10))
    del one
    gc.collect()
    units.get_or_decode((numbers[1], 1), lambda: ("value", 10))
    assert units.used == 20


def test_an_error_reaches_all_who_wait_and_the_next_one_tries_again() -> None:
    units = DecodedUnits(100)
    begun, go_on = threading.Event(), threading.Event()
    errors: list[str] = []

    def fail() -> tuple[str, int]:
        begun.set()
        go_on.wait(10)
        raise ValueError("damaged")

    def ask() -> None:
        try:
            units.get_or_decode((0, 0), fail)
        except ValueError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go_on.set()
    for thread in threads:
        thread.join()
    assert errors == ["damaged"] * 4
    assert units.get_or_decode((0, 0), lambda: ("whole", 1)) == "whole"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_begins_with_nothing_held_and_no_lock() -> None:
    units = DecodedUnits(100)
    os.register_at_fork(after_in_child=units.start_anew)
    units.get_or_decode((0, 0), lambda: ("parent", 10))
    with units._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if units.get_or_decode((0, 0), lambda: ("child", 10)) == "child" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
