"""Parquet files: row groups, decoded one at a time."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zephon.errors import DataError
from zephon.io.column_lists import ListRuns, join_lists, list_runs
from zephon.io.column_roles import text_path
from zephon.io.columns import ColumnFile
from zephon.io.mapped import MappedFile
from zephon.io.probe import probe_digest
from zephon.io.recycled import MEMORY

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_TAIL = 8  # length of the footer, magic
_VALUES = 1 << 17  # token ids that are decoded at a time: with their levels, about a megabyte
_ROWS = 64  # decoded at a time at least
_BUFFER = 1 << 18  # bytes that are read at a time


class ParquetFile(ColumnFile):
    """One file, whose footer is read at once and whose row groups are when they are needed.

    The file is opened by its path for each row group and not kept open, so any
    number of files and threads can be at work.
    """

    unit_name = "row group"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size, self._footer = _check_ends(path)
        metadata = self._metadata()
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        self.unit_rows = np.array([group.num_rows for group in groups], dtype=np.int64)
        # What it takes in memory counts, and file sizes are a fraction of that.
        self.nbytes = max(self._size, sum(max(group.total_byte_size, 0) for group in groups))
        if (self.unit_rows < 0).any():
            raise DataError("has a row group of less than no rows: it is damaged", file=path)
        self._offsets: dict[int, int] = {}
        # Tokens of a document, first guessed: two bytes each, and nothing else in the file.
        self._row_values = self.nbytes // 2 // max(int(self.unit_rows.sum()), 1)
        with self._explained(), self._open(metadata) as file:
            self.schema = file.schema_arrow

    def read(self, unit: int, columns: Sequence[str]) -> tuple[dict[str, pa.ChunkedArray], int]:
        """Columns of a row group, decoded in this thread without the GIL."""
        metadata = self._metadata()
        with self._explained(unit), self._open(metadata) as file:
            table = file.read_row_group(unit, columns=list(columns), use_threads=False)
        found = {}
        for name in columns:
            path = text_path(self.schema, name)
            assert path is not None, name
            column = table.column(path[0])
            found[name] = pc.struct_field(column, path[1:]) if len(path) > 1 else column
            self._check_rows(unit, name, len(column))
        self._note_offset(metadata, unit, columns[0])
        return found, table.nbytes

    def read_tokens(
        self, unit: int, tokens: str, mask: str | None
    ) -> tuple[list[ListRuns], pa.ChunkedArray | None, int]:
        """The same of token ids, some rows at a time and put together in memory used before.

        What is at work at a time fits into a processor's cache, and the ids are written once
        to memory that need not be cleared first.
        """
        rows = int(self.unit_rows[unit])
        masks: list[pa.Array] = []

        def batches(file: pq.ParquetFile) -> Iterator[ListRuns]:
            for batch in file.iter_batches(
                batch_size=max(_VALUES // max(self._row_values, 1), _ROWS),
                row_groups=[unit],
                columns=[tokens, *([mask] if mask else [])],
                use_threads=False,
            ):
                if mask:
                    masks.append(batch.column(mask))
                yield list_runs(batch.column(tokens))

        metadata = self._metadata()
        with self._explained(unit), self._open(metadata) as file:
            lists = join_lists(batches(file), rows, MEMORY)
        count = sum(len(runs) for runs in lists)
        self._check_rows(unit, tokens, count)
        self._note_offset(metadata, unit, tokens)
        if count:
            self._row_values = sum(len(runs.values) for runs in lists) // count
        # Of memory from elsewhere, all of it counts.
        allocated = sum(runs.nbytes for runs in lists)
        return lists, pa.chunked_array(masks) if masks else None, allocated

    def check(self) -> None:
        """The file is there and as large as it was."""
        try:
            size = os.stat(self.path).st_size
        except OSError as error:
            raise DataError(f"is gone: {error.strerror}", file=self.path) from error
        if size != self._size:
            raise DataError(
                f"had {self._size} bytes when it was opened and has {size} now: it was changed "
                "while in use. Restore the file, or build the dataset anew",
                file=self.path,
            )

    def digest(self) -> bytes:
        """Digest of the footer, which has sizes and statistics of all pages, and of probes."""
        self.check()
        data = MappedFile(self.path).data
        return probe_digest(data, data[self._footer :].tobytes())

    def offset(self, unit: int) -> int | None:
        """First byte of what was read of the row group; None before anything was."""
        return self._offsets.get(unit)

    @contextmanager
    def _open(self, metadata: pq.FileMetaData) -> Iterator[pq.ParquetFile]:
        # A file by its path, and nothing that looks for the file system it may be on.
        with pa.OSFile(str(self.path)) as source:
            yield pq.ParquetFile(
                source,
                metadata=metadata,
                page_checksum_verification=True,
                # Read by this thread, a part of a column at a time.
                pre_buffer=False,
                buffer_size=_BUFFER,
            )

    def _check_rows(self, unit: int, name: str, count: int) -> None:
        rows = int(self.unit_rows[unit])
        if count != rows:
            raise DataError(
                f"row group {unit} has {count} values in the column {name!r} and "
                f"{rows} rows: the file is damaged",
                file=self.path,
            )

    def _note_offset(self, metadata: pq.FileMetaData, unit: int, name: str) -> None:
        if self.unit_rows[unit] and unit not in self._offsets:
            at = _first_byte(metadata, unit, name)
            if at:
                self._offsets[unit] = at

    def _metadata(self) -> pq.FileMetaData:
        def parse() -> pq.FileMetaData:
            with self._explained():
                return pq.read_metadata(self.path)

        return _FOOTERS.get(str(self.path), parse)

    def _explained(self, unit: int | None = None) -> _Explained:
        first = None if unit is None else int(self.unit_rows[:unit].sum()) + 1
        return _Explained(self, unit, first)


class _Explained:
    """Turns what pyarrow raises into an error that names file, row group, record and byte."""

    def __init__(self, file: ParquetFile, unit: int | None, record: int | None) -> None:
        self._file, self._unit, self._record = file, unit, record

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Of what pyarrow raises, only memory is no matter of the data.
        data = (pa.ArrowException, OSError, UnicodeDecodeError)
        if not isinstance(error, data) or isinstance(error, MemoryError):
            return
        what = "cannot be read" if self._unit is None else f"row group {self._unit} cannot be read"
        raise DataError(
            f"{what}: {str(error).strip()}",
            file=self._file.path,
            record=self._record,
            byte_offset=None if self._unit is None else self._file.offset(self._unit),
        ) from error


_Parse = Callable[[], pq.FileMetaData]


class _Footers:
    """Parsed footers of the files that were read last; those of all files could be much memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[str, pq.FileMetaData] = OrderedDict()

    def get(self, path: str, parse: _Parse) -> pq.FileMetaData:
        size = os.stat(path)
        key = f"{path}\0{size.st_size}\0{size.st_mtime_ns}"
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = parse()
        with self._lock:
            self._held[key] = found
            if len(self._held) > self._limit:
                self._held.popitem(last=False)
        return found


