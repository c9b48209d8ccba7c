"""Every CPython that zephon's wheel is for, wherever one usually lies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ASK = """
import json, sys, sysconfig
print(json.dumps([sys.implementation.name, sys.version_info[:3], sys.base_prefix,
                  bool(sysconfig.get_config_var("Py_GIL_DISABLED"))]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A program, its version and the folder it is installed in."""

    program: Path
    version: tuple[int, ...]
    prefix: Path

    def __str__(self) -> str:
        return f"CPython {'.'.join(map(str, self.version))}"


def find() -> list[Interpreter]:
    """One for each minor version from 3.11 on, the newest found, in order."""
    found: dict[tuple[int, ...], Interpreter] = {}
    for program in _candidates():
        one = _ask(program)
        if one is not None and one.version >= (3, 11):
            best = found.get(one.version[:2])
            if best is None or one.version > best.version:
                found[one.version[:2]] = one
    return [found[version] for version in sorted(found)]


def _candidates() -> Iterator[Path]:
    """This one, those on PATH, and pyenv's and uv's, which need not be on it."""
    yield Path(sys.executable)
    home = Path.home()
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    data = Path(os.environ.get("XDG_DATA_HOME", home / ".local" / "share"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", data / "uv" / "python"))
    for root in (pyenv / "versions", uv, Path("/opt/python")):
        folders += sorted(root.glob("*/bin"))
    for folder in folders:
        if folder.name != "shims":  # of pyenv: they ask which version is meant
            yield from sorted(folder.glob("python3.[1-9][0-9]"))


def _ask(program: Path) -> Interpreter | None:
    try:
        done = subprocess.run(
            [program, "-I", "-c", _ASK], capture_output=True, text=True, timeout=60
        )
        kind, version, prefix, free_threaded = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if kind != "cpython" or free_threaded:
        return None
    return Interpreter(program, tuple(version), Path(prefix))
