"""Rows of a table as records that decode a column when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray


class Columns(Protocol):
    """Where values of columns come from."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        ...

    def has(self, field: str) -> bool:
        """Whether there is such a column, or such a field of structs."""
        ...

    def values(self, field: str, rows: NDArray[np.int64]) -> list[Any]:
        """Values of a column; KeyError if there is none."""
        ...


class LazyRecords(Sequence[Mapping[str, Any]]):
    """Records of ``rows``; a column that nobody asks for is never decoded.

    The first record that is asked for a field reads it for all of them.
    """

    def __init__(self, columns: Columns, rows: NDArray[np.int64]) -> None:
        self.columns = columns
        self._rows = rows
        self._values: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | list[Mapping[str, Any]]:
        if isinstance(index, slice):
            return [LazyRecord(self, i) for i in range(*index.indices(len(self)))]
        return LazyRecord(self, range(len(self))[index])

    def value(self, index: int, field: str) -> Any:
        """Field ``field`` of record ``index``."""
        values = self._values.get(field)
        if values is None:
            values = self._values[field] = self.columns.values(field, self._rows)
        return values[index]


class LazyRecord(Mapping[str, Any]):
    """One row: a mapping from columns to values.

    A field of structs can be named with dots (``"doc.text"``), though only columns
    are counted and iterated.
    """

    __slots__ = ("_index", "_records")

    def __init__(self, records: LazyRecords, index: int) -> None:
        self._records, self._index = records, index

    def __getitem__(self, field: str) -> Any:
        return self._records.value(self._index, field)

    def __contains__(self, field: object) -> bool:
        return isinstance(field, str) and self._records.columns.has(field)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records.columns.names)

    def __len__(self) -> int:
        return len(self._records.columns.names)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
