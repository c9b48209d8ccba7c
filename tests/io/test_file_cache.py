from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zephon.io.file_cache import FileCache, NoRoomError


def used(root: Path) -> int:
    return 60 * len(list((root / "objects").glob("*/data")))


def test_threads_that_fetch_at_the_same_time_keep_the_limit(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit=100, slack=0)
    seen: list[int] = []

    def fetch(key: str) -> None:
        def fill(folder: Path) -> None:
            (folder / "data").write_bytes(b"x" * 60)
            time.sleep(0.03)
            seen.append(used(tmp_path))

        cache.lease(key, 60, fill).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fetch, "abcdabcd"))
    assert max(seen) == 60
    assert used(tmp_path) == 60


def test_what_is_read_is_not_removed_and_what_failed_leaves_nothing(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit=100, slack=0)
    lease = cache.lease("a", 60, lambda folder: None)

    def fail(folder: Path) -> None:
        raise RuntimeError("cut off")

    with pytest.raises(RuntimeError, match="cut off"):
        cache.lease("b", 30, fail)
    assert [entry.name for entry in (tmp_path / "objects").iterdir()] == ["a"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zephon.io.file_cache._PATIENCE", 0.1)
        with pytest.raises(NoRoomError, match="60 bytes do not fit: 60 are in use"):
            cache.lease("b", 60, lambda folder: None, exceed=False)
    assert cache.has("a", lease.identity)
    lease.close()
    cache.lease("b", 60, lambda folder: None).close()
    assert not cache.has("a", lease.identity)


def test_files_get_their_name_while_nobody_counts_what_is_there(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit=100, slack=0)
    counting, counted = threading.Event(), threading.Event()

    def fill(folder: Path) -> None:
        counting.set()
        assert counted.wait(timeout=30)

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(cache.lease, "a", 60, fill)
        assert counting.wait(timeout=30)
        with cache._alone():  # as one who makes room
            counted.set()
            time.sleep(0.1)
            assert not (tmp_path / "objects" / "a").exists()
        made.result(timeout=30).close()
    assert (tmp_path / "objects" / "a").exists()
