"""What importing zephon does to the process, which is nothing that anyone would notice."""

import json
import os
import subprocess
import sys

import pytest

LIGHT = ["zephon", "zephon.megatron", "zephon.errors", "zephon.state", "zephon.cli"]

# Runs after NumPy is there, so that what NumPy does is not put down to zephon. Byte code
# is not written (-B): that would be the interpreter's doing.
_WATCH = """
import json, os, sys, threading
import numpy

def threads():
    return int(next(line for line in open("/proc/self/status") if line.startswith("Threads:"))
               .split()[1])

opened, before, watching = [], threads(), True

def hook(event, args):
    if watching and event == "open":
        path, mode, flags = args
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
        opened.append([os.fsdecode(path) if isinstance(path, (str, bytes)) else repr(path), writes])
    elif watching and event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork",
                                "socket.connect"):
        opened.append([event, True])

sys.addaudithook(hook)
import {module}
{then}
watching = False
print(json.dumps(dict(
    opened=opened, threads=threads() - before, torch="torch" in sys.modules,
    places=sorted({{os.path.realpath(p) for p in (*sys.path, sys.prefix, sys.base_prefix) if p}}))))
"""


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | env,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def watch(module, then=""):
    return run(_WATCH.format(module=module, then=then))


@pytest.mark.parametrize("module", LIGHT)
def test_importing_starts_no_thread_writes_nothing_and_stays_in_the_installation(module):
    seen = watch(module)
    assert seen["threads"] == 0
    assert [path for path, writes in seen["opened"] if writes] == []
    outside = [
        path
        for path, _ in seen["opened"]
        if not any(os.path.realpath(path).startswith(place + os.sep) for place in seen["places"])
    ]
    assert outside == []


@pytest.mark.parametrize("module", LIGHT)
def test_importing_loads_no_torch(module):
    assert watch(module)["torch"] is False


def test_the_watch_notices_a_file_that_is_written_and_a_thread_that_is_started(tmp_path):
    seen = watch(
        "time",
        f"open({str(tmp_path / 'file')!r}, 'w').close()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    )
    assert [str(tmp_path / "file"), True] in seen["opened"]
    assert seen["threads"] == 1


_TIME = """
import json, time
import numpy
began = time.perf_counter()
{what}
print(json.dumps(time.perf_counter() - began))
"""


def test_importing_takes_under_150_ms_beyond_numpy_with_ten_times_the_slack():
    assert run(_TIME.format(what="import zephon")) < 10 * 0.150


def test_compile_helper_needs_no_compiler_and_takes_under_50_ms_with_ten_times_the_slack():
    seconds = run(
        _TIME.format(what="import zephon.megatron as m; m.compile_helper()"),
        PATH="",
        CC="/bin/false",
        CXX="/bin/false",
    )
    assert seconds < 10 * 0.050


def test_compile_helper_runs_no_program_and_writes_nothing():
    seen = watch("zephon.megatron as m", "m.compile_helper()")
    assert [path for path, writes in seen["opened"] if writes] == []
