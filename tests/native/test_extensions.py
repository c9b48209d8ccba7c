"""Every extension has its stub, and a tree that is not built says so."""

import subprocess
import sys
from pathlib import Path

from zephon import _native

SOURCES = Path(__file__).parents[2] / "zephon"
EXTENSIONS = {path.stem for path in (SOURCES / "_native").glob("*.pyx")}


def test_every_extension_is_known_and_has_a_stub():
    assert _native._EXTENSIONS == EXTENSIONS
    for name in EXTENSIONS:
        assert (SOURCES / "_native" / f"{name}.pyi").exists(), name
        assert getattr(_native, name).__file__.endswith(".abi3.so")


def test_the_source_tree_says_that_it_is_not_built(tmp_path):
    (tmp_path / "zephon").symlink_to(SOURCES)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import zephon.io"
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", f"import sys; sys.path += {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "zephon was imported from its source tree" in done.stderr
    assert "or install the tree in place (make dev)" in done.stderr


def test_a_missing_extension_says_what_is_wrong(tmp_path):
    package = tmp_path / "zephon" / "_native"
    package.mkdir(parents=True)
    (tmp_path / "zephon" / "__init__.py").write_text("")
    (package / "__init__.py").write_text((SOURCES / "_native" / "__init__.py").read_text())
    done = subprocess.run(
        [sys.executable, "-S", "-c", "from zephon._native import order"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "lacks its compiled part 'order': the installation is not complete" in done.stderr
