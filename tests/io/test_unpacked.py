from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import zstandard

from zephon.io import CacheOptions, Dataset, unpacked
from zephon.io.jsonl import JsonlShard
from zephon.io.plain import PlainText


@pytest.fixture
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frame that counts as long."""
    monkeypatch.setattr(unpacked, "LONG_UNIT", 1000)
    monkeypatch.delenv("ZEPHON_CACHE_DIR", raising=False)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(b'{"n": 1}\n' * 500))
    return path


def test_a_long_frame_is_decompressed_once_into_the_folder(frame: Path, tmp_path: Path) -> None:
    options = CacheOptions(root=tmp_path / "cache")
    for _ in range(2):
        dataset = Dataset.from_path("d", frame, io_options=options)
        shard = dataset._shards[0]
        assert isinstance(shard, JsonlShard)
        assert isinstance(shard._text, PlainText)
        assert dataset.read(np.array([499, 0])).records == [{"n": 1}] * 2  # type: ignore[union-attr]
        assert dataset.place(499).file == str(frame)
        assert dataset.raw_bytes().tolist() == [4500]
        (copy,) = (tmp_path / "cache").glob("objects/*/text")
        assert copy.stat().st_size == 4500
    plain = Dataset.from_path("d", frame)
    assert plain.digest() == dataset.digest()


def test_a_copy_is_removed_only_when_its_dataset_is_gone(frame: Path, tmp_path: Path) -> None:
    other = frame.with_name("b.jsonl.zst")
    other.write_bytes(zstandard.compress(b'{"n": 2}\n' * 500))
    options = CacheOptions(root=tmp_path / "cache", limit_bytes=5000, min_slack_bytes=0)
    unpacked_before = Dataset.from_path("d", frame, io_options=options)
    assert len(list((tmp_path / "cache").glob("objects/*/text"))) == 1
    assert unpacked_before.total() == 500
    del unpacked_before
    gc.collect()
    Dataset.from_path("d", other, io_options=options)
    (copy,) = (tmp_path / "cache").glob("objects/*/text")
    assert copy.read_bytes().startswith(b'{"n": 2}')


@pytest.mark.parametrize("limit", [None, 4000])
def test_without_a_place_for_a_copy_a_warning_says_what_it_costs(
    limit: int | None, frame: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = None if limit is None else CacheOptions(root=tmp_path / "cache", limit_bytes=limit)
    dataset = Dataset.from_path("d", frame, io_options=options)
    assert dataset.read(np.array([7])).records == [{"n": 1}]  # type: ignore[union-attr]
    way_out = "name a cache folder" if limit is None else "raise limit_bytes of CacheOptions"
    assert "a.jsonl.zst holds a zstandard frame" in caplog.text
    assert way_out in caplog.text
