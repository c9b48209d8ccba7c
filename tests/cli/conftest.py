from pathlib import Path

import pytest

from small_corpora import TOPICS, build_small, write_library
from zephon.cli import harvest


@pytest.fixture
def library(tmp_path):
    """A standard library of a dozen small modules."""
    return write_library(tmp_path / "library")


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Corpora built from such a library, once; not to be changed."""
    return build_small(tmp_path_factory.mktemp("small"))


@pytest.fixture
def small_python(library, monkeypatch):
    """Make the demo believe that the running interpreter has the small library."""
    monkeypatch.setattr(harvest, "standard_library", lambda: library)
    monkeypatch.setattr(harvest, "pydoc_topics", lambda: dict(TOPICS))
    return Path(library)
