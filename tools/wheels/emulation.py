"""An aarch64 Python of Debian and qemu to run it, unpacked in a folder; nothing is installed.

Needs apt-get, apt-cache and dpkg-deb, no root.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def prepare(folder: Path) -> list[str]:
    """The command that runs the emulated Python; unpacks it at the first call."""
    root, tools = folder / "root", folder / "tools"
    stamp = folder / "ready"
    if not stamp.exists():
        # numpy's wheels need libstdc++ and do not bring it.
        packages = ["python3-minimal", "libpython3-stdlib", "libstdc++6"]
        _unpack(_fetch(folder / "apt-arm64", "arm64", packages, whole=True), root)
        host = _output("dpkg", "--print-architecture").strip()
        # Linked statically: nothing that it depends on is needed.
        _unpack(_fetch(folder / "apt-host", host, ["qemu-user-static"], whole=False), tools)
        stamp.touch()
    program = next((root / "usr" / "bin").glob("python3.[0-9]*[0-9]"))
    return [str(tools / "usr/bin/qemu-aarch64-static"), "-L", str(root), str(program)]


def python_version(command: list[str]) -> str:
    """Major and minor version of the emulated Python."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return _output(*command, "-I", "-c", code).strip()


def install(site: Path, version: str, wheel: Path) -> None:
    """Put zephon's wheel and the newest NumPy for that Python into the folder ``site``."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site)]
    pip += ["--only-binary", ":all:", "--no-deps", "--python-version", version]
    pip += ["--implementation", "cp"]
    for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28"):
        pip += ["--platform", f"{kind}_aarch64"]
    subprocess.run([*pip, "numpy>=1.26"], check=True)
    abi = ["--abi", "abi3", "--abi", f"cp{version.replace('.', '')}"]
    subprocess.run([*pip, *abi, "--upgrade", "--no-index", str(wheel)], check=True)


def _fetch(apt: Path, architecture: str, packages: list[str], *, whole: bool) -> Path:
    """Download ``packages``, with all that they depend on if ``whole``, into the folder returned.

    apt is given folders of its own, so that it works for any architecture and any user.
    """
    archives = apt / "cache/archives"
    (apt / "state/lists/partial").mkdir(parents=True, exist_ok=True)
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()  # an empty one: nothing counts as installed
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Sandbox::User": "",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Debug::NoLocking": "1",
    }
    flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    _output("apt-get", *flags, "-q", "update")
    get = ["install", "-d", "-y", "--no-install-recommends"] if whole else ["download"]
    _output("apt-get", *flags, "-q", *get, *packages, folder=archives)
    return archives


def _unpack(archives: Path, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for package in sorted(archives.glob("*.deb")):
        _output("dpkg-deb", "-x", str(package), str(root))


def _output(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
