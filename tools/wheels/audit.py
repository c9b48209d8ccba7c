"""What must hold of a finished wheel; each check raises AuditError or says what it has found."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import archive
from elftools.elf.elffile import ELFFile

MOST_BYTES = 1 << 20
"""A wheel is smaller than this."""

_SUFFIXES = {".py", ".pyi", ".typed", ".so"}
# What the C library itself is made of, before and after glibc 2.34 put it together.
_SYSTEM = {"libc", "libm", "libpthread", "libdl", "librt", "ld-linux-x86-64", "ld-linux-aarch64"}
_NOTICES = ("LICENSE", "THIRD-PARTY.txt")


class AuditError(Exception):
    """A wheel is not what it must be."""


def audit(wheel: Path, machine: str) -> Iterator[str]:
    """Check ``wheel`` for ``machine`` (``x86_64`` or ``aarch64``) and say what was found."""
    files = archive.read_wheel(wheel)
    yield _tag(wheel, machine)
    yield _size(wheel)
    yield _content(files)
    yield from _libraries(files, machine)
    yield _run("auditwheel", "show", str(wheel), expect=f"manylinux_2_17_{machine}")
    yield _run("abi3audit", "--strict", "--summary", str(wheel), expect="0 ABI violations")


def _tag(wheel: Path, machine: str) -> str:
    tag = wheel.stem.split("-", 2)[2]
    if not tag.startswith("cp311-abi3-manylinux") or f"manylinux_2_17_{machine}" not in tag:
        raise AuditError(f"{wheel.name} has the tag {tag}")
    return f"tag {tag}"


def _size(wheel: Path) -> str:
    size = wheel.stat().st_size
    if size >= MOST_BYTES:
        raise AuditError(f"{wheel.name} has {size} bytes, expected under {MOST_BYTES}")
    return f"{size} bytes ({size / MOST_BYTES:.2f} of the allowed 1 MiB)"


def _content(files: dict[str, bytes]) -> str:
    for name in files:
        path = PurePosixPath(name)
        if path.parts[0] == "zephon" and path.suffix not in _SUFFIXES:
            raise AuditError(f"{name} does not belong into a wheel")
        if path.parts[0] != "zephon" and ".dist-info" not in path.parts[0]:
            raise AuditError(f"{name} stands outside the package")
    for notice in _NOTICES:
        if not any(".dist-info/licenses/" in name and name.endswith(notice) for name in files):
            raise AuditError(f"the wheel lacks {notice}")
    return (
        f"{len(files)} files: Python, stubs, extensions and {len(_NOTICES)} notices, nothing else"
    )


def _libraries(files: dict[str, bytes], machine: str) -> Iterator[str]:
    number = total = 0
    for name, data in files.items():
        if not name.endswith(".so"):
            continue
        if not name.endswith(".abi3.so"):
            raise AuditError(f"{name} is not of the stable ABI")
        library = ELFFile(io.BytesIO(data))
        if library["e_machine"] != {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[machine]:
            raise AuditError(f"{name} is for {library['e_machine']}")
        symbols = library.get_section_by_name(".dynsym").iter_symbols()
        shown = {s.name for s in symbols if s.name and s["st_shndx"] != "SHN_UNDEF"}
        expected = {f"PyInit_{PurePosixPath(name).name.partition('.')[0]}"}
        if shown != expected:
            raise AuditError(f"{name} shows {sorted(shown)}, expected {sorted(expected)}")
        tags = library.get_section_by_name(".dynamic").iter_tags()
        needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
        if foreign := {one for one in needed if one.partition(".so")[0] not in _SYSTEM}:
            raise AuditError(f"{name} needs {sorted(foreign)}")
        extra = [
            s.name for s in library.iter_sections() if s.name.startswith((".debug", ".symtab"))
        ]
        if extra:
            raise AuditError(f"{name} holds what is for debuggers: {extra}")
        number, total = number + 1, total + len(data)
    if not number:
        raise AuditError("the wheel has no extension")
    yield f"{number} extensions of {total} bytes: each shows PyInit_* only, needs libc only"


def _run(tool: str, *arguments: str, expect: str) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).with_name(tool)), *arguments], capture_output=True, text=True
    )
    text = f"{done.stdout}{done.stderr}"
    if done.returncode != 0 or expect not in " ".join(text.split()):
        raise AuditError(f"{tool} (exit code {done.returncode}) says:\n{text}")
    return f"{tool}: {expect}"
