from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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


def test_what_an_earlier_start_of_the_run_left_is_not_taken_for_an_answer(make: Make) -> None:
    for start in range(3):  # each time new exchanges under the same name, as after a crash
        ranks = [make(rank, 2, 20) for rank in range(2)]
        for turn in range(start + 1):
            payloads = [f"{start}/{turn}/{rank}".encode() for rank in range(2)]
            assert together(ranks, payloads) == [payloads] * 2
    alone = make(0, 2, 0.3)
    with pytest.raises(MissingRanksError, match="ranks 1 of 2 did not take part within 0.3 s"):
        alone.exchange(b"the other rank is not there, only what it left")


def test_a_directory_holds_the_last_round_only(tmp_path: Path) -> None:
    for _ in range(3):
        ranks: list[Exchange] = [
            DirectoryExchange(tmp_path, rank, 2, "run", 20) for rank in range(2)
        ]
        for _ in range(5):
            together(ranks, [b"a", b"b"])
    kinds = sorted(file.name.split("-")[2] for file in tmp_path.iterdir())
    session = next(kind for kind in kinds if kind not in ("join", "agree"))
    assert kinds == sorted(["agree", "agree", "join", "join", session, session])


def test_the_clocks_of_machines_do_not_matter(tmp_path: Path) -> None:
    for age in (-(10**6), 10**6):  # files from the future, and from long ago
        ranks: list[Exchange] = [
            DirectoryExchange(tmp_path, rank, 2, "run", 20) for rank in range(2)
        ]
        together(ranks, [b"old", b"older"])
        for file in tmp_path.iterdir():
            os.utime(file, (time.time() + age, time.time() + age))
        assert together(ranks, [b"a", b"b"]) == [[b"a", b"b"]] * 2


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


# --- real processes -------------------------------------------------------------------------


def test_payloads_of_any_length_pass_through_a_process_group(launch: Any) -> None:
    lengths = [0, 1, 2727, 2728, 2729, 8184, 100_000]  # around what fits one collective
    for *rounds, answers in launch("exchanges", 3, lengths=lengths).results():
        for turn, length in enumerate(lengths):
            expected = [[length * (rank + 1), [turn + rank] if length else []] for rank in range(3)]
            assert rounds[turn] == expected
        assert answers == [True, False]


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_all_ranks_of_a_group_name_the_one_that_does_not_come(
    launch: Any, victim: int, first: bool
) -> None:
    run = launch("alone", 3, victim=victim, first=first, timeout=1.5, finalise=not first)
    others = [rank for rank in range(3) if rank != victim]
    for rank in others:
        run.await_file(f"done-{rank}")
    (run.folder / "over").touch()
    results = run.results()
    for rank in others:
        message, seconds = results[rank]
        assert f"ranks {victim} of 3 did not take part within 1.5 s" in message
        assert 1.4 < seconds < 10
    message, seconds = results[victim]  # the late one does not go on as if all were well
    assert message.startswith("MissingRanksError")
    assert seconds < 10


def test_a_store_that_is_gone_is_told_at_once(launch: Any) -> None:
    run = launch("store_that_ends", 3)
    for rank in (1, 2):
        run.await_file(f"met-{rank}")
    run.signal(0)
    (run.folder / "killed").touch()
    assert run.codes() == [-9, 0, 0]
    for rank in (1, 2):
        first, (message, seconds) = run.result(rank)
        assert first == ["first", "first"]
        assert "the aggregate_store does not answer" in message
        assert "Start the run again from its last checkpoint" in message
        assert seconds < 10


def test_ranks_start_again_where_a_run_was_killed_in_its_directory(
    launch: Any, tmp_path: Path
) -> None:
    shared = str(tmp_path / "shared")
    run = launch("leftovers", 3, directory=shared, start=0, rounds=3, die=[1, 2])
    run.await_file("dies")
    found = launch("leftovers", 3, directory=shared, start=1, rounds=4, late=0.2).results()
    for rounds in found:
        assert rounds == [[f"1/{turn}/{rank}" for rank in range(3)] for turn in range(4)]
    for rank in (0, 1):
        run.signal(rank)
    assert run.codes() == [-9, -9, -9]
