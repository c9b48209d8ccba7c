from __future__ import annotations

import gzip
import json
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zephon
from zephon.errors import ConfigError, DataError
from zephon.io import Dataset, compressed, decoders
from zephon.io.compressed import CompressedText
from zephon.io.jsonl import JsonlShard
from zephon.io.unit_cache import UNITS, UnitCache


def skippable(content: bytes) -> bytes:
    return b"\x53\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def pack(codec: str, parts: list[bytes]) -> bytes:
    """Members or frames of ``parts``, some empty, for zstandard with skippable frames between."""
    if codec == "gzip":
        return b"".join(gzip.compress(part, 1) for part in parts)
    checked = zstandard.ZstdCompressor(write_checksum=True)
    unsized = zstandard.ZstdCompressor(write_content_size=False)
    frames = [(checked, unsized)[i % 2].compress(part) for i, part in enumerate(parts)]
    return skippable(b"abc") + skippable(b"").join(frames)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 bytes, and decoders copied every 200: what else takes megabytes."""
    monkeypatch.setattr(compressed, "BLOCK", 64)
    monkeypatch.setattr(compressed, "SPACING", 200)
    monkeypatch.setattr(compressed, "_KEEP", 256)
    monkeypatch.setattr(decoders, "_FEED", 50)


LINES = st.lists(
    st.one_of(
        st.sampled_from([b"", b"  \t", b"\r", b'{"a": 1}\r', b' {"b":[]}']),
        st.integers(0, 300).map(lambda n: json.dumps({"text": f"{n}-" * n}).encode()),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    lines=LINES,
    cuts=st.lists(st.floats(0, 1), max_size=6),
    mark=st.booleans(),
    final=st.booleans(),
    codec=st.sampled_from(["gzip", "zstd"]),
    seed=st.integers(0, 2**32),
    room=st.sampled_from([0, 500, 1 << 20]),
)
def test_a_compressed_file_has_the_records_of_the_plain_one_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    small_blocks: None,
    lines: list[bytes],
    cuts: list[float],
    mark: bool,
    final: bool,
    codec: str,
    seed: int,
    room: int,
) -> None:
    text = b"\xef\xbb\xbf" * mark + b"\n".join(lines) + b"\n" * final
    edges = sorted({0, len(text), *(int(cut * len(text)) for cut in cuts)})
    parts = [text[a:b] for a, b in zip(edges, [*edges[1:], len(text)], strict=True)]
    folder = tmp_path_factory.mktemp("c")
    (folder / "plain").write_bytes(text)
    (folder / "packed").write_bytes(pack(codec, parts))
    plain, packed = JsonlShard(folder / "plain"), JsonlShard(folder / "packed")
    assert (len(packed), packed.nbytes) == (len(plain), len(text))
    rng = random.Random(seed)
    rows = [rng.randrange(len(plain)) for _ in range(30)] if len(plain) else []
    UNITS.set_limit(room)
    try:
        for some in (rows, sorted(rows), list(range(len(plain)))):
            for begin in range(0, len(some), 7):
                pick = np.array(some[begin : begin + 7], dtype=np.int64)
                assert packed.read(pick).records == plain.read(pick).records
        for row in rows:
            assert packed.place(row).record == plain.place(row).record
            assert packed.place(row).byte_offset == plain.place(row).byte_offset
    finally:
        UNITS.set_limit(256 << 20)


def records(count: int, size: int = 400) -> list[bytes]:
    rng = random.Random(count)
    return [
        json.dumps({"n": i, "text": rng.randbytes(size // 2).hex()}).encode() + b"\n"
        for i in range(count)
    ]


def write(path: Path, codec: str, lines: list[bytes], parts: int = 1) -> Path:
    each = -(-len(lines) // parts)
    path.write_bytes(
        pack(codec, [b"".join(lines[i : i + each]) for i in range(0, len(lines), each)])
    )
    return path


class Meter:
    """Counts the bytes that are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = 0
        original = CompressedText._decode

        def decode(text: CompressedText, *args: Any) -> bytes:
            found = original(text, *args)
            self.decoded += len(found)
            return found

        monkeypatch.setattr(CompressedText, "_decode", decode)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("room", [0, 1 << 20])
def test_reading_in_order_decodes_everything_about_once(
    codec: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "BLOCK", 1 << 14)
    shard = JsonlShard(write(tmp_path / "x", codec, records(4000)))
    meter = Meter(monkeypatch)
    UNITS.set_limit(room + (1 << 17))
    try:
        for begin in range(0, 4000, 50):
            shard.read(np.arange(begin, begin + 50))
        assert 0.95 * shard.nbytes <= meter.decoded <= 1.05 * shard.nbytes
        assert UNITS.used <= room + (1 << 17)
    finally:
        UNITS.set_limit(256 << 20)


def test_reading_anywhere_in_one_gzip_member_decodes_no_more_than_the_spacing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "BLOCK", 1 << 12)
    monkeypatch.setattr(compressed, "SPACING", 1 << 15)
    monkeypatch.setattr(compressed, "_KEEP", 0)
    shard = JsonlShard(write(tmp_path / "x", "gzip", records(4000)))
    meter = Meter(monkeypatch)
    rows = random.Random(0).sample(range(4000), 100)
    for row in rows:
        before = meter.decoded
        assert shard.read(np.array([row])).records[0]["n"] == row
        assert meter.decoded - before <= (1 << 15) + (1 << 16) + 2 * (1 << 12)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_reading_anywhere_in_many_members_decodes_one_of_them(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "BLOCK", 1 << 12)
    monkeypatch.setattr(compressed, "SPACING", 1 << 14)
    shard = JsonlShard(write(tmp_path / "x", codec, records(4000), parts=100))
    assert shard.unit_documents > 1
    meter = Meter(monkeypatch)
    for row in random.Random(0).sample(range(4000), 100):
        before = meter.decoded
        assert shard.read(np.array([row])).records[0]["n"] == row
        assert meter.decoded - before <= 3 * (1 << 14) + (1 << 12)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_threads_read_the_same_as_one(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "BLOCK", 1 << 12)
    monkeypatch.setattr(compressed, "SPACING", 1 << 14)
    shard = JsonlShard(write(tmp_path / "x", codec, records(1000), parts=3))
    UNITS.set_limit(1 << 16)
    rng = random.Random(0)
    asked = [[rng.randrange(1000) for _ in range(5)] for _ in range(200)]

    def read(rows: list[int]) -> list[int]:
        return [record["n"] for record in shard.read(np.array(rows)).records]

    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, asked)) == asked
    finally:
        UNITS.set_limit(256 << 20)


