"""Where the messages of an Arrow IPC file or stream lie, read from its framing alone.

Reading rows costs their decompression; how many rows a record batch has stands in
the few bytes before it. Layout: https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError

FILE_MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_BLOCK = struct.Struct("<qi4xq")  # offset, bytes of metadata with its prefix, bytes of the body


@dataclass(frozen=True, slots=True)
class Message:
    """One message: where it begins and ends in the file, and what its header says."""

    start: int
    end: int
    kind: int
    rows: int = 0
    compressed: bool = False
    dictionary: int = 0
    is_delta: bool = False


@dataclass(slots=True)
class Messages:
    """The messages of a file.

    Attributes
    ----------
    schema : Message
        The first one.
    batches : list of Message
        Record batches in the order of their rows.
    dictionaries : list of tuple of Message
        For each batch, those that it may refer to, in order.
    """

    schema: Message
    batches: list[Message] = field(default_factory=list)
    dictionaries: list[tuple[Message, ...]] = field(default_factory=list)


def find_messages(data: NDArray[np.uint8], path: Path) -> Messages:
    """Find the messages of an IPC file or stream with the bytes ``data``.

    Raises
    ------
    DataError
        It is neither, or it was cut, with the byte where that shows.
    """
    view = memoryview(data.data)
    try:
        if view[: len(FILE_MAGIC)] == FILE_MAGIC:
            return _in_file(view, path)
        return _in_stream(view, path)
    except (struct.error, IndexError, ValueError) as error:
        raise DataError(f"has a damaged message ({error})", file=path) from error


def _in_stream(view: memoryview, path: Path) -> Messages:
    found: Messages | None = None
    known: dict[int, list[Message]] = {}
    at, current = 0, ()  # type: int, tuple[Message, ...]
    while at < len(view):
        message = _message(view, at, path)
        if message is None:  # the end of the stream
            _refuse_rest(view, at, path)
            break
        if found is None:
            if message.kind != _SCHEMA:
                raise DataError("does not begin with a schema", file=path, byte_offset=at)
            found = Messages(message)
        elif message.kind == _DICTIONARY:
            if not message.is_delta:
                known[message.dictionary] = []
            known.setdefault(message.dictionary, []).append(message)
            current = tuple(one for some in known.values() for one in some)
        elif message.kind == _BATCH:
            found.batches.append(message)
            found.dictionaries.append(current)
        at = message.end
    if found is None:
        raise DataError("holds no Arrow schema", file=path, byte_offset=0)
    return found


def _in_file(view: memoryview, path: Path) -> Messages:
    end = len(view) - len(FILE_MAGIC)
    if end < 12 or view[end:] != FILE_MAGIC:
        raise DataError(
            f"ends without the footer of an Arrow file (expected {FILE_MAGIC!r}): it was cut, or "
            "its writer was interrupted. Copy or write it again",
            file=path,
            byte_offset=max(end, 0),
        )
    length = int.from_bytes(view[end - 4 : end], "little", signed=True)
    if not 0 < length <= end - 12:
        raise DataError(f"says that its footer has {length} bytes", file=path, byte_offset=end - 4)
    footer = _Table.root(view[end - 4 - length : end - 4])
    schema = _message(view, 8, path)
    if schema is None or schema.kind != _SCHEMA:
        raise DataError("does not begin with a schema", file=path, byte_offset=8)
    found = Messages(schema)
    parts = []
    for number in (2, 3):
        blocks = footer.vector(number, _BLOCK)
        messages = [_message(view, offset, path) for offset, _, _ in blocks]
        if None in messages:
            raise DataError("has a footer that leads to no message", file=path)
        parts.append([message for message in messages if message is not None])
    found.batches = parts[1]
    found.dictionaries = [tuple(parts[0])] * len(parts[1])
    return found


def _message(view: memoryview, at: int, path: Path) -> Message | None:
    """The message that begins at byte ``at``; None if that is the end of the stream."""
    # Before version 0.15 of the format the length stood there by itself.
    prefix = 8 if view[at : at + 4] == CONTINUATION else 4
    size = int.from_bytes(view[at + prefix - 4 : at + prefix], "little", signed=True)
    if size == 0 and at + prefix <= len(view):
        return None
    body = at + prefix + size
    if size < 0 or body > len(view):
        raise _cut(at, len(view), path)
    table = _Table.root(view[at + prefix : body])
    end = body + table.number(3, "<q")
    if not body <= end <= len(view):
        raise _cut(at, len(view), path)
    kind = table.number(1, "<B")
    header = table.table(2)
    if kind == _DICTIONARY:
        return Message(
            at,
            end,
            kind,
            dictionary=header.number(0, "<q"),
            is_delta=bool(header.number(2, "<B")),
        )
    if kind == _BATCH:
        rows = header.number(0, "<q")
        if rows < 0:
            raise DataError(f"has a record batch of {rows} rows", file=path, byte_offset=at)
        return Message(at, end, kind, rows=rows, compressed=header.has(3))
    return Message(at, end, kind)


def _cut(at: int, size: int, path: Path) -> DataError:
    return DataError(
        f"ends at byte {size}, inside of the message that begins at byte {at}: it was cut, or it "
        "is no Arrow data from there on",
        file=path,
        byte_offset=at,
    )


def _refuse_rest(view: memoryview, at: int, path: Path) -> None:
    rest = at + (8 if view[at : at + 4] == CONTINUATION else 4)
    if any(view[rest : rest + 4096]):
        raise DataError(
            f"goes on behind the end of its stream, for {len(view) - rest} bytes that no reader "
            "would see: streams cannot be put together by appending one file to another",
            file=path,
            byte_offset=rest,
        )


class _Table:
    """A table of a FlatBuffer: fields by number, absent ones at their defaults."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view, self._at = view, at
        self._vtable = at - _unpack("<i", view, at)
        self._size = _unpack("<H", view, self._vtable)

    @classmethod
    def root(cls, view: memoryview) -> _Table:
        return cls(view, _unpack("<I", view, 0))

    def _field(self, number: int) -> int:
        slot = 4 + 2 * number
        offset = _unpack("<H", self._view, self._vtable + slot) if slot < self._size else 0
        return self._at + offset if offset else 0

    def has(self, number: int) -> bool:
        return self._field(number) != 0

    def number(self, number: int, form: str) -> int:
        at = self._field(number)
        return _unpack(form, self._view, at) if at else 0

    def table(self, number: int) -> _Table:
        at = self._field(number)
        if not at:
            raise ValueError(f"field {number} of its header is missing")
        return _Table(self._view, at + _unpack("<I", self._view, at))

    def vector(self, number: int, form: struct.Struct) -> list[tuple[Any, ...]]:
        at = self._field(number)
        if not at:
            return []
        at += _unpack("<I", self._view, at)
        count = _unpack("<I", self._view, at)
        return list(form.iter_unpack(self._view[at + 4 : at + 4 + count * form.size]))


def _unpack(form: str, view: memoryview, at: int) -> int:
    if at < 0:
        raise ValueError("an offset leads out of its header")
    value: int = struct.unpack_from(form, view, at)[0]
    return value
