from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import zephon
from zephon.block import RecordDocuments, TokenDocuments
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.io import Dataset, InMemoryShard
from zephon.megatron.builder import IndexedDatasetBuilder

WriteJsonl = Callable[..., Path]


def write_pair(prefix: Path, documents: list[list[list[int]]], dtype: type = np.uint16) -> Path:
    """A .bin/.idx pair; a document is a list of sequences."""
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
    for sequences in documents:
        flat = [token for sequence in sequences for token in sequence]
        builder.add_document(np.array(flat, dtype), [len(sequence) for sequence in sequences])
    builder.finalize(f"{prefix}.idx")
    return prefix


def texts(dataset: Dataset, rows: list[int]) -> list[object]:
    documents = dataset.read(np.array(rows))
    assert isinstance(documents, RecordDocuments)
    return [record["text"] for record in documents.records]


def tokens(dataset: Dataset, rows: list[int]) -> list[list[int]]:
    documents = dataset.read(np.array(rows))
    assert isinstance(documents, TokenDocuments)
    return [documents.tokens(i).tolist() for i in range(len(documents))]


def test_a_file_a_folder_a_pattern_and_a_list_name_the_same_documents(
    tmp_path: Path, write_jsonl: WriteJsonl
) -> None:
    one = write_jsonl("one.jsonl", ["a", "b"])
    two = write_jsonl("two.jsonl", ["c"])
    (tmp_path / ".hidden.jsonl").write_text("not json")
    (tmp_path / "notes.txt").write_text("not data")
    for path in ([one, two], tmp_path, str(tmp_path / "*.jsonl"), f"{tmp_path}/[ot]*.jsonl"):
        dataset = Dataset.from_path("d", path)
        assert texts(dataset, [2, 0, 1]) == ["c", "a", "b"]
        assert dataset.counts().tolist() == [2, 1]
        assert (dataset.total(), dataset.shard_count(), dataset.max_count()) == (3, 2, 2)
        assert dataset.raw_bytes().tolist() == [one.stat().st_size, two.stat().st_size]
        assert dataset.ids().tolist() == [0, 1]
        assert dataset.sample_id(2) == (1, 0)
        assert dataset.place(2).file == str(two)


def test_a_pair_is_named_by_prefix_by_either_file_and_by_folder(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "corpus.v1", [[[1, 2], [3]], [], [[4]], [[65535, 5]]])
    paths = [prefix, f"{prefix}.bin", f"{prefix}.idx", tmp_path, [f"{prefix}.bin", f"{prefix}.idx"]]
    for path in paths:
        dataset = Dataset.from_path("p", path)  # type: ignore[arg-type]
        assert dataset.format == "bin"
        assert tokens(dataset, [3, 0, 1, 2]) == [[65535, 5], [1, 2, 3], [], [4]]


def test_several_pairs_are_read_in_one_call(tmp_path: Path) -> None:
    write_pair(tmp_path / "a", [[[1]], [[2, 2]]])
    write_pair(tmp_path / "b", [[[70000]]], np.int32)
    dataset = Dataset.from_path("p", tmp_path)
    assert tokens(dataset, [2, 1, 0, 2]) == [[70000], [2, 2], [1], [70000]]


def test_documents_whose_sequences_are_scattered_are_joined(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "s", [[[1, 1], [2, 2]], [[3]], [[4], [5]]], np.int32)
    index = bytearray(Path(f"{prefix}.idx").read_bytes())
    # Swap the byte offsets of the two sequences of the first document.
    lengths_end = 34 + 4 * 5
    first, second = index[lengths_end : lengths_end + 8], index[lengths_end + 8 : lengths_end + 16]
    index[lengths_end : lengths_end + 16] = second + first
    Path(f"{prefix}.idx").write_bytes(index)
    assert tokens(Dataset.from_path("s", prefix), [2, 0, 1]) == [[4, 5], [2, 2, 1, 1], [3]]


def test_float_tokens_are_refused(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "f", [[[1]]], np.float32)
    with pytest.raises(DataError, match=r"f\.idx: holds float32 values, expected token ids"):
        Dataset.from_path("f", prefix)


