import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import zephon.state
from zephon.cli import demo, main

SMALL = ("--batches", "12", "--batch-size", "2", "--sequence-length", "64")


def flat(text):
    return " ".join(text.split())


def test_the_demo_builds_loads_reports_stops_and_goes_on_exactly(
    small_python, tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "100")
    folder, picture = tmp_path / "demo", tmp_path / "out.png"
    arguments = ["demo", "--folder", str(folder), *SMALL, "--seed", "3"]
    assert main([*arguments, "--trace", str(picture)]) == 0
    out = flat(capfd.readouterr().out)
    stop = random.Random(3).randrange(1, 12)
    state = (folder / "stopped.state").read_bytes()
    assert "Corpora built in" in out
    assert "12 batches of 2 x 64 in" in out
    assert "tokens/s" in out
    assert "asked" in out
    assert "70.0%" in out
    assert "Packing: 100.00% of all slots hold a token" in out
    assert "ends | " in out
    assert f"Stopped after batch {stop} of 12 (chosen by --seed 3)" in out
    assert f"{len(state):,} bytes" in out
    assert f"The remaining {12 - stop} batches are identical" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert zephon.state.describe(state)
    assert main(["describe", str(folder / "stopped.state")]) == 0

    assert main(arguments) == 0
    assert "Corpora found in" in capfd.readouterr().out


def test_a_batch_that_differs_after_the_stop_is_named_and_ends_with_code_1(
    small_python, tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")

    def tampered(stream, state, batches):
        hashes = list(real(stream, state, batches))
        hashes[-1] = "0" * 64
        return iter(hashes)

    real = demo.resumed_digests
    monkeypatch.setattr(demo, "resumed_digests", tampered)
    assert main(["demo", "--folder", str(tmp_path / "demo"), *SMALL]) == 1
    out = flat(capfd.readouterr().out)
    assert "Batch 12 differs: " in out
    assert "identical" not in out


def test_the_second_process_failing_is_an_error_that_says_so(
    small_python, tmp_path, capfd, monkeypatch
):
    def lost(stream, state, batches):
        Path(state).unlink()
        return real(stream, state, batches)

    real = demo.resumed_digests
    monkeypatch.setattr(demo, "resumed_digests", lost)
    assert main(["demo", "--folder", str(tmp_path / "demo"), *SMALL]) == 1
    err = flat(capfd.readouterr().err)
    assert "stopped.state: No such file or directory" in err
    assert "ended with code 1 after 0 of" in err


def test_a_state_of_another_seed_is_refused_in_one_paragraph(
    small_python, tmp_path, capfd, monkeypatch
):
    folder = str(tmp_path / "demo")
    assert main(["demo", "--folder", folder, *SMALL]) == 0
    capfd.readouterr()
    arguments = ["demo-resume", "--folder", folder, "--state", f"{folder}/stopped.state"]
    assert main([*arguments, *SMALL, "--seed", "1"]) == 1
    err = flat(capfd.readouterr().err)
    assert err.startswith("zephon: error: ")
    assert "fault of zephon" not in err


def test_a_folder_with_files_of_the_same_names_is_left_alone(small_python, tmp_path, capfd):
    (tmp_path / "code.jsonl").write_text("{}\n")
    assert main(["demo", "--folder", str(tmp_path), *SMALL]) == 1
    assert "which the demo did not write" in flat(capfd.readouterr().err)
    assert (tmp_path / "code.jsonl").read_text() == "{}\n"


def test_a_tokenizer_file_that_is_not_one_is_one_paragraph(
    small_python, tmp_path, capfd, monkeypatch
):
    folder = tmp_path / "demo"
    assert main(["demo", "--folder", str(folder), *SMALL]) == 0
    tokenizer = folder / "tokenizer" / "tokenizer.json"
    tokenizer.write_bytes(b"x" * tokenizer.stat().st_size)  # as long as the manifest says
    capfd.readouterr()
    assert main(["demo", "--folder", str(folder), *SMALL]) == 1
    err = flat(capfd.readouterr().err)
    assert err.startswith("zephon: error: ")
    assert "tokenizer" in err
    assert "fault of zephon" not in err


def test_an_interrupt_ends_with_code_130_and_without_a_word(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "zephon.cli", "demo", "--folder", str(tmp_path / "demo")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        # A job in the background has SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        # It is building: an interrupt while modules are still being imported may be lost in one.
        while not any((tmp_path / "demo").glob(".building-*/*")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err == ""
    assert list((tmp_path / "demo").iterdir()) == []


@pytest.mark.slow
def test_the_installed_command_runs_the_demo_on_the_real_library(tmp_path):
    command = Path(sysconfig.get_path("scripts")) / "zephon"
    done = subprocess.run(
        [command, "demo", "--batches", "40"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | {"COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    assert "batches are identical" in flat(done.stdout)
    assert {path.name for path in tmp_path.iterdir()} == {"demo"}
    counts = json.loads((tmp_path / "demo" / "manifest.json").read_text())["counts"]
    assert counts["code_documents"] > 300
    assert counts["prose_tokens"] > 100_000
