"""How many threads one native call may use.

A setting of the process, not of a result: every function gives the same for any
number. The threads are made inside a call that has enough to do for them, and
are gone when it returns.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
from pathlib import Path

from zephon.errors import ConfigError, ConfigTypeError

MOST_THREADS = 64
"""As in zephon/threads.hpp."""

LEAST_ITEMS = 1_000_000
"""Samples or documents that each thread of a call must have to be worth starting.

That is 3 to 9 ms of work. Starting a thread takes under 0.1 ms, but on a busy machine
a sample index may wait some ms for a thread that has been stopped halfway."""

_chosen: tuple[int, int] | None = None  # the number, and the process that has chosen it


def set_threads(threads: int | None) -> None:
    """Let a call use up to ``threads`` threads in this process; 1 starts none.

    Parameters
    ----------
    threads : int or None
        From 1 to 64; None for the default of :func:`get_threads`.

    Raises
    ------
    ConfigError, ConfigTypeError
        The number is out of range, or is none.
    """
    global _chosen
    _chosen = None if threads is None else (_checked("threads", threads), os.getpid())


def get_threads() -> int:
    """How many threads a call may use in this process.

    In this order:

    * in a worker, which is any child that :mod:`multiprocessing` has started (a
      DataLoader's worker, one of a ``ProcessPoolExecutor``): what
      :func:`set_threads` has been told in that worker itself, else 1;
    * what :func:`set_threads` has been told;
    * the environment variable ``ZEPHON_THREADS``;
    * the processors that this process may use: its affinity mask, or its control
      group's CPU quota rounded up if that is less.

    Raises
    ------
    ConfigError
        ``ZEPHON_THREADS`` is not a number from 1 to 64.
    """
    if _chosen is not None and (_chosen[1] == os.getpid() or not _in_worker()):
        return _chosen[0]
    if _in_worker():
        return 1
    value = os.environ.get("ZEPHON_THREADS")
    if value:
        try:
            return _checked("ZEPHON_THREADS", int(value))
        except ValueError:
            raise ConfigError(
                f"ZEPHON_THREADS must be a number from 1 to {MOST_THREADS}, got {value!r}"
            ) from None
    return min(_processors(), MOST_THREADS)


def _checked(name: str, value: object) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigTypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not 1 <= number <= MOST_THREADS:
        raise ConfigError(f"{name} must be from 1 to {MOST_THREADS}, got {number}")
    return number


def _in_worker() -> bool:
    # A child of multiprocessing has loaded this; nobody else needs to.
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, math.ceil(min(_quota(), count))))


@functools.cache
def _quota(root: Path = Path("/")) -> float:
    """Processors that the control groups of this process grant it; infinite if all."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return math.inf
    least = math.inf
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers == "":  # version 2
            top = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup/cpu"
        else:
            continue
        # In a container the path may be that of the host, of which only the top is seen.
        inside = Path(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            least = min(least, _granted(top / folder))
    return least


def _granted(folder: Path) -> float:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError):  # no such file, or "max"
        return math.inf