@pytest.mark.parametrize(
    ("path", "fmt", "error", "message"),
    [
        ("missing.jsonl", None, DataError, "missing.jsonl: dataset 'd': there is no such file"),
        ("/dev/null", None, DataError, "/dev/null: dataset 'd': is a device, pipe or socket"),
        ("tru.jsonl", None, DataError, "similar names there: true.jsonl"),
        ("nowhere/x.jsonl", None, DataError, "its folder .*nowhere does not exist either"),
        ("empty", None, DataError, "the folder holds no file of a known kind. Found: nothing"),
        ("other", None, DataError, r"Found: a.ds, a.gz, b.ds; looked for: .*\.jsonl"),
        ("*.nothing", None, DataError, "no file matches the pattern"),
        ("other/a.ds", None, DataError, "unknown kind of file .*known kinds: jsonl"),
        ("p.parquet", None, DataError, "p.parquet, byte 10: ends without the footer"),
        ("true.jsonl", "lance", ConfigError, "unknown format 'lance'; known formats: jsonl, bin"),
        ("", None, ConfigError, "path is empty"),
        ([], None, ConfigError, "path is an empty list"),
        (None, None, ConfigTypeError, "path is None, expected a str, a PathLike or a sequence"),
        ("z.jsonl.zst", None, DataError, "z.jsonl.zst, byte .*: is truncated zstandard"),
        ("other/a.gz", None, DataError, "a.gz: dataset 'd': unknown kind of file"),
        (["true.jsonl", 3], None, ConfigTypeError, "path holds a int"),
        ("mixed", None, DataError, "mixes the formats bin, jsonl"),
        ("half.idx", None, DataError, "half.bin"),
    ],
)
def test_paths_that_name_no_data_say_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: object,
    fmt: str | None,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("true.jsonl").write_text('{"text": "x"}\n')
    for folder in ("empty", "other", "mixed"):
        Path(folder).mkdir()
    Path("other/a.ds").write_bytes(b"\1\2")
    Path("other/b.ds").write_bytes(b"\1\2")
    Path("other/a.gz").write_bytes(gzip.compress(b"no JSON"))
    Path("z.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd and so on")
    Path("p.parquet").write_bytes(b"PAR1 and so on")
    write_pair(Path("mixed/p"), [[[1]]])
    Path("mixed/q.jsonl").write_text('{"text": "x"}\n')
    write_pair(Path("half"), [[[1]]])
    Path("half.bin").unlink()
    with pytest.raises(error, match=message):
        Dataset.from_path("d", path, fmt=fmt)  # type: ignore[arg-type]


