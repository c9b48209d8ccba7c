"""Virtual environments of the peers, made once and kept.

Each peer has its own, with what peers/NAME.txt pins. PyTorch and NumPy, which most
of them need, are installed once in an environment that all can import from, and no
peer may bring others: a bare ``torch`` is several gigabytes of CUDA. The folder is
ZEPHON_BENCH_ENVS, or build/bench/envs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from harness import TREE

PEERS = Path(__file__).parent / "peers"
SHARED = PEERS / "shared.txt"


def folder() -> Path:
    return Path(os.environ.get("ZEPHON_BENCH_ENVS", TREE / "build" / "bench" / "envs"))


def python_of(name: str) -> Path:
    """The interpreter of the peer's environment, installed if it is not there.

    Raises
    ------
    RuntimeError
        It cannot be installed; the message is the installer's last line.
    """
    shared = made("shared", SHARED, [])
    return made(name, PEERS / f"{name}.txt", [shared]) / "bin" / "python"


def made(name: str, requirements: Path, visible: list[Path]) -> Path:
    pins = requirements.read_text() + SHARED.read_text() + sys.version
    target = folder() / f"{name}-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"
    if (target / "complete").exists():
        return target
    print(f"install {name}", file=sys.stderr, flush=True)
    run([sys.executable, "-m", "venv", "--without-pip", "--clear", target])
    (site,) = target.glob("lib/python3*/site-packages")
    paths = [str(next(v.glob("lib/python3*/site-packages"))) for v in visible]
    (site / "shared.pth").write_text("\n".join(paths))
    pip = [sys.executable, "-m", "pip", "--python", target / "bin" / "python", "install"]
    pip += ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    run([*pip, "--no-deps", "--no-warn-conflicts", "-r", requirements])
    (target / "complete").touch()
    return target


def run(command: list[str | Path]) -> None:
    ran = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONSAFEPATH": "1"}
    )
    if ran.returncode:
        said = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
        raise RuntimeError((said or ran.stderr.splitlines() or ["no message"])[-1])
