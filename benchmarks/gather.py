"""Gathering the state on all ranks, beside a bare all_gather of the same bytes.

Processes of one machine in a gloo group; each rank has delivered some batches. Times
are of the slowest rank, from a barrier on. The bare collective gathers, in the same
group and in rows of the same length, the bytes that the ranks give. Also: the time of
``state_dict()`` of a single process near the beginning and far on.

    python benchmarks/gather.py [--ranks 8] [--lanes 8] [--turns 50] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.distributed as dist

import zephon
from zephon.cursor import DocumentCursor, LaneCursor
from zephon.loader import ZephonDataLoader
from zephon.runtime.position import Position


def make(lanes: int, rank: int = 0, ranks: int = 1) -> ZephonDataLoader:
    rng = np.random.default_rng(0)
    made = []
    for name in ("a", "b"):
        rows = [{"tokens": rng.integers(0, 999, n)} for n in rng.integers(1, 99, 500)]
        made.append(zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(rows)}))
    work = zephon.StaticMixtureWorkSource(
        made, {"a": 2, "b": 1}, shuffle_block_size=64, exhausted_policy="repeat"
    )
    stream = zephon.Pipeline(work).pack_flat(129, algorithm="best_fit").batch(2)
    stream.options(canonical_replicas=lanes, dp_degree=ranks, dp_group_id=rank)
    return ZephonDataLoader(stream)


def slowest(call: Callable[[], object], turns: int) -> float:
    """Median over the turns of the seconds that the slowest rank took."""
    times = torch.zeros(turns, dtype=torch.float64)
    for turn in range(turns):
        dist.barrier()
        began = time.perf_counter()
        call()
        times[turn] = time.perf_counter() - began
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return median(times.tolist())


def rank_main(given: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(backend="gloo")
    with make(given.lanes, rank, ranks) as loader:
        for _ in range(5):
            next(loader)
        began = time.perf_counter()
        state = loader.state_dict()["zephon"]
        first = time.perf_counter() - began
        gathered = slowest(loader.state_dict, given.turns)
        given_bytes = len(loader._pipeline.local_state())
        row = torch.zeros(given_bytes, dtype=torch.uint8)
        rows = list(torch.empty(ranks, given_bytes, dtype=torch.uint8).unbind())
        bare = slowest(lambda: dist.all_gather(rows, row, group=group), given.turns)
        again = slowest(loader.state_dict, given.turns)
    if rank == 0:
        result = {
            "ranks": ranks,
            "lanes": given.lanes,
            "state_bytes": len(state),
            "bytes_of_a_rank": given_bytes,
            "first_ms": 1e3 * first,
            "gather_ms": 1e3 * median((gathered, again)),
            "bare_ms": 1e3 * bare,
            "ratio": median((gathered, again)) / bare,
            "load": os.getloadavg()[0],
        }
        Path(given.result).write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def single(given: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of state_dict() in one process, near and far."""
    found = {}
    for name, draw in (("near", 0), ("far", 10**9)):
        with make(given.lanes) as loader:
            if draw:
                cursors = (LaneCursor(DocumentCursor(draw)),) * given.lanes
                loader._pipeline.position = Position(given.lanes * draw, cursors)
            next(loader)
            times = []
            for _ in range(given.turns):
                began = time.perf_counter()
                loader.state_dict()
                times.append(time.perf_counter() - began)
        found[f"single_{name}_ms"] = 1e3 * median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--result", help=argparse.SUPPRESS)  # set for the ranks
    given = parser.parse_args()
    if given.result:
        rank_main(given)
        return
    result = Path(os.environ.get("TMPDIR", "/tmp")) / f"gather-{os.getpid()}.json"
    command = [
        sys.executable, "-P", "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", str(given.ranks), __file__, "--result", str(result),
        "--lanes", str(given.lanes), "--turns", str(given.turns),
    ]  # fmt: skip
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = {**json.loads(result.read_text()), **single(given)}
    result.unlink()
    for name, value in found.items():
        print(f"{name:18} {value:,.3f}" if isinstance(value, float) else f"{name:18} {value:,}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