_FOOTERS = _Footers(64)
os.register_at_fork(after_in_child=_FOOTERS._forget)


def _first_byte(metadata: pq.FileMetaData, unit: int, name: str) -> int | None:
    """First byte of a column in a row group.

    Only of one that was decoded: asked about a damaged one, pyarrow ends the process.
    """
    for i in range(metadata.num_columns):
        if f"{metadata.schema.column(i).path}.".startswith(f"{name}."):
            column = metadata.row_group(unit).column(i)
            # A writer that has no dictionary may say 0.
            pages = [column.dictionary_page_offset, column.data_page_offset]
            return min((page for page in pages if page), default=None)
    return None


def _check_ends(path: Path) -> tuple[int, int]:
    """Size of the file and first byte of its footer; DataError if its ends are not Parquet's."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(len(_MAGIC))
            file.seek(max(size - _TAIL, 0))
            tail = file.read(_TAIL)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    if size == 0:
        raise DataError(
            "is empty (0 bytes); a Parquet file without rows has a footer: was it copied whole?",
            file=path,
        )
    if _ENCRYPTED in (head, tail[4:]):
        raise DataError("is encrypted Parquet, which is not read: decrypt it first", file=path)
    if head != _MAGIC:
        raise DataError(
            f"is not Parquet: it begins with {head!r}, not {_MAGIC!r}",
            file=path,
            byte_offset=0,
        )
    if size < 3 * len(_MAGIC) or tail[4:] != _MAGIC:
        raise DataError(
            f"ends without the footer of a Parquet file ({tail[4:]!r}, expected {_MAGIC!r}): it "
            "was cut, or its writer was interrupted. Copy or write it again",
            file=path,
            byte_offset=max(size - len(_MAGIC), 0),
        )
    footer = size - _TAIL - int.from_bytes(tail[:4], "little")
    if footer < len(_MAGIC):
        raise DataError(
            f"says that its footer has {int.from_bytes(tail[:4], 'little')} bytes, but the file "
            f"has {size}: it is damaged",
            file=path,
            byte_offset=size - _TAIL,
        )
    return size, footer
