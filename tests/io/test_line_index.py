from __future__ import annotations

import gzip
import logging
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from zephon.io import CacheOptions, Dataset, index_file, line_index
from zephon.io.compressed import CompressedText
from zephon.io.jsonl import JsonlShard
from zephon.io.options import StoreOptions, in_force

LINES = b'\n{"n": 0}\n{"n": 1}\n \t\n{"n": 2}'


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEPHON_CACHE_DIR", raising=False)


def numbers(dataset: Dataset) -> list[object]:
    return [r["n"] for r in dataset.read(np.arange(dataset.total())).records]  # type: ignore[union-attr]


def open_with(path: Path, options: CacheOptions) -> Dataset:
    return Dataset.from_path("d", path, io_options=options)


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    scans: list[int] = []
    original = line_index.build

    def build(*args: object) -> object:
        scans.append(1)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(line_index, "build", build)
    return scans


def test_nothing_is_written_unless_a_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    assert numbers(Dataset.from_path("d", tmp_path / "a.jsonl")) == [0, 1, 2]
    assert os.listdir(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("place", ["folder", "beside", "variable"])
def test_an_index_is_made_once_and_read_again(
    packed: bool, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data" / "a.jsonl"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(LINES) if packed else LINES)
    options = CacheOptions(root=tmp_path / "cache" if place == "folder" else None)
    if place == "beside":
        options = CacheOptions(index_beside_data=True)
    if place == "variable":
        monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "cache"))
    scans = count_scans(monkeypatch)
    first = open_with(path, options)
    again = open_with(path, options)
    assert len(scans) == 1
    assert numbers(first) == numbers(again) == [0, 1, 2]
    assert first.digest() == again.digest()
    assert first.place(2) == again.place(2)
    assert first.place(2).record == 5
    assert first.raw_bytes().tolist() == again.raw_bytes().tolist() == [len(LINES)]
    folder = path.parent if place == "beside" else tmp_path / "cache" / "indices"
    (kept,) = folder.glob("*.zephon-index")
    assert stat.S_IMODE(kept.stat().st_mode) & 0o444  # others may read it, as umask allows
    assert len(os.listdir(folder)) == (2 if place == "beside" else 1)  # no temporary files
    # The index lies beside the data: it is not taken for data.
    if place == "beside":
        assert Dataset.from_path("d", folder).shard_count() == 1


def test_a_changed_file_is_indexed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    options = CacheOptions(root=tmp_path / "cache")
    scans = count_scans(monkeypatch)
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n')
    before = path.stat()
    open_with(path, options)
    path.write_bytes(b'{"n": 1, "m": 22}\n')  # same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # and as old
    assert numbers(open_with(path, options)) == [1]
    assert len(scans) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: b"",
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: b"something else" * 20,
    ],
)
def test_a_damaged_index_is_made_anew(damage: object, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    options = CacheOptions(root=tmp_path / "cache")
    open_with(path, options)
    (kept,) = (tmp_path / "cache" / "indices").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))  # type: ignore[operator]
    assert numbers(open_with(path, options)) == [0, 1, 2]
    assert kept.read_bytes() == whole


def test_a_place_that_cannot_be_written_costs_a_warning_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    (tmp_path / "file").write_text("no folder")
    assert numbers(open_with(path, CacheOptions(root=tmp_path / "file"))) == [0, 1, 2]
    assert "cannot be kept" in caplog.text


def test_a_slow_pass_without_a_place_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(line_index, "_SLOW", -1.0)
    (tmp_path / "a.jsonl").write_bytes(LINES)
    with caplog.at_level(logging.INFO, logger=index_file.__name__):
        Dataset.from_path("d", tmp_path / "a.jsonl")
    assert "is in memory only: with a cache folder (io_options= or ZEPHON_CACHE_DIR)" in caplog.text


def test_an_index_of_a_compressed_file_knows_where_decoding_can_begin(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    line = b'{"n": "%s"}\n' % (b"x" * 999)
    path.write_bytes(b"".join(gzip.compress(line * 9000, 1) for _ in range(3)))
    with in_force(StoreOptions(cache=CacheOptions(root=tmp_path / "cache"))):
        texts = [JsonlShard(path)._text for _ in range(2)]
    made, read = texts
    assert isinstance(made, CompressedText)
    assert isinstance(read, CompressedText)
    assert made.restarts().tolist() == read.restarts().tolist()
    assert made.restarts()[0].tolist()[:3] == [0, 9000 * len(line), 18000 * len(line)]
