"""Columns of lists as runs in flat arrays, without a copy of the values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from zephon.errors import DataError
from zephon.io.recycled import Recycler

_NONE = np.empty(0, dtype=np.int64)
_OFFSETS: dict[type, np.dtype[Any]] = {
    pa.ListArray: np.dtype(np.int32),
    pa.LargeListArray: np.dtype(np.int64),
}
_DTYPES = {
    pa.from_numpy_dtype(name).id: np.dtype(name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}


@dataclass(frozen=True, slots=True)
class ListRuns:
    """One chunk of a column of lists.

    Attributes
    ----------
    values : 1-D array
        The values that the lists lie in; of integers and floats Arrow's own memory.
    start, length : int64 ``[n]``
        Where each list begins there and how long it is; a null has no values.
    valid : bool ``[n]`` or None
        Which are no nulls; None: all.
    damaged : int64 ``[k]``
        Lists that hold a null, in ascending order.
    """

    values: NDArray[Any]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    valid: NDArray[np.bool_] | None
    damaged: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory that the values lie in, whatever of it they need."""
        base = self.values.base
        return base.nbytes if isinstance(base, np.ndarray) else self.values.nbytes

    @property
    def in_order(self) -> bool:
        """Whether each list lies behind the one before it."""
        full = self.length > 0
        start, end = self.start[full], (self.start + self.length)[full]
        return bool((start[1:] >= end[:-1]).all())