def test_a_format_is_found_by_content_where_the_suffix_does_not_tell(tmp_path: Path) -> None:
    path = tmp_path / "records.txt"
    path.write_text('{"text": "x"}\n')
    assert texts(Dataset.from_path("d", path), [0]) == ["x"]
    (tmp_path / "records.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf {"text": "y"}\n'))
    assert texts(Dataset.from_path("d", tmp_path / "records.gz"), [0]) == ["y"]
    (tmp_path / "records.bak").write_bytes(zstandard.compress(b'{"text": "z"}\n'))
    assert texts(Dataset.from_path("d", tmp_path / "records.bak"), [0]) == ["z"]
    (tmp_path / "records.dat").write_text('[{"text": "x"}]\n')
    with pytest.raises(DataError, match="this is a JSON array"):
        Dataset.from_path("d", tmp_path / "records.dat", fmt="jsonl")


def test_links_are_followed_once_and_dangling_ones_are_errors(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (data / "a.jsonl").write_text('{"text": "a"}\n')
    (data / "sub" / "b.jsonl").write_text('{"text": "b"}\n')
    (tmp_path / "elsewhere" / "c.jsonl").write_text('{"text": "c"}\n')
    (data / "linked").symlink_to(tmp_path / "elsewhere")
    (data / "sub" / "up").symlink_to(data)
    (data / "again.jsonl").symlink_to(data / "a.jsonl")
    for path in (data, f"{data}/**/*.jsonl", [data / "a.jsonl", data / "sub/../again.jsonl", data]):
        dataset = Dataset.from_path("d", path)
        assert sorted(str(t) for t in texts(dataset, list(range(dataset.total())))) == [
            "a",
            "b",
            "c",
        ]
    (data / "gone.jsonl").symlink_to(data / "nothing.jsonl")
    with pytest.raises(DataError, match="gone.jsonl: dataset 'd': the link leads to .*nothing.jso"):
        Dataset.from_path("d", data)


def test_names_and_shards_are_checked() -> None:
    shard = InMemoryShard([{"text": "x"}])
    with pytest.raises(ConfigError, match="which UTF-8 cannot write: choose another one"):
        Dataset.from_dict("\udcff", {0: shard})
    with pytest.raises(ConfigError, match="name is empty"):
        Dataset.from_dict("", {0: shard})
    with pytest.raises(ConfigTypeError, match="name is 3, expected a str"):
        Dataset.from_dict(3, {0: shard})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="shards is empty"):
        Dataset.from_dict("m", {})
    with pytest.raises(ConfigTypeError, match="shard 0 is a list, expected an InMemoryShard"):
        Dataset.from_dict("m", {0: [{}]})  # type: ignore[dict-item]
    with pytest.raises(ConfigTypeError, match=r"rows\[1\] is a str, expected a mapping"):
        InMemoryShard([{}, "text"])  # type: ignore[list-item]


def test_an_iterator_of_records_is_a_shard_of_all_of_them():
    shard = InMemoryShard({"n": n} for n in range(3))  # type: ignore[arg-type]
    assert len(shard) == 3
    assert shard.getsamples([2]) == [{"n": 2}]


@pytest.mark.parametrize("rows", [None, 5])
def test_what_holds_no_records_is_told_by_its_type(rows):
    with pytest.raises(ConfigTypeError, match=rf"rows is a {type(rows).__name__}, expected"):
        InMemoryShard(rows)  # type: ignore[arg-type]


def test_shards_in_memory_come_in_the_order_of_their_keys() -> None:
    dataset = Dataset.from_dict(
        "m", {5: InMemoryShard([{"text": "b"}]), 2: InMemoryShard([{"text": "a"}])}
    )
    assert texts(dataset, [0, 1]) == ["a", "b"]
    assert InMemoryShard([{"n": 1}, {"n": 2}]).getsamples([1, 0]) == [{"n": 2}, {"n": 1}]


@pytest.mark.parametrize(
    "other",
    [
        [{"text": "b", "n": 1}],
        [{"text": "a", "n": 2}],
        [{"text": "a", "n": 1.0}],
        [{"text": "a"}],
        [{"text": b"a", "n": 1}],
        [{"text": "a", "n": [1]}],
        [{"text": "a", "n": np.array([1], np.int32)}],
        [{"text": "a", "n": np.array([1], np.int64)}],
        [{"text": "a", "n": 1}, {"text": "a", "n": 1}],
        [{"text": "a", "n": {"m": 1}}],
        [{"text": "a", "n": None}],
    ],
)
def test_the_digest_of_memory_tells_values_and_types_apart(other: list[dict[str, object]]) -> None:
    one = Dataset.from_dict("m", {0: InMemoryShard([{"text": "a", "n": 1}])})
    same = Dataset.from_dict("m", {0: InMemoryShard([{"n": 1, "text": "a"}])})
    assert one.digest() == same.digest()
    assert one.digest() != Dataset.from_dict("m", {0: InMemoryShard(other)}).digest()


def test_datasets_are_pickled_by_their_paths_or_their_rows(
    tmp_path: Path, write_jsonl: WriteJsonl
) -> None:
    write_pair(tmp_path / "p", [[[1, 2]]])
    datasets = [
        Dataset.from_path("j", write_jsonl("j.jsonl", ["a"] * 1000)),
        Dataset.from_path("p", tmp_path / "p"),
        Dataset.from_dict("m", {0: InMemoryShard([{"text": "x"}])}),
    ]
    for dataset in datasets:
        data = pickle.dumps(dataset)
        assert len(data) < 1000
        again = pickle.loads(data)
        assert (again.name, again.digest()) == (dataset.name, dataset.digest())
    assert repr(datasets[1]) == "Dataset('p', bin, 1 documents in 1 shards)"


def test_the_digest_of_a_pair_covers_index_and_tokens(tmp_path: Path) -> None:
    digests = {
        Dataset.from_path("p", write_pair(tmp_path / str(i), documents, dtype)).digest()
        for i, (documents, dtype) in enumerate(
            [
                ([[[1, 2]], [[3]]], np.uint16),
                ([[[1, 2]], [[4]]], np.uint16),
                ([[[1]], [[2, 3]]], np.uint16),
                ([[[1, 2], [3]]], np.uint16),
                ([[[1, 2]], [[3]]], np.int32),
            ]
        )
    }
    assert len(digests) == 5


def test_the_top_level_names_are_the_same_objects() -> None:
    assert zephon.Dataset is Dataset
    assert zephon.InMemoryShard is InMemoryShard


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ([InMemoryShard([{"a": 1}])], "shards is a list, expected a mapping from numbers"),
        (5, "shards is a int, expected a mapping from numbers"),
        ({"x": InMemoryShard([{"a": 1}])}, "the key 'x' of shards is a str, expected a number"),
    ],
)
def test_shards_of_memory_are_a_mapping_from_numbers(shards: Any, message: str) -> None:
    with pytest.raises(ConfigTypeError, match=f"dataset 'a': {message}"):
        Dataset.from_dict("a", shards)
