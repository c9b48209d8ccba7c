import os
import subprocess
import sys

import pytest

import zephon
from zephon.cli import main


def flat(text):
    return " ".join(text.split())


def run(*arguments, prelude=""):
    code = f"import sys\n{prelude}\nfrom zephon.cli import main\nsys.exit(main())"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1"},
    )


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zephon {zephon.__version__}\n"


def test_help_lists_the_subcommands_but_not_the_hidden_one(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "demo" in out
    assert "describe" in out
    assert "resume" not in out


def test_it_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-P", "-m", "zephon.cli", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"zephon {zephon.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["demo", "--batches", "1"], "--batches"),
        (["demo", "--batches", "many"], "--batches"),
        (["demo", "--batch-size", "0"], "--batch-size"),
        (["demo", "--sequence-length", "1"], "--sequence-length"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--folder", __file__], "--folder"),
        (["describe"], "STATEFILE"),
    ],
)
def test_wrong_usage_ends_with_code_2_and_names_the_argument(capsys, arguments, text):
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


def test_a_missing_file_is_one_paragraph_and_code_1(tmp_path):
    done = run("describe", tmp_path / "none")
    assert done.returncode == 1
    assert flat(done.stderr) == f"zephon: error: {tmp_path}/none: No such file or directory"


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    done = run("describe", tmp_path)
    assert done.returncode == 1
    assert flat(done.stderr) == f"zephon: error: {tmp_path}: Is a directory"


@pytest.mark.parametrize("content", [b"", b"not a state", b"\x80\x04]."])
def test_a_file_that_is_not_a_state_is_one_paragraph(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    done = run("describe", tmp_path / "file")
    assert done.returncode == 1
    assert done.stderr.startswith("zephon: error: ")
    assert "fault of zephon" not in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tmp_path):
    done = run("describe", "--debug", tmp_path / "none")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "FileNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("typer", ["demo"], "cli"),
        ("rich", ["demo"], "cli"),
        ("tokenizers", ["demo"], "tokenizers"),
        ("matplotlib", ["demo", "--trace", "out.png"], "plot"),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_done(
    tmp_path, monkeypatch, missing, arguments, extra
):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments, prelude=f"sys.modules[{missing!r}] = None")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"pip install './zephon[{extra}]'" in flat(done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_itself_loads_no_torch():
    done = run(
        "--help", prelude="import atexit; atexit.register(lambda: print('torch' in sys.modules))"
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "False"