def list_runs(array: pa.Array) -> ListRuns:
    """The lists of ``array`` (any list type of numbers) as runs.

    Raises
    ------
    DataError
        Offsets that no writer makes, without a place.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if (runs := _plain_runs(array)) is not None:
        return runs
    start, length = _runs(array)
    valid = None
    if array.null_count:
        valid = np.asarray(array.is_valid())
        # What lies under a null is not defined.
        length = np.where(valid, length, 0)
    values = array.values
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    start = np.where(length > 0, start, 0)
    low = int(start[length > 0].min(initial=len(values)))
    high = int((start + length).max(initial=0))
    if (length < 0).any() or (start < 0).any() or high > len(values):
        raise DataError("holds lists that lie outside of their values: the file is damaged")
    low = min(low, high)
    used = values.slice(low, high - low)
    start = np.where(length > 0, start - low, 0)
    # A list without values lies where the next one begins, so that runs stay in order.
    damaged = np.empty(0, dtype=np.int64)
    if used.null_count:
        nulls = np.concatenate(([0], np.cumsum(np.asarray(used.is_null()))))
        damaged = np.flatnonzero(nulls[start + length] > nulls[start])
    return ListRuns(_flat(used), start, length, valid, damaged)


def join_lists(parts: Iterable[ListRuns], count: int, memory: Recycler) -> list[ListRuns]:
    """The lists of ``parts``, about ``count`` of them, as those of one array in ``memory``.

    Values are copied as a part comes, so that it need not live until the next one. If all are
    in the first part it stays what it is.
    """
    parts = iter(parts)
    part = next(parts, None)
    if part is None or len(part) >= count:
        return [*(() if part is None else (part,)), *parts]
    kept: list[ListRuns] = []
    lists = at = 0
    values = memory.empty(_room(len(part.values), len(part), count), part.values.dtype)
    while part is not None:
        end, lists_end = at + len(part.values), lists + len(part)
        if end > len(values):
            more = memory.empty(_room(end, lists_end, count), values.dtype)
            more[:at] = values[:at]
            values = more
        values[at:end] = part.values
        kept.append(
            ListRuns(values, part.start + at, part.length, part.valid, part.damaged + lists)
        )
        lists, at = lists_end, end
        part = None  # its memory is used for the next one
        part = next(parts, None)
    valid = None
    if any(one.valid is not None for one in kept):
        valid = np.concatenate(
            [np.ones(len(one), bool) if one.valid is None else one.valid for one in kept]
        )
    start, length, damaged = (
        np.concatenate([getattr(one, name) for one in kept])
        for name in ("start", "length", "damaged")
    )
    return [ListRuns(values[:at], start, length, valid, damaged)]


def _room(values: int, lists: int, count: int) -> int:
    """Room for ``count`` lists if ``lists`` have ``values`` values, a little more than that.

    Not beyond all measure, since a damaged file may say anything of its rows.
    """
    return max(values, min(values * count // max(lists, 1) * 9 // 8, 64 * values))


def contiguous(runs: ListRuns) -> ListRuns:
    """The same lists end to end: copied, unless each lies behind the one before it already."""
    if runs.in_order:
        return runs
    start = np.cumsum(runs.length) - runs.length
    values = np.empty(int(runs.length.sum()), dtype=runs.values.dtype)
    gather(runs, np.arange(len(runs)), values, start)
    return ListRuns(values, start, runs.length, runs.valid, runs.damaged)


def gather(
    runs: ListRuns, rows: NDArray[np.integer[Any]], out: NDArray[Any], at: NDArray[np.int64]
) -> None:
    """Copy lists ``rows`` to where ``at`` says that each begins in ``out``."""
    length = runs.length[rows]
    if not length.any():
        return
    shift = np.repeat(np.cumsum(length) - length, length)
    inside = np.arange(len(shift)) - shift
    out[np.repeat(at, length) + inside] = runs.values[np.repeat(runs.start[rows], length) + inside]


def _plain_runs(array: pa.Array) -> ListRuns | None:
    """The lists of an array that has them end to end and no nulls, which nearly all have.

    Few calls: after a unit was decoded nothing of the interpreter is in the caches.
    """
    width = _OFFSETS.get(type(array))
    if width is None or array.null_count or not len(array):
        return None
    values = array.values
    dtype = _DTYPES.get(values.type.id)
    if dtype is None or values.null_count:
        return None
    buffers = array.buffers()  # validity and offsets, then those of the values
    first, count = array.offset, len(array) + 1
    bounds = np.frombuffer(buffers[1], width, count, first * width.itemsize).astype(np.int64)
    low, high = int(bounds[0]), int(bounds[-1])
    length = bounds[1:] - bounds[:-1]
    if low < 0 or high > len(values) or length.min() < 0:
        return None  # damaged: the other way says so
    bounds -= low
    begin = (values.offset + low) * dtype.itemsize
    if high == low:
        flat = np.empty(0, dtype=dtype)
    else:
        flat = np.frombuffer(buffers[3], dtype, high - low, begin)
    if not flat.flags.aligned:
        flat = flat.copy()
    return ListRuns(flat, bounds[:-1], length, None, _NONE)


def _runs(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and length of each list among ``array.values``, nulls whatever they say."""
    kind, count, first = array.type, len(array), array.offset
    if kinds.is_fixed_size_list(kind):
        start = (first + np.arange(count, dtype=np.int64)) * kind.list_size
        return start, np.full(count, kind.list_size, dtype=np.int64)
    if count == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    width = np.int64 if kinds.is_large_list(kind) or kinds.is_large_list_view(kind) else np.int32
    buffers = array.buffers()
    if kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
        offsets = np.frombuffer(buffers[1], dtype=width, count=first + count)[first:]
        sizes = np.frombuffer(buffers[2], dtype=width, count=first + count)[first:]
        return offsets.astype(np.int64), sizes.astype(np.int64)
    raw = np.frombuffer(buffers[1], dtype=width, count=first + count + 1)
    bounds = raw[first:].astype(np.int64)
    return bounds[:-1], np.diff(bounds)


def _flat(values: pa.Array) -> NDArray[Any]:
    """Numbers as an array; bools, which Arrow keeps as bits, are copied."""
    kind = values.type
    dtype = _DTYPES.get(kind.id)
    if dtype is None:
        return np.asarray(values.to_numpy(zero_copy_only=False))
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.empty(0, dtype=dtype)
    flat = np.frombuffer(buffer, dtype=dtype, count=values.offset + len(values))[values.offset :]
    return flat if flat.flags.aligned else flat.copy()
