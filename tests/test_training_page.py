"""The code of docs/training.md that stands by itself runs, and the rest is Python."""

import re
from pathlib import Path

import pytest

from small_corpora import build_small

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_every_block_of_code_is_python():
    assert len(BLOCKS) >= 5
    for number, block in enumerate(BLOCKS):
        compile(block, f"block {number}", "exec")


def test_a_recipe_and_its_evaluation_work_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(build_small(tmp_path).folder.parent)
    seen = {}
    recipe = BLOCKS[0].replace('"seq_len": 2048', '"seq_len": 64')
    exec(recipe, seen)
    with seen["loader"] as loader:
        assert next(loader)["input_ids"].shape == (8, 64)
        assert len(loader.state_dict()["zephon"]) > 100
    batches = []
    for block in BLOCKS:
        if "ValidationLoader(" in block:
            exec(
                block.replace("    ...", "    batches.append(batch)"), {**seen, "batches": batches}
            )
    assert 1 <= len(batches) <= 50


def test_every_example_is_named():
    text = PAGE.read_text("utf-8")
    for path in (PAGE.parents[1] / "examples").glob("resume_*.py"):
        if path.stem != "resume_torch_save":  # the plain loop needs no words
            assert path.name in text


def test_the_page_names_every_kind_of_change():
    from zephon.options import CHANGES

    for kind in CHANGES:
        assert f'"{kind}"' in PAGE.read_text("utf-8")


@pytest.mark.parametrize("row", ["fresh", "restored", "iterating", "at the end", "closed"])
def test_the_table_has_every_state_of_a_loader(row):
    assert f"| {row} |" in PAGE.read_text("utf-8")
