"""Forks ranks: real processes, without each of them importing torch again.

Reads a JSON object from each line of stdin and answers with one on stdout.
``{"task", "size", "folder", "settings"}`` starts the ranks of a run and answers
their process ids; ``{"wait": [ids], "seconds"}`` answers the exit codes of those
that have ended by then, negative for a signal.

A rank runs ``tasks.<task>(folder, rank, size, settings)``, writes what that
returns to ``result-<rank>.json`` in the folder and what it prints to
``out-<rank>.txt``, and ends with code 1 by an exception. With the setting
``finalise`` it ends as processes do; else at once, which saves most of the time.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import tasks

EXITS: dict[int, int] = {}


def main() -> None:
    gc.freeze()  # the children do not look through what is there already
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            answer: Any = wait(asked["wait"], asked["seconds"])
        else:
            answer = []
            for rank in range(asked["size"]):
                child = os.fork()
                if child == 0:
                    return run(asked, rank)
                answer.append(child)
        print(json.dumps(answer), flush=True)
    return None


def run(asked: dict[str, Any], rank: int) -> None:
    folder = Path(asked["folder"])
    out = os.open(folder / f"out-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = getattr(tasks, asked["task"])(folder, rank, asked["size"], asked["settings"])
    except Exception:
        traceback.print_exc()
        leave(asked, 1)
    partial = folder / f"result-{rank}.partial"
    partial.write_text(json.dumps(result))
    partial.replace(folder / f"result-{rank}.json")
    leave(asked, 0)


def leave(asked: dict[str, Any], code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    if not asked["settings"].get("finalise"):
        os._exit(code)
    sys.exit(code)


def wait(ids: list[int], seconds: float) -> dict[int, int]:
    end = time.monotonic() + seconds
    missing = [pid for pid in ids if pid not in EXITS]
    while missing and time.monotonic() < end:
        for pid in missing:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                EXITS[pid] = os.waitstatus_to_exitcode(status)
        missing = [pid for pid in missing if pid not in EXITS]
        time.sleep(0.005)
    return {pid: EXITS[pid] for pid in ids if pid in EXITS}


if __name__ == "__main__":
    main()
