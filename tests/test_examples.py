"""The examples do what they say: killed and resumed, the same data and the same loss."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from small_corpora import build_small

EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLE = EXAMPLES / "train_gpt.py"
DRIVER = Path(__file__).parent / "example_driver.py"

RESUMING = {
    "resume_torch_save": "torch",
    "resume_dcp": "torch",
    "resume_torchdata": "torchdata",
    "resume_accelerate": "accelerate",
    "resume_trainer": "transformers",
    "resume_lightning": "lightning",
}
"""The examples that save, and go on in a new process; and what they need."""


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
def test_a_run_killed_in_a_step_goes_on_with_the_same_data_on_1_2_and_4_processes(tmp_path):
    data = build_small(tmp_path).folder
    whole, ended = train(data, tmp_path / "whole", 2)
    assert ended
    assert sorted(whole) == [1, 2, 3, 4, 5, 6]
    assert len({digest for _, digest in whole.values()}) == 6

    killed, ended = train(data, tmp_path / "killed", 2, "--kill-at", "4")
    assert not ended
    assert sorted(killed) == [1, 2, 3]
    # As if it had been killed while it saved: a checkpoint that was not written to its end.
    (tmp_path / "killed" / "step-4").mkdir()
    (tmp_path / "killed" / "step-4" / "__0_0.distcp").write_bytes(b"half")
    for ranks in (1, 2, 4):
        copy = shutil.copytree(tmp_path / "killed", tmp_path / f"on-{ranks}")
        again, ended = train(data, copy, ranks)
        assert ended
        assert sorted(again) == [3, 4, 5, 6]
        for step, (loss, digest) in again.items():
            assert digest == whole[step][1]
            # To the last bit with as many processes as before; else sums round in another order.
            if ranks == 2:
                assert loss == whole[step][0]
            assert float(loss) == pytest.approx(float(whole[step][0]), rel=1e-3)


def steps_of(output):
    """Hashes of the data by example and step."""
    found, name = {}, None
    for line in output.splitlines():
        match line.split():
            case ["example", name]:
                found[name] = {}
            case ["step", step, "data", digest]:
                found[name][int(step)] = digest
    return found


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """What the examples printed in six steps, and in a new process behind the third."""
    folder = tmp_path_factory.mktemp("examples")
    data = build_small(folder).folder
    names = [name for name, needed in RESUMING.items() if importlib.util.find_spec(needed)]
    outputs = []
    for more in ([], ["--resume"]):
        command = [sys.executable, "-P", str(DRIVER), str(EXAMPLES), str(data), str(folder)]
        command += [*names, "--", "--steps", "6", "--save-at", "3", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        outputs.append((steps_of(done.stdout), done.stderr))
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMING)
def test_each_example_goes_on_with_the_same_data_in_a_new_process(resumed, name):
    pytest.importorskip(RESUMING[name])
    (whole, errors), (rest, later_errors) = resumed
    assert sorted(whole[name]) == [1, 2, 3, 4, 5, 6], errors
    assert len(set(whole[name].values())) == 6
    assert rest[name] == {step: whole[name][step] for step in (4, 5, 6)}, later_errors


def test_every_example_is_run_by_a_test():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*RESUMING, EXAMPLE.stem}
