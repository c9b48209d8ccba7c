"""What this installation is made of: the facts behind ``zephon doctor``.

Needs neither the extra ``cli`` nor a working native part, so that it runs where
something is broken: ``python -m zephon.diagnosis`` prints the same.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zephon._version import __version__

__all__ = ["Diagnosis", "diagnose"]

LEAST_SHARED_MEMORY = 64 << 20
"""Free bytes of /dev/shm below which workers of a DataLoader are likely to fail."""

_PEERS = ("numpy", "torch", "pyarrow", "tokenizers", "orjson", "zstandard", "typer", "rich")
_REQUIRED = ("numpy", "torch")
_FEATURES = {
    "x86_64": ("sse4_2", "avx2", "fma", "bmi2", "avx512f"),
    "aarch64": ("asimd", "asimddp", "sve"),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found.

    Attributes
    ----------
    facts : dict
        Names to strings, by section.
    problems : tuple of str
        What is wrong, each with what to do; empty if all is well.
    """

    facts: Mapping[str, Mapping[str, str]]
    problems: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        facts = {section: dict(values) for section, values in self.facts.items()}
        return {"ok": not self.problems, "problems": list(self.problems), **facts}

    def __str__(self) -> str:
        lines = []
        for section, values in self.facts.items():
            lines.append(section)
            lines += [f"  {name:20}  {value}" for name, value in values.items()]
        if self.problems:
            lines.append("problems")
            lines += [f"  {number}. {text}" for number, text in enumerate(self.problems, 1)]
        else:
            lines.append("no problem found; `python -m zephon.selftest` checks what it computes")
        return "\n".join(lines)


def diagnose() -> Diagnosis:
    """Look at the installation, the machine and this process; changes nothing."""
    problems: list[str] = []
    sections: dict[str, Callable[[list[str]], dict[str, str]]] = {
        "zephon": _package,
        "native part": _native,
        "machine": _machine,
        "packages": _packages,
        "megatron": _megatron,
    }
    facts = {}
    for name, look in sections.items():
        try:
            facts[name] = look(problems)
        except Exception as error:  # one broken thing must not hide the others
            facts[name] = {"failed": f"{type(error).__name__}: {error}"}
            problems.append(f"looking at {name} failed with {type(error).__name__}: {error}")
    return Diagnosis(facts, tuple(problems))


def _package(_: list[str]) -> dict[str, str]:
    folder = Path(__file__).parent
    libc = " ".join(platform.libc_ver()) or "unknown libc"
    return {
        "version": __version__,
        "folder": str(folder),
        "wheel tag": ", ".join(_wheel_tags(folder)) or "none: not installed as a wheel",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sysconfig.get_platform()}, {libc}",
    }


def _wheel_tags(folder: Path) -> list[str]:
    for path in folder.parent.glob(f"zephon-{__version__}.dist-info/WHEEL"):
        return re.findall(r"^Tag: (.*)$", path.read_text(), re.MULTILINE)
    return []


def _native(problems: list[str]) -> dict[str, str]:
    from zephon import _native as native

    facts = {}
    with contextlib.suppress(ImportError):  # a source tree that is not built has none
        info = importlib.import_module("zephon._native._build_info")
        facts = {
            "compiler": info.COMPILER,
            "target": info.TARGET,
            "flags": info.FLAGS,
            "cython": info.CYTHON,
        }
    broken = []
    for name in sorted(native._EXTENSIONS):
        try:
            getattr(native, name)
        except ImportError as error:
            broken.append(name)
            problems.append(f"the extension {name} cannot be loaded: {error}")
    number = len(native._EXTENSIONS)
    facts["extensions"] = f"{number - len(broken)} of {number} load"
    if "helpers_cpp" not in broken:
        facts["blend kernel"] = native.helpers_cpp.blend_kernel()
    facts["other kernels"] = "baseline, the only variant"
    return facts


def _machine(problems: list[str]) -> dict[str, str]:
    from zephon._threads import get_threads

    facts = {"cpu": platform.machine(), "cpu features": " ".join(_cpu_features()) or "unknown"}
    try:
        facts["threads of a call"] = str(get_threads())
    except ValueError as error:
        facts["threads of a call"] = "none"
        problems.append(f"{error}; unset it, or set it to a number of processors")
    facts["free shared memory"] = _shared_memory(problems)
    return facts


def _cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Those of the features of interest that the system reports."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return []
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    there = set(found[1].split()) if found else set()
    return [name for name in _FEATURES.get(platform.machine(), ()) if name in there]


def _shared_memory(problems: list[str], folder: str = "/dev/shm") -> str:
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return f"none ({folder}: {error.strerror})"
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    if free < LEAST_SHARED_MEMORY:
        problems.append(
            f"{folder} has {free >> 20} MiB free, and workers of a torch DataLoader pass batches "
            "through it: give the container more (docker run --shm-size=1g), or use no workers, "
            "which zephon does not need"
        )
    return f"{free >> 20} of {size >> 20} MiB in {folder}"


def _packages(problems: list[str]) -> dict[str, str]:
    least = _declared()
    facts = {}
    for name in _PEERS:
        floor = least.get(name, "")
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts[name] = "not installed" + ("" if name in _REQUIRED else " (optional)")
            if name in _REQUIRED:
                need = f"{name}>={floor}" if floor else name
                problems.append(f"{name} is required and not installed: pip install '{need}'")
            continue
        if floor and _release(version) < _release(floor):
            facts[name] = f"{version}, too old"
            problems.append(
                f"{name} {version} is older than {floor}, the oldest that is supported: "
                f"pip install '{name}>={floor}'"
            )
        else:
            facts[name] = f"{version}, supported" + (f" (from {floor} on)" if floor else "")
    return facts


def _declared() -> dict[str, str]:
    """The oldest supported version of each package, as the installed metadata has it."""
    try:
        requirements = importlib.metadata.requires("zephon") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found: dict[str, str] = {}
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)\s*\(?>=\s*([0-9.]+)", requirement)
        if match:
            found.setdefault(match[1].lower(), match[2])
    return found


def _release(version: str) -> tuple[int, ...]:
    """Numbers of a version up to what is no number: ``2.13.0+cpu`` is (2, 13, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _megatron(problems: list[str]) -> dict[str, str]:
    from zephon.megatron import registration
    from zephon.megatron.index_cache import CACHE_VARIABLE, cache_folder

    found = registration()
    facts = {"registration": "registered" if found.active else "not registered in this process"}
    for one in found.replacements:
        facts[one.module] = ", ".join([*one.functions, one.state])
    folder = cache_folder(None)
    if folder is None:
        facts["index cache"] = f"in memory only ({CACHE_VARIABLE} is not set)"
    elif os.path.isdir(folder):
        writable = os.access(folder, os.W_OK)
        facts["index cache"] = f"{folder} ({'writable' if writable else 'read-only'})"
    else:
        facts["index cache"] = f"{folder} (does not exist)"
        problems.append(
            f"{CACHE_VARIABLE} is {folder!r}, which is no folder: make it, or unset the variable "
            "to build indices in memory"
        )
    return facts


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was found, as JSON with ``--json``; return 1 if something is wrong."""
    found = diagnose()
    arguments = sys.argv[1:] if argv is None else argv
    print(json.dumps(found.as_dict(), indent=2) if "--json" in arguments else found)
    return int(bool(found.problems))


if __name__ == "__main__":
    sys.exit(main())
