"""Where the records of a text lie: built in one pass, kept in a file if there is a place for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon._native import text
from zephon.errors import DataError
from zephon.io import index_file
from zephon.io.mapped import MappedFile
from zephon.io.probe import probe_digest

BOM = b"\xef\xbb\xbf"
_LAYOUT = 1  # raised when the arrays of a stored index change their meaning
_SLOW = 2.0  # seconds from which a pass is worth a line in the log


class Text(Protocol):
    """What an index is made of."""

    file: MappedFile
    size: int

    def pieces(self) -> Iterator[NDArray[np.uint8]]:
        """The text in its order, uint8 ``[n]`` each."""
        ...

    def restarts(self) -> NDArray[np.int64]:
        """What else is worth to be kept, int64 ``[2, n]``."""
        ...

    def learn(self, size: int, restarts: NDArray[np.int64]) -> None:
        """Take over what a stored index holds."""
        ...


@dataclass(frozen=True, slots=True)
class LineIndex:
    """Records of a text.

    Attributes
    ----------
    starts, ends : int64 ``[records]``
        Byte where a record begins and where it ends, without the line feed.
    lines : int64 ``[records]`` or None
        Its line, counted from 1; None if that is the record's number.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    lines: NDArray[np.int64] | None


def line_index(source: Text) -> LineIndex:
    """The index of ``source``, from a file or made; :class:`DataError` if it cannot be read."""
    identity = {
        "layout": _LAYOUT,
        "size": source.file.size,
        "modified": source.file.modified,
        "probes": probe_digest(source.file.data).hex(),
    }
    stored = index_file.load(source.file.path, identity)
    if stored is not None:
        lines = stored["lines"] if len(stored["lines"]) else None
        source.learn(int(stored["size"][0]), stored["restarts"].reshape(2, -1))
        return LineIndex(stored["starts"], stored["ends"], lines)
    begin = time.monotonic()
    index = build(source.pieces())
    arrays = {
        "starts": index.starts,
        "ends": index.ends,
        "lines": np.empty(0, np.int64) if index.lines is None else index.lines,
        "restarts": source.restarts().reshape(-1),
        "size": np.array([source.size], np.int64),
    }
    seconds = time.monotonic() - begin
    index_file.save(source.file.path, identity, arrays, seconds if seconds > _SLOW else None)
    return index


def build(pieces: Iterator[NDArray[np.uint8]]) -> LineIndex:
    """The index of a text that comes in pieces.

    A byte order mark at the start is not part of the first record.
    An error that ``pieces`` raise gets the line that it falls into.
    """
    parts: list[NDArray[np.int64]] = []
    base, begin, number, blank = 0, 0, 1, True
    stream = _with_whole_mark(pieces)
    while True:
        try:
            data = next(stream)
        except StopIteration:
            break
        except DataError as error:
            raise _at_record(error, number) from None
        if base == 0 and data[: len(BOM)].tobytes() == BOM:
            begin = len(BOM)
        out = np.empty((3, text.count_lines(data)), dtype=np.int64)
        count, begin, number, blank = text.index_records(data, base, begin, number, blank, out)
        parts.append(out[:, :count] if count == out.shape[1] else out[:, :count].copy())
        base += len(data)
    if not blank:
        parts.append(np.array([[begin], [base], [number]], dtype=np.int64))
    starts, ends, lines = (
        np.concatenate([part[row] for part in parts]) if parts else np.empty(0, dtype=np.int64)
        for row in range(3)
    )
    counted = len(lines) == 0 or int(lines[-1]) == len(lines)  # they ascend
    return LineIndex(starts, ends, None if counted else lines)


def _with_whole_mark(pieces: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The pieces, with a byte order mark never split over two."""
    head = np.empty(0, dtype=np.uint8)
    for piece in pieces:
        if len(head) >= len(BOM):
            yield piece
            continue
        head = np.concatenate([head, piece]) if len(head) else piece
        if len(head) >= len(BOM):
            yield head
    if 0 < len(head) < len(BOM):
        yield head


def _at_record(error: DataError, record: int) -> DataError:
    where: dict[str, Any] = {"file": error.file, "byte_offset": error.byte_offset}
    return DataError(error.message, record=record, **where)
