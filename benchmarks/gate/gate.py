"""The gate: instructions of every native kernel and calls of every Python path, against a baseline.

Times depend on who else uses the machine; these counts do not. Kernels run under
callgrind, which counts from the call of the entry point to its return, in the
extensions as the build left them, with their symbols. Batches run in a process
that counts calls of native entry points, Python functions and PyTorch operations,
and allocations.

    python benchmarks/gate/gate.py                      compare; exit code 1 if something costs more
    python benchmarks/gate/gate.py --record "reason"    make what is counted now the baseline
    python benchmarks/gate/gate.py --only collate       cases with that in their name alone

More than 3 % more instructions or allocations, or one call more per hundred
batches, fails. So does a case that counts nothing in a kernel, a case without a
baseline, and a baseline whose counts were changed without a reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
BASELINE = HERE / "baseline.json"
TOLERANCE = 0.03

# Which variant of memcpy and its kin runs depends on the processor; this takes the plain one.
TUNABLES = "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX512F,-AVX512VL,-ERMS,-FSRM"


@dataclass(frozen=True, kw_only=True)
class Count:
    """Instructions of one case: all, and those in the extensions alone."""

    total: int
    native: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--extensions", type=Path, help="folder of the unstripped extensions")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--record", metavar="REASON")
    parser.add_argument("--work", type=Path, default=TREE / "build" / "bench" / "gate")
    args = parser.parse_args()
    if args.record is not None and not args.record.strip():
        parser.error("--record needs a reason")
    began = time.monotonic()
    extensions = args.extensions or built_extensions()
    unstripped(extensions, args.work)
    found: dict[str, Any] = {"toolchain": toolchain()}
    found["instructions"] = {
        name: count.total for name, count in instructions(extensions, args.work, args.only).items()
    }
    if not args.only:
        found["batches"] = batches(args.work)
    print(f"counted in {time.monotonic() - began:.0f} s")
    if args.record is not None:
        record(found, args.record.strip())
        return
    faults = compare(found, json.loads(BASELINE.read_text()), whole=not args.only)
    for fault in faults:
        print(f"FAILED: {fault}")
    if faults:
        sys.exit(
            "the gate is closed: if the cost is meant, record it in the same commit with\n"
            "    make bench-gate-record REASON='why it costs more'"
        )
    print("nothing costs more than the baseline")


def built_extensions() -> Path:
    """Where the last build left its extensions, brought up to date."""
    folders = list((TREE / "build").glob("cp3*-abi3-*"))
    if not folders:
        sys.exit("no build of the package in build/; install it first (make test does)")
    folder = max(folders, key=lambda path: (path / "CMakeCache.txt").stat().st_mtime)
    subprocess.run(["cmake", "--build", folder, "--parallel", "2"], check=True, stdout=2)
    return folder


def toolchain() -> dict[str, str]:
    """What counts depend on besides the code."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    told = subprocess.run([*compiler.split(), "--version"], capture_output=True, text=True)
    return {
        "compiler": told.stdout.splitlines()[0],
        "machine": platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def compile_c(source: Path, target: Path) -> Path:
    compiler = os.environ.get("CC", "cc").split()
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", source, "-o", target], check=True)
    return target


def unstripped(extensions: Path, work: Path) -> None:
    """The package of this tree with those extensions, in ``work/site``."""
    shutil.rmtree(work, ignore_errors=True)
    package = work / "site" / "zephon"
    unwanted = shutil.ignore_patterns("*.so", "*.pyx", "__pycache__")
    shutil.copytree(TREE / "zephon", package, ignore=unwanted)
    for library in extensions.glob("*.abi3.so"):
        shutil.copy(library, package / "_native")


def instructions(extensions: Path, work: Path, only: str) -> dict[str, Count]:
    """What callgrind counts in each case whose name holds ``only``."""
    if not shutil.which("valgrind"):
        sys.exit("valgrind is needed to count instructions (Debian: apt-get install valgrind)")
    marks = compile_c(HERE / "marks.c", work / "marks.so")
    dumps = work / "dumps"
    dumps.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(work / "site"),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "GLIBC_TUNABLES": TUNABLES,
    }
    environment.pop("PYTHONSAFEPATH", None)
    command = [
        "valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
        "--compress-strings=no", "--compress-pos=no",
        f"--callgrind-out-file={dumps}/out",
        sys.executable, "-P", HERE / "count.py", HERE, marks, str(work / "site"), only,
    ]  # fmt: skip
    subprocess.run(command, check=True, env=environment)
    counts = dict(filter(None, map(read_dump, sorted(dumps.iterdir()))))
    if not counts:
        sys.exit(f"no case has {only!r} in its name")
    for name, count in counts.items():
        if count.native == 0:
            sys.exit(
                f"{name}: no instruction in a kernel was counted; are the extensions of "
                f"{extensions} stripped?"
            )
    return counts


