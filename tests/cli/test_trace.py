import errno
import sys

import pytest

from demo_batches import BOS, Work, batch
from zephon.cli import trace
from zephon.cli.tally import Tally
from zephon.errors import ZephonError


def test_a_picture_is_drawn_without_a_display(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    tally = Tally(bos=BOS)
    tally.add(batch([5, 5, 5]), "a", {"code": 2, "prose": 0})  # not one document begins
    tally.add(batch([0, 5, 5]), "b", {"code": 3, "prose": 1})
    trace.draw(tmp_path / "out.png", tally, Work([1]))
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_folder_is_noticed_beforehand(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder for the picture") as caught:
        trace.check(tmp_path / "nowhere" / "out.png")
    assert caught.value.errno == errno.ENOENT


def test_a_file_in_the_working_directory_is_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace.check(tmp_path.relative_to(tmp_path) / "out.png")


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ZephonError, match=r"pip install './zephon\[plot\]'"):
        trace.check(tmp_path / "out.png")
