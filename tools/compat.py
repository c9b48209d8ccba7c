"""Test the package with the oldest and the newest of what it declares to work with.

    python tools/compat.py [TESTS...] [--ends oldest newest] [--old-torch] [--wheel FILE]

One environment for each end lies in build/compat. PyTorch is the one of constraints.txt in both,
which is small: other releases on the registry are CUDA builds of several GB for x86-64.
``--old-torch`` and ``--new-torch`` take the declared and the newest one all the same. The extra
``trainers`` is left out: transformers asks for a newer tokenizers than zephon does. What was
installed is printed, and so is what was not tested.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "compat"
SHOWN = ("numpy", "torch", "pyarrow", "tokenizers", "orjson", "zstandard")
# What touches those packages; everything else does not depend on their versions.
TESTS = (
    "tests/io",
    "tests/ops",
    "tests/native",
    "tests/cli/test_describe.py",
    "tests/megatron/test_indexed.py",
    "tests/megatron/test_blending.py",
    "tests/megatron/test_gpt_golden.py",
    "tests/test_loader.py",
    "tests/test_collation.py",
    "tests/test_output.py",
    "tests/test_attention.py",
    "tests/test_packed_sequences.py",
    "tests/test_kept_states.py",
    "tests/test_selftest.py",
)
LEFT_OUT = ("trainers",)
_NAME = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)$")


def main() -> int:
    """Build the environments, run the tests in each and say what they had."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=TESTS)
    parser.add_argument("--ends", nargs="+", choices=("oldest", "newest"), default=None)
    parser.add_argument("--old-torch", action="store_true", help="2.4 with its CUDA packages")
    parser.add_argument("--new-torch", action="store_true", help="the newest with its packages")
    parser.add_argument("--wheel", type=Path, help="test this one and build none")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    wheel = options.wheel or build()
    failed = []
    for end in options.ends or ("oldest", "newest"):
        torch = options.old_torch if end == "oldest" else options.new_torch
        python = environment(end, wheel, torch)
        run(str(python), "-c", _VERSIONS.format(names=SHOWN))
        if not torch:
            print(f"{end}: NOT TESTED: the {end} torch; this is the one of constraints.txt")
        print(f"{end}: NOT TESTED: the {end} of the extras {', '.join(LEFT_OUT)}", flush=True)
        tests = [str(test) for test in options.tests]
        command = [python, "-P", "-m", "pytest", "-q", "-m", "not slow", "-n", "2", *tests]
        if subprocess.run(command, cwd=ROOT).returncode != 0:
            failed.append(end)
    print(f"failed: {', '.join(failed)}" if failed else "passed")
    return int(bool(failed))


def build() -> Path:
    """A wheel of this tree, built with the tools of this environment."""
    folder = FOLDER / "wheel"
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--wheel-dir", str(folder), f"{ROOT}/")  # fmt: skip
    return max(folder.glob("*.whl"), key=lambda file: file.stat().st_mtime)


_VERSIONS = """
import importlib.metadata as m
print(", ".join(f"{{name}} {{m.version(name)}}" for name in {names}))
"""


def environment(end: str, wheel: Path, own_torch: bool) -> Path:
    """The interpreter of an environment for ``end`` with ``wheel`` in it."""
    folder = FOLDER / end
    python = folder / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    pip.append("--no-compile")  # most of it is never imported
    pins = pinned()
    wanted = [
        f"{name}=={pins['torch']}" if name == "torch" and not own_torch
        else f"{name}=={floor}" if end == "oldest"
        else name
        for name, floor in declared().items()
    ]  # fmt: skip
    tests = [f"{name}=={pins[name]}" for name in ("pytest", "pytest-timeout", "pytest-xdist")]
    run(*pip, "--upgrade", *wanted, *tests, f"hypothesis=={pins['hypothesis']}")
    run(*pip, "--no-deps", "--no-index", "--force-reinstall", str(wheel))
    return python


def declared() -> dict[str, str]:
    """The runtime dependencies and those of the extras, with their oldest version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {}
    extras = project["optional-dependencies"]
    of_extras = (
        one for extra in extras if extra not in ("dev", *LEFT_OUT) for one in extras[extra]
    )
    for requirement in (*project["dependencies"], *of_extras):
        match = _NAME.match(requirement)
        if match:
            found[match[1].lower()] = match[2]
    return found


def pinned() -> dict[str, str]:
    """constraints.txt as a mapping."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {
        name.lower(): version
        for name, _, version in (line.partition("==") for line in lines if "==" in line)
    }


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
