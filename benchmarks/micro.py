"""Times of every native entry point on the gate's inputs, for who works on a kernel.

    python benchmarks/micro.py [--only pack] [--rounds 15]
    python benchmarks/micro.py --save before      keep the times under build/bench/micro
    python benchmarks/micro.py --compare before   and say how much faster it is now

The least of the rounds is what is compared: what others do on the machine only adds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

import zephon._threads

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "gate"))
from cases import CASES
from harness import TREE

ROUND_SECONDS = 0.02


def rounds(name: str, count: int) -> list[float]:
    """Seconds of a call in each round, a round being as many calls as take 20 ms."""
    call = CASES[name]()
    call()
    began = time.perf_counter()
    call()
    calls = max(1, round(ROUND_SECONDS / max(time.perf_counter() - began, 1e-7)))
    found = []
    for _ in range(count):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - began) / calls)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--save", metavar="NAME")
    parser.add_argument("--compare", metavar="NAME")
    args = parser.parse_args()
    folder = TREE / "build" / "bench" / "micro"
    before = json.loads((folder / f"{args.compare}.json").read_text()) if args.compare else {}
    zephon._threads.set_threads(1)
    best = {}
    print(f"{'':52}{'least µs':>10}{'median':>10}{'most':>10}{'  faster by' if before else ''}")
    for name in (name for name in CASES if args.only in name):
        found = rounds(name, args.rounds)
        best[name] = min(found)
        micro = [f"{1e6 * v:10.1f}" for v in (min(found), median(found), max(found))]
        ratio = f"{before[name] / min(found):11.2f}" if name in before else ""
        print(f"{name:52}{''.join(micro)}{ratio}", flush=True)
    if args.save:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{args.save}.json").write_text(json.dumps(best))


if __name__ == "__main__":
    main()
