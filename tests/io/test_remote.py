from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zephon
from zephon.block import RecordDocuments, TokenDocuments
from zephon.errors import ConfigError, DataError, LifecycleError
from zephon.io import CacheOptions, Dataset, StoreOptions
from zephon.megatron.builder import IndexedDatasetBuilder

SERVER = Path(__file__).parents[1] / "s3_server.py"
READER = Path(__file__).parents[1] / "read_objects.py"
SETTINGS = {
    "region": "us-east-1",
    "access_key_id": "test",
    "secret_access_key": "test",
}


class Server:
    """The server's process, and the folder that it serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.fail()
        self.process = subprocess.Popen(
            [sys.executable, SERVER, folder], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def fail(self, *faults: str) -> None:
        (self.folder / ".faults").write_text("\n".join(faults))

    def put(self, key: str, texts: list[str]) -> Path:
        file = self.folder / "bucket" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return file

    def requests(self, command: str) -> list[str]:
        log = self.folder / ".requests"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line.startswith(command) and "list-type" not in line]

    def options(self, root: Path | None, **cache: Any) -> StoreOptions:
        cache = {"download_timeout": 1.0, "download_retry": 1, "min_slack_bytes": 0, **cache}
        storage = {**SETTINGS, "endpoint": f"http://127.0.0.1:{self.port}"}
        return StoreOptions(cache=CacheOptions(root=root, **cache), storage=storage)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "served")
    yield made
    made.stop()


def texts(dataset: Dataset, rows: list[int] | None = None) -> list[str]:
    documents = dataset.read(np.arange(dataset.total()) if rows is None else np.array(rows))
    assert isinstance(documents, RecordDocuments)
    return [record["text"] for record in documents.records]


def test_an_object_a_folder_a_pattern_and_a_list_name_the_same_documents(
    server: Server, tmp_path: Path
) -> None:
    for i in range(5):  # more than the server lists in one page
        server.put(f"data/part {i}.jsonl", [f"{i}a", f"{i}b"])
    server.put("data/deep/er.jsonl", ["deep"])
    server.put("data/notes.txt", ["no data"])
    server.put("data/.hidden.jsonl", ["hidden"])
    options = server.options(tmp_path / "cache")
    parts = [f"s3://bucket/data/part {i}.jsonl" for i in range(5)]
    expected = [f"{i}{c}" for i in range(5) for c in "ab"]
    for path in (parts, "s3://bucket/data/*.jsonl", "s3://bucket/data/part ?.jsonl"):
        assert texts(Dataset.from_path("d", path, io_options=options)) == expected
    for path in ("s3://bucket/data", "s3://bucket/data/", "s3://bucket/**/*.jsonl"):
        dataset = Dataset.from_path("d", path, io_options=options)
        assert sorted(texts(dataset)) == sorted(["deep", *expected])
    local = Dataset.from_path("d", server.folder / "bucket/data")
    folder = Dataset.from_path("d", "s3://bucket/data", io_options=options)
    assert texts(folder) == texts(local)
    assert folder.digest() == local.digest()
    assert folder.place(3).file == "s3://bucket/data/part 1.jsonl"
    one = Dataset.from_path("d", parts[0], io_options=options)
    assert texts(one) == ["0a", "0b"]
    web = f"http://127.0.0.1:{server.port}/bucket/data/part 0.jsonl"
    assert texts(Dataset.from_path("d", web, io_options=options.cache)) == ["0a", "0b"]


def test_opening_again_fetches_nothing_and_reading_again_not_either(
    server: Server, tmp_path: Path
) -> None:
    server.put("a.jsonl", ["x", "y"])
    options = server.options(tmp_path / "cache")
    assert texts(Dataset.from_path("d", "s3://bucket/a.jsonl", io_options=options)) == ["x", "y"]
    assert len(server.requests("GET")) == 1
    again = Dataset.from_path("d", "s3://bucket/a.jsonl", io_options=options)
    assert texts(again) == ["x", "y"]
    assert len(server.requests("GET")) == 1
    server.put("a.jsonl", ["another", "state", "of it"])
    assert len(texts(Dataset.from_path("d", "s3://bucket/a.jsonl", io_options=options))) == 3


def test_a_pair_is_fetched_as_a_pair(server: Server, tmp_path: Path) -> None:
    (server.folder / "bucket").mkdir()
    prefix = server.folder / "bucket" / "p"
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    builder.add_document(np.array([1, 2, 3], np.uint16), [3])
    builder.finalize(f"{prefix}.idx")
    for name in ("p.bin", "p.idx", ""):
        dataset = Dataset.from_path(
            "p", f"s3://bucket/{name}", io_options=server.options(tmp_path / "cache")
        )
        documents = dataset.read(np.array([0]))
        assert isinstance(documents, TokenDocuments)
        assert documents.tokens(0).tolist() == [1, 2, 3]
        dataset.check(np.array([0]))
        lengths = dataset.token_lengths()
        assert lengths is not None
        assert lengths.tolist() == [3]
    (prefix.parent / "p.bin").unlink()
    with pytest.raises(DataError, match=r"s3://bucket/p.bin: the other half of the pair is there"):
        Dataset.from_path("p", "s3://bucket/p.idx", io_options=server.options(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("url", "faults", "message"),
    [
        ("s3://bucket/none.jsonl", [], "none.jsonl: dataset 'd': is not there; looked for"),
        ("s3://bucket/*.parquet", [], r"\*.parquet: dataset 'd': no object matches the pattern"),
        ("s3://bucket/odd", [], "odd: dataset 'd': holds no object of a known kind. Found: x.txt"),
        ("s3://bucket/odd/x.txt", [], "unknown kind of object .it begins with b'plain'"),
        ("s3://bucket/a.jsonl", ["forbid"], "a.jsonl: the store refuses access .*credentials"),
        ("s3://bucket/a.jsonl", ["hang"], r"a.jsonl: cannot be fetched: .* \(2 tries in"),
        ("s3://bucket/a.jsonl", ["cut"], r"a.jsonl: cannot be fetched: .* \(2 tries in"),
        ("s3://bucket/bad.jsonl", [], r"s3://bucket/bad.jsonl, record 1.*this is a JSON array"),
        ("s3://bucket/cut.jsonl.gz", [], r"s3://bucket/cut.jsonl.gz, record 1, .*truncated gzip"),
    ],
)
def test_what_cannot_be_fetched_is_an_error_with_its_url_in_time(
    server: Server, tmp_path: Path, url: str, faults: list[str], message: str
) -> None:
    server.put("a.jsonl", ["x"] * 100)
    server.put("bad.jsonl", []).write_text("[1,\n2]")
    server.put("odd/x.txt", []).write_text("plain")
    server.put("cut.jsonl.gz", []).write_bytes(b"\x1f\x8b\x08\x00")
    server.fail(*faults)
    begin = time.monotonic()
    with pytest.raises(DataError, match=message):
        Dataset.from_path("d", url, io_options=server.options(tmp_path / "cache"))
    # Two tries of a second each and a pause of 0.2 seconds, for one request.
    assert time.monotonic() - begin < 6
    left = tmp_path / "cache" / "objects"
    assert bool(list(left.glob("*"))) == url.endswith(("bad.jsonl", ".gz"))  # those are whole


def test_a_server_that_goes_away_while_an_object_is_read_is_an_error_with_the_url(
    server: Server, tmp_path: Path
) -> None:
    server.put("a.jsonl", ["a"])
    server.put("b.jsonl", ["b" * 1000])
    options = server.options(tmp_path / "cache", limit_bytes=1020)  # one of them at a time
    dataset = Dataset.from_path("d", "s3://bucket", io_options=options)
    assert texts(dataset, [1]) == ["b" * 1000]
    server.stop()
    assert texts(dataset, [1]) == ["b" * 1000]
    begin = time.monotonic()
    with pytest.raises(DataError, match=r"s3://bucket/a.jsonl: cannot be fetched: .*2 tries"):
        texts(dataset, [0])
    assert time.monotonic() - begin < 5


def test_a_request_that_fails_by_chance_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.put("a.jsonl", ["x", "y"])
    server.fail("busy")
    options = server.options(tmp_path / "cache", download_retry=3)
    assert texts(Dataset.from_path("d", "s3://bucket/a.jsonl", io_options=options)) == ["x", "y"]


def test_the_cache_keeps_its_limit_and_fetches_again_what_it_removed(
    server: Server, tmp_path: Path
) -> None:
    contents = {f"{i}.jsonl": [str(i) * 1000, f"second of {i}"] for i in range(6)}
    for key, lines in contents.items():
        server.put(key, lines)
    cache = tmp_path / "cache"
    options = server.options(cache, limit_bytes=2500)  # two files of about 1,050 bytes
    dataset = Dataset.from_path("d", "s3://bucket", io_options=options)

    def stored() -> int:
        return sum(file.stat().st_size for file in cache.glob("objects/*/*.jsonl"))

    assert 0 < stored() <= 2500
    for row in (0, 11, 2, 9, 1, 0, 10):
        assert texts(dataset, [row]) == [contents[f"{row // 2}.jsonl"][row % 2]]
        assert 0 < stored() <= 2500
    fetched = len(server.requests("GET"))
    assert fetched > 6
    assert texts(dataset, [10, 0]) == [contents["5.jsonl"][0], contents["0.jsonl"][0]]
    assert len(server.requests("GET")) == fetched


def test_an_object_larger_than_the_cache_names_the_option(server: Server, tmp_path: Path) -> None:
    server.put("a.jsonl", ["x" * 1000])
    with pytest.raises(DataError, match=r"may hold 500 bytes and one shard takes 1,0.*limit_bytes"):
        Dataset.from_path(
            "d", "s3://bucket/a.jsonl", io_options=server.options(tmp_path / "c", limit_bytes=500)
        )


def test_an_object_that_was_replaced_is_not_taken_for_the_one_that_was_opened(
    server: Server, tmp_path: Path
) -> None:
    server.put("a.jsonl", ["a" * 900])
    server.put("b.jsonl", ["b" * 900])
    options = server.options(tmp_path / "cache", limit_bytes=1000)
    dataset = Dataset.from_path("d", "s3://bucket", io_options=options)
    assert texts(dataset, [1]) == ["b" * 900]
    server.put("a.jsonl", ["c" * 900])
    with pytest.raises(DataError, match=r"s3://bucket/a.jsonl: was replaced by another object"):
        texts(dataset, [0])
    (server.folder / "bucket/a.jsonl").unlink()
    with pytest.raises(DataError, match=r"s3://bucket/a.jsonl: was there and is gone"):
        texts(dataset, [0])


def read_in_processes(options: StoreOptions, turns: int) -> None:
    """Three processes that read objects of ``0-0-0...``, ``1-1-1...`` and so on."""
    endpoint = options.storage["endpoint"]
    command = [sys.executable, "-P", READER, endpoint, str(options.cache.root), str(turns)]
    if options.cache.limit_bytes is not None:
        command.append(str(options.cache.limit_bytes))
    readers = [subprocess.Popen(command) for _ in range(3)]
    assert [reader.wait(timeout=60) for reader in readers] == [0, 0, 0]


def test_processes_share_a_cache_that_is_too_small_for_all(server: Server, tmp_path: Path) -> None:
    for i in range(6):
        server.put(f"{i}.jsonl", [f"{i}-" * 500])
    cache = tmp_path / "cache"
    read_in_processes(server.options(cache, limit_bytes=3500), turns=60)
    stored = sum(file.stat().st_size for file in cache.glob("objects/*/*.jsonl"))
    assert 0 < stored <= 3500
    assert not list(cache.glob("objects/unfinished-*"))


def test_processes_fetch_the_same_object_once(server: Server, tmp_path: Path) -> None:
    server.put("0.jsonl", ["0-" * 500])
    read_in_processes(server.options(tmp_path / "cache"), turns=1)
    assert len(server.requests("GET")) == 1


def test_a_download_that_is_killed_is_never_taken_for_a_whole_one(
    server: Server, tmp_path: Path
) -> None:
    server.put("0.jsonl", ["0-" * 500])
    cache = tmp_path / "cache"
    script = (
        "import sys, time, zephon.io.object_store as o\nfrom tests_remote import *\n"
        if False
        else "import os, sys, time\n"
        "from zephon.io import Dataset, StoreOptions, CacheOptions\n"
        "from zephon.io.object_store import ObjectStore\n"
        "def fetch(self, what, into):\n"
        "    into.write(b'half'); into.flush(); print('half', flush=True); time.sleep(60)\n"
        "ObjectStore.fetch = fetch\n"
        "storage = {'endpoint': sys.argv[1], 'region': 'r', 'access_key_id': 'k',\n"
        "           'secret_access_key': 's'}\n"
        "options = StoreOptions(cache=CacheOptions(root=sys.argv[2]), storage=storage)\n"
        "Dataset.from_path('d', 's3://bucket/0.jsonl', io_options=options)\n"
    )
    endpoint = f"http://127.0.0.1:{server.port}"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", script, endpoint, str(cache)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"half\n"
        child.send_signal(signal.SIGKILL)
    assert list(cache.glob("objects/unfinished-*"))
    # A limit at which the leftover has to go.
    options = server.options(cache, limit_bytes=1500)
    dataset = Dataset.from_path("d", "s3://bucket/0.jsonl", io_options=options)
    assert texts(dataset) == ["0-" * 500]
    assert not list(cache.glob("objects/unfinished-*"))


def test_without_a_cache_folder_nothing_is_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("a.jsonl", ["x"])
    monkeypatch.delenv("ZEPHON_CACHE_DIR", raising=False)
    with pytest.raises(ConfigError, match=r"s3://bucket/a.jsonl is fetched into a cache: name"):
        Dataset.from_path("d", "s3://bucket/a.jsonl", io_options=server.options(None))
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    for name, value in (("REGION", "r"), ("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s")):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert texts(Dataset.from_path("d", "s3://bucket/a.jsonl")) == ["x"]
    assert list((tmp_path / "named" / "objects").glob("*/a.jsonl"))


def test_urls_and_files_are_not_mixed_in_one_dataset(write_jsonl: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="path mixes URLs and files"):
        Dataset.from_path("d", ["s3://bucket/a.jsonl", write_jsonl("b.jsonl", ["b"])])


def test_without_obstore_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match="needs the package obstore.*extra 'remote'"):
        Dataset.from_path("d", "s3://bucket/a.jsonl", io_options=tmp_path)


def test_a_forked_child_says_why_it_cannot_fetch(server: Server, tmp_path: Path) -> None:
    server.put("a.jsonl", ["a" * 900])
    server.put("b.jsonl", ["b" * 900])
    options = server.options(tmp_path / "cache", limit_bytes=1000)
    dataset = Dataset.from_path("d", "s3://bucket", io_options=options)
    assert texts(dataset, [1]) == ["b" * 900]
    child = os.fork()
    if child == 0:
        try:
            code = 1
            assert texts(dataset, [1]) == ["b" * 900]  # what is there can be read
            texts(dataset, [0])
        except LifecycleError as error:
            code = 0 if "start workers with 'spawn'" in str(error) else 2
        except BaseException:
            code = 3
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_pipeline_streams_objects_as_it_streams_files(
    server: Server, tmp_path: Path, tokenizer_folder: Path
) -> None:
    for i in range(4):
        server.put(f"{i}.jsonl", [f"the quick brown fox {i} {j}" for j in range(50)])

    def stream(path: Any, **more: Any) -> list[Any]:
        data = [Dataset.from_path("d", path, **more)]
        work = zephon.StaticMixtureWorkSource(data, {"d": 1.0}, shuffle_block_size=10)
        pipeline = zephon.Pipeline(work).tokenize(tokenizer_folder, field="text")
        pipeline = pipeline.pack_flat(64).batch(2).prefetch(32, parallelism=2)
        if more:
            pipeline = pipeline.options(io_options=more["io_options"])
        found = [batch.to_training()["input_ids"].tolist() for batch in pipeline]
        pipeline.close()
        return found

    options = server.options(tmp_path / "cache", limit_bytes=5000, download_retry=3)
    remote = stream("s3://bucket", io_options=options)
    assert len(remote) > 10
    assert remote == stream(server.folder / "bucket")


def test_a_pipeline_moves_its_downloads_to_the_folder_that_its_options_name(
    server: Server, tmp_path: Path
) -> None:
    server.put("a.jsonl", ["x"])
    dataset = Dataset.from_path(
        "d", "s3://bucket/a.jsonl", io_options=server.options(tmp_path / "one")
    )
    work = zephon.StaticMixtureWorkSource([dataset], {"d": 1.0})
    zephon.Pipeline(work).options(io_options=server.options(tmp_path / "two"))
    assert texts(dataset) == ["x"]
    assert list((tmp_path / "two" / "objects").glob("*/a.jsonl"))
