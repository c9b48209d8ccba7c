"""Real processes: saved on some ranks, resumed on others, the same lane-batches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("stream_worker.py")
SETTINGS: dict[str, Any] = {
    "policy": "repeat",
    "algorithm": "wrap",
    "shuffle": 0,
    "lanes": 8,
    "batch": 2,
    "end": "agree",
    "steps": 6,
}
Seen = list[tuple[int, str]]


def run(folder: Path, ranks: int, **changes: Any) -> tuple[list[Seen], bytes]:
    """What each of ``ranks`` processes saw, and the state, which is the same on all of them."""
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({**SETTINGS, **changes}))
    command = [
        sys.executable,
        "-P",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
        str(WORKER),
        str(folder / "settings.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    states = {(folder / f"state-{rank}").read_bytes() for rank in range(ranks)}
    assert len(states) == 1
    seen = [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(ranks)]
    return [[tuple(item) for item in one] for one in seen], states.pop()


def merged(seen: list[Seen]) -> Seen:
    return sorted(item for one in seen for item in one)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        {"algorithm": "wrap"},
        {"algorithm": "best_fit", "shuffle": 5},
        {"algorithm": "best_fit_wrap"},
    ],
)
def test_saved_on_some_ranks_and_resumed_on_others_the_sequence_is_the_same(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    [expected], _ = run(tmp_path / "whole", 1, steps=20, **shape)
    found: Seen = []
    for ranks, steps in ((2, 3), (4, 2), (1, 5)):  # stops in the middle of rounds of 8
        seen, state = run(tmp_path / "parts", ranks, steps=steps, **shape)
        (tmp_path / "parts" / "state").write_bytes(state)
        found += merged(seen)
    assert found == expected[: len(found)]
    assert len(found) == 19


@pytest.mark.slow
@pytest.mark.parametrize("end", ["agree", "filler", "known"])
def test_a_finite_pass_ends_on_all_ranks_behind_the_same_step(tmp_path: Path, end: str) -> None:
    shape = {"policy": "redistribute", "steps": 10**6, "lanes": 4, "end": end}
    [expected], state = run(tmp_path / "whole", 1, **shape)
    seen, same = run(tmp_path / "two", 2, **shape)
    assert len(seen[0]) == len(seen[1])
    assert merged(seen) == expected
    assert same == state


@pytest.mark.slow
def test_model_parallel_peers_see_the_same_and_save_together(tmp_path: Path) -> None:
    [expected], state = run(tmp_path / "whole", 1, steps=6)
    seen, same = run(tmp_path / "peers", 4, steps=3, peers=2)
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert merged([seen[0], seen[2]]) == expected
    assert same == state