def read_dump(path: Path) -> tuple[str, Count] | None:
    """A case and its count from what callgrind wrote at its end."""
    text = path.read_text()
    trigger = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE)
    total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if not trigger:
        return None
    return trigger[1], Count(total=int(total[1]) if total else 0, native=in_kernels(text))


def in_kernels(text: str) -> int:
    """Instructions of functions of namespace zephon itself, by name: none in a stripped build."""
    native, inside, skip = 0, False, False
    for line in text.splitlines():
        if line.startswith("fn="):
            inside = line.startswith("fn=") and "zephon::" in line
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee cost
        elif inside and line[:1].isdigit():
            native += 0 if skip else int(line.split()[1])
            skip = False
        elif line[:1].isdigit():
            skip = False
    return native


def batches(work: Path) -> dict[str, dict[str, float]]:
    """What a batch costs on each Python path, in calls and allocations per hundred."""
    counter = compile_c(HERE / "allocations.c", work / "allocations.so")
    environment = {
        **os.environ,
        "PYTHONPATH": str(work / "site"),
        "LD_PRELOAD": str(counter),
        "PYTHONMALLOC": "malloc",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-P", HERE / "calls.py", counter, str(work / "site")]
    ran = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    told: dict[str, dict[str, float]] = json.loads(ran.stdout.splitlines()[-1])
    return told


def digest(counts: dict[str, Any]) -> str:
    text = json.dumps([counts["instructions"], counts["batches"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def record(found: dict[str, Any], reason: str) -> None:
    old = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"reasons": []}
    if "batches" not in found:  # some cases alone: the rest stays as it was
        found["instructions"] = old["instructions"] | found["instructions"]
        found["batches"] = old["batches"]
    entry = {"date": time.strftime("%Y-%m-%d"), "reason": reason, "counts": digest(found)}
    found["reasons"] = [*old["reasons"], entry]
    BASELINE.write_text(json.dumps(found, indent=1) + "\n")
    print(f"recorded {len(found['instructions'])} kernels and {len(found['batches'])} paths")


def compare(found: dict[str, Any], baseline: dict[str, Any], *, whole: bool) -> list[str]:
    """What costs more than it may, a sentence each."""
    faults = []
    reasons = baseline["reasons"]
    if not reasons or not reasons[-1]["reason"].strip():
        faults.append("the baseline has no reason; record it with one")
    elif reasons[-1]["counts"] != digest(baseline):
        faults.append("the baseline's counts were changed by hand; record them with a reason")
    if found["toolchain"] != baseline["toolchain"]:
        return [
            *faults,
            f"counts of {found['toolchain']} cannot be compared with a baseline of "
            f"{baseline['toolchain']}; record it anew on the machine that CI runs on",
        ]
    known = baseline["instructions"]
    for name, count in found["instructions"].items():
        if name not in known:
            faults.append(f"{name}: {count:,} instructions, and no baseline")
            continue
        more = count / known[name] - 1
        if more > TOLERANCE:
            faults.append(f"{name}: {count:,} instructions, {more:+.1%} over {known[name]:,}")
        elif more < -TOLERANCE:
            print(f"{name}: {count:,} instructions, {more:+.1%}; record it to keep the gain")
    if whole:
        gone = sorted(known.keys() - found["instructions"].keys())
        faults += [f"{name}: in the baseline, but there is no such case" for name in gone]
        faults += compare_batches(found["batches"], baseline["batches"])
    return faults


def compare_batches(found: dict[str, Any], known: dict[str, Any]) -> list[str]:
    faults = [f"{path}: in the baseline, but not measured" for path in known if path not in found]
    for path, costs in found.items():
        for kind, cost in costs.items():
            before = known.get(path, {}).get(kind)
            if before is None:
                faults.append(f"{path}: {cost} {kind} per 100 batches, and no baseline")
                continue
            slack = before * TOLERANCE if kind == "allocations" else 0
            if cost > before + slack:
                faults.append(f"{path}: {cost} {kind} per 100 batches, before {before}")
    return faults


if __name__ == "__main__":
    main()
