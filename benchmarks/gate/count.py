"""Runs the gate's cases under callgrind and writes a dump of each. Started by gate.py."""

from __future__ import annotations

import ctypes
import sys

import zephon._threads
from zephon._native import collate

sys.path.insert(0, sys.argv[1])
from cases import CASES


def main() -> None:
    marks = ctypes.CDLL(sys.argv[2])
    names = [name for name in CASES if sys.argv[4] in name]
    assert (collate.__file__ or "").startswith(sys.argv[3]), collate.__file__
    zephon._threads.set_threads(1)
    calls = {name: CASES[name]() for name in names}
    marks.marks_start()
    for name, call in calls.items():
        call()  # what is bound or made at the first call is not counted
        label = ctypes.c_char_p(name.encode())
        marks.marks_begin()
        call()
        marks.marks_end(label)


if __name__ == "__main__":
    main()
