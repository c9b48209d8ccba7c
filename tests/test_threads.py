import math
import os
import re
import subprocess
import sys

import pytest

import zephon.megatron
from zephon import _threads
from zephon._threads import get_threads, set_threads
from zephon.errors import ConfigError, ConfigTypeError


@pytest.fixture(autouse=True)
def default(monkeypatch):
    monkeypatch.delenv("ZEPHON_THREADS", raising=False)
    yield
    set_threads(None)


def test_default_is_what_the_process_may_use(monkeypatch):
    monkeypatch.setattr(_threads, "_quota", lambda: math.inf)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5, 9})
    assert get_threads() == 4
    monkeypatch.setattr(_threads, "_quota", lambda: 2.5)
    assert get_threads() == 3
    monkeypatch.setattr(_threads, "_quota", lambda: 0.1)
    assert get_threads() == 1
    monkeypatch.setattr(_threads, "_quota", lambda: math.inf)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(200)))
    assert get_threads() == 64


def test_call_wins_over_the_environment_and_that_over_the_default(monkeypatch):
    monkeypatch.setenv("ZEPHON_THREADS", "7")
    assert get_threads() == 7
    set_threads(5)
    assert get_threads() == 5
    set_threads(None)
    assert get_threads() == 7


def test_empty_environment_variable_says_nothing(monkeypatch):
    expected = get_threads()
    monkeypatch.setenv("ZEPHON_THREADS", "")
    assert get_threads() == expected


@pytest.mark.parametrize("value", ["0", "65", "-1", "two", "1.5"])
def test_environment_variable_that_is_no_number_of_threads_is_named(monkeypatch, value):
    monkeypatch.setenv("ZEPHON_THREADS", value)
    with pytest.raises(
        ConfigError,
        match=rf"ZEPHON_THREADS must be a number from 1 to 64, got '{re.escape(value)}'",
    ):
        get_threads()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ConfigError, "threads must be from 1 to 64, got 0"),
        (65, ConfigError, "threads must be from 1 to 64, got 65"),
        (2.0, ConfigTypeError, "threads must be an integer, got float"),
    ],
)
def test_number_that_cannot_be_is_refused_and_changes_nothing(value, error, message):
    set_threads(3)
    with pytest.raises(error, match=message):
        set_threads(value)
    assert get_threads() == 3


def run(*args, **environment):
    result = subprocess.run(
        [sys.executable, "-P", *args],
        capture_output=True, text=True, check=True, env={**os.environ, **environment},
    )  # fmt: skip
    return result.stdout


WORKER = """
import concurrent.futures, multiprocessing, sys
from zephon.megatron import get_threads, set_threads

def both():
    before = get_threads()
    set_threads(2)
    return before, get_threads()

if __name__ == "__main__":
    set_threads(6)
    context = multiprocessing.get_context(sys.argv[1])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(both).result(), get_threads())
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_worker_uses_one_thread_unless_told_there(tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text(WORKER)
    assert run(str(script), method, ZEPHON_THREADS="7") == "(1, 2) 6\n"


def test_forked_worker_does_not_inherit_the_setting():
    code = (
        "import multiprocessing, os\n"
        "from zephon.megatron import get_threads, set_threads\n"
        "set_threads(6)\n"
        "def say(): print(get_threads(), flush=True)\n"
        "worker = multiprocessing.get_context('fork').Process(target=say)\n"
        "worker.start(); worker.join()\n"
        "if os.fork() == 0: say(); os._exit(0)\n"
        "os.wait(); say()\n"
    )
    assert run("-c", code) == "1\n6\n6\n"  # a bare fork is no worker: it goes on as its parent


def test_worker_of_a_torch_data_loader_uses_one_thread():
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch.utils.data as data\n"
        "from zephon.megatron import get_threads, set_threads\n"
        "class Threads(data.Dataset):\n"
        "    def __len__(self): return 2\n"
        "    def __getitem__(self, at): return get_threads()\n"
        "set_threads(6)\n"
        "print([int(n) for n in data.DataLoader(Threads(), num_workers=1)], get_threads())\n"
    )
    assert run("-c", code) == "[1, 1] 6\n"


def test_setting_is_found_in_the_package_and_in_the_helper_module():
    assert zephon.megatron.set_threads is set_threads
    assert zephon.megatron.get_threads is get_threads
    helper = zephon.megatron.compile_helper()
    assert helper.set_threads is set_threads
    assert helper.get_threads is get_threads


def grant(root, folder, **files):
    path = root / "sys/fs/cgroup" / folder
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("_", ".", 1)).write_text(text)


@pytest.fixture
def system(tmp_path):
    def make(groups):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
        return tmp_path

    return make


def test_quota_is_the_least_of_the_control_groups_above(system):
    root = system("0::/pod/job\n")
    grant(root, "pod", cpu_max="150000 100000\n")
    grant(root, "pod/job", cpu_max="max 100000\n")
    assert _threads._quota(root) == 1.5


def test_quota_of_a_container_stands_at_the_top_it_sees(system):
    root = system("0::/host/only\n")
    grant(root, "", cpu_max="400000 100000\n")
    assert _threads._quota(root) == 4.0


def test_quota_of_a_version_1_group_is_read(system):
    root = system("5:memory:/x\n4:cpu,cpuacct:/x\n0::/\n")
    grant(root, "cpu", cpu_cfs_quota_us="-1\n", cpu_cfs_period_us="100000\n")
    grant(root, "cpu/x", cpu_cfs_quota_us="300000\n", cpu_cfs_period_us="100000\n")
    assert _threads._quota(root) == 3.0


def test_process_without_control_groups_has_no_quota(tmp_path, system):
    assert _threads._quota(tmp_path / "nowhere") == math.inf
    assert _threads._quota(system("0::/\n")) == math.inf
