"""Build the sdist and, from it, a stable-ABI wheel for each CPU, without a container engine.

    python tools/wheels/build.py [--out dist/wheels] [--again] [--machine x86_64 ...]

Needs what tools/wheels/requirements.txt and the build of the package name. zig is the compiler,
so the oldest C library that will do is chosen and not found, and a machine builds for another.
The bytes depend on the commit and on the versions of the tools, not on folder, time or user:
``--again`` builds once more in another folder and compares.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path

# Also where PYTHONSAFEPATH keeps the folder of a program off the path, as in the Makefile.
sys.path.insert(0, str(Path(__file__).parent))
import archive
import elf
from audit import AuditError, audit

ROOT = Path(__file__).parents[2]
MACHINES = ("x86_64", "aarch64")
GLIBC = "2.17"


def main() -> int:
    """Build, audit and say so."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dist/wheels"))
    parser.add_argument("--again", action="store_true", help="build twice and compare")
    parser.add_argument("--machine", nargs="*", choices=MACHINES, default=list(MACHINES))
    options = parser.parse_args()
    epoch = source_date()
    require_headers()
    try:
        with tempfile.TemporaryDirectory(prefix="zephon-wheels-") as scratch:
            built = build(Path(scratch) / "one", options.machine, epoch)
            if options.again:
                other = build(Path(scratch) / "another" / "folder", options.machine, epoch)
                compare(built, other)
            options.out.mkdir(parents=True, exist_ok=True)
            for old in options.out.glob("zephon-*"):
                old.unlink()
            for file in built:
                shutil.copy(file, options.out)
            for file in built:
                if file.suffix == ".whl":
                    print(file.name)
                    machine = next(m for m in MACHINES if file.stem.endswith(m))
                    for finding in audit(options.out / file.name, machine):
                        print(f"    {finding}")
    except (AuditError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("SHA-256")
    for file in built:
        copy = options.out / file.name
        print(f"    {archive.sha256(copy)}  {copy}")
    return 0


def source_date() -> int:
    """SOURCE_DATE_EPOCH, else the time of the last commit."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    git = ["git", "-c", f"safe.directory={ROOT}", "log", "-1", "--format=%ct"]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("error: this is no git checkout: set SOURCE_DATE_EPOCH to the time of the release")
    return int(done.stdout)


def require_headers() -> None:
    """Python's headers must hold for every CPU; Debian's python3-dev are one CPU's."""
    text = Path(sysconfig.get_path("include"), "pyconfig.h").read_text()
    if "multiarch" in text or "linux-gnu" in text:
        sys.exit(
            f"error: the headers of {sys.base_prefix} refer to those of one CPU (Debian's do): "
            "use a CPython of pyenv, uv or python.org to build wheels"
        )


def build(folder: Path, machines: list[str], epoch: int) -> list[Path]:
    """The sdist, the wheels and the archives of their symbols, built in ``folder``."""
    out = folder / "out"
    out.mkdir(parents=True)
    run_build("--sdist", ROOT, out, epoch, {})
    sdist = next(out.glob("*.tar.gz"))
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    made = [sdist]
    for machine in machines:
        began = time.monotonic()
        made += build_wheel(source, folder / machine, out, machine, epoch)
        print(f"built for {machine} in {time.monotonic() - began:.0f} s", flush=True)
    return made


def build_wheel(source: Path, folder: Path, out: Path, machine: str, epoch: int) -> list[Path]:
    """A repaired wheel of the tree ``source``, and its symbols."""
    import ziglang

    # Written into debugging symbols: the same wherever this is.
    maps = f"-g -ffile-prefix-map={source}=/zephon -ffile-prefix-map={folder}=/build"
    environment = {
        "ZEPHON_ZIG": str(Path(ziglang.__file__).with_name("zig")),
        "ZEPHON_ZIG_TARGET": f"{machine}-linux-gnu.{GLIBC}",
        "CMAKE_TOOLCHAIN_FILE": str(source / "cmake" / "zig.cmake"),
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
        "CXXFLAGS": maps,
        "LDFLAGS": "-Wl,--build-id=sha1",
        # Or else the wheel for another CPU has the tag of this one.
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }
    settings = {"build-dir": str(folder / "cmake"), "install.strip": "false"}
    raw = folder / "raw"
    run_build("--wheel", source, raw, epoch, environment, settings)
    files = archive.read_wheel(next(raw.glob("*.whl")))
    symbols = {}
    for name, data in files.items():
        if name.endswith(".so"):
            symbols[f"symbols/{Path(name).name}.debug"] = data
            files[name] = elf.strip(data)
    stripped = folder / next(raw.glob("*.whl")).name
    archive.write_wheel(stripped, files, epoch)

    repaired = folder / "repaired"
    command = [str(Path(sys.executable).with_name("auditwheel")), "repair", str(stripped)]
    command += ["--plat", "auto", "--wheel-dir", str(repaired)]
    call(command, {"SOURCE_DATE_EPOCH": str(epoch)})
    found = next(repaired.glob("*.whl"))
    wheel = out / found.name
    # Once more, so that neither order nor modes are those of a temporary folder.
    archive.write_wheel(wheel, archive.read_wheel(found), epoch, archive.deflate_hard)
    debug = out / f"{wheel.stem}-symbols.tar.xz"
    archive.write_tar_xz(debug, symbols, epoch)
    return [wheel, debug]


def run_build(
    kind: str,
    source: Path,
    out: Path,
    epoch: int,
    environment: dict[str, str],
    settings: dict[str, str] | None = None,
) -> None:
    """Run the package's build without isolation: with the tools of this environment."""
    command = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(out)]
    command += [f"--config-setting={name}={value}" for name, value in (settings or {}).items()]
    call([*command, str(source)], {**environment, "SOURCE_DATE_EPOCH": str(epoch)})


def call(command: list[str], environment: dict[str, str]) -> None:
    """Run ``command``; its output is shown only if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, command[0])


def compare(one: list[Path], other: list[Path]) -> None:
    """Raise AuditError unless both lists hold the same files."""
    for first, second in zip(one, other, strict=True):
        if first.name != second.name or first.read_bytes() != second.read_bytes():
            raise AuditError(f"{first.name}: a second build in another folder gave other bytes")
    print(f"{len(one)} files are the same to the bit when built again in another folder")


if __name__ == "__main__":
    sys.exit(main())
