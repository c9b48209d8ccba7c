"""Functions in other processes: errors, deaths, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import user_functions as functions
import zephon
from zephon.errors import ConfigError, OperatorError
from zephon.runtime import workers

MakeDataset = Callable[..., zephon.Dataset]
TESTS = str(Path(__file__).parents[1])


def build(
    function: Callable[..., Any], *, runner: str = "process", size: int = 8
) -> zephon.Pipeline:
    records = [{"tokens": 1000 * i + np.arange(4)} for i in range(20)]
    work = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_dict("m", {0: zephon.InMemoryShard(records)})],
        {"m": 1},
        shuffle_shards=False,
        exhausted_policy="repeat",
    )
    stream = zephon.Pipeline(work).map_transform(function).pack_flat(size).batch(1)
    return stream.prefetch(size, 1).options(runner=runner)


def is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_until_gone(process: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(process)


@pytest.mark.parametrize("runner", ["inline", "threads", "process"])
def test_an_error_names_the_function_and_the_document_and_has_its_cause(runner: str) -> None:
    stream = build(functions.fail_on_seven, runner=runner)
    with pytest.raises(OperatorError) as caught:
        for _ in stream:
            pass
    error = caught.value
    assert str(error) == (
        "<memory>, record 8: map_transform(user_functions.fail_on_seven) failed on document 7 of "
        "dataset 'm': ValueError: seven is not allowed"
    )
    assert (error.file, error.record) == ("<memory>", 8)
    assert error.operator == "map_transform(user_functions.fail_on_seven)"
    cause = error.__cause__
    assert type(cause) is ValueError
    if runner == "process":
        assert isinstance(cause.__cause__, workers.WorkerError)
        assert 'raise ValueError("seven is not allowed")' in str(cause.__cause__)
    else:
        assert cause.__traceback__ is not None


def test_an_error_that_cannot_be_sent_comes_as_its_text() -> None:
    with pytest.raises(OperatorError, match="UnpicklableError: this and that") as caught:
        next(iter(build(functions.fail_unpicklably)))
    assert repr(caught.value.__cause__) == "RuntimeError('UnpicklableError: this and that')"


def test_a_function_that_exits_ends_no_process_silently() -> None:
    with pytest.raises(RuntimeError, match="SystemExit: enough"):
        for _ in build(functions.leave):
            pass


@pytest.mark.parametrize(
    ("function", "told"),
    [(functions.crash, "SIGSEGV"), (functions.be_killed, "SIGKILL.*out of memory")],
)
def test_a_process_that_dies_is_an_error_that_names_the_document(
    function: Callable[..., Any], told: str
) -> None:
    begin = time.monotonic()
    with pytest.raises(OperatorError, match=f"was ended by {told}.*document 7 of dataset 'm'") as e:
        for _ in build(function):
            pass
    assert e.value.record == 8
    assert "user_functions" in e.value.operator
    assert time.monotonic() - begin < 60  # most of it is starting the process


def test_closing_ends_the_processes() -> None:
    stream = build(functions.with_process_id)
    iterator = iter(stream)
    process = int(next(iterator).rows().tokens(0)[0])
    assert process != os.getpid()
    stream.close()
    assert not is_alive(process)


def test_closing_while_a_function_runs_does_not_wait_for_it() -> None:
    import threading

    stream = build(functions.sleep_long)
    iterator = iter(stream)
    timer = threading.Timer(3, stream.close)
    timer.start()
    begin = time.monotonic()
    assert list(iterator) == []
    assert time.monotonic() - begin < 60
    timer.join()


SCRIPT = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
import user_functions as functions
from test_workers_script import build
stream = build(functions.{function}, size=2)
process = int(next(iter(stream)).rows().tokens(0)[0])
print(process, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "function"),
    [
        ("os._exit(3)", "first_then_sleep"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "first_then_sleep"),
        ("sys.exit(0)", "with_process_id"),
        ("raise KeyError", "first_then_sleep"),
    ],
)
def test_no_process_survives_its_parent(end: str, function: str, tmp_path: Path) -> None:
    module = textwrap.dedent(
        f"""
        import importlib.util
        spec = importlib.util.spec_from_file_location("workers_tests", {__file__!r})
        tests = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tests)
        build = tests.build
        """
    )
    (tmp_path / "test_workers_script.py").write_text(module)
    script = SCRIPT.format(tests=TESTS, function=function, end=end)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{script}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
    )
    process = int(done.stdout)
    assert wait_until_gone(process, 30), done.stderr


def test_an_interrupt_reaches_the_parent_alone_and_leaves_nothing(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import sys, time
        sys.path.insert(0, {TESTS!r})
        import user_functions as functions, zephon
        rows = [{{"tokens": [1, 2, 3]}}] * 20
        data = zephon.Dataset.from_dict("m", {{0: zephon.InMemoryShard(rows)}})
        work = zephon.StaticMixtureWorkSource([data], {{"m": 1}}, exhausted_policy="repeat",
                                              shuffle_shards=False)
        stream = zephon.Pipeline(work).map_transform(functions.with_process_id)
        stream = stream.pack_flat(2).batch(1).prefetch(8, 1).options(runner="process")
        try:
            for batch in stream:
                print(int(batch.rows().tokens(0)[0]), flush=True)
                time.sleep(60)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A job in the background has SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdout is not None
    process = int(child.stdout.readline())
    os.killpg(child.pid, signal.SIGINT)  # as Ctrl-C does: to all of them
    out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
    assert wait_until_gone(process, 10)


def test_lambdas_need_cloudpickle_and_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ConfigError, match="cannot send .*<lambda>.*install cloudpickle"):
        next(iter(build(lambda document: document)))
    stream = build(functions.keep)  # functions of modules do not
    assert len(next(iter(stream))) == 1
    stream.close()


def test_lambdas_run_in_processes_with_cloudpickle() -> None:
    pytest.importorskip("cloudpickle")
    stream = build(lambda document: {"tokens": document["tokens"] + 1})
    assert next(iter(stream)).rows().tokens(0).tolist() == [1, 2, 3, 4]
    stream.close()


def test_what_cannot_be_pickled_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot be pickled .*lock.*runner='threads' sends"):
        next(iter(build(functions.Locked())))


def test_processes_need_something_to_do_ahead() -> None:
    stream = build(functions.keep).prefetch(0)
    with pytest.raises(ConfigError, match="runner='process' works ahead"):
        next(iter(stream))
    with pytest.raises(ConfigError, match="runner is 'ray', expected one of inline, threads, proc"):
        stream.options(runner="ray")


def test_no_process_is_started_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(workers.subprocess, "Popen", never)
    for runner in ("threads", "inline"):
        stream = build(functions.keep, runner=runner)
        assert len(next(iter(stream))) == 1
        stream.close()
