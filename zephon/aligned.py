"""What travels with tokens: values of one document that stand one for each token.

Packing moves documents about by naming runs of tokens in a buffer. Whatever else
a document has for each token lies beside that buffer and is reached by the same
run, so it is cut, split and carried on without being touched until a batch asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError

MASK_FIELD = "loss_mask"


class AlignedFields(ABC):
    """Per-token fields of the documents in one buffer of tokens.

    Attributes
    ----------
    loss_mask : uint8 array or None
        As long as the buffer: 0 where a token is not to be learned. None: all are.
    """

    loss_mask: NDArray[np.uint8] | None = None

    @abstractmethod
    def has_mask(self, start: int) -> bool:
        """Whether the document that holds token ``start`` came with a ``loss_mask``."""

    @abstractmethod
    def names(self, start: int) -> tuple[str, ...]:
        """Fields, but for ``loss_mask``, of the document that holds token ``start``."""

    @abstractmethod
    def take(self, name: str, start: int, length: int) -> NDArray[Any]:
        """Values of tokens ``start`` to ``start + length - 1``, all of one document.

        Raises
        ------
        DataError
            The document has no such field with one number for each token.
        """


Aligned = tuple[AlignedFields | None, ...]
"""One entry for each buffer, or no entry at all if no buffer has any."""


class Buffered(Protocol):
    """Something whose tokens lie in buffers."""

    @property
    def buffers(self) -> tuple[NDArray[np.integer[Any]], ...]:
        """The memory."""
        ...

    @property
    def aligned(self) -> Aligned:
        """What goes along with it."""
        ...


def join_buffers(
    parts: Sequence[Buffered],
) -> tuple[tuple[NDArray[np.integer[Any]], ...], Aligned, list[NDArray[np.int32]]]:
    """The buffers of all parts, each once, and where those of each part have gone."""
    first = parts[0] if parts else None
    if first is not None and all(part.buffers is first.buffers for part in parts):
        same = np.arange(len(first.buffers), dtype=np.int32)
        return first.buffers, first.aligned, [same] * len(parts)
    buffers: list[NDArray[np.integer[Any]]] = []
    aligned: list[AlignedFields | None] = []
    seen: dict[int, int] = {}
    moves = []
    for part in parts:
        moved = np.empty(len(part.buffers), dtype=np.int32)
        for i, array in enumerate(part.buffers):
            if id(array) not in seen:
                seen[id(array)] = len(buffers)
                buffers.append(array)
                aligned.append(part.aligned[i] if part.aligned else None)
            moved[i] = seen[id(array)]
        moves.append(moved)
    return tuple(buffers), tuple(aligned) if any(aligned) else (), moves


class ArrayFields(AlignedFields):
    """Fields that are arrays as long as the buffer, as columnar formats have them."""

    def __init__(
        self,
        fields: Mapping[str, NDArray[Any]] | None = None,
        loss_mask: NDArray[np.uint8] | None = None,
    ) -> None:
        self._fields = dict(fields or {})
        self.loss_mask = loss_mask

    def has_mask(self, start: int) -> bool:
        """Whether there is one at all."""
        return self.loss_mask is not None

    def names(self, start: int) -> tuple[str, ...]:
        """All fields: every document has them."""
        return tuple(self._fields)

    def take(self, name: str, start: int, length: int) -> NDArray[Any]:
        """A slice of the field's array."""
        if name not in self._fields:
            raise DataError(_absent(name, self._fields))
        return self._fields[name][start : start + length]


class RecordFields(AlignedFields):
    """Fields of records, which become arrays when they are asked for.

    Parameters
    ----------
    records : sequence of mappings ``[n]``
        The documents whose tokens lie end to end in the buffer.
    token_fields : sequence of str ``[n]``
        Which field of each record the tokens are.
    lengths : int64 ``[n]``
        How many tokens each has.
    loss_mask : uint8 array, optional
        As long as the buffer.
    """

    def __init__(
        self,
        records: Sequence[Mapping[str, Any]],
        token_fields: Sequence[str],
        lengths: NDArray[np.int64],
        loss_mask: NDArray[np.uint8] | None = None,
    ) -> None:
        self._records, self._token_fields, self._lengths = records, token_fields, lengths
        self._starts = np.cumsum(lengths) - lengths
        self.loss_mask = loss_mask

    def has_mask(self, start: int) -> bool:
        """Whether the record has one that is not null."""
        return self._records[self._document(start)].get(MASK_FIELD) is not None

    def names(self, start: int) -> tuple[str, ...]:
        """Fields of the record that hold as many numbers as it has tokens."""
        at = self._document(start)
        return aligned_names(self._records[at], self._token_fields[at], int(self._lengths[at]))

    def take(self, name: str, start: int, length: int) -> NDArray[Any]:
        """A slice of the field of the record that the tokens belong to."""
        at = self._document(start)
        record, count = self._records[at], int(self._lengths[at])
        if record.get(name) is None:
            raise DataError(_absent(name, record))
        array = as_numbers(record[name])
        if array is None:
            raise DataError(f"the field {name!r} holds no row of numbers, one for each token")
        if len(array) != count:
            raise DataError(f"the field {name!r} has {len(array)} values for {count} tokens")
        first = start - int(self._starts[at])
        return array[first : first + length]

    def _document(self, start: int) -> int:
        # The last one that begins there: those before it have no tokens.
        return int(np.searchsorted(self._starts, start, side="right")) - 1


def _absent(name: str, fields: Mapping[str, Any]) -> str:
    return f"has no field {name!r}; it has: {', '.join(map(str, fields))}"


def as_numbers(value: object) -> NDArray[Any] | None:
    """``value`` as a 1-D array of bool, integers or floats; None if it is none."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        return None
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # ragged lists, values that NumPy has no type for
        return None
    return array if array.ndim == 1 and array.dtype.kind in "biuf" else None


def aligned_names(record: Mapping[str, Any], tokens: str, count: int) -> tuple[str, ...]:
    """Fields of a record, but for its tokens and ``loss_mask``, with ``count`` numbers each."""
    return tuple(
        name
        for name, value in record.items()
        if name not in (tokens, MASK_FIELD)
        and hasattr(value, "__len__")
        and len(value) == count
        and as_numbers(value) is not None
    )


def loss_mask_of(value: object, count: int) -> NDArray[np.uint8]:
    """A loss mask for ``count`` tokens: 1 where ``value`` is not 0.

    Raises
    ------
    DataError
        It is not a row of numbers, or not as long as the tokens.
    """
    array = as_numbers(value)
    if array is None:
        raise DataError(f"the field {MASK_FIELD!r} holds no row of numbers, one for each token")
    if len(array) != count:
        raise DataError(f"the field {MASK_FIELD!r} has {len(array)} values for {count} tokens")
    return np.asarray(array != 0).view(np.uint8)
