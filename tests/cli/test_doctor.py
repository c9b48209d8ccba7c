from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zephon import _native, diagnosis
from zephon._version import __version__
from zephon.cli import main


def test_the_doctor_shows_what_is_installed_and_finds_nothing_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEPHON_CACHE_DIR", raising=False)
    monkeypatch.setattr(diagnosis, "LEAST_SHARED_MEMORY", 0)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for expected in (__version__, "cp311-abi3", "-ffp-contract=off", "10 of 10 load", "numpy"):
        assert expected in out
    assert out.rstrip().endswith("`python -m zephon.selftest` checks what it computes")


def test_json_says_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "LEAST_SHARED_MEMORY", 0)
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["problems"]) == (True, [])
    assert told["zephon"]["version"] == __version__
    assert told["native part"]["blend kernel"] == _native.helpers_cpp.blend_kernel()
    assert told["packages"]["torch"].endswith("supported (from 2.4 on)")
    assert told["megatron"]["megatron.core.datasets.helpers_cpp"] == "absent"


def test_every_problem_has_its_advice_and_makes_the_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("ZEPHON_THREADS", "many")
    monkeypatch.setattr(diagnosis, "LEAST_SHARED_MEMORY", 1 << 62)
    monkeypatch.setattr(diagnosis, "_declared", lambda: {"numpy": "99.1"})
    monkeypatch.setattr(_native, "_EXTENSIONS", frozenset({"absent"}))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "0 of 1 load" in out
    assert "the extension absent cannot be loaded: zephon in" in out
    assert "ZEPHON_THREADS must be a number from 1 to 64, got 'many'; unset it" in out
    assert "docker run --shm-size=1g" in out
    assert "older than 99.1, the oldest that is supported: pip install 'numpy>=99.1'" in out
    assert "nowhere', which is no folder: make it, or unset the variable" in out


def test_a_required_package_that_is_missing_is_a_problem_and_an_optional_one_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        raise diagnosis.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(diagnosis.importlib.metadata, "version", version)
    found = diagnosis.diagnose()
    assert found.facts["packages"]["pyarrow"] == "not installed (optional)"
    assert "torch is required and not installed: pip install 'torch>=2.4'" in found.problems
    assert not any("pyarrow" in problem for problem in found.problems)


def test_what_fails_to_be_looked_at_does_not_hide_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(problems: list[str]) -> dict[str, str]:
        raise OSError("no such thing")

    monkeypatch.setattr(diagnosis, "_machine", fail)
    found = diagnosis.diagnose()
    assert "looking at machine failed with OSError: no such thing" in found.problems
    assert found.facts["zephon"]["version"] == __version__


@pytest.mark.parametrize(
    ("version", "release"),
    [("2.13.0+cpu", (2, 13, 0)), ("1.26.4", (1, 26, 4)), ("3.0.0rc1", (3, 0, 0)), ("odd", ())],
)
def test_versions_are_compared_by_their_numbers(version: str, release: tuple[int, ...]) -> None:
    assert diagnosis._release(version) == release


def test_the_import_error_of_a_missing_native_part_names_the_doctor() -> None:
    assert "`python -m zephon.diagnosis` (`zephon doctor`)" in _native._advice("absent")


def test_it_runs_as_a_module_without_the_command_line_packages(tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.modules['typer'] = sys.modules['rich'] = None; "
        "runpy.run_module('zephon.diagnosis', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "--json"],
        capture_output=True,
        text=True,
        env=os.environ | {"ZEPHON_CACHE_DIR": str(tmp_path)},
    )
    told = json.loads(done.stdout)
    assert done.returncode == int(bool(told["problems"]))
    assert told["megatron"]["index cache"] == f"{tmp_path} (writable)"