def test_plain_and_compressed_corpora_are_one_stream(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    streams = []
    for codec in ("plain", "gzip", "zstd"):
        (tmp_path / codec).mkdir()
        for part in range(3):
            lines = [
                json.dumps({"text": f"the lazy dog {part} {i} " * (i % 7)}).encode() + b"\n"
                for i in range(60)
            ]
            path = tmp_path / codec / f"{part}.jsonl"
            if codec == "plain":
                path.write_bytes(b"".join(lines))
            else:
                suffix = {"gzip": ".gz", "zstd": ".zst"}[codec]
                write(path.with_name(path.name + suffix), codec, lines, parts=part + 1)
        work = zephon.StaticMixtureWorkSource(
            [Dataset.from_path("d", tmp_path / codec)], {"d": 1.0}, shuffle_block_size="auto"
        )
        pipeline = zephon.Pipeline(work).tokenize(tokenizer_folder, field="text")
        pipeline = pipeline.pack_flat(33).batch(2).prefetch(16, parallelism=2)
        streams.append([batch.to_training()["input_ids"].tolist() for batch in pipeline])
    assert len(streams[0]) > 20
    assert streams[0] == streams[1] == streams[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b'{"a":1}\n') + b"\0" * 512, ""),
        (gzip.compress(b'{"a":1}\n')[:-3], "record 2, byte 25: is truncated gzip"),
        (gzip.compress(b'{"a":1}\n') + b"\x1f", "is truncated gzip: the member that begins at by"),
        (gzip.compress(b"x" * 99)[:20] + b"\xff" * 9, "is damaged gzip .* in the member that begi"),
        (zstandard.compress(b'{"a":1}\n') + b"\0" * 64, ""),
        (zstandard.compress(b'{"a":1}\n')[:-1], "is truncated zstandard: the frame that begins at"),
        (zstandard.compress(b'{"a":1}\n')[:5], "is truncated zstandard: the frame that begins at"),
        (skippable(b"12345")[:-1], "is truncated zstandard: the frame that begins at byte 0"),
        (zstandard.compress(b'{"a":1}\n') + b"junk", "4 bytes behind its last zstandard frame"),
        (zstandard.compress(b"\n" * 99)[:-2] + b"\7\7", "is damaged zstandard|is truncated zst"),
    ],
    ids=map(str, range(10)),  # what gzip writes has the time in it
)
def test_damage_of_the_container_is_told_by_file_record_and_byte(
    content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(content)
    if not message:
        assert JsonlShard(tmp_path / "x").read(np.array([0])).records == [{"a": 1}]
        return
    with pytest.raises(DataError, match=message) as caught:
        JsonlShard(tmp_path / "x")
    assert caught.value.file == str(tmp_path / "x")
    assert caught.value.byte_offset is not None


def test_a_bad_record_is_told_by_its_byte_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b'{"a":1}\n{"b":}\n{}\n'))
    with pytest.raises(DataError, match="record 2, byte 8: .*counted in the decompressed text"):
        JsonlShard(tmp_path / "x.gz").read(np.array([1]))


def test_a_window_larger_than_the_usual_limit_is_read(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=29)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "x").write_bytes(packer.compress(b'{"a":1}\n') + packer.flush())
    assert len(JsonlShard(tmp_path / "x")) == 1


def test_a_file_that_changes_while_in_use_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "gzip", records(4000))
    shard = JsonlShard(path)
    UNITS.start_anew()
    with open(path, "r+b") as file:
        file.truncate(100)
    with pytest.raises(DataError, match="was truncated while in use"):
        shard.read(np.array([3999]))


def test_without_zstandard_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.jsonl.zst", "zstd", records(3))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match="needs the package zstandard.*extra 'zstd'"):
        Dataset.from_path("d", path)


def test_without_zlib_ng_the_same_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x", "gzip", records(30), parts=2)
    fast = JsonlShard(path).read(np.arange(30)).records
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    UNITS.start_anew()
    assert JsonlShard(path).read(np.arange(30)).records == fast


def test_a_forked_child_is_not_held_up_by_a_lock_of_its_parent(tmp_path: Path) -> None:
    import os

    shard = JsonlShard(write(tmp_path / "x", "gzip", records(100)))
    text = shard._text
    assert isinstance(text, CompressedText)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with text._lock, UNITS._lock:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if shard.read(np.array([7])).records[0]["n"] == 7 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    thread.join()


def test_the_cache_of_units_forgets_what_was_used_least_recently() -> None:
    cache = UnitCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.get("a") == 1
    cache.put("c", 3, 4)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    cache.put("c", 4, 5)
    assert cache.used == 9
    assert cache.pop("c") == 4
    assert cache.pop("c") is None
    assert cache.used == 4
    cache.put("big", 5, 100)
    assert [cache.get("a"), cache.get("big")] == [None, 5]  # the newest stays
    cache.put("d", 6, 1)
    assert cache.get("big") is None
