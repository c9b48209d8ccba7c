"""A fault of one rank is an error on all that says what to do, or a correct state; never a hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zephon import state as state_format

QUICK = 20.0
"""Seconds that an error may take whose cause is there at once; the timeouts are 60."""

WAYS = ["group", "directory"]


def way(name: str, tmp_path: Path) -> dict[str, Any]:
    return {"directory": str(tmp_path / "shared")} if name == "directory" else {}


def state_of_one(launch: Any, lane_batches: int, **settings: Any) -> str:
    [whole] = launch("stream", 1, steps=lane_batches, **settings).results()
    return str(whole["state"])


# --- saving ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    ("fault", "messages"),
    [
        ("local error", ["because ranks failed. rank 2: OSError: stale file handle"]),
        ("behind", ["rank 2 stands behind lane-batch 8", "behind the same step on every rank"]),
        ("other stream", ["is of another stream", "work.seed"]),
    ],
)
def test_what_is_wrong_on_one_rank_is_an_error_on_all(
    launch: Any, tmp_path: Path, how: str, fault: str, messages: list[str]
) -> None:
    results = launch("saving", 4, victim=2, fault=fault, **way(how, tmp_path)).results()
    assert len({message for message, _ in results}) == 1
    for message, seconds in results:
        assert message.startswith("StateError")
        assert all(part in message for part in messages), message
        assert seconds < QUICK


@pytest.mark.parametrize("how", WAYS)
def test_a_rank_that_raises_before_its_first_save_is_named(
    launch: Any, tmp_path: Path, how: str
) -> None:
    settings = {"timeout": 3, "finalise": how == "group", **way(how, tmp_path)}
    run = launch("saving", 4, victim=2, fault="raises", **settings)
    assert run.codes() == [0, 0, 1, 0]
    for rank in (0, 1, 3):
        message, seconds = run.result(rank)
        assert "ranks 2 of 4 did not take part within 3 s" in message
        assert seconds < 3 + QUICK


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_raises_before_a_later_save_is_named_at_once(launch: Any, victim: int) -> None:
    run = launch("saving", 4, victim=victim, fault="raises", before=True, finalise=True)
    codes = run.codes()
    assert codes == [int(rank == victim) for rank in range(4)]
    for rank in {0, 1, 2, 3} - {victim}:
        message, seconds = run.result(rank)
        assert f"ranks {victim} of 4 went away while the ranks waited for each other" in message
        assert "start the run again from its last checkpoint" in message
        assert seconds < QUICK


@pytest.mark.parametrize("how", WAYS)
def test_a_rank_that_is_stuck_is_named_after_the_timeout(
    launch: Any, tmp_path: Path, how: str
) -> None:
    settings = {
        "timeout": 4,
        "lanes": 3,
        "before": True,
        "finalise": how == "group",
        **way(how, tmp_path),
    }
    run = launch("saving", 3, victim=1, fault="stuck", **settings)
    for rank in (0, 2):
        run.await_file(f"done-{rank}")
    (run.folder / "over").touch()
    results = run.results()
    for rank in (0, 2):
        message, seconds = results[rank]
        assert "ranks 1 of 3 did not take part within 4 s" in message
        assert 3.9 < seconds < 4 + QUICK


@pytest.mark.parametrize("how", WAYS)
def test_a_rank_killed_while_it_saves_is_an_error_on_all_others_or_a_correct_state(
    launch: Any, tmp_path: Path, how: str
) -> None:
    settings = {"before": True, "finalise": how == "group", **way(how, tmp_path)}
    if how == "directory":
        settings["timeout"] = 4
    run = launch("saving", 4, victim=2, fault="killed", **settings)
    run.await_file("saving")
    run.signal(2)
    (run.folder / "killed").touch()
    assert run.codes() == [0, 0, -9, 0]
    results = {str(run.result(rank)[0]) for rank in (0, 1, 3)}
    assert len(results) == 1  # the same on all that are left
    [result] = results
    if result.startswith("MissingRanksError"):
        assert "ranks 2 of 4" in result
    else:  # what it gave before it died was complete
        assert result == state_of_one(launch, 12)
    assert max(run.result(rank)[1] for rank in (0, 1, 3)) < QUICK


def test_after_a_rank_came_too_late_all_may_try_again(launch: Any) -> None:
    run = launch("again", 3, timeout=2, lanes=3)
    for rank in (0, 2):
        run.await_file(f"tried-{rank}")
    (run.folder / "late").touch()
    results = run.results()
    assert all(first.startswith("MissingRanksError: ranks 1 of 3") for (first, _), _ in results)
    assert {second for _, (second, _) in results} == {state_of_one(launch, 9, lanes=3)}


def test_micro_batches_of_uneven_size_make_a_state_that_loses_and_repeats_nothing(
    launch: Any,
) -> None:
    """Each lane goes on behind its own last row, whatever the others have taken."""
    results = launch("saving", 4, victim=2, fault="uneven").results()
    [state] = {state for state, _ in results}
    lanes: dict[int, list[str]] = {lane: [] for lane in range(8)}
    [rest] = launch("stream", 1, steps=64, batch=1, state=state).results()
    for number, rows in rest["seen"]:
        lanes[number % 8] += rows
    [whole] = launch("stream", 1, steps=240, batch=1).results()
    all_rows: dict[int, list[str]] = {lane: [] for lane in range(8)}
    for number, rows in whole["seen"]:
        all_rows[number % 8] += rows
    for lane, rows in lanes.items():
        batches = 2 if lane in (0, 1, 2, 3) else 1  # of the 12 lane-batches saved
        taken = batches * (3 if lane in (2, 6) else 2)
        assert rows == all_rows[lane][taken : taken + len(rows)]


def test_ranks_that_do_not_divide_the_lanes_are_refused_everywhere_at_once(launch: Any) -> None:
    for message, seconds in launch("saving", 3, victim=-1, fault="indivisible").results():
        assert "canonical_replicas is 8, which dp_degree 3 does not divide" in message
        assert "Legal dp_degree: 1, 2, 4, 8" in message
        assert seconds < QUICK


# --- loading --------------------------------------------------------------------------------


def damaged(good: str) -> dict[str, tuple[str, str]]:
    data = bytes.fromhex(good)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 4
    older = data[:8] + b"\0\0" + data[10:]
    return {
        "cut": (data[: len(data) // 2].hex(), "it was cut or something was added"),
        "bit flipped": (flipped.hex(), "checksum does not fit: the bytes are damaged"),
        "older version": (older.hex(), "format version 0, this zephon reads version 1"),
        "foreign": (b"\x80\x04pickle".hex(), "a pickle, which is never loaded"),
    }


def test_a_damaged_state_is_refused_on_the_rank_that_has_it_and_hangs_no_other(launch: Any) -> None:
    good = state_of_one(launch, 5)
    for data, message in damaged(good).values():
        results = launch("load", 2, states=[good, data]).results()
        assert results[0][0] == "loaded"
        assert message in results[1][0]
        assert max(seconds for _, seconds in results) < QUICK


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 3}, "work.seed (0, 3)"),
        ({"lanes": 4}, "canonical_replicas (8, 4)"),
        ({"algorithm": "best_fit"}, "pack.algorithm"),
        ({"data": 8}, "'a' bytes"),
    ],
)
def test_a_state_of_another_stream_or_of_changed_data_is_refused_on_all(
    launch: Any, change: dict[str, Any], message: str
) -> None:
    good = state_of_one(launch, 5)
    for told, seconds in launch("load", 2, states=[good, good], **change).results():
        assert message in told
        assert "Build the pipeline as it was when the state was saved" in told
        assert seconds < QUICK


@pytest.mark.parametrize("policy", ["repeat", "redistribute"])
def test_a_state_can_be_had_at_any_time_and_loaded_only_before_the_first_batch(
    launch: Any, policy: str
) -> None:
    first, second = launch("misuse", 2, policy=policy, lanes=2).results()
    assert first == second
    assert first["fresh"] == ""
    assert state_format.decode(bytes.fromhex(first["fresh pipeline"])).delivered == 0
    assert state_format.decode(bytes.fromhex(first["iterating"])).delivered == 2
    assert "load into a fresh loader" in first["load while iterating"]
    assert "close() it first" in first["restore while iterating"]
    assert "load into a fresh loader" in first["load when closed"]
    assert first["restored"] == first["iterating"]
    assert first["restored again"] == first["closed"]
    assert "an empty state for a loader that was restored" in first["empty load"]
    if policy == "redistribute":
        ended = state_format.decode(bytes.fromhex(first["exhausted"]))
        assert (ended.delivered, ended.passes) == (0, 1)  # the next pass begins here
        assert first["after exhaustion"] is None
        assert first["closed"] == first["exhausted"]
    else:
        assert first["closed"] == first["iterating"]
