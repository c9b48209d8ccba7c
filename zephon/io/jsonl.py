"""JSON Lines: one object a line, mapped and indexed by line offsets.

Blank lines are not records. A byte order mark at the start and carriage returns
before line feeds are not part of a record. Of a key that occurs twice the last
value counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native import text
from zephon.block import RecordDocuments
from zephon.errors import ConfigError, DataError
from zephon.io.mapped import MappedFile
from zephon.io.probe import probe_digest
from zephon.io.shard import Format, Place, Shard

_BOM = b"\xef\xbb\xbf"
_WHITESPACE = np.frombuffer(b" \t\r", dtype=np.uint8)
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"\x28\xb5\x2f\xfd": ("zstandard", "unzstd"),
}


class JsonlShard(Shard):
    """One JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._loads = _orjson_loads()
        self._file = MappedFile(path)
        self.nbytes = self._file.size
        _refuse_other_formats(self._file)
        # Both [records]: where the line of a record begins and where it ends.
        self._starts, self._ends, self._lines = _index(self._file.data)
        if len(self._starts):
            self._refuse_other_json()

    def __len__(self) -> int:
        return len(self._starts)

    def read(self, rows: NDArray[np.int64]) -> RecordDocuments:
        """Records ``rows`` as dictionaries."""
        self.check()
        return RecordDocuments([self._record(row) for row in rows.tolist()])

    def check(self) -> None:
        """The mapped text is still there."""
        self._file.check_size()

    def place(self, row: int) -> Place:
        """File, physical line and byte offset of record ``row``."""
        line = row + 1 if self._lines is None else int(self._lines[row])
        return Place(str(self._file.path), line, int(self._starts[row]))

    def digest(self) -> bytes:
        """Digest of the line offsets and of spread probes of the text."""
        self.check()
        return probe_digest(self._file.data, self._starts)

    def _record(self, row: int) -> dict[str, Any]:
        line = self._file.slice(int(self._starts[row]), int(self._ends[row]))
        try:
            record = self._loads(line)
        except ValueError as error:
            raise self._explain(row, line, error) from None
        if not isinstance(record, dict):
            raise DataError(
                f"expected a JSON object, found {_json_type(record)}",
                **self.place(row).as_kwargs(),
            )
        return record

    def _explain(self, row: int, line: bytes, error: ValueError) -> DataError:
        place = self.place(row)
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as bad:
            at = int(self._starts[row]) + bad.start
            return DataError(
                f"byte 0x{line[bad.start]:02x} is not valid UTF-8 ({bad.reason}). "
                "Convert the file to UTF-8, or remove the record",
                file=place.file,
                record=place.record,
                byte_offset=at,
            )
        hint = ""
        if b"\r" in line.strip():
            hint = ". The line holds carriage returns: lines must end in a line feed"
        elif row == len(self) - 1:
            hint = ". It is the last record: was the writer interrupted?"
        return DataError(f"is not valid JSON ({error}){hint}", **place.as_kwargs())

    def _refuse_other_json(self) -> None:
        first = self._file.slice(int(self._starts[0]), int(self._ends[0])).strip()
        what = None
        if first.startswith(b"["):
            what = "it begins with '[': this is a JSON array, not JSON Lines"
        elif first == b"{":
            what = "its first line is a lone '{': this is pretty-printed JSON, not JSON Lines"
        if what:
            raise DataError(
                f"{what}. Write one object a line (jq -c '.[]' or jq -c . does it)",
                **self.place(0).as_kwargs(),
            )


class JsonlFormat(Format):
    """Files of one JSON object a line."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def open(self, path: Path) -> JsonlShard:
        """Open and index one file."""
        return JsonlShard(path)

    def recognises(self, path: Path, head: bytes) -> bool:
        """By suffix, or by a first byte that opens an object."""
        return super().recognises(path, head) or head.removeprefix(_BOM).lstrip()[:1] == b"{"


def _orjson_loads() -> Any:
    try:
        import orjson
    except ImportError as error:
        raise ConfigError(
            "reading JSONL needs the package orjson: install zephon with its extra 'jsonl' "
            "(pip install './zephon[jsonl]') or orjson itself"
        ) from error
    return orjson.loads


def compressed(head: bytes) -> str:
    """What is wrong with a file that begins with ``head`` if it is compressed; else empty."""
    for magic, (kind, tool) in _COMPRESSED.items():
        if head.startswith(magic):
            return (
                f"is {kind} data. This version reads uncompressed JSONL only: decompress it "
                f"({tool}) first"
            )
    return ""


def _refuse_other_formats(file: MappedFile) -> None:
    if problem := compressed(file.data[:4].tobytes()):
        raise DataError(problem, file=file.path)


def _index(
    data: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Line starts and ends of the records, and their line numbers if lines were left out."""
    if len(data) == 0:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, None
    ends = np.empty(text.count_lines(data) + 1, dtype=np.int64)
    text.index_lines(data, 0, ends[:-1])
    ends[-1] = len(data)
    starts = np.empty_like(ends)
    starts[0] = len(_BOM) if data[: len(_BOM)].tobytes() == _BOM else 0
    starts[1:] = ends[:-1] + 1
    blank = _blank_lines(data, starts, ends)
    if not blank.any():
        return starts, ends, None
    keep = ~blank
    lines = np.flatnonzero(keep) + 1
    only_the_tail = bool(keep[: len(lines)].all())
    return starts[keep], ends[keep], None if only_the_tail else lines


def _blank_lines(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which lines hold nothing but white space, bool ``[lines]``."""
    blank = starts >= ends
    # Only a line that begins with white space can be blank; those are few.
    first = data[np.minimum(starts, len(data) - 1)]
    for line in np.flatnonzero(~blank & np.isin(first, _WHITESPACE)).tolist():
        blank[line] = np.isin(data[starts[line] : ends[line]], _WHITESPACE).all()
    return blank


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), type(value).__name__)
