import os
import subprocess
import sys

import pytest

from zephon.megatron import unregister
from zephon.megatron.run import main

SCRIPT = """
import sys, neighbour
from megatron.core.datasets.utils import compile_helpers
sys.stdout.write(f"{__name__} {sys.argv[1:]} {neighbour.value} {compile_helpers().__name__}\\n")
"""


@pytest.fixture
def folder(tmp_path):
    datasets = tmp_path / "site" / "megatron" / "core" / "datasets"
    datasets.mkdir(parents=True)
    (datasets / "utils.py").write_text("import sys\ndef compile_helpers():\n    sys.exit(1)\n")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text(SCRIPT)
    (scripts / "neighbour.py").write_text("value = 7\n")
    return tmp_path


def run(folder, *command, path=(), check=True):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder / "site", *path)))}
    env.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        capture_output=True,
        text=True,
        check=check,
        env=env,
        cwd=folder,
    )


EXPECTED = "__main__ ['--lr', '-m'] 7 zephon._native.helpers_cpp\n"


def test_script_runs_as_main_with_its_arguments_and_its_folder(folder):
    script = folder / "scripts" / "train.py"
    assert run(folder, "zephon.megatron.run", script, "--lr", "-m").stdout == EXPECTED


def test_module_runs_as_main_with_its_arguments(folder):
    ran = run(folder, "zephon.megatron.run", "-m", "train", "--lr", "-m", path=[folder / "scripts"])
    assert ran.stdout == EXPECTED


def test_exit_code_of_the_script_is_kept(folder):
    script = folder / "exit.py"
    script.write_text("raise SystemExit(3)\n")
    assert run(folder, "zephon.megatron.run", script, check=False).returncode == 3


@pytest.mark.slow
def test_script_runs_under_torchrun(folder):
    script = folder / "scripts" / "train.py"
    ran = run(
        folder,
        *("torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "zephon.megatron.run", script, "--lr", "-m"),
    )
    assert ran.stdout == EXPECTED * 2


def test_help_tells_how_to_call_it(capsys):
    main(["--help"])
    assert capsys.readouterr().out.startswith("usage: python -m zephon.megatron.run script.py")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a script, or -m and a module; got nothing"),
        (["-m"], "expected a script, or -m and a module; got nothing"),
        (["--verbose", "x.py"], "expected a script, or -m and a module; got '--verbose'"),
        (["missing.py"], "there is no script 'missing.py' \\(in /"),
    ],
)
def test_call_that_cannot_work_is_refused(arguments, message):
    try:
        with pytest.raises(SystemExit, match=message):
            main(arguments)
    finally:
        unregister()
