from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

from zephon.errors import ConfigError, LifecycleError
from zephon.runtime.exchange import (
    DirectoryExchange,
    Exchange,
    GroupExchange,
    MissingRanksError,
    StoreExchange,
)

Make = Callable[[int, int, float], Exchange]


@pytest.fixture(params=["directory", "store"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """From (rank, size, timeout) to one kind of exchange."""
    if request.param == "directory":
        return lambda rank, size, wait: DirectoryExchange(tmp_path / "x", rank, size, "run", wait)
    store = dist.HashStore()
    return lambda rank, size, wait: StoreExchange(store, rank, size, "run", wait)


def together(ranks: list[Exchange], payloads: list[bytes]) -> list[list[bytes]]:
    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(lambda rank, given: rank.exchange(given), ranks, payloads))


def test_all_ranks_receive_what_all_gave_again_and_again(make: Make) -> None:
    ranks = [make(rank, 3, 20) for rank in range(3)]
    for turn in range(4):
        payloads = [bytes([turn]) * (100 * rank) for rank in range(3)]
        assert together(ranks, payloads) == [payloads] * 3


def test_ranks_that_do_not_come_are_named(make: Make) -> None:
    ranks = [make(rank, 4, 0.5) for rank in (0, 2)]
    errors: list[MissingRanksError] = []

    def meet(rank: Exchange) -> None:
        try:
            rank.exchange(b"here")
        except MissingRanksError as error:
            errors.append(error)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error.ranks for error in errors] == [[1, 3], [1, 3]]
    assert "ranks 1, 3 of 4 did not take part within 0.5 s" in str(errors[0])


def test_a_directory_holds_the_last_round_only(tmp_path: Path) -> None:
    ranks: list[Exchange] = [DirectoryExchange(tmp_path, rank, 2, "run", 20) for rank in range(2)]
    for _ in range(5):
        together(ranks, [b"a", b"b"])
    assert len(list(tmp_path.iterdir())) == 2


def test_runs_of_other_names_do_not_meet(tmp_path: Path) -> None:
    DirectoryExchange(tmp_path, 0, 1, "first", 20).exchange(b"a")
    other = DirectoryExchange(tmp_path, 1, 2, "second", 0.1)
    with pytest.raises(MissingRanksError, match="ranks 0 of 2"):
        other.exchange(b"b")


def test_a_rank_outside_the_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rank is 2, expected 0 to 1: there are 2 ranks"):
        DirectoryExchange(tmp_path, 2, 2, "run")


def test_without_a_process_group_the_ways_are_named() -> None:
    with pytest.raises(LifecycleError, match="not initialised: call init_process_group first, or"):
        GroupExchange()


def test_real_processes_meet_through_their_group_and_name_who_is_missing(tmp_path: Path) -> None:
    worker = Path(__file__).with_name("exchange_worker.py")
    subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "3",
            str(worker),
            str(tmp_path),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    seen = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    for rank in range(3):
        first, second, third, *_ = seen[rank]["seen"]
        assert first == ["0", "x1", "xx2"]
        assert second == ["", "", ""]
        assert third == [True, False]
    assert "ranks 1 of 3 did not take part within 1.5 s" in seen[0]["seen"][3][0]
    assert "some ranks (rank 0 names them) of 3" in seen[2]["seen"][3][0]
    assert max(seen[rank]["waited"] for rank in (0, 2)) < 30
