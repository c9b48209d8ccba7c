from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import zephon
from zephon.errors import ConfigError, ConfigTypeError
from zephon.io import CacheOptions, Dataset, InMemoryShard, StoreOptions
from zephon.io.unit_cache import UNITS


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ("50gb", 50 * 1024**3),
        ("50 GiB", 50 * 1024**3),
        ("1.5g", 3 * 1024**3 // 2),
        ("512", 512),
        ("7KB", 7 * 1024),
        ("3 mib", 3 * 1024**2),
        ("2TB", 2 * 1024**4),
        (4096, 4096),
        ({"limit_bytes": "1gb"}, 1024**3),
        (None, 64 * 1024**3),
    ],
)
def test_a_size_is_the_limit_of_a_cache(given: Any, limit: int) -> None:
    assert CacheOptions.from_any(given).limit_bytes == limit
    assert StoreOptions.from_any(given).cache.limit_bytes == limit


def test_a_folder_is_the_root_of_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CacheOptions.from_any(tmp_path).folder == tmp_path
    assert CacheOptions.from_any(str(tmp_path)).folder == tmp_path
    monkeypatch.chdir(tmp_path)
    assert CacheOptions(root="here").folder == tmp_path / "here"
    monkeypatch.setenv("ZEPHON_CACHE_DIR", "/named")
    assert CacheOptions(root="here").folder == tmp_path / "here"
    assert CacheOptions().folder == Path("/named")
    monkeypatch.setenv("ZEPHON_CACHE_DIR", "")
    assert CacheOptions().folder is None


def test_options_pass_through_and_merge() -> None:
    one = CacheOptions(root="/a", download_retry=7)
    assert CacheOptions.from_any(one) is one
    both = one.merge(CacheOptions(limit_bytes=5))
    assert both == CacheOptions(root="/a", download_retry=7, limit_bytes=5)
    store = StoreOptions(cache=one, storage={"region": "x", "endpoint": "y"})
    assert StoreOptions.from_any(store) is store
    assert StoreOptions.from_any(one).cache is one
    assert StoreOptions.from_any({"cache": "5gb", "storage": {}}).cache.limit_bytes == 5 * 1024**3
    merged = store.merge(StoreOptions(cache=CacheOptions(limit_bytes=5), storage={"region": "z"}))
    assert (merged.cache.root, merged.cache.limit_bytes) == ("/a", 5)
    assert merged.storage == {"region": "z", "endpoint": "y"}
    assert pickle.loads(pickle.dumps(store)) == store
    assert "region" not in repr(store)  # settings may hold secrets


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CacheOptions(root=3), "root is 3, expected a folder"),  # type: ignore[arg-type]
        (lambda: CacheOptions(limit_bytes=0), "limit_bytes is 0, expected at least 1"),
        (lambda: CacheOptions(limit_bytes=True), "limit_bytes is True, expected an int"),
        (lambda: CacheOptions(rg_cache_bytes=1), "rg_cache_bytes is 1, expected at least 16777216"),
        (lambda: CacheOptions(download_retry=-1), "download_retry is -1, expected at least 0"),
        (lambda: CacheOptions(download_timeout=0), "download_timeout is 0, expected seconds > 0"),
        (lambda: CacheOptions(download_timeout="1"), "download_timeout is '1', not a number"),  # type: ignore[arg-type]
        (lambda: CacheOptions(index_beside_data=1), "index_beside_data is 1, not a bool"),  # type: ignore[arg-type]
        (lambda: CacheOptions.from_any(""), "the cache is an empty string"),
        (lambda: CacheOptions.from_any(1.5), "1.5 is no description of a cache"),
        (lambda: CacheOptions.from_any({"limit": 1}), "CacheOptions has no 'limit'; it has: root,"),
        (lambda: CacheOptions.from_any({"limit_bytes": "much"}), "limit_bytes is 'much', expected"),
        (lambda: StoreOptions.from_any({"store": 1}), "StoreOptions has no 'store'; it has: cache"),
        (lambda: StoreOptions(storage=["x"]), "storage is no mapping"),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_say_what_is_expected(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_pipeline_takes_them_and_its_datasets_follow() -> None:
    dataset = Dataset.from_dict("d", {0: InMemoryShard([{"tokens": [1, 2]}])})
    pipeline = zephon.Pipeline(zephon.StaticMixtureWorkSource([dataset], {"d": 1.0}))
    before = UNITS.limit
    try:
        pipeline.options(io_options=CacheOptions(rg_cache_bytes=32 << 20))
        assert UNITS.limit == 32 << 20
        pipeline.options(io_options=None, tail="pad")
        assert UNITS.limit == 32 << 20
        with pytest.raises(ConfigTypeError, match=r"1\.5 is no description of a cache"):
            pipeline.options(io_options=1.5)
    finally:
        UNITS.set_limit(before)


def test_a_dataset_that_is_pickled_keeps_its_options(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    dataset = Dataset.from_path("d", tmp_path / "a.jsonl", io_options=tmp_path / "cache")
    (kept,) = (tmp_path / "cache" / "indices").iterdir()
    kept.unlink()
    assert pickle.loads(pickle.dumps(dataset)).total() == 1
    assert kept.exists()
