"""JSON Lines: one object a line, plain or compressed, indexed by line offsets.

Blank lines are not records. A byte order mark at the start and carriage returns
before line feeds are not part of a record. Of a key that occurs twice the last
value counts. Whether a file is compressed is told by its first bytes, not by its name.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import RecordDocuments
from zephon.errors import ConfigError, DataError
from zephon.io.compressed import BLOCK, CompressedText
from zephon.io.decoders import codec_of, import_zstandard
from zephon.io.line_index import BOM, line_index
from zephon.io.mapped import MappedFile
from zephon.io.plain import PlainText
from zephon.io.probe import other_format, probe_digest
from zephon.io.shard import Format, Place, Shard
from zephon.io.unpacked import unpacked


class JsonlShard(Shard):
    """One JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._loads = _orjson_loads()
        self._file = MappedFile(path)
        head = self._file.data[:64].tobytes()
        if problem := other_format(head):
            raise DataError(problem, file=path)
        self._compressed = codec_of(head) is not None
        self._text: PlainText | CompressedText = (
            CompressedText(path, self._file) if self._compressed else PlainText(self._file)
        )
        index = line_index(self._text)
        # All [records]: where the line of a record begins and ends, and its number.
        self._starts, self._ends, self._lines = index.starts, index.ends, index.lines
        self.nbytes = self._text.size
        if isinstance(self._text, CompressedText):
            self._text = unpacked(self._text) or self._text
        if len(self._starts):
            self._refuse_other_json()

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def unit_documents(self) -> int:
        """1; of a compressed file the records in an average MiB of text."""
        if not self._compressed:
            return 1
        return max(1, len(self) * BLOCK // max(self.nbytes, BLOCK))

    def read(self, rows: NDArray[np.int64]) -> RecordDocuments:
        """Records ``rows`` as dictionaries."""
        self.check()
        if self._compressed and len(rows) > 1 and (np.diff(rows) < 0).any():
            order = np.argsort(rows, kind="stable")  # decodes every block once
            records: list[Any] = [None] * len(rows)
            for place, record in zip(order.tolist(), self._records(rows[order]), strict=True):
                records[place] = record
            return RecordDocuments(records)
        return RecordDocuments(self._records(rows))

    def check(self) -> None:
        """The mapped bytes are still there."""
        self._text.check_size()

    def place(self, row: int) -> Place:
        """File, physical line and byte offset (in the text) of record ``row``."""
        line = row + 1 if self._lines is None else int(self._lines[row])
        return Place(str(self._file.path), line, int(self._starts[row]))

    def digest(self) -> bytes:
        """Digest of the line offsets and of spread probes of the file."""
        self.check()
        return probe_digest(self._file.data, self._starts)

    def _records(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        loads = self._loads
        records: list[dict[str, Any]] = []
        for line in self._text.slices(self._starts[rows], self._ends[rows]):
            try:
                record = loads(line)
            except ValueError as error:
                raise self._explain(int(rows[len(records)]), line, error) from None
            if not isinstance(record, dict):
                raise self._error(
                    int(rows[len(records)]), f"expected a JSON object, found {_json_type(record)}"
                )
            records.append(record)
        return records

    def _error(self, row: int, message: str, offset: int = 0) -> DataError:
        """An error ``offset`` bytes into record ``row``."""
        place = self.place(row)
        if self._compressed:
            message += ". (The byte is counted in the decompressed text)"
        return DataError(
            message,
            file=place.file,
            record=place.record,
            byte_offset=int(self._starts[row]) + offset,
        )

    def _explain(self, row: int, line: bytes, error: ValueError) -> DataError:
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as bad:
            return self._error(
                row,
                f"byte 0x{line[bad.start]:02x} is not valid UTF-8 ({bad.reason}). "
                "Convert the file to UTF-8, or remove the record",
                bad.start,
            )
        hint = ""
        if b"\r" in line.strip():
            hint = ". The line holds carriage returns: lines must end in a line feed"
        elif row == len(self) - 1:
            hint = ". It is the last record: was the writer interrupted?"
        return self._error(row, f"is not valid JSON ({error}){hint}")

    def _refuse_other_json(self) -> None:
        # A few bytes tell, and a first line may be long.
        start, end = int(self._starts[0]), int(self._ends[0])
        near = np.array([min(end, start + 64)], dtype=np.int64)
        first = next(self._text.slices(self._starts[:1], near)).strip()
        what = None
        if first.startswith(b"["):
            what = "it begins with '[': this is a JSON array, not JSON Lines"
        elif first == b"{":
            what = "its first line is a lone '{': this is pretty-printed JSON, not JSON Lines"
        if what:
            raise self._error(
                0, f"{what}. Write one object a line (jq -c '.[]' or jq -c . does it)"
            )


class JsonlFormat(Format):
    """Files of one JSON object a line, plain or compressed."""

    name = "jsonl"
    suffixes = tuple(
        kind + packed
        for kind in (".jsonl", ".ndjson", ".json")
        for packed in ("", ".gz", ".zst", ".zstd")
    )

    def open(self, path: Path) -> JsonlShard:
        """Open and index one file."""
        return JsonlShard(path)

    def recognises(self, path: Path, head: bytes) -> bool:
        """By suffix, or by a first byte that opens an object, decompressed if need be."""
        named = path.name.lower().endswith(self.suffixes)
        return named or opens_object(head)


def opens_object(head: bytes) -> bool:
    """Whether a text that begins with ``head``, maybe compressed, begins with an object."""
    codec = codec_of(head)
    try:
        if codec == "gzip":
            head = zlib.decompressobj(31).decompress(head, 4096)
        elif codec == "zstd":
            zstandard = import_zstandard()
            head = zstandard.ZstdDecompressor().stream_reader(head).read(4096)
    except zlib.error:
        return False
    except Exception as error:
        if isinstance(error, ConfigError):
            raise
        return False  # the package's error has no base to name before it is imported
    return head.removeprefix(BOM).lstrip()[:1] == b"{"


def _orjson_loads() -> Any:
    try:
        import orjson
    except ImportError as error:
        raise ConfigError(
            "reading JSONL needs the package orjson: install zephon with its extra 'jsonl' "
            "(pip install './zephon[jsonl]') or orjson itself"
        ) from error
    return orjson.loads


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), type(value).__name__)
