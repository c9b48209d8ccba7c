import re
import subprocess
import sys
from pathlib import Path

import pytest

from small_corpora import build_small

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def example():
    (code,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    return code


def test_the_example_is_short(example):
    lines = [line for line in example.splitlines() if line.strip()]
    assert len(lines) <= 16
    assert max(map(len, lines)) <= 100


def test_the_example_runs_as_written(example, tmp_path):
    assert build_small(tmp_path).folder == tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("torch.Size([8, 2048])") == 10
    assert "'prose'" in done.stdout


def test_the_commands_that_the_readme_names_are_targets_of_the_makefile():
    makefile = README.with_name("Makefile").read_text()
    named = set(re.findall(r"`?make (\w+)`?$", README.read_text("utf-8"), re.M))
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}\b.*:", makefile, re.M), target


def test_nothing_says_to_install_by_bare_name():
    for file in ("README.md", "CONTRIBUTING.md", "zephon/cli/failure.py"):
        text = README.parent.joinpath(file).read_text("utf-8")
        for found in re.finditer(r"pip install ('?\S+)", text):
            argument = found[1].strip("'`")
            assert argument.startswith("./") or "fetches the other" in text[found.start() :][:60]
