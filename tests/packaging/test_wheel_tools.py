"""The scripts that make wheels: symbols, archives, interpreters."""

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from zephon import _native

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools" / "wheels"


def load(name):
    spec = importlib.util.spec_from_file_location(f"wheels_{name}", TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module


elf, archive, interpreters = load("elf"), load("archive"), load("interpreters")


def test_a_stripped_extension_is_smaller_and_works(tmp_path):
    source = Path(_native.text.__file__)
    data = source.read_bytes() + b"\0" * 4096  # what nothing refers to goes as well
    stripped = elf.strip(data)
    assert len(stripped) <= len(data) - 4096
    (tmp_path / "text.abi3.so").write_bytes(stripped)
    code = (
        "import importlib.util as u, zephon._native;"
        f"s = u.spec_from_file_location('zephon._native.text', {str(tmp_path / 'text.abi3.so')!r});"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.count_lines(b'a\\nb\\n'))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_stripping_twice_changes_nothing_more():
    once = elf.strip(Path(_native.order.__file__).read_bytes())
    assert elf.strip(once) == once


def test_what_is_no_library_is_refused():
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF file"):
        elf.strip(b"MZ" + b"\0" * 100)


FILES = {
    "pack/b.so": b"library",
    "pack/a.py": b"x = 1\n",
    "pack-1.dist-info/WHEEL": b"Tag: x\n",
    "pack-1.dist-info/METADATA": b"Name: pack\n",
}


def test_a_wheel_has_the_same_bytes_in_any_order_and_lists_its_files(tmp_path):
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    archive.write_wheel(one, FILES, 1_700_000_000)
    archive.write_wheel(other, dict(reversed(FILES.items())), 1_700_000_000)
    assert one.read_bytes() == other.read_bytes()
    assert archive.read_wheel(one) == FILES
    with zipfile.ZipFile(one) as packed:
        names = packed.namelist()
        assert names[:2] == ["pack/a.py", "pack/b.so"]
        assert names[-1] == "pack-1.dist-info/RECORD"
        assert packed.getinfo("pack/b.so").external_attr >> 16 == 0o100755
        assert {entry.date_time[:3] for entry in packed.infolist()} == {(2023, 11, 14)}
        record = packed.read(names[-1]).decode().splitlines()
    assert record[0].startswith("pack/a.py,sha256=")
    assert record[0].endswith(",6")
    assert record[-1] == "pack-1.dist-info/RECORD,,"


def test_a_wheel_without_metadata_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"has 0 folders \.dist-info, expected one"):
        archive.write_wheel(tmp_path / "x.whl", {"a.py": b""}, 0)


def test_symbols_are_archived_alike_too(tmp_path):
    archive.write_tar_xz(tmp_path / "a.tar.xz", {"b": b"2", "a": b"1"}, 5)
    archive.write_tar_xz(tmp_path / "b.tar.xz", {"a": b"1", "b": b"2"}, 5)
    data = (tmp_path / "a.tar.xz").read_bytes()
    assert data == (tmp_path / "b.tar.xz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        assert [(one.name, one.mtime, one.uname) for one in packed] == [("a", 5, ""), ("b", 5, "")]


def fake_python(folder, answer):
    folder.mkdir(parents=True)
    program = folder / f"python3.{answer[1][1]}"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    return program


def test_interpreters_are_found_where_they_lie_and_others_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    monkeypatch.setattr(interpreters.sys, "executable", str(tmp_path / "absent"))
    fake_python(tmp_path / "path", ["cpython", [3, 42, 1], "/a", False])
    newer = fake_python(
        tmp_path / "pyenv/versions/3.42.7/bin", ["cpython", [3, 42, 7], "/b", False]
    )
    fake_python(tmp_path / "pyenv/versions/3.10.1/bin", ["cpython", [3, 10, 1], "/c", False])
    fake_python(tmp_path / "uv/pypy/bin", ["pypy", [3, 43, 0], "/d", False])
    fake_python(tmp_path / "uv/threads/bin", ["cpython", [3, 44, 0], "/e", True])
    last = fake_python(tmp_path / "uv/last/bin", ["cpython", [3, 45, 0], "/f", False])
    found = {one.version: one.program for one in interpreters.find() if one.version[1] > 40}
    assert found == {(3, 42, 7): newer, (3, 45, 0): last}


def test_the_notices_that_a_wheel_must_have_are_in_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "licenses/THIRD-PARTY.txt"]
    text = (ROOT / "licenses" / "THIRD-PARTY.txt").read_text()
    for name in ("libc++", "libunwind", "LLVM Exceptions", "Zig", "Cython", "GCC Runtime"):
        assert name in text


def test_the_tools_of_wheels_are_pinned():
    lines = (TOOLS / "requirements.txt").read_text().splitlines()
    assert all("==" in line for line in lines if line and not line.startswith("#"))
