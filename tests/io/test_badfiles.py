"""What each of the text files in data/badfiles must do, on any number of threads."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import zephon
from zephon.block import RecordDocuments
from zephon.errors import DataError, ZephonError
from zephon.io import Dataset

FOLDER = Path(__file__).parents[1] / "data" / "badfiles"
MANY = [None] * 400  # as many texts, whatever they are

TEXTS: dict[str, list[Any]] = {
    "jl_00_ok.jsonl": ["alpha", "gamma"],
    "jl_01_blank_lines.jsonl": ["alpha", "gamma"],
    "jl_02_crlf.jsonl": ["alpha", "gamma"],
    "jl_03_bom.jsonl": ["alpha", "gamma"],
    "jl_06_nul_in_string.jsonl": ["alpha", "a\x00b", "gamma"],
    "jl_10_no_final_newline.jsonl": ["alpha", "gamma"],
    "jl_15_dup_keys.jsonl": ["alpha", "second"],
    "jl_26_empty_text.jsonl": ["alpha", "", "gamma"],
    "gz_04_multi_member.jsonl.gz": MANY,
    "gz_08_gz_named_jsonl.jsonl": MANY,
    "zs_01_multi_frame.jsonl.zst": MANY,
    "zs_05_no_size.jsonl.zst": MANY,
}

# Record, byte and what the message says.
ERRORS: dict[str, tuple[int, int, str]] = {
    "jl_05_bad_utf8.jsonl": (2, 28, r"byte 0xe6 is not valid UTF-8"),
    "jl_09_truncated_last.jsonl": (3, 34, r"is not valid JSON .*last record: was the writer int"),
    "jl_11_missing_field.jsonl": (2, 17, r"'text' is missing; keys: content. Name the right"),
    "jl_12_null_text.jsonl": (2, 17, r"'text' is null.*missing_field='empty'"),
    "jl_14_lone_surrogate.jsonl": (2, 17, r"is not valid JSON .*surrogate"),
    "jl_16_array_file.jsonl": (1, 0, r"begins with '\[': this is a JSON array, not JSON Lines"),
    "jl_17_pretty.jsonl": (1, 0, r"pretty-printed JSON, not JSON Lines"),
    "jl_19_nan.jsonl": (1, 0, r"is not valid JSON"),
    "jl_21_formfeed.jsonl": (2, 16, r"is not valid JSON"),
    "jl_22_cr_only.jsonl": (1, 0, r"carriage returns: lines must end in a line feed"),
    "jl_28_bool_line.jsonl": (2, 17, r"expected a JSON object, found a boolean"),
    "gz_01_truncated.jsonl.gz": (184, -1, r"is truncated gzip: the member that begins at byte 0"),
    "gz_02_no_trailer.jsonl.gz": (401, -1, r"is truncated gzip"),
    "gz_06_trailing_garbage.jsonl.gz": (401, -8, r"has 8 bytes behind its last gzip member"),
    "zs_03_bad_checksum.jsonl.zst": (1, 0, r"is damaged zstandard .*checksum"),
}

EMPTY = "jl_24_empty.jsonl"


def stream(path: Path, tokenizer_folder: Path, threads: int) -> list[list[int]]:
    """Tokens row by row, in file order; 0 threads does all in this one."""
    work = zephon.StaticMixtureWorkSource(
        [Dataset.from_path("bad", path)], {"bad": 1.0}, shuffle_shards=False
    )
    pipeline = zephon.Pipeline(work).tokenize(tokenizer_folder, field="text", special_tokens="eos")
    pipeline = pipeline.pack_flat(17).batch(1).options(tail="pad")
    pipeline = pipeline.prefetch(8 if threads else 0, parallelism=max(1, threads))
    try:
        return [batch.to_training()["input_ids"].tolist() for batch in pipeline]
    finally:
        pipeline.close()


def texts(path: Path) -> list[Any]:
    dataset = Dataset.from_path("bad", path)
    documents = dataset.read(np.arange(dataset.total()))
    assert isinstance(documents, RecordDocuments)
    return [record["text"] for record in documents.records]


def test_every_file_of_the_folder_has_its_expectation() -> None:
    files = {file.name for file in FOLDER.iterdir() if file.name[:2] in ("jl", "gz", "zs")}
    assert files == {*TEXTS, *ERRORS, EMPTY}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_odd_but_valid_gives_all_its_texts(
    name: str, tmp_path: Path, tokenizer_folder: Path
) -> None:
    found = texts(FOLDER / name)
    assert all(isinstance(text, str) for text in found)
    assert len(found) == len(TEXTS[name])
    assert TEXTS[name] in (found, MANY)
    raw = (FOLDER / name).read_bytes()
    if raw.startswith(b"\x1f\x8b"):
        raw = gzip.decompress(raw)
    elif raw.startswith(b"\x28\xb5"):
        raw = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(raw)
    expected = stream(plain, tokenizer_folder, 0)
    assert expected
    for threads in (0, 1, 2, 4):
        assert stream(FOLDER / name, tokenizer_folder, threads) == expected


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
@pytest.mark.parametrize("name", ERRORS)
def test_what_is_damaged_is_an_error_with_file_record_and_byte(
    name: str, threads: int, tokenizer_folder: Path
) -> None:
    path = FOLDER / name
    record, byte, message = ERRORS[name]
    byte = byte if byte >= 0 else path.stat().st_size + (byte if byte < -1 else 0)
    begin = time.monotonic()
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        stream(path, tokenizer_folder, threads)
    assert time.monotonic() - begin < 10  # it takes a few milliseconds; a second is the promise
    assert (caught.value.file, caught.value.record) == (str(path), record)
    assert caught.value.byte_offset == byte
    assert str(caught.value).startswith(f"{path}, record {record}, byte {byte}: ")


def test_an_empty_file_has_no_documents_and_only_an_empty_source_is_an_error(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    with pytest.raises(ZephonError, match="dataset 'bad' has no documents"):
        stream(FOLDER / EMPTY, tokenizer_folder, 0)
    both = Dataset.from_path("both", [FOLDER / EMPTY, FOLDER / "jl_00_ok.jsonl"])
    assert both.counts().tolist() == [0, 2]


def test_what_the_error_offers_works(tokenizer_folder: Path) -> None:
    data = [Dataset.from_path("bad", FOLDER / "jl_12_null_text.jsonl")]
    pipeline = zephon.Pipeline(zephon.StaticMixtureWorkSource(data, {"bad": 1.0}))
    pipeline = pipeline.tokenize(tokenizer_folder, field="text", missing_field="empty")
    batches = list(pipeline.pack_flat(8).batch(1).prefetch(0).options(tail="pad"))
    assert batches
