import logging
import threading
import time

import pytest

from zephon.megatron.progress import ProgressLog

logger = logging.getLogger("zephon.test")


def test_long_work_says_what_it_is_doing(caplog):
    with (
        caplog.at_level(logging.INFO, "zephon.test"),
        ProgressLog(logger, "an index", every=0.01) as progress,
    ):
        progress.doing("step one")
        while "step one" not in caplog.text:
            time.sleep(0.005)
        progress.doing("step two")
        while "step two" not in caplog.text:
            time.sleep(0.005)
    assert "building an index: step one, 0 s so far" in caplog.text


def test_short_work_says_nothing(caplog):
    with caplog.at_level(logging.INFO, "zephon.test"), ProgressLog(logger, "an index") as progress:
        progress.doing("all of it")
    assert caplog.text == ""
    assert 0 <= progress.seconds < 5


def test_no_thread_is_left_even_after_an_error():
    before = set(threading.enumerate())
    with pytest.raises(KeyError), ProgressLog(logger, "an index", every=0.01):
        raise KeyError
    assert set(threading.enumerate()) <= before
