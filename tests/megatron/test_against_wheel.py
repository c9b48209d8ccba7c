"""Our helpers beside those of the registry's megatron-core: the same indices, and a drop-in."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MEGATRON_CORE = "megatron-core==0.16.1"
HERE = Path(__file__).parent
DATA = HERE.parent / "data"
FUNCTIONS = {
    "build_sample_idx_int32",
    "build_sample_idx_int64",
    "build_blending_indices",
    "build_exhaustive_blending_indices",
    "build_mapping",
    "build_blocks_mapping",
}


@pytest.fixture(scope="session")
def megatron_core(tmp_path_factory):
    """A folder to put on the path, with the registry's megatron-core in it as it comes.

    That of the environment variable ZEPHON_MEGATRON_CORE if it is set. Torch
    and numpy are those of this environment.
    """
    given = os.environ.get("ZEPHON_MEGATRON_CORE")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("megatron-core")
    command = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--retries", "1", "--only-binary", ":all:"]
    ran = subprocess.run(
        [*command, "--target", str(folder), MEGATRON_CORE],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if ran.returncode != 0:
        reason = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        pytest.skip(f"{MEGATRON_CORE} cannot be installed from the registry: {reason}")
    return folder


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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_200_random_configurations_give_the_indices_of_the_wheel(megatron_core):
    told = run(HERE / "wheel_comparison.py", helpers_of(megatron_core), "--configurations", 200)
    assert told["different"] == []
    assert set(told["compared"]) == FUNCTIONS
    assert min(told["compared"].values()) > 100_000
    # Sample counts that the reference rounds in single precision, where ours are exact.
    assert told["rounded"] > 0


def test_megatron_core_without_its_helpers_builds_its_recorded_indices_with_ours(
    megatron_core, tmp_path
):
    package = tmp_path / "site" / "megatron"
    shutil.copytree(
        megatron_core / "megatron", package, ignore=shutil.ignore_patterns("helpers_cpp*")
    )
    assert not list(package.rglob("helpers_cpp*"))
    caches = tmp_path / "caches"
    told = run(HERE / "wheel_gpt_dataset.py", DATA, caches, path=[package.parent])
    assert told["helpers"] == "zephon._native.helpers_cpp"
    recorded = json.loads((DATA / "gpt" / "index.json").read_text())
    cases = [case for case in recorded if case["result"] == "ok"]
    assert len(cases) == 7
    for case in cases:
        tag = case["tag"]
        assert told["lengths"][tag] == case["lengths"]
        assert contents(caches / tag) == contents(DATA / "gpt" / f"cache_{tag}"), tag


def test_helpers_of_the_wheel_are_replaced_where_they_are_there(megatron_core):
    code = (
        "import json, zephon.megatron; zephon.megatron.register();"
        "from megatron.core.datasets import helpers;"
        "print(json.dumps(helpers.build_sample_idx_int32.__module__))"
    )
    assert run("-c", code, path=[megatron_core]) == "zephon._native.helpers_cpp"
