"""Keep states of this version, for later versions to read: tests/data/states.

    python tools/keep_states.py

Run when a version is released, with that version installed. Never run it to make
tests/test_kept_states.py pass: what fails there are states that users have saved.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from zephon import __version__, selftest

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "states"
ALGORITHMS = ("wrap", "first_fit", "best_fit", "best_fit_wrap")
BEHIND, AFTER = 11, 4
"""Batches before a state, and those that it must give next."""


def main() -> None:
    """Write one state for each algorithm, and what comes behind it."""
    FOLDER.mkdir(exist_ok=True)
    for algorithm in ALGORITHMS:
        stream = selftest._pipeline(algorithm)
        batches = iter(stream)
        for _ in islice(batches, BEHIND):
            pass
        saved = stream.checkpoint()["state"]
        following = [selftest._digest(selftest._arrays(one)) for one in islice(batches, AFTER)]
        stream.close()
        name = f"{__version__}-{algorithm}"
        (FOLDER / f"{name}.state").write_bytes(saved)
        told = {"algorithm": algorithm, "following": following}
        (FOLDER / f"{name}.json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
