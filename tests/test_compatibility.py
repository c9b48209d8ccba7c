"""docs/compatibility.md says what is true: of behaviours, and of names that are not there."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from surface import gaps, missing, parse
from zephon._hints import HINTS, NAMES
from zephon.options import StreamOptions

HERE = Path(__file__).parent
PAGE = (HERE.parent / "docs" / "compatibility.md").read_text()
SURFACE = json.loads((HERE / "data" / "public_surface_stream.json").read_text())


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_all_82_behaviours_are_listed_in_order() -> None:
    rows = [row for row in cells(section("Behaviours")) if row[0].isdigit()]
    assert [int(row[0]) for row in rows] == list(range(1, 83))
    for number, behaviour, tests, *here in rows:
        assert behaviour.endswith(".")
        assert tests or any(here), f"{number} has neither a test nor a reason"


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 100
    there = {
        (file.name, name)
        for file in HERE.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    assert [one for one in named if one not in there] == []


def test_what_is_not_there_is_listed_with_a_reason() -> None:
    def resolve(module: str, name: str) -> Any:
        return getattr(importlib.import_module(module), name, None)

    listed = {
        row[0].strip("`"): row[1] for row in cells(section("What is not there")) if "`" in row[0]
    }
    assert sorted(missing(SURFACE, resolve)) == sorted(listed)
    assert all(len(reason) >= 8 for reason in listed.values())


def test_every_option_of_the_other_runtime_is_known_to_options() -> None:
    loader = json.loads((HERE / "data" / "public_surface_loader.json").read_text())
    wanted = parse(loader["zephon.options"]["RuntimeOptions"]["signature"])
    known = {*StreamOptions.__dataclass_fields__, *NAMES}
    assert set(wanted) <= known
    told = section("Options without effect")
    families = [name.removesuffix("*") for name in re.findall(r"`(\w+_\*)`", told)]
    for name in HINTS:
        assert f"`{name}`" in told or any(name.startswith(one) for one in families), name


def test_gaps_are_noticed() -> None:
    def ours(a: int, b: int = 1) -> None: ...

    assert list(gaps("f", ours, "(a, b=1)")) == []
    assert list(gaps("f", ours, "(a, b=2, c=3)")) == ["f(b=)", "f(c)"]
    surface = {"m": {"X": {}, "Y": {"members": {"z": "property", "real": "property"}}}}
    assert list(missing(surface, lambda _, name: {"Y": 1}.get(name))) == ["m.X", "m.Y.z"]
