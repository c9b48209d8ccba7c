"""Proof that the gate closes: a kernel with one pass more over its input must not pass.

Compiles slowed_collate.cpp in the place of src_cpp/collate.cpp, with the flags of
the build, links it into a copy of the built extension and runs the gate on it.

    python benchmarks/gate/prove.py
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gate import HERE, TREE, built_extensions


def slowed(built: Path, folder: Path) -> None:
    """Copies of the extensions in ``folder``, with the slowed kernel."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for library in built.glob("*.abi3.so"):
        shutil.copy(library, folder)
    commands = json.loads((built / "compile_commands.json").read_text())
    (entry,) = (c for c in commands if c["file"].endswith("src_cpp/collate.cpp"))
    words = shlex.split(entry["command"])
    compiler, flags = words[0], words[1 : words.index("-o")]
    patched = folder / "slowed.o"
    source = HERE / "slowed_collate.cpp"
    subprocess.run(
        [compiler, *flags, f"-I{TREE / 'src_cpp'}", "-o", patched, "-c", source],
        check=True, cwd=entry["directory"],
    )  # fmt: skip
    wrapper = built / "CMakeFiles" / "collate.dir" / "collate.cpp.o"
    core = built / "libzephon_core.a"
    subprocess.run(
        [compiler, "-shared", "-o", folder / "collate.abi3.so", wrapper, patched, core, "-pthread"],
        check=True,
    )


def main() -> None:
    work = TREE / "build" / "bench"
    slowed(built_extensions(), work / "slowed")
    command = [sys.executable, "-P", HERE / "gate.py", "--only", "collate.collate_rows"]
    command += ["--extensions", work / "slowed", "--work", work / "gate-slowed"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(ran.stdout, end="")
    faults = re.findall(r"^FAILED: collate\.collate_rows/.*instructions, \+", ran.stdout, re.M)
    if ran.returncode == 0 or not faults:
        sys.exit("a kernel that does one pass more went through the gate")
    print(f"as it must: {len(faults)} cases of the slowed kernel were refused")


if __name__ == "__main__":
    main()
