"""How everything here is measured: in alternating turns, as ratios within a turn, with spreads.

A machine that others use too is slow at some times and fast at others. So things
that are compared take turns, each ratio is formed of neighbours in time, and what
is told is the median of the ratios with the least and the greatest.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

TREE = Path(__file__).resolve().parents[1]

ROW, BATCH, VOCABULARY = 4097, 8, 50_000
TOKENS = BATCH * (ROW - 1)
"""Of a batch: inputs that have a label."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured."""

    quick: bool = False
    turns: int = 5
    seconds: float = 1.5
    """That one turn of a throughput takes."""
    documents: int = 60_000
    """Of each of the two token sources."""
    folder: str = str(TREE / "build" / "bench")

    @property
    def work(self) -> Path:
        return Path(self.folder)

    def sized(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of some values, the least and the greatest."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: list[float]) -> Spread:
        return Spread(median=median(values), least=min(values), most=max(values))


Kind = Literal["limit", "share", "peer", "cost", "plain"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report.

    ``ratio`` is of ``kind``: ``share``, this one's speed over that of ``of``, a limit;
    ``peer``, zephon's speed over that of this peer, so that below 1 zephon is behind;
    ``cost``, this one's time or size over that of ``of``.
    """

    what: str
    value: float | None = None
    unit: str = ""
    kind: Kind = "plain"
    ratio: Spread | None = None
    of: str = ""
    aim: str = ""
    """What the ratio should be: ``>= 0.75`` or ``<= 0.05``."""
    note: str = ""

    @property
    def missed(self) -> bool:
        """Whether there is an aim that the ratio does not reach."""
        if not self.aim or self.ratio is None:
            return False
        sign, number = self.aim.split()
        value = round(self.ratio.median, 2)
        return value < float(number) if sign == ">=" else value > float(number)


@dataclass(frozen=True, kw_only=True)
class Table:
    id: str
    title: str
    text: str
    rows: list[Row]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Points on logarithmic axes, in series by name."""

    id: str
    title: str
    x: str
    y: str
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def alternate(turns: int, measures: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each measure ``turns`` times, in turn, behind one round that only warms up."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for turn in range(turns + 1):
        for name, measure in measures.items():
            value = measure()
            if turn:
                found[name].append(value)
    return found


def ratios(above: list[float], below: list[float]) -> Spread:
    return Spread.of([a / b for a, b in zip(above, below, strict=True)])


def absent(what: str, why: str = "not there yet") -> Row:
    """A line for what cannot be measured now."""
    return Row(what=what, note=why)


def machine() -> dict[str, Any]:
    """Where this runs, as the report names it."""
    import numpy as np
    import torch

    import zephon

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((n.split(":")[1].strip() for n in lines if n.startswith("model name")), "unknown")
    memory = next(
        n for n in Path("/proc/meminfo").read_text().splitlines() if n.startswith("MemTotal")
    )
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(memory.split()[1]) / 2**20),
        "load": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "zephon": zephon.__version__,
            "CPython": platform.python_version(),
            "NumPy": np.__version__,
            "PyTorch": torch.__version__,
        },
    }


def in_process(group: str, settings: Settings) -> dict[str, Any]:
    """The tables and plots of a group, measured in a process of its own."""
    command = [sys.executable, "-P", Path(__file__).parent / "run.py", "--group", group]
    command += ["--settings", json.dumps(asdict(settings))]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told
