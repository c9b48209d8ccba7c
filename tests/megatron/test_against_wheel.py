"""Our helpers beside those of the registry's megatron-core: the same indices, and a drop-in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
FUNCTIONS = {
    "build_sample_idx_int32",
    "build_sample_idx_int64",
    "build_blending_indices",
    "build_exhaustive_blending_indices",
    "build_mapping",
    "build_blocks_mapping",
}


def helpers_of(folder):
    (helpers,) = folder.glob("megatron/core/datasets/helpers_cpp*.so")
    return helpers


def run(*command, path=()):
    ran = subprocess.run(
        [sys.executable, "-P", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_200_random_configurations_give_the_indices_of_the_wheel(megatron_core):
    told = run(HERE / "wheel_comparison.py", helpers_of(megatron_core), "--configurations", 200)
    assert told["different"] == []
    assert set(told["compared"]) == FUNCTIONS
    assert min(told["compared"].values()) > 100_000
