"""Parquet files: what is in them, what is wrong with them, and how much of them is decoded."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import zephon
from zephon.block import RecordDocuments, TokenDocuments
from zephon.errors import ConfigError, DataError
from zephon.io import Dataset, decoded, unit_cache
from zephon.io import parquet as module

BAD = Path(__file__).parents[1] / "data" / "badfiles"


def write(path: Path, rows: int | None = None, **columns: object) -> Path:
    table = pa.table(
        {name: pa.array(v) if isinstance(v, list) else v for name, v in columns.items()}
    )
    pq.write_table(table, path, row_group_size=rows)
    return path


def tokens(dataset: Dataset, rows: list[int] | None = None) -> list[list[int]]:
    rows = list(range(dataset.total())) if rows is None else rows
    documents = dataset.read(np.array(rows, dtype=np.int64))
    assert isinstance(documents, TokenDocuments)
    return [documents.tokens(i).tolist() for i in range(len(documents))]


def values(dataset: Dataset, field: str = "text") -> list[object]:
    documents = dataset.as_text(field).read(np.arange(dataset.total()))
    assert isinstance(documents, RecordDocuments)
    return [record.get(field) for record in documents.records]


def batches(
    dataset: Dataset,
    tokenizer: Path | None,
    ahead: int,
    *,
    threads: int | None = None,
    special_tokens: str = "bos_eos",
) -> list[list[int]]:
    """Input ids of the rows of a pass in file order."""
    work = zephon.StaticMixtureWorkSource([dataset], {dataset.name: 1.0}, shuffle_shards=False)
    pipeline = zephon.Pipeline(work).prefetch(ahead, threads)
    if tokenizer is not None:
        pipeline = pipeline.tokenize(tokenizer, field="text", special_tokens=special_tokens)
    pipeline = pipeline.pack_flat(8).batch(1).options(tail="pad")
    return [batch.to_training(dtype=None)["input_ids"][0] for batch in pipeline]


@pytest.fixture(autouse=True)
def _nothing_decoded() -> None:
    decoded.UNITS.start_anew()


# File, the field that holds text or None, and what comes of it.
CASES = {
    "00_ok": ("text", "ok"),
    "01_nulls": ("text", "error"),
    "02_large_string": ("text", "ok"),
    "03_string_view": ("text", "ok"),
    "05_dictionary": ("text", "ok"),
    "06_zero_row_groups": ("text", "empty"),
    "07_no_row_groups": ("text", "empty"),
    "09_missing_column": ("text", "error"),
    "10_nested_struct": ("text", "error"),
    "11_tokens_i32": (None, "ok"),
    "13_tokens_u16": (None, "ok"),
    "14_tokens_null_elem": (None, "error"),
    "15_tokens_float": (None, "error"),
    "17_fixed_list": (None, "ok"),
    "19_many_pages": (None, "ok"),
    "20_truncated": ("text", "error"),
    "21_zero_bytes": ("text", "error"),
    "23_zstd": ("text", "ok"),
}


def test_every_bad_file_has_an_expectation() -> None:
    assert {path.stem[3:] for path in BAD.glob("pq_*")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("ahead", "threads"), [(0, None), (1, 1), (1024, 4)])
def test_bad_files_do_the_same_on_every_number_of_threads_and_within_a_second(
    name: str, ahead: int, threads: int | None, tokenizer_folder: Path
) -> None:
    path = BAD / f"pq_{name}.parquet"
    field, expected = CASES[name]
    Dataset.from_path("warm", BAD / "pq_00_ok.parquet")  # imports are not counted
    began = time.perf_counter()
    try:
        dataset = Dataset.from_path("d", path)
        outcome = "ok" if dataset.total() else "empty"
        if dataset.total():
            batches(dataset, tokenizer_folder if field else None, ahead, threads=threads)
    except DataError as error:
        outcome = "error" if error.file == str(path) else "error without its file"
    assert outcome == expected
    assert time.perf_counter() - began < 10 * 1.0


@pytest.mark.parametrize(
    ("name", "rows"),
    [("00_ok", 2), ("02_large_string", 2), ("03_string_view", 2), ("05_dictionary", 3),
     ("11_tokens_i32", 3), ("13_tokens_u16", 1), ("17_fixed_list", 2), ("19_many_pages", 300),
     ("23_zstd", 50)],
)  # fmt: skip
def test_good_files_have_the_rows_that_their_index_says(name: str, rows: int) -> None:
    (path,) = BAD.glob(f"pq_{name}*")
    assert Dataset.from_path("d", path).total() == rows


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("01_nulls", r"01_nulls.parquet, record 2, byte 4: the field 'text' is null"),
        ("09_missing", r"record 1.*the field 'text' is missing; keys: Text, content"),
        ("14_tokens", r"record 1, byte 4: a null stands among its token ids"),
        (
            "15_tokens",
            r"the column 'input_ids' is list<element: double>, but token ids must be int",
        ),
        ("20_trunc", r"20_truncated.parquet, byte 420: ends without the footer of a Parquet file"),
        ("21_zero", r"21_zero_bytes.parquet: is empty \(0 bytes\)"),
    ],
)
@pytest.mark.parametrize("ahead", [0, 1024])
def test_messages_name_file_and_row(
    name: str, message: str, ahead: int, tokenizer_folder: Path
) -> None:
    (path,) = BAD.glob(f"pq_{name}*")
    with pytest.raises(DataError, match=message):
        batches(Dataset.from_path("d", path), None if "tokens" in name else tokenizer_folder, ahead)


def test_ids_of_16_bits_stay_what_they_are() -> None:
    assert tokens(Dataset.from_path("d", BAD / "pq_13_tokens_u16.parquet")) == [[65535, 1]]


def test_a_null_list_is_a_document_without_tokens(tmp_path: Path) -> None:
    path = write(
        tmp_path / "n.parquet", tokens=pa.array([[1], None, [], [2, 3]], pa.list_(pa.int32()))
    )
    assert tokens(Dataset.from_path("d", path)) == [[1], [], [], [2, 3]]


def test_a_null_among_tokens_is_an_error_of_its_document_only(tmp_path: Path) -> None:
    path = write(tmp_path / "n.parquet", rows=2, tokens=[[1], [2], [3], [4, None], [5]])
    dataset = Dataset.from_path("d", path)
    assert tokens(dataset, [0, 2, 4]) == [[1], [3], [5]]
    with pytest.raises(DataError, match=r"n\.parquet, record 4, byte \d+: a null stands among"):
        tokens(dataset, [2, 3])


INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]


@pytest.mark.parametrize("value", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list], ids=["list", "large_list"])
def test_lists_of_every_integer_type_are_tokens_of_that_type(
    tmp_path: Path, kind: object, value: pa.DataType
) -> None:
    column = pa.array([[1, 2, 100], [], [7]], kind(value))  # type: ignore[operator]
    dataset = Dataset.from_path("d", write(tmp_path / "t.parquet", ids=column))
    documents = dataset.read(np.array([2, 0]))
    assert isinstance(documents, TokenDocuments)
    assert [documents.tokens(i).tolist() for i in (0, 1)] == [[7], [1, 2, 100]]
    (buffer,) = documents.buffers
    assert buffer.dtype == str(value)
    assert not buffer.flags.owndata


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[[1]]]), "the column 'tokens' is list.*lists inside lists are not token ids"),
        (pa.array([[1.5]]), "token ids must be integers"),
        (pa.array([["a"]]), "token ids must be integers"),
        (pa.array([[1]], pa.list_(pa.uint64())), "64 bits without sign are not read"),
        (
            pa.array([3]),
            r"no column of text, and none of token ids .*Its columns: tokens \(int64\)",
        ),
    ],
)
def test_columns_that_cannot_be_tokens_are_named(
    tmp_path: Path, column: pa.Array, message: str
) -> None:
    with pytest.raises(DataError, match=f"t.parquet: .*{message}"):
        Dataset.from_path("d", write(tmp_path / "t.parquet", tokens=column))


TEXTS = ["one", "", "zwölf", None]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
        pytest.param(pa.string_view(), marks=pytest.mark.skipif(
            int(pa.__version__.partition(".")[0]) < 20, reason="this pyarrow cannot write it")),
    ],
    ids=str,
)  # fmt: skip
def test_text_of_every_string_type_and_bytes_of_utf8_are_read(
    tmp_path: Path, kind: pa.DataType
) -> None:
    column = pa.array(TEXTS, pa.string()).cast(kind)
    dataset = Dataset.from_path("d", write(tmp_path / "t.parquet", rows=3, text=column))
    assert values(dataset) == TEXTS
    assert dataset.gives_text


def test_bytes_that_are_not_utf8_are_an_error_of_their_row(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", text=pa.array([b"fine", b"caf\xe9"], pa.binary()))
    with pytest.raises(DataError, match=r"record 2.*'text' is not valid UTF-8 .* at byte 3 of the"):
        values(Dataset.from_path("d", path))


def test_a_field_of_structs_is_named_with_a_dot() -> None:
    dataset = Dataset.from_path("d", BAD / "pq_10_nested_struct.parquet")
    assert values(dataset, "doc.text") == ["alpha", None, None]
    assert values(dataset, "doc.nothing") == [None] * 3


def test_a_file_of_text_and_tokens_gives_what_the_pipeline_asks_for(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    path = write(tmp_path / "b.parquet", text=["a", "bb"], tokens=[[5, 6, 7], [8]])
    dataset = Dataset.from_path("d", path)
    assert tokens(dataset) == [[5, 6, 7], [8]]
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    ids = [*tokenizer.encode("a").ids, *tokenizer.encode("bb").ids]
    assert batches(dataset, None, 0) == [[5, 6, 7, 8, 0, 0, 0, 0]]
    assert batches(dataset, tokenizer_folder, 0, special_tokens="none") == [
        ids + [0] * (8 - len(ids))
    ]
    assert dataset.as_text("elsewhere") is dataset


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="has two columns named 'text'"):
        Dataset.from_path("d", tmp_path / "t.parquet")


def test_a_loss_mask_goes_along_and_may_be_null(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.parquet",
        tokens=[[1, 2], [3], [], [4, 5, 6]],
        loss_mask=[[1, 0], None, [], [0.0, 2.5, 0.0]],
    )
    documents = Dataset.from_path("d", path).read(np.arange(4))
    assert isinstance(documents, TokenDocuments)
    (along,) = documents.aligned
    assert along is not None
    assert along.loss_mask is not None
    assert along.loss_mask.tolist() == [1, 0, 1, 0, 1, 0]
    assert [along.has_mask(int(documents.start[i])) for i in (0, 1, 3)] == [True, False, True]


@pytest.mark.parametrize("mask", [[[1, 0], [1]], [[1, 0], [1, None]]])
def test_a_loss_mask_that_does_not_fit_is_an_error_of_its_document(
    tmp_path: Path, mask: list[object]
) -> None:
    path = write(tmp_path / "m.parquet", tokens=[[1, 2], [3, 4]], loss_mask=mask)
    dataset = Dataset.from_path("d", path)
    assert tokens(dataset, [0]) == [[1, 2]]
    with pytest.raises(DataError, match="record 2.*'loss_mask' has not one number for each token"):
        tokens(dataset)


def test_a_loss_mask_that_is_no_list_is_refused_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "m.parquet", tokens=[[1]], loss_mask=[1])
    with pytest.raises(DataError, match="'loss_mask' is int64, expected a list with a number for"):
        Dataset.from_path("d", path)


def test_numbers_beside_tokens_and_other_columns_are_read_when_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path / "c.parquet",
        rows=2,
        tokens=[[1, 2], [3], [4]],
        weight=[[0.5, 1.0], [2.0], [1.0, 1.0]],
        url=["a", "b", None],
        score=[1, 2, 3],
    )
    asked: list[tuple[str, ...]] = []
    original = module.ParquetFile.read

    def spy(self: module.ParquetFile, unit: int, columns: list[str]) -> object:
        asked.append((str(unit), *columns))
        return original(self, unit, columns)

    read_tokens = module.ParquetFile.read_tokens

    def spy_tokens(self: module.ParquetFile, unit: int, column: str, mask: str | None) -> object:
        asked.append((str(unit), column))
        return read_tokens(self, unit, column, mask)

    monkeypatch.setattr(module.ParquetFile, "read", spy)
    monkeypatch.setattr(module.ParquetFile, "read_tokens", spy_tokens)
    dataset = Dataset.from_path("d", path)
    work = zephon.StaticMixtureWorkSource([dataset], {"d": 1}, shuffle_shards=False)
    (batch,) = zephon.Pipeline(work).pack_flat(4).batch(1).prefetch(0)
    assert batch.to_training(dtype=None)["input_ids"] == [[1, 2, 3, 4]]
    assert asked == [("0", "tokens"), ("1", "tokens")]  # and nothing twice
    (record,) = batch.records
    assert [dict(one) for one in record.meta.tags["documents"]] == [
        {"url": "a", "score": 1},
        {"url": "b", "score": 2},
        {"weight": [1.0, 1.0], "url": None, "score": 3},
    ]
    documents = dataset.read(np.arange(2))
    assert isinstance(documents, TokenDocuments)
    (along,) = documents.aligned
    assert along is not None
    assert along.names(0) == ("weight",)
    assert along.take("weight", 1, 1).tolist() == [1.0]
    with pytest.raises(DataError, match="has no field 'url'; it has: weight"):
        along.take("url", 0, 1)


def test_text_is_read_without_the_other_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer_folder: Path
) -> None:
    path = write(tmp_path / "c.parquet", text=["a b", "c"], url=["u", "v"], n=[1, 2])
    asked: list[str] = []
    original = module.ParquetFile.read
    monkeypatch.setattr(
        module.ParquetFile, "read", lambda s, u, c: asked.extend(c) or original(s, u, c)
    )
    assert batches(Dataset.from_path("d", path), tokenizer_folder, 0)
    assert asked == ["text"]


def test_rows_come_from_any_row_group_and_file_in_the_order_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", rows=2, tokens=[[i] for i in range(5)])
    write(tmp_path / "b.parquet", tokens=pa.array([], pa.list_(pa.int64())))
    write(
        tmp_path / "c.parquet",
        rows=3,
        tokens=pa.array([[i] for i in range(5, 9)], pa.list_(pa.uint16())),
    )
    dataset = Dataset.from_path("d", tmp_path)
    assert dataset.counts().tolist() == [5, 0, 4]
    assert tokens(dataset, [8, 0, 5, 4, 4, 7, 1]) == [[8], [0], [5], [4], [4], [7], [1]]
    units = dataset.units()
    assert units is not None
    assert units.tolist() == [0, 2, 4, 5, 8]
    assert dataset.unit_documents() == 3


def test_more_row_groups_than_the_limit_holds_are_dropped_and_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows=100, tokens=[[i] * 50 for i in range(5000)])
    before, decoded.UNITS.limit = decoded.UNITS.limit, 200_000
    try:
        dataset = Dataset.from_path("d", path)
        for _ in range(2):
            for first in range(0, 5000, 250):
                rows = list(range(first, first + 250))
                assert tokens(dataset, rows) == [[i] * 50 for i in rows]
                assert decoded.UNITS.used <= 200_000
    finally:
        decoded.UNITS.limit = before


def test_threads_that_want_one_row_group_decode_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", rows=50, tokens=[[i] for i in range(200)])
    dataset = Dataset.from_path("d", path)
    reads: list[int] = []
    original = module.ParquetFile.read_tokens

    def slow(self: module.ParquetFile, unit: int, *columns: Any) -> object:
        reads.append(unit)
        time.sleep(0.02)
        return original(self, unit, *columns)

    monkeypatch.setattr(module.ParquetFile, "read_tokens", slow)
    seen: list[list[list[int]]] = []
    threads = [threading.Thread(target=lambda: seen.append(tokens(dataset))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [[[i] for i in range(200)]] * 8
    assert sorted(reads) == [0, 1, 2, 3]


def test_a_file_that_changed_while_it_was_open_or_is_gone_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", tokens=[[1], [2]])
    dataset = Dataset.from_path("d", path)
    digest = dataset.digest()
    write(path, tokens=[[1], [3]])
    assert Dataset.from_path("d", path).digest() != digest
    write(path, tokens=[[1]] * 300)
    with pytest.raises(DataError, match=r"a\.parquet: had \d+ bytes when it was opened and has"):
        dataset.read(np.array([0]))
    path.unlink()
    with pytest.raises(DataError, match=r"a\.parquet: is gone"):
        dataset.read(np.array([0]))


def test_a_damaged_page_is_an_error_with_its_row_group_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"tokens": [[i] * 9 for i in range(100)]})
    pq.write_table(table, path, row_group_size=50, write_page_checksum=True)
    dataset = Dataset.from_path("d", path)
    column = pq.read_metadata(path).row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[column.dictionary_page_offset + column.total_compressed_size - 1] ^= 255
    path.write_bytes(data)
    assert tokens(dataset, [49]) == [[49] * 9]
    with pytest.raises(
        DataError, match=r"a\.parquet, record 51: row group 1 cannot be read: .*CRC"
    ):
        tokens(dataset, [99])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1" + b"x" * 40, r"byte 40: ends without the footer of a Parquet file \(b'xxxx'"),
        (b"PAR1" + b"x" * 8 + b"\xff\xff\0\0PAR1", "byte 12: says that its footer has 65535 bytes"),
        (b"PAR1" + b"x" * 8 + b"\x08\0\0\0PAR1", "cannot be read: "),
        (b"PAR1" + b"x" * 8 + b"\x08\0\0\0PARE", "is encrypted Parquet"),
        (b"hello, this is no table", "byte 0: is not Parquet: it begins with b'hell'"),
    ],
)
def test_files_that_are_not_parquet_say_what_they_are(
    tmp_path: Path, data: bytes, message: str
) -> None:
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(DataError, match=rf"x\.parquet.*{message}"):
        Dataset.from_path("d", tmp_path / "x.parquet", fmt="parquet")


def test_content_tells_the_format_where_the_suffix_is_wrong(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a", "a.txt"):
        shutil.copy(BAD / "pq_00_ok.parquet", tmp_path / name)
        assert Dataset.from_path("d", tmp_path / name).format == "parquet"


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from zephon.io import columnar

    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(columnar, "import_module", missing)
    with pytest.raises(ConfigError, match="reading Parquet needs the package pyarrow: .*'parquet'"):
        Dataset.from_path("d", BAD / "pq_00_ok.parquet")


def test_a_dataset_of_parquet_crosses_to_another_process(tmp_path: Path) -> None:
    import pickle

    path = write(tmp_path / "a.parquet", tokens=[[1], [2]])
    assert tokens(pickle.loads(pickle.dumps(Dataset.from_path("d", path)))) == [[1], [2]]


def test_reading_without_prefetching_starts_no_thread(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows=10, tokens=[[i] * 5 for i in range(100)])
    dataset = Dataset.from_path("d", path)

    def count() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Threads:")).split()[1])

    before = count()
    assert len(batches(dataset, None, 0)) == 63
    assert count() == before


def test_conversations_are_lists_of_structs(tmp_path: Path) -> None:
    turns = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}], []]
    dataset = Dataset.from_path("d", write(tmp_path / "c.parquet", messages=turns))
    assert values(dataset, "messages") == turns
    assert dataset.gives_text


def test_the_memory_for_row_groups_is_an_option_of_the_dataset(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", tokens=[[1]])
    try:
        Dataset.from_path("d", path, io_options={"rg_cache_bytes": 32 << 20})
        assert decoded.UNITS.limit == 32 << 20
        Dataset.from_path("d", path)  # says nothing of it
        assert decoded.UNITS.limit == 32 << 20
    finally:
        decoded.UNITS.set_limit(decoded.DEFAULT_LIMIT)
        unit_cache.UNITS.set_limit(decoded.DEFAULT_LIMIT)
