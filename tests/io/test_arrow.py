"""Arrow IPC files and streams: mapped, found by their framing, refused where they are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.block import RecordDocuments, TokenDocuments
from zephon.errors import DataError
from zephon.io import Dataset, decoded
from zephon.io.arrow import ArrowFile

KINDS = ["file", "stream"]
ROWS = {
    "tokens": [[1, 2, 3], [], [4], [5, 6], [7]],
    "loss_mask": [[1, 0, 1], [], None, [0, 0], [1]],
    "url": ["a", "b", None, "d", "e"],
}


@pytest.fixture(autouse=True)
def _nothing_decoded() -> None:
    decoded.UNITS.start_anew()


def write(
    path: Path, table: pa.Table, kind: str = "file", rows: int = 2, compression: str | None = None
) -> Path:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    open_ = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with open_(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def tokens(dataset: Dataset, rows: list[int] | None = None) -> list[list[int]]:
    rows = list(range(dataset.total())) if rows is None else rows
    documents = dataset.read(np.array(rows, dtype=np.int64))
    assert isinstance(documents, TokenDocuments)
    return [documents.tokens(i).tolist() for i in range(len(documents))]


def values(dataset: Dataset, field: str) -> list[object]:
    documents = dataset.as_text(field).read(np.arange(dataset.total()))
    assert isinstance(documents, RecordDocuments)
    return [record.get(field) for record in documents.records]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_files_and_streams_give_their_rows_and_what_is_beside(
    tmp_path: Path, kind: str, compression: str | None
) -> None:
    path = write(tmp_path / "t.arrow", pa.table(ROWS), kind, compression=compression)
    dataset = Dataset.from_path("d", path)
    assert dataset.format == "arrow"
    assert tokens(dataset, [4, 0, 3, 1, 2]) == [[7], [1, 2, 3], [5, 6], [], [4]]
    units = dataset.units()
    assert units is not None
    assert units.tolist() == [0, 2, 4]
    documents = dataset.read(np.array([0, 2]))
    assert isinstance(documents, TokenDocuments)
    masks = [along.loss_mask for along in documents.aligned if along is not None]
    assert [mask.tolist() for mask in masks if mask is not None] == [[1, 0, 1], [1, 0, 0]]
    assert [dataset.fields(row) for row in (1, 2)] == [{"url": "b"}, {"url": None}]
    assert dataset.place(3).record == 4


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_are_not_compressed_lie_in_the_mapped_file(tmp_path: Path, kind: str) -> None:
    table = pa.table({"tokens": [[i] * 100 for i in range(1000)], "url": ["x" * 1000] * 1000})
    path = write(tmp_path / "t.arrow", table, kind, rows=100)
    shard = Dataset.from_path("d", path)._shards[0]
    documents = shard.read(np.arange(1000))
    assert isinstance(documents, TokenDocuments)
    file: ArrowFile = shard._file  # type: ignore[attr-defined]
    first = file._memory.address
    for buffer in documents.buffers:
        assert first <= buffer.ctypes.data < first + file.nbytes
    assert decoded.UNITS.used < 100_000  # places, and none of the 1.8 MB


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_known_where_nothing_has_to_be_decompressed(tmp_path: Path, kind: str) -> None:
    plain = write(tmp_path / "p.arrow", pa.table(ROWS), kind)
    lengths = Dataset.from_path("d", plain).token_lengths()
    assert lengths is not None
    assert lengths.tolist() == [3, 0, 1, 2, 1]
    packed = write(tmp_path / "z.arrow", pa.table(ROWS), kind, compression="zstd")
    assert Dataset.from_path("d", packed).token_lengths() is None
    text = write(tmp_path / "t.arrow", pa.table({"text": ["a"]}), kind)
    assert Dataset.from_path("d", text).token_lengths() is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2], [3]], pa.list_view(pa.int32())),
        pa.array([[1, 2], [3]], pa.large_list_view(pa.uint16())),
        pa.array([[1, 2], [3]], pa.large_list(pa.int64())),
        pa.array([[9], [1, 2], [3]], pa.list_(pa.int32()))[1:],
        pa.ListViewArray.from_arrays([1, 0], [2, 1], pa.array([3, 1, 2], pa.int16())),
    ],
    ids=["list_view", "large_list_view", "large_list", "sliced", "list_view out of order"],
)
@pytest.mark.parametrize("masked", [False, True])
def test_every_list_type_is_read(tmp_path: Path, kind: str, column: pa.Array, masked: bool) -> None:
    beside = {"loss_mask": [[1, 0], [1]]} if masked else {}
    path = write(tmp_path / "t.arrow", pa.table({"input_ids": column, **beside}), kind)
    dataset = Dataset.from_path("d", path)
    assert tokens(dataset) == [[1, 2], [3]]
    if masked:
        documents = dataset.read(np.array([0]))
        assert isinstance(documents, TokenDocuments)
        (along,) = documents.aligned
        assert along is not None
        assert along.loss_mask is not None
        start = int(documents.start[0])
        assert along.loss_mask[start : start + 2].tolist() == [1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_size_lists_with_nulls_and_offsets_are_read(tmp_path: Path, kind: str) -> None:
    column = pa.array([[9, 9], [1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))[1:]
    path = write(tmp_path / "t.arrow", pa.table({"tokens": column}), kind)
    assert tokens(Dataset.from_path("d", path)) == [[1, 2], [], [3, 4]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "type_",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()],
    ids=str,
)
def test_text_of_every_type_is_read(tmp_path: Path, kind: str, type_: pa.DataType) -> None:
    texts = ["a", None, "", "longer than the twelve bytes of a view", "é"]
    path = write(tmp_path / "t.arrow", pa.table({"text": pa.array(texts, type_)}), kind)
    assert values(Dataset.from_path("d", path), "text") == texts


@pytest.mark.parametrize("kind", KINDS)
def test_strings_that_are_not_utf8_are_an_error_of_their_row(tmp_path: Path, kind: str) -> None:
    raw = pa.array([b"ok", b"\xff"], pa.binary()).view(pa.string())
    path = write(tmp_path / "t.arrow", pa.table({"text": raw}), kind)
    with pytest.raises(DataError, match=r"record 2.*'text' is not valid UTF-8"):
        values(Dataset.from_path("d", path), "text")


def test_dictionaries_of_a_stream_may_change_and_grow(tmp_path: Path) -> None:
    schema = pa.schema({"text": pa.dictionary(pa.int32(), pa.string())})
    parts = [["x", "y"], ["x", "y", "z", "z"], ["other"], ["other", "x"]]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(tmp_path / "t.arrow", schema, options=options) as writer:
        for part in parts:
            column = pa.DictionaryArray.from_arrays(
                [list(dict.fromkeys(part)).index(one) for one in part], list(dict.fromkeys(part))
            ).cast(schema.field(0).type)
            writer.write_batch(pa.record_batch([column], schema))
    dataset = Dataset.from_path("d", tmp_path / "t.arrow")
    assert values(dataset, "text") == [one for part in parts for one in part]
    rows = np.array([8, 0, 6, 3])
    records = dataset.read(rows)
    assert isinstance(records, RecordDocuments)
    assert [record["text"] for record in records.records] == ["x", "x", "other", "y"]


def test_a_file_with_a_dictionary_is_read(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(["x", "y", "x"]).dictionary_encode()})
    path = write(tmp_path / "t.feather", table)
    assert values(Dataset.from_path("d", path), "text") == ["x", "y", "x"]


def test_batches_and_files_without_rows_are_legal(tmp_path: Path) -> None:
    schema = pa.schema({"tokens": pa.list_(pa.int32())})
    full = pa.record_batch([pa.array([[1]], schema.field(0).type)], schema)
    with pa.ipc.new_stream(tmp_path / "a.arrow", schema) as writer:
        for part in (full[:0], full, full[:0], full):
            writer.write_batch(part)
    with pa.ipc.new_stream(tmp_path / "b.arrow", schema):
        pass
    with pa.ipc.new_file(tmp_path / "c.arrow", schema):
        pass
    dataset = Dataset.from_path("d", tmp_path)
    assert dataset.counts().tolist() == [2, 0, 0]
    assert tokens(dataset) == [[1], [1]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_names_where_it_ends(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "t.arrow", pa.table(ROWS), kind)
    whole = path.read_bytes()
    for size in (len(whole) - 30, len(whole) // 2, 200, 10, 5):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"t\.arrow, byte \d+: ends "):
            Dataset.from_path("d", path, fmt="arrow")


def test_a_stream_without_its_end_marker_is_whole_if_its_messages_are(tmp_path: Path) -> None:
    path = write(tmp_path / "t.arrow", pa.table(ROWS), "stream")
    path.write_bytes(path.read_bytes()[:-8])
    assert len(tokens(Dataset.from_path("d", path))) == 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"FEA1" + bytes(60), "is Feather of version 1, which is not read"),
        (b"ARROW1\0\0" + bytes(40) + b"ARROW1", "byte 44: says that its footer has 0 bytes"),
        (b"\xff\xff\xff\xff\0\0\0\0", "holds no Arrow schema"),
        (b"\xff\xff\xff\xff\x10\0\0\0" + b"\xee" * 16, "has a damaged message"),
    ],
)
def test_what_is_no_arrow_data_says_so(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.arrow").write_bytes(data)
    with pytest.raises(DataError, match=rf"x\.arrow.*{message}"):
        Dataset.from_path("d", tmp_path / "x.arrow")


def test_streams_that_were_appended_to_each_other_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.arrow", pa.table(ROWS), "stream")
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(DataError, match="goes on behind the end of its stream, for"):
        Dataset.from_path("d", path)


def test_a_mapped_file_that_is_cut_while_in_use_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = write(tmp_path / "t.arrow", pa.table({"tokens": [[i] * 9 for i in range(9999)]}))
    dataset = Dataset.from_path("d", path)
    with open(path, "r+b") as file:
        file.truncate(4096)
    with pytest.raises(DataError, match="truncated while in use"):
        dataset.read(np.array([9000]))


def test_content_tells_files_and_streams_of_any_name(tmp_path: Path) -> None:
    for kind in KINDS:
        assert Dataset.from_path("d", write(tmp_path / kind, pa.table(ROWS), kind)).total() == 5


WHOLE: dict[str, bytes] = {}


@given(st.data())
@settings(max_examples=150)
def test_a_flipped_byte_gives_other_values_or_a_data_error_and_never_a_crash(
    data: st.DataObject,
) -> None:
    import tempfile

    kind = data.draw(st.sampled_from(KINDS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.arrow")
        if kind not in WHOLE:
            WHOLE[kind] = write(path, pa.table(ROWS), kind).read_bytes()
        damaged = bytearray(WHOLE[kind])
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(damaged)
        decoded.UNITS.start_anew()
        try:
            dataset = Dataset.from_path("d", path, fmt="arrow")
            if dataset.total() <= 100:
                dataset.read(np.arange(dataset.total()))
                for row in range(dataset.total()):
                    dataset.fields(row)
        except DataError as error:
            named = error.file
        else:
            named = str(path)
        assert named == str(path)
