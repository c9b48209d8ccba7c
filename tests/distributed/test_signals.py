"""A signal that asks to stop, on all ranks or on some: all save behind the same step."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest


def merged(results: list[Any]) -> list[Any]:
    return sorted(item for result in results for item in result["seen"])


@pytest.mark.parametrize("task", ["emergency", "emergency_by_files"])
@pytest.mark.parametrize("asked", [[0, 1, 2, 3], [2]], ids=["all", "one"])
def test_ranks_that_are_asked_to_stop_save_a_state_that_goes_on_exactly(
    launch: Any, tmp_path: Path, task: str, asked: list[int]
) -> None:
    by_files = {"directory": str(tmp_path)} if task == "emergency_by_files" else {}
    run = launch(task, 4, **by_files)
    for rank in range(4):
        run.await_file(f"trains-{rank}")
    for rank in asked:
        run.signal(rank, signal.SIGTERM)
    results = run.results()
    seen = merged(results)
    assert len({result["state"] for result in results}) == 1
    assert [number for number, _ in seen] == list(range(len(seen)))
    [rest] = launch("stream", 1, steps=8, state=results[0]["state"]).results()
    [whole] = launch("stream", 1, steps=len(seen) + 8).results()
    assert seen + rest["seen"] == whole["seen"]


@pytest.mark.parametrize("prefetch", [0, 64])
def test_saving_in_a_signal_handler_gives_the_state_behind_some_batch(
    launch: Any, prefetch: int
) -> None:
    [result] = launch("save_in_handler", 1, signals=12, prefetch=prefetch).results()
    [whole] = launch("stream", 1, steps=len(result["seen"]) + 4).results()
    assert whole["seen"][: len(result["seen"])] == result["seen"]
    for state in result["states"][::4]:
        [rest] = launch("stream", 1, steps=2, state=state).results()
        begun = rest["seen"][0][0]
        assert begun <= len(result["seen"])
        assert rest["seen"] == whole["seen"][begun : begun + 2]
