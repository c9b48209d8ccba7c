"""Real processes: saved on some ranks, resumed on others, the same lane-batches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHAPES: list[dict[str, Any]] = [
    {"algorithm": "wrap"},
    {"algorithm": "best_fit", "shuffle": 5},
    {"algorithm": "best_fit_wrap"},
]
SIZES = (1, 2, 4, 8)
LANES = 8
Seen = list[tuple[int, list[str]]]


def merged(results: list[Any]) -> Seen:
    """The lane-batches of all ranks in their order; model-parallel peers give theirs twice."""
    batches = {number: rows for result in results for number, rows in result["seen"] or ()}
    return sorted(batches.items())


def state_of(results: list[Any]) -> str:
    states = {result["state"] for result in results}
    assert len(states) == 1
    return states.pop()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["algorithm"])
def test_saved_on_any_number_of_ranks_and_resumed_on_any_the_sequence_is_the_same(
    launch: Any, shape: dict[str, Any]
) -> None:
    expected = merged(launch("stream", 1, steps=36, **shape).results())
    assert [number for number, _ in expected] == list(range(36))
    # (ranks, steps): in the middle of a round of 8 lanes wherever that is possible
    saves = [{"size": size, "steps": steps} for size, steps in ((1, 5), (2, 6), (4, 3), (8, 2))]
    resumes = [
        {"size": size, "steps": 16 // size, "from": number}
        for number in range(len(saves))
        for size in SIZES
    ]
    ranks = launch("generations", 8, turns=saves + resumes, **shape).results()
    turns = [list(turn) for turn in zip(*ranks, strict=True)]
    delivered = [turn["size"] * turn["steps"] for turn in saves]
    for begun, results in zip(delivered, turns, strict=False):
        assert merged(results) == expected[:begun]
    states: dict[int, set[str]] = {}
    for resume, results in zip(resumes, turns[len(saves) :], strict=True):
        begun = delivered[resume["from"]]
        assert merged(results) == expected[begun : begun + 16]
        states.setdefault(begun, set()).add(state_of(results))
    assert [len(same) for same in states.values()] == [1] * len(states)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["algorithm"])
def test_a_run_that_changes_its_size_five_times_delivers_what_one_process_does(
    launch: Any, shape: dict[str, Any]
) -> None:
    turns = [
        {"size": size, "steps": steps, **({"from": turn - 1} if turn else {})}
        for turn, (size, steps) in enumerate(((8, 1), (2, 3), (4, 2), (1, 3), (2, 2), (1, 6)))
    ]  # stops behind 8, 14, 22, 25, 29 and 35 lane-batches
    expected = merged(launch("stream", 1, steps=35, **shape).results())
    ranks = launch("generations", 8, turns=turns, **shape).results()
    assert [item for turn in zip(*ranks, strict=True) for item in merged(list(turn))] == expected


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["algorithm"])
def test_with_another_micro_batch_size_every_lane_goes_on_with_its_next_row(
    launch: Any, shape: dict[str, Any]
) -> None:
    def lanes(*parts: Seen) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {lane: [] for lane in range(LANES)}
        for part in parts:
            for number, rows in part:
                found[number % LANES] += rows
        return found

    expected = lanes(merged(launch("stream", 1, steps=LANES * 12, batch=1, **shape).results()))
    turns = [
        {"size": 4, "steps": 3, "batch": 2},
        {"size": 2, "steps": 4, "batch": 3, "from": 0},
        {"size": 8, "steps": 2, "batch": 1, "from": 1},
    ]
    ranks = launch("generations", 8, turns=turns, **shape).results()
    found = lanes(*(merged(list(turn)) for turn in zip(*ranks, strict=True)))
    for lane, rows in found.items():
        assert rows == expected[lane][: len(rows)]
        assert len(rows) >= 5


@pytest.mark.parametrize("end", ["agree", "filler"])
def test_a_finite_pass_ends_on_all_ranks_behind_the_same_step(launch: Any, end: str) -> None:
    shape = {"policy": "redistribute", "lanes": 4, "end": end}
    whole = launch("stream", 1, steps=10**6, **shape).results()
    several = launch("uneven_start", 2, **shape).results()  # seconds apart
    assert len(several[0]["seen"]) == len(several[1]["seen"])
    assert merged(several) == merged(whole)
    assert state_of(several) == state_of(whole)


def test_model_parallel_peers_see_the_same_and_save_together(launch: Any) -> None:
    whole = launch("stream", 1, steps=8).results()
    peers = launch("stream", 8, steps=2, peers=2).results()
    for rank in range(0, 8, 2):
        assert peers[rank]["seen"] == peers[rank + 1]["seen"]
    assert merged(peers) == merged(whole)
    assert state_of(peers) == state_of(whole)


@pytest.mark.slow
def test_ranks_of_torchrun_save_and_resume(tmp_path: Path) -> None:
    """The same functions in processes as trainers have them."""

    def run(size: int, **settings: Any) -> list[Any]:
        command = [
            sys.executable, "-P", "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", str(size), str(Path(__file__).with_name("tasks.py")),
            "stream", str(tmp_path), json.dumps(settings),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(size)]

    expected = run(1, steps=20)
    before = run(4, steps=3)
    after = run(2, steps=4, state=state_of(before))
    assert merged(before) + merged(after) == merged(expected)
    assert state_of(after) == state_of(expected)
