"""Use the finished wheels as a cluster would: no compiler, nothing writable, an ordinary user.

    python tools/wheels/test.py [--wheels dist/wheels] [--no-emulation]

The wheel for this CPU is installed by its path, with NumPy and nothing else, into a fresh
environment of every CPython found, and runs its self-test: alone, and in three processes at once
from the same installation. The wheel for aarch64 does so under qemu, and must compute the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Also where PYTHONSAFEPATH keeps the folder of a program off the path, as in the Makefile.
sys.path.insert(0, str(Path(__file__).parent))
import emulation
import interpreters

HERE = Path(__file__).parent
PROCESSES = 3

# Fails unless nothing at all can be written; what the selftest then does, it does without.
_PROBE = """
import os, shutil, sys, sysconfig, tempfile
places = [os.getcwd(), os.environ["HOME"], os.environ["TMPDIR"], "/tmp", "/var/tmp", "/dev/shm",
          "/run", sysconfig.get_path("purelib"), sys.prefix]
for place in places:
    try:
        open(os.path.join(place, "zephon-probe"), "w")
    except OSError:
        continue
    sys.exit(f"{place} can be written to")
try:
    sys.exit(f"there is a folder for temporary files: {tempfile.gettempdir()}")
except FileNotFoundError:
    pass
found = [name for name in ("cc", "c++", "gcc", "g++", "clang", "make", "ninja", "nvcc")
         if shutil.which(name)]
if found or os.getuid() == 0:
    sys.exit(f"compilers {found}, user {os.getuid()}")
"""


class TestError(Exception):
    """The wheel does not do what it must."""


def main() -> int:
    """Test both wheels and say what was tested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=Path, default=Path("dist/wheels"))
    parser.add_argument("--cache", type=Path, default=Path("build/emulation"))
    parser.add_argument("--no-emulation", action="store_true", help="leave aarch64 out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zephon-wheel-test-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        try:
            told = test_native(only_wheel(options.wheels, platform.machine()), scratch)
            if options.no_emulation:
                print("aarch64: left out, as asked")
            else:
                wheel = only_wheel(options.wheels, "aarch64")
                test_emulated(wheel, options.cache.resolve(), scratch, told)
        except (TestError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


def only_wheel(folder: Path, machine: str) -> Path:
    """The wheel for a CPU."""
    found = list(folder.glob(f"zephon-*_{machine}.whl"))
    if len(found) != 1:
        raise TestError(f"{len(found)} wheels for {machine} in {folder}, expected one: make wheels")
    return found[0].resolve()


def test_native(wheel: Path, scratch: Path) -> str:
    """Test the wheel under every interpreter; what the self-test told is the same for all."""
    told = set()
    found = interpreters.find()
    for interpreter in found:
        began = time.monotonic()
        environment = scratch / f"cp{''.join(map(str, interpreter.version[:2]))}"
        subprocess.run(
            [interpreter.program, "-m", "venv", "--without-pip", environment], check=True
        )
        python = environment / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        subprocess.run([*pip, "--only-binary", ":all:", "numpy>=1.26"], check=True)
        subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
        enter = sandbox(scratch, interpreter.prefix)
        start(enter, str(python), "-c", _PROBE)()
        facts = json.loads(start(enter, str(python), "-m", "zephon.diagnosis", "--json", code=1)())
        # It must see what the sandbox is short of, and nothing else.
        shm, torch = [*facts["problems"], "", ""][:2]
        if len(facts["problems"]) != 2 or "/dev/shm" not in shm or "torch is req" not in torch:
            raise TestError(f"zephon doctor: {facts['problems']}")
        waiting = [selftest(enter, str(python)) for _ in range(PROCESSES)]
        told |= {finish() for finish in waiting}
        numpy = facts["packages"]["numpy"].partition(",")[0]
        print(
            f"{interpreter}, numpy {numpy}: {PROCESSES} processes at once, passed "
            f"({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    if len(told) != 1:
        raise TestError("the self-test told different things:\n" + "\n".join(sorted(told)))
    print(f"{platform.machine()}: {json.loads(next(iter(told)))['digest']}")
    return next(iter(told))


def test_emulated(wheel: Path, cache: Path, scratch: Path, expected: str) -> None:
    """Test the wheel for aarch64 and compare what its self-test tells."""
    began = time.monotonic()
    command = emulation.prepare(cache)
    # Where everybody may read it.
    copy = scratch / "emulated"
    others = shutil.ignore_patterns("apt-*", "qemu-*-static")
    shutil.copytree(cache, copy, symlinks=True, ignore=others)
    shutil.copy(command[0], copy / Path(command[0]).relative_to(cache))
    command = [part.replace(str(cache), str(copy)) for part in command]
    site = scratch / "site"
    version = emulation.python_version(command)
    emulation.install(site, version, wheel)
    enter = sandbox(scratch, copy)
    os.environ["PYTHONPATH"] = str(site)
    told = selftest(enter, *command)()
    where = start(enter, *command, "-c", "import platform as p; print(p.machine(), p.libc_ver())")()
    if not where.startswith("aarch64"):
        raise TestError(f"the emulated Python says it is {where}")
    if told != expected:
        raise TestError(f"aarch64 computes something else:\n{told}\nexpected:\n{expected}")
    print(
        f"aarch64, CPython {version} under qemu: the same, {json.loads(told)['digest']} "
        f"({time.monotonic() - began:.0f} s)"
    )


def sandbox(scratch: Path, prefix: Path) -> list[str]:
    """The command that runs another where nothing can be written."""
    if os.getuid() != 0:
        raise TestError("mounting everything read-only and becoming another user needs root")
    return [str(HERE / "sandbox"), str(scratch), str(prefix)]


def selftest(enter: list[str], *python: str) -> Callable[[], str]:
    """Start the self-test; the call waits and returns what it told."""
    return start(enter, *python, "-m", "zephon.selftest", "--json")


def start(enter: list[str], *command: str, code: int = 0) -> Callable[[], str]:
    """Start a command in the sandbox; the call waits for it to end with ``code``."""
    process = subprocess.Popen(
        [*enter, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def finish() -> str:
        out, errors = process.communicate(timeout=600)
        if process.returncode != code or errors:
            what = " ".join(command[1:3])
            raise TestError(f"{what} ended with {process.returncode}:\n{out}{errors}")
        return out

    return finish


if __name__ == "__main__":
    sys.exit(main())
