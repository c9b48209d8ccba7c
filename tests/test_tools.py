"""The scripts behind the Makefile."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command, **env):
    return subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, env=os.environ | env
    )


def script(path, body):
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_step_says_what_it_does_and_how_long_it_took():
    done = run("tools/step", "Say hello", "echo", "hello")
    assert done.returncode == 0
    assert re.fullmatch(r"==> Say hello\nhello\n    done in \d+ s\n", done.stdout)


def test_a_step_that_fails_says_so_and_keeps_the_code():
    done = run("tools/step", "Fail", "bash", "-c", "exit 7")
    assert done.returncode == 7
    assert "FAILED after 0 s (code 7): Fail" in done.stderr


def test_a_step_whose_command_is_missing_fails():
    assert run("tools/step", "Fail", "no-such-command-here").returncode == 127


def test_a_missing_python_is_named(tmp_path):
    done = run("tools/make-venv", "python9.9", tmp_path / "venv")
    assert done.returncode == 1
    assert "no 'python9.9' on PATH; install CPython 3.11 or newer" in done.stderr


def test_an_old_python_is_named_with_its_version(tmp_path):
    old = script(tmp_path / "old", '[ "$1" = --version ] && echo Python 3.9.2 || exit 1')
    done = run("tools/make-venv", old, tmp_path / "venv")
    assert done.returncode == 1
    assert "is Python 3.9.2; CPython 3.11 or newer is needed" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_a_missing_compiler_is_named(tmp_path):
    for tool in ("bash", "env"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}" if tool == "bash" else "/usr/bin/env")
    done = run(
        "tools/make-venv", sys.executable, tmp_path / "venv", PATH=str(tmp_path), CXX="no-c++ -m64"
    )
    assert done.returncode == 1
    assert "no C++ compiler ('no-c++ -m64')" in done.stderr
    assert "apt-get install g++" in done.stderr


def test_a_python_without_ensurepip_and_pip_is_told_what_to_install(tmp_path):
    bare = script(
        tmp_path / "bare",
        f'case "$*" in *ensurepip*|*"-m pip"*) exit 1;; *) exec {sys.executable} "$@";; esac',
    )
    done = run("tools/make-venv", bare, tmp_path / "venv", CXX="true")
    assert done.returncode == 1
    assert "has neither ensurepip nor pip (Debian: apt-get install python3-venv)" in done.stderr


@pytest.fixture(scope="module")
def requirements():
    done = run(sys.executable, "tools/requirements.py")
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_requirements_are_those_of_all_extras_and_of_the_build(requirements):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {*project["build-system"]["requires"], *project["project"]["dependencies"]}
    for extra in project["project"]["optional-dependencies"].values():
        wanted.update(line for line in extra if not line.startswith("zephon["))
    assert set(requirements) == wanted


def test_every_requirement_is_pinned(requirements):
    def normal(name):
        return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", name)[0]).lower()

    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    assert all("==" in line for line in pins)
    assert {normal(line) for line in requirements} <= {normal(line) for line in pins}
