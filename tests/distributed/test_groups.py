"""Exchanges among whatever else a training process does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_a_default_backend_that_carries_no_cpu_tensors_does(launch: Any) -> None:
    [whole] = launch("stream", 1, steps=8).results()
    assert launch("other_backend", 4).results() == [["fake", whole["state"]]] * 4


@pytest.mark.parametrize("how", ["group", "directory"])
def test_two_loaders_save_at_once_while_the_trainer_reduces(
    launch: Any, tmp_path: Path, how: str
) -> None:
    settings = {"directory": str(tmp_path / "shared")} if how == "directory" else {}
    first, *others = launch("two_loaders", 3, lanes=3, **settings).results()
    assert all(other == first for other in others)
    total, states = first
    assert total == 50.0  # nothing of ours was mixed into it
    assert len(set(states["0"])) == len(set(states["1"])) == 5
    assert not set(states["0"]) & set(states["1"])


def test_finite_passes_leave_no_connections_behind(launch: Any) -> None:
    for counts in launch("many_passes", 2, policy="redistribute", lanes=2).results():
        assert counts[-1] <= counts[0] + 2


def test_saving_on_8_ranks_takes_one_collective_and_no_noticeable_time(launch: Any) -> None:
    for seconds, collectives in launch("timed", 8).results():
        assert collectives == 1
        assert seconds < 0.5  # ten times what benchmarks/gather.py may show
