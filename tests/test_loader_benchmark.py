"""What the benchmark of the loader reports, with ten times the slack of its claim."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "loader.py"


@pytest.mark.slow
def test_a_training_batch_costs_little_more_than_its_tensors():
    command = [sys.executable, "-P", str(SCRIPT), "--documents", "2000", "--batches", "40"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shape"] == [8, 4096]
    assert found["added"]["no contract"] < 10 * 0.10
    assert found["added"]["document_ids"] < 10 * 0.10
