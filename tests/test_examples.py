"""The examples do what they say: killed and resumed, the same data and the same loss."""

import subprocess
import sys
from pathlib import Path

import pytest

from small_corpora import build_small

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_gpt.py"


def train(data, checkpoints, ranks, *more):
    """Printed steps as {number: (loss, hash of the data)}, and whether the run came to its end."""
    command = [
        sys.executable, "-P", "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", str(ranks), str(EXAMPLE), "--data", str(data),
        "--checkpoints", str(checkpoints), "--steps", "6", "--every", "2", "--length", "32",
        "--width", "16", "--layers", "1", *more,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("step ")]
    return {int(line[1]): (line[3], line[5]) for line in lines}, done.returncode == 0


@pytest.mark.slow
def test_a_run_killed_in_a_step_goes_on_with_the_same_data_and_loss(tmp_path):
    data = build_small(tmp_path).folder
    whole, ended = train(data, tmp_path / "whole", 2)
    assert ended
    assert sorted(whole) == [1, 2, 3, 4, 5, 6]
    assert len({digest for _, digest in whole.values()}) == 6

    killed, ended = train(data, tmp_path / "killed", 2, "--kill-at", "4")
    assert not ended
    assert sorted(killed) == [1, 2, 3]
    again, ended = train(data, tmp_path / "killed", 2)
    assert ended
    assert again == {step: whole[step] for step in (3, 4, 5, 6)}  # to the last bit

    train(data, tmp_path / "other", 2, "--kill-at", "4")
    other, ended = train(data, tmp_path / "other", 4)
    assert ended
    assert [other[step][1] for step in (3, 4, 5, 6)] == [whole[step][1] for step in (3, 4, 5, 6)]
