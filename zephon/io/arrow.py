"""Arrow IPC files and streams: record batches in a mapped file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from zephon.errors import DataError
from zephon.io.arrow_messages import Message, find_messages
from zephon.io.column_roles import logical, text_path
from zephon.io.columns import ColumnFile
from zephon.io.mapped import MappedFile
from zephon.io.probe import probe_digest

# What has the same memory and no claim to be UTF-8, which is looked at value by value.
_AS_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


class ArrowFile(ColumnFile):
    """A mapped file. What is not compressed is used where it lies and never read as a whole."""

    unit_name = "record batch"
    mapped = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = MappedFile(path)
        self.nbytes = self._file.size
        if not self.nbytes:
            raise DataError(
                "is empty (0 bytes), and an Arrow file without rows has a schema: was it copied "
                "whole?",
                file=path,
            )
        if self._file.data[:4].tobytes() == b"FEA1":
            raise DataError(
                "is Feather of version 1, which is not read: write it again as version 2", file=path
            )
        self._messages = find_messages(self._file.data, path)
        self.lies_open = not any(batch.compressed for batch in self._messages.batches)
        self.unit_rows = np.array([batch.rows for batch in self._messages.batches], dtype=np.int64)
        self._memory = pa.py_buffer(self._file.data)
        with self._open(()) as reader:
            self.schema = reader.schema

    def read(self, unit: int, columns: Sequence[str]) -> tuple[dict[str, pa.ChunkedArray], int]:
        """Columns of a record batch; if it is not compressed, their memory is the file's."""
        self.check()
        message = self._messages.batches[unit]
        paths = {name: text_path(self.schema, name) for name in columns}
        wanted = sorted({self.schema.get_field_index(path[0]) for path in paths.values() if path})
        try:
            with self._open((*self._messages.dictionaries[unit], message), wanted) as reader:
                batch = reader.read_next_batch()
            for column in batch.columns:
                _bytes(column).validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"record batch {unit} cannot be read: {str(error).strip()}",
                file=self.path,
                record=int(self.unit_rows[:unit].sum()) + 1,
                byte_offset=message.start,
            ) from error
        found = {}
        for name, path in paths.items():
            assert path is not None, name
            column = batch.column(path[0])
            column = pc.struct_field(column, path[1:]) if len(path) > 1 else column
            found[name] = pa.chunked_array([column])
        return found, batch.nbytes if message.compressed else 0

    def check(self) -> None:
        """The mapped file has not shrunk."""
        self._file.check_size()

    def digest(self) -> bytes:
        """Digest of where the record batches lie and of spread probes of the file."""
        self.check()
        starts = np.array([batch.start for batch in self._messages.batches], dtype=np.int64)
        return probe_digest(self._file.data, starts, self.unit_rows)

    def offset(self, unit: int) -> int | None:
        """First byte of the record batch's message."""
        batches = self._messages.batches
        return batches[unit].start if unit < len(batches) else None

    def _open(
        self, messages: Sequence[Message], fields: Sequence[int] = ()
    ) -> pa.ipc.RecordBatchStreamReader:
        """A stream of the schema and ``messages``, slices of the mapped file."""
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(fields) or None)
        parts = [
            self._memory.slice(one.start, one.end - one.start)
            for one in (self._messages.schema, *messages)
        ]
        try:
            return pa.ipc.open_stream(pa.PythonFile(_Slices(parts), mode="r"), options=options)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"has a schema that cannot be read: {str(error).strip()}",
                file=self.path,
                byte_offset=self._messages.schema.start,
            ) from error


class _Slices:
    """Buffers one after the other as a file; a read never goes from one to the next."""

    closed = False

    def __init__(self, parts: list[pa.Buffer]) -> None:
        self._parts, self._number, self._at, self._told = parts, 0, 0, 0

    def read_buffer(self, size: int) -> pa.Buffer:
        """Up to ``size`` bytes, not copied."""
        part = self._parts[self._number]
        found = part.slice(self._at, min(size, part.size - self._at))
        self._at += found.size
        self._told += found.size
        if self._at == part.size and self._number + 1 < len(self._parts):
            self._number, self._at = self._number + 1, 0
        return found

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        data: bytes = self.read_buffer(size).to_pybytes()
        return data

    def tell(self) -> int:
        """Bytes that were read."""
        return self._told

    def seekable(self) -> bool:
        """Only forward."""
        return False

    def close(self) -> None:
        """Nothing to close: the map lives as long as what lies in it."""


def _bytes(column: pa.Array) -> pa.Array:
    """``column`` with strings as bytes, so that validating it checks places and not UTF-8."""
    kind = logical(column.type)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if kind in _AS_BYTES:
        return column.view(_AS_BYTES[kind])
    if kinds.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _bytes(column.dictionary), safe=False)
    return column
