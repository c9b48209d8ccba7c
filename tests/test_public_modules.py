"""The list of public modules in docs/architecture.md is true."""

import importlib
import re
from pathlib import Path

import pytest

import zephon

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
SECTION = PAGE.read_text("utf-8").split("## Public modules")[1].split("##")[0]
PUBLIC = re.findall(r"`(zephon[.\w]*)`", SECTION)


def test_the_list_is_there():
    assert {"zephon", "zephon.loader", "zephon.megatron", "zephon.state"} <= set(PUBLIC)
    assert len(PUBLIC) == len(set(PUBLIC))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_module_can_be_imported_and_says_what_it_is(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for exported in getattr(module, "__all__", ()):
        assert hasattr(module, exported), exported


def test_the_names_at_the_top_are_those_of_their_modules():
    for name in zephon.__all__:
        assert getattr(zephon, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = zephon.nothing
