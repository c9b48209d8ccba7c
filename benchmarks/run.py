"""Everything that is measured, one group after the other, and the report.

    python benchmarks/run.py                  all groups; writes results.json and the report
    python benchmarks/run.py --quick          small sizes and no peers, nothing written
    python benchmarks/run.py --only stream    these groups alone; the others' results are kept

Nothing is uploaded; what is downloaded are the peers' pinned packages, once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness
import report

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
GROUPS = ("peers", "kernels", "stream", "startup", "state", "scaling", "text", "megatron")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--turns", type=int)
    parser.add_argument("--documents", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--output", type=Path, help="file of the results, not results.json")
    parser.add_argument("--group", choices=GROUPS, help=argparse.SUPPRESS)
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.group:
        run_group(args.group, harness.Settings(**json.loads(args.settings)))
        return
    quick: dict[str, Any] = {"quick": True, "turns": 1, "seconds": 0.3, "documents": 5000}
    settings = harness.Settings(
        **(quick if args.quick else {})
        | {k: v for k in ("turns", "documents", "seconds") if (v := getattr(args, k)) is not None}
    )
    began = time.monotonic()
    told = {"machine": harness.machine(), "command": command(args), "groups": {}}
    output = args.output or (None if args.quick else RESULTS)
    if output and output.exists():
        told["groups"] = json.loads(output.read_text())["groups"]
    for group in args.only:
        here = time.monotonic()
        print(f"==> {group}", file=sys.stderr, flush=True)
        found = harness.in_process(group, settings)
        told["groups"][group] = {"machine": harness.machine(), "command": command(args), **found}
        told["groups"] = {name: told["groups"][name] for name in GROUPS if name in told["groups"]}
        told["seconds"] = round(time.monotonic() - began)
        if output:  # after each, so that an interrupted run keeps what it has measured
            output.write_text(json.dumps(told, indent=1) + "\n")
        print(f"    {time.monotonic() - here:.0f} s", file=sys.stderr, flush=True)
    if output is None:
        print(report.markdown(told))
    elif output.resolve() == RESULTS:
        report.write(told)


def command(args: argparse.Namespace) -> str:
    words = ["make bench-quick" if args.quick else "make bench"]
    given = [f"--{k} {v}" for k in ("turns", "documents", "seconds") if (v := getattr(args, k))]
    if args.only != list(GROUPS):
        given.append(f"--only {' '.join(args.only)}")
    return " ".join(words + ([f"ARGS='{' '.join(given)}'"] if given else []))


def run_group(name: str, settings: harness.Settings) -> None:
    """Measure a group here and print what it found as the last line."""
    import torch

    torch.set_num_threads(1)
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no result
    found = importlib.import_module(f"groups.{name}").measure(settings)
    tables = [asdict(x) for x in found if isinstance(x, harness.Table)]
    plots = [asdict(x) for x in found if isinstance(x, harness.Plot)]
    os.write(out, (json.dumps({"tables": tables, "plots": plots}) + "\n").encode())


if __name__ == "__main__":
    main()
