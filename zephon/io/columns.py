"""Tables in units: what Parquet and Arrow files have in common as shards.

A unit is what is decoded together, a row group or a record batch. Token ids are
read as runs in Arrow's own memory. Everything else is decoded column by column
when somebody asks for a value of it, and held in :data:`zephon.io.decoded.UNITS`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zephon.block import Documents, RecordDocuments, interleave
from zephon.errors import DataError
from zephon.io.column_lists import ListRuns, list_runs
from zephon.io.column_records import LazyRecords
from zephon.io.column_roles import Roles, find_roles, is_text, text_path
from zephon.io.column_tokens import UnitTokens, make_unit_tokens
from zephon.io.decoded import UNITS
from zephon.io.shard import Place, Shard


class ColumnFile(ABC):
    """A file of a table in units; opened again, or mapped, for each read.

    Attributes
    ----------
    path : Path
        Where it is.
    schema : pyarrow.Schema
        Its columns.
    unit_rows : int64 ``[units]``
        Rows of each unit.
    nbytes : int
        About what it would take in memory.
    unit_name : str
        What messages call a unit.
    lies_open : bool
        Whether nothing is compressed, so that looking at a few bytes costs just that.
    mapped : bool
        Whether what is read may lie in a map of the file, which must not shrink under it.
    """

    path: Path
    schema: pa.Schema
    unit_rows: NDArray[np.int64]
    nbytes: int
    unit_name: str
    lies_open: bool = False
    mapped: bool = False

    @abstractmethod
    def read(self, unit: int, columns: Sequence[str]) -> tuple[dict[str, pa.ChunkedArray], int]:
        """Columns of one unit, and how many bytes were allocated for them."""

    def read_tokens(
        self, unit: int, tokens: str, mask: str | None
    ) -> tuple[list[ListRuns], pa.ChunkedArray | None, int]:
        """Lists of the column ``tokens`` of one unit, the column ``mask``, and bytes allocated.

        A DataError without a place is one of the unit.
        """
        columns, allocated = self.read(unit, [tokens, *([mask] if mask else [])])
        lists = [list_runs(chunk) for chunk in columns[tokens].chunks]
        return lists, columns[mask] if mask else None, allocated

    @abstractmethod
    def check(self) -> None:
        """Raise if the file has changed its size since it was opened."""

    @abstractmethod
    def digest(self) -> bytes:
        """Sixteen bytes that change when the content does."""

    def offset(self, unit: int) -> int | None:
        """Byte of the file where a unit begins."""
        return None


class _Columns:
    """Columns of a file, decoded once for all who ask.

    Not part of the shard, since what is held must not keep its owner alive.
    """

    def __init__(self, file: ColumnFile, number: int) -> None:
        self._file, self._number = file, number

    def column(self, unit: int, name: str) -> pa.ChunkedArray:
        """One column of one unit."""

        def decode() -> tuple[pa.ChunkedArray, int]:
            columns, allocated = self._file.read(unit, [name])
            return columns[name], allocated

        return UNITS.get_or_decode((self._number, (unit, name)), decode)


class ColumnShard(Shard):
    """One file of columns."""

    def __init__(self, file: ColumnFile) -> None:
        self._file = file
        self._roles: Roles = find_roles(file.schema, file.path)
        self.nbytes = file.nbytes
        self.gives_text = self._roles.text
        self._ends = np.cumsum(file.unit_rows)  # [units]
        self._first = self._ends - file.unit_rows  # [units]
        self._number = UNITS.register(self)
        self._columns = _Columns(file, self._number)
        self._text: str | None = None  # the field that text is asked from

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def as_text(self, field: str) -> Shard:
        """This shard, giving records where it would give tokens, if ``field`` is text in it."""
        path = text_path(self._file.schema, field)
        if path is None and self._roles.tokens is not None:
            return self
        shard = copy.copy(self)
        # Decoded columns are the same whatever is made of them, and go with this one's number.
        shard._text, shard._keep = field, self
        return shard

    _keep: ColumnShard | None = None

    def read(self, rows: NDArray[np.int64]) -> Documents:
        """Documents ``rows``: places in Arrow's memory, or records that are read when looked at."""
        self._file.check()
        if self._roles.tokens is None or self._text is not None:
            return RecordDocuments(LazyRecords(self, rows))
        parts, picks = [], []
        for unit, pick in self._by_unit(rows):
            tokens = self._tokens(unit)
            at = rows[pick] - self._first[unit]
            if len(tokens.damaged) and len(bad := at[np.isin(at, tokens.damaged)]):
                raise DataError(
                    tokens.problem(int(bad[0])),
                    **self.place(int(bad[0] + self._first[unit])).as_kwargs(),
                )
            parts.append(tokens.documents(at))
            picks.append(pick)
        if len(parts) == 1:
            return parts[0]
        return interleave(parts, picks, len(rows))

    def decode(self, rows: NDArray[np.int64]) -> None:
        """Decode the token ids of the units that ``rows`` lie in."""
        if self._roles.tokens is not None and self._text is None:
            for unit, _ in self._by_unit(rows):
                self._tokens(unit)

    def fields(self, row: int) -> Mapping[str, Any]:
        """Fields of a document that are no tokens and do not go along with them."""
        if self._roles.tokens is None or self._text is not None:
            record: Mapping[str, Any] = LazyRecords(self, np.array([row]))[0]
            return dict(record)
        unit, _ = next(iter(self._by_unit(np.array([row]))))
        tokens = self._tokens(unit)
        at = row - int(self._first[unit])
        along = {self._roles.tokens, self._roles.mask}
        if self._roles.beside:
            along |= set(tokens.names(at))
        names = [name for name in self._roles.names if name not in along]
        return {name: self.values(name, np.array([row]))[0] for name in names}

    def values(self, field: str, rows: NDArray[np.int64]) -> list[Any]:
        """Values of a column, or of a field of structs, as Python has them.

        Raises
        ------
        KeyError
            There is no such column.
        """
        path = text_path(self._file.schema, field)
        if path is None:
            raise KeyError(field)
        out: list[Any] = [None] * len(rows)
        for unit, pick in self._by_unit(rows):
            column = self._columns.column(unit, ".".join(path))
            starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
            local = rows[pick] - self._first[unit]
            chunks = np.searchsorted(starts, local, side="right") - 1
            for where, at, chunk in zip(
                pick.tolist(), (local - starts[chunks]).tolist(), chunks.tolist(), strict=True
            ):
                out[where] = self._value(column.chunks[chunk], at, field, rows[where])
        return out

    def token_lengths(self) -> NDArray[np.int64] | None:
        """Tokens of each document, if nothing has to be decompressed to know them."""
        if self._roles.tokens is None or self._text is not None or not self._file.lies_open:
            return None
        units = range(len(self._ends))
        parts = [self._tokens(unit).length for unit in units if self._file.unit_rows[unit]]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def check(self) -> None:
        """The file has the size that it had; what was decoded lies in memory."""
        if self._file.mapped:
            self._file.check()

    def place(self, row: int) -> Place:
        """File and row; the byte is that of the row's unit."""
        unit = int(np.searchsorted(self._ends, row, side="right"))
        return Place(str(self._file.path), row + 1, self._file.offset(unit))

    def digest(self) -> bytes:
        """That of the file."""
        return self._file.digest()

    @property
    def unit_documents(self) -> int:
        """Rows of the greatest unit."""
        return max(int(self._file.unit_rows.max(initial=1)), 1)

    def units(self) -> NDArray[np.int64]:
        """First row of each unit that has rows."""
        first: NDArray[np.int64] = self._first[self._file.unit_rows > 0]
        return first

    def has(self, field: str) -> bool:
        """Whether there is such a column, or such a field of structs."""
        return text_path(self._file.schema, field) is not None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return self._roles.names

    def _by_unit(self, rows: NDArray[np.int64]) -> list[tuple[int, NDArray[np.intp]]]:
        """Units that ``rows`` lie in, and which of them lie in each."""
        unit = np.searchsorted(self._ends, rows, side="right")
        if len(unit) and unit[0] == unit[-1] and (unit == unit[0]).all():
            return [(int(unit[0]), np.arange(len(rows)))]
        return [(one, np.flatnonzero(unit == one)) for one in np.unique(unit).tolist()]

    def _tokens(self, unit: int) -> UnitTokens:
        return UNITS.get_or_decode((self._number, unit), partial(self._decode_tokens, unit))

    def _decode_tokens(self, unit: int) -> tuple[UnitTokens, int]:
        roles = self._roles
        assert roles.tokens is not None
        try:
            lists, mask, allocated = self._file.read_tokens(unit, roles.tokens, roles.mask)
            read = partial(self._columns.column, unit)
            tokens = make_unit_tokens(lists, mask, roles.beside, read)
        except DataError as error:
            if error.file is not None:
                raise
            raise self._unit_error(unit, error.message) from error
        return tokens, allocated + tokens.nbytes

    def _unit_error(self, unit: int, message: str) -> DataError:
        return DataError(
            f"{self._file.unit_name} {unit} {message}",
            **self.place(int(self._first[unit])).as_kwargs(),
        )

    def _value(self, chunk: pa.Array, at: int, field: str, row: Any) -> Any:
        value = chunk[at]
        try:
            found = value.as_py()
            if isinstance(found, bytes) and field == self._text and is_text(chunk.type):
                return found.decode()
        except UnicodeDecodeError as bad:
            raise DataError(
                f"the field {field!r} is not valid UTF-8 ({bad.reason} at byte {bad.start} of the "
                "value). Convert it, or remove the record",
                **self.place(int(row)).as_kwargs(),
            ) from None
        except pa.ArrowException as error:
            raise DataError(
                f"the field {field!r} cannot be read: {error}", **self.place(int(row)).as_kwargs()
            ) from error
        return found
