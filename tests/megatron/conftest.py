"""The registry's megatron-core, for comparing with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGATRON_CORE = "megatron-core==0.16.1"


@pytest.fixture(scope="session")
def megatron_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
