"""What every benchmark writes about itself, and where."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import numpy as np

import zephon


def machine(peers: str, turns: int, command: str) -> str:
    """Versions, machine, load, date and command, as a paragraph."""
    names = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((n.split(":")[1].strip() for n in names if n.startswith("model name")), "unknown")
    return (
        f"zephon {zephon.__version__}{peers}, CPython {platform.python_version()}, NumPy "
        f"{np.__version__}, {cpu}, {len(os.sched_getaffinity(0))} cores, load "
        f"{os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}; medians of {turns} turns.\n"
        f"`{command}`"
    )


def write_section(path: Path, text: str, begin: str, end: str) -> None:
    """Put the section between its marks, at the end of the file if it has none."""
    section = f"{begin}\n{text}\n{end}\n"
    old = path.read_text() if path.exists() else "# Performance\n"
    head, mark, rest = old.partition(begin)
    new = head + section + rest.partition(f"{end}\n")[2] if mark else f"{old}\n{section}"
    path.write_text(new)
