"""CSV files as a format of zephon: the whole of what a format has to say.

Install this folder beside zephon (``pip install examples/csv_format``), and

    zephon.Dataset.from_path("notes", "notes.csv")

reads CSV files, named by a file, a folder, a pattern or a list as those of any
other format. The first line names the columns; each further one is a document.
"""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError
from zephon.io import Format, Place, RecordDocuments, Shard


class CsvShard(Shard):
    """One opened file: random access to its documents, nothing that changes."""

    gives_text = True  # a pipeline without tokenize(...) is told so before it begins

    def __init__(self, path: Path) -> None:
        self._path = path
        data = path.read_bytes()
        self.nbytes = len(data)
        self._digest = hashlib.blake2b(data, digest_size=16).digest()
        try:
            lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
            self._names = next(lines, [])
            # A quoted value may hold line feeds: records and lines are not the same.
            self._rows = [row for row in lines if row]
        except UnicodeDecodeError as error:
            raise DataError(
                f"is not UTF-8 ({error.reason})", file=path, byte_offset=error.start
            ) from None
        except csv.Error as error:
            raise DataError(f"is not valid CSV: {error}", file=path) from None
        for record, row in enumerate(self._rows, start=1):
            if len(row) != len(self._names):
                raise DataError(
                    f"has {len(row)} values for {len(self._names)} columns",
                    file=path,
                    record=record,
                )

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: NDArray[np.int64]) -> RecordDocuments:
        return RecordDocuments(
            [dict(zip(self._names, self._rows[row], strict=True)) for row in rows.tolist()]
        )

    def place(self, row: int) -> Place:
        return Place(str(self._path), row + 1)

    def digest(self) -> bytes:
        # Large files: a digest of sizes, offsets and some pages does, and costs no pass over them.
        return self._digest


class CsvFormat(Format):
    """How its files are called. A format with a magic number has ``signatures`` besides."""

    name = "csv"
    suffixes = (".csv",)

    def open(self, path: Path) -> CsvShard:
        return CsvShard(path)
