"""Run by torchrun from test_exchange.py: what each rank sees of a few exchanges."""

from __future__ import annotations

import json
import sys
import time

import torch.distributed as dist

from zephon.runtime.exchange import GroupExchange, MissingRanksError


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    exchange = GroupExchange(timeout=20)
    seen = [
        [part.decode() for part in exchange.exchange(f"{'x' * rank}{rank}".encode())],
        [part.decode() for part in exchange.exchange(b"")],
        [exchange.all_true(True), exchange.all_true(rank != 1)],
    ]
    began = time.monotonic()
    if rank != 1:
        try:
            GroupExchange(timeout=1.5).exchange(b"alone")
        except MissingRanksError as error:
            seen.append([str(error)])
    waited = time.monotonic() - began
    with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
        json.dump({"seen": seen, "waited": waited}, file)
    time.sleep(4 if rank == 1 else 0)  # alive, but elsewhere


if __name__ == "__main__":
    main()
