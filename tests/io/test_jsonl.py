from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from zephon.errors import DataError
from zephon.io.jsonl import JsonlShard

BADFILES = Path(__file__).parents[1] / "data" / "badfiles"


def read(path: Path) -> list[dict[str, object]]:
    shard = JsonlShard(path)
    return list(shard.read(np.arange(len(shard))).records)  # type: ignore[arg-type]


def texts(name: str) -> list[object]:
    return [record.get("text") for record in read(BADFILES / name)]


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("jl_00_ok", 2),
        ("jl_01_blank_lines", 2),
        ("jl_02_crlf", 2),
        ("jl_03_bom", 2),
        ("jl_06_nul_in_string", 3),
        ("jl_10_no_final_newline", 2),
        ("jl_24_empty", 0),
        ("jl_26_empty_text", 3),
    ],
)
def test_odd_but_valid_files_give_all_records(name: str, count: int) -> None:
    found = texts(f"{name}.jsonl")
    assert len(found) == count
    assert all(isinstance(text, str) and "\r" not in text for text in found)


def test_an_escaped_nul_stays_in_the_text() -> None:
    assert any("\x00" in str(text) for text in texts("jl_06_nul_in_string.jsonl"))


def test_of_a_key_that_occurs_twice_the_last_value_counts(tmp_path: Path) -> None:
    assert read(write(tmp_path, b'{"text":"a","text":"b"}\n')) == [{"text": "b"}]
    line = (BADFILES / "jl_15_dup_keys.jsonl").read_text().splitlines()[0]
    assert texts("jl_15_dup_keys.jsonl")[0] == json.loads(line)["text"]


def test_records_come_in_the_order_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, b"".join(b'{"n":%d}\n' % n for n in range(10)))
    shard = JsonlShard(path)
    assert [r["n"] for r in shard.read(np.array([7, 0, 7, 3])).records] == [7, 0, 7, 3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "jl_09_truncated_last",
            "record 3, byte .*: is not valid JSON .*was the writer interrupted",
        ),
        ("jl_16_array_file", r"record 1.*it begins with '\[': this is a JSON array"),
        ("jl_17_pretty", "record 1.*this is pretty-printed JSON"),
        ("jl_28_bool_line", "record 2, byte .*expected a JSON object, found"),
        ("jl_22_cr_only", "carriage returns: lines must end in a line feed"),
        ("jl_19_nan", "is not valid JSON"),
        ("jl_21_formfeed", "record 2.*is not valid JSON"),
    ],
)
def test_damaged_files_are_refused_with_their_place(name: str, message: str) -> None:
    with pytest.raises(DataError, match=f"(?s){name}.*{message}"):
        read(BADFILES / f"{name}.jsonl")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"PAR1\x15", "x.jsonl: is Parquet, no JSON Lines. Name it .* with fmt='parquet'"),
        (b"ARROW1\0\0", "is an Arrow IPC file, no JSON Lines"),
        (b"\xff\xff\xff\xff", "is an Arrow IPC stream"),
        (b"MMIDIDX\0\0", "is the index of a .bin/.idx pair"),
        (b"\xff\xfe{\0", "is text in UTF-16 by its byte order mark. Convert it to UTF-8"),
    ],
)
def test_another_format_under_the_name_is_told_by_its_first_bytes(
    tmp_path: Path, head: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        JsonlShard(write(tmp_path, head + b"..."))


def test_bad_utf8_is_told_by_the_byte_of_the_file() -> None:
    path = BADFILES / "jl_05_bad_utf8.jsonl"
    at = path.read_bytes().index(b"\xe6")
    with pytest.raises(DataError, match="byte 0xe6 is not valid UTF-8") as caught:
        read(path)
    assert caught.value.byte_offset == at
    assert caught.value.file == str(path)


def test_a_lone_surrogate_never_reaches_the_text() -> None:
    try:
        found = texts("jl_14_lone_surrogate.jsonl")
    except DataError as error:
        assert "record 2" in str(error)  # noqa: PT017
    else:
        assert not any("\ud800" <= c <= "\udfff" for text in found for c in str(text))


def test_blank_lines_count_in_line_numbers_but_not_as_records(tmp_path: Path) -> None:
    path = write(tmp_path, b'\n{"a":1}\n  \t\r\n\n{"b":2}\nnot json\n')
    shard = JsonlShard(path)
    assert len(shard) == 3
    assert shard.place(1).record == 5
    assert shard.place(1).byte_offset == path.read_bytes().index(b'{"b"')
    with pytest.raises(DataError, match="record 6"):
        shard.read(np.array([2]))


def test_a_line_of_white_space_before_an_object_is_part_of_it(tmp_path: Path) -> None:
    assert read(write(tmp_path, b'   {"a":1}\n')) == [{"a": 1}]


def test_a_file_that_shrinks_while_in_use_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"a":1}\n' * 4000)
    shard = JsonlShard(path)
    os.truncate(path, 100)
    with pytest.raises(DataError, match="had 32000 bytes when it was opened and has 100 now"):
        shard.read(np.array([3999]))


def test_the_digest_tells_files_apart(tmp_path: Path) -> None:
    first = JsonlShard(write(tmp_path, b'{"a":1}\n{"a":2}\n')).digest()
    again = JsonlShard(write(tmp_path, b'{"a":1}\n{"a":2}\n')).digest()
    other = JsonlShard(write(tmp_path, b'{"a":1}\n{"a":3}\n')).digest()
    assert len(first) == 16
    assert first == again
    assert first != other


def test_without_orjson_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "orjson", None)
    with pytest.raises(ValueError, match="needs the package orjson.*extra 'jsonl'"):
        JsonlShard(write(tmp_path, b"{}\n"))
