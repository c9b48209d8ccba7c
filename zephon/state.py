"""The bytes of a state: where a stream stands, and which stream it is.

Layout, little endian::

    magic    8 bytes   93 5A 45 50 48 4F 4E 0A
    version  u16       1
    length   u48       bytes of the payload
    payload            sections, each: tag u8, length varint, content
    checksum 16 bytes  BLAKE2b over everything before it

Sections of version 1, each once and in this order: ``1`` position (lanes and
delivered lane-batches, varints), ``2`` options (canonical JSON), ``3`` sources
(24 bytes each: digest of the name, digest of the content, integer weight),
``4`` cursors (per lane: draw, token and empty documents as varints, and eight
bytes of check if token is not 0), ``5`` names of the sources and their sizes
(JSON, there so that a refusal can name what differs).

There is one encoding of a state: equal states are equal bytes. Nothing is ever
unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zephon.cursor import LaneCursor
from zephon.errors import ConfigTypeError, StateError

MAGIC = b"\x93ZEPHON\n"
VERSION = 1
_HEADER = len(MAGIC) + 2 + 6
_CHECKSUM = 16
_POSITION, _OPTIONS, _SOURCES, _CURSORS, _NAMES = range(1, 6)


@dataclass(frozen=True, slots=True)
class SourceState:
    """Which data a source was.

    Attributes
    ----------
    name : str
        Name of the dataset.
    digest : bytes
        Eight bytes over its content.
    weight : int
        Integer weight in the mixture.
    size : dict
        ``format``, ``documents``, ``shards`` and ``bytes``, for messages.
    """

    name: str
    digest: bytes
    weight: int
    size: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamState:
    """A position in a stream, and what the stream is made of.

    Attributes
    ----------
    options : dict
        Everything besides the sources that shapes the stream, as JSON values.
    sources : tuple of SourceState
        The datasets in their order.
    delivered : int
        Lane-batches that the whole run has delivered.
    cursors : tuple of LaneCursor
        One for each lane.
    """

    options: dict[str, Any]
    sources: tuple[SourceState, ...]
    delivered: int
    cursors: tuple[LaneCursor, ...]

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self.cursors)


def encode(state: StreamState) -> bytes:
    """The bytes of a state."""
    cursors = bytearray()
    for cursor in state.cursors:
        for value in (cursor.draw, cursor.token, cursor.empty):
            cursors += _varint(value)
        if cursor.token:
            cursors += cursor.check
    sources = b"".join(
        _name_digest(source.name) + source.digest + source.weight.to_bytes(8, "little")
        for source in state.sources
    )
    names = [{"name": source.name, **source.size} for source in state.sources]
    payload = b"".join(
        bytes([tag]) + _varint(len(content)) + content
        for tag, content in (
            (_POSITION, _varint(state.lanes) + _varint(state.delivered)),
            (_OPTIONS, _json(state.options)),
            (_SOURCES, sources),
            (_CURSORS, bytes(cursors)),
            (_NAMES, _json(names)),
        )
    )
    head = MAGIC + VERSION.to_bytes(2, "little") + len(payload).to_bytes(6, "little")
    return head + payload + _checksum(head + payload)


def decode(data: bytes) -> StreamState:
    """The state that ``data`` holds.

    Raises
    ------
    StateError
        The bytes are empty, foreign, cut, of a newer version or damaged.
    """
    payload = _payload(data)
    try:
        return _parse(payload)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        # The checksum fits, so this was written so: a bug or a forgery, not damage.
        raise StateError(f"the state's content is malformed ({error})") from error


def verify(state: StreamState, options: dict[str, Any], sources: tuple[SourceState, ...]) -> None:
    """Raise if ``state`` is not of the stream with these options and sources.

    Raises
    ------
    StateError
        Lists everything that differs, not only the first difference.
    """
    differences = [
        *_option_differences("", state.options, json.loads(_json(options))),
        *_source_differences(state.sources, sources),
    ]
    if differences:
        raise StateError(
            "the state is of another stream and cannot be continued by this pipeline. "
            "What differs (saved, now): "
            + "; ".join(differences)
            + ". Build the pipeline as it was when the state was saved, or start a new run"
        )


def describe(data: bytes) -> str:
    """What a state says, for people."""
    state = decode(data)
    lines = [
        f"zephon state, version {VERSION}, {len(data):,} bytes",
        f"delivered: {state.delivered:,} lane-batches over {state.lanes:,} lanes",
        "sources:",
    ]
    total = sum(source.weight for source in state.sources)
    for source in state.sources:
        size = source.size
        lines.append(
            f"  {source.name}: {source.weight / total:.4%} of documents, {size['documents']:,} "
            f"documents in {size['shards']:,} shards, {size['bytes']:,} bytes, {size['format']}"
        )
    lines.append("options: " + json.dumps(state.options, sort_keys=True))
    for lane, cursor in enumerate(state.cursors[:16]):
        lines.append(
            f"lane {lane}: document {cursor.draw:,}, token {cursor.token:,}; "
            f"{cursor.empty:,} empty documents left out"
        )
    if state.lanes > 16:
        lines.append(f"... and {state.lanes - 16:,} more lanes")
    return "\n".join(lines)


def _payload(data: bytes) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigTypeError(f"Expected the state as bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data:
        raise StateError("the state is empty (0 bytes): was the checkpoint written completely?")
    if not data.startswith(MAGIC):
        kind = "a pickle, which is never loaded" if data[:1] == b"\x80" else "something else"
        raise StateError(
            f"these {len(data)} bytes are not a zephon state: they begin with {data[:8]!r}, "
            f"expected {MAGIC!r}; it is {kind}"
        )
    if len(data) < _HEADER + _CHECKSUM:
        raise StateError(f"the state is cut: {len(data)} bytes are less than its header needs")
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 2], "little")
    if version != VERSION:
        raise StateError(
            f"the state has format version {version}, this zephon reads version {VERSION}: "
            "use the zephon that wrote it, or a newer one"
        )
    length = int.from_bytes(data[len(MAGIC) + 2 : _HEADER], "little")
    if len(data) != _HEADER + length + _CHECKSUM:
        raise StateError(
            f"the state has {len(data)} bytes, its header says {_HEADER + length + _CHECKSUM}: "
            "it was cut or something was added"
        )
    if _checksum(data[:-_CHECKSUM]) != data[-_CHECKSUM:]:
        raise StateError("the state's checksum does not fit: the bytes are damaged")
    return data[_HEADER:-_CHECKSUM]


def _parse(payload: bytes) -> StreamState:
    sections = dict(_sections(payload))
    if list(sections) != [_POSITION, _OPTIONS, _SOURCES, _CURSORS, _NAMES]:
        raise ValueError(f"sections {list(sections)}")
    reader = _Reader(sections[_POSITION])
    lanes, delivered = reader.varint(), reader.varint()
    reader.finish()
    names = json.loads(sections[_NAMES])
    packed = sections[_SOURCES]
    if len(packed) != 24 * len(names):
        raise ValueError(f"{len(packed)} bytes for {len(names)} sources")
    sources = []
    for i, size in enumerate(names):
        name = size.pop("name")
        entry = packed[24 * i : 24 * i + 24]
        if entry[:8] != _name_digest(name):
            raise ValueError(f"the name {name!r} has another digest")
        sources.append(SourceState(name, entry[8:16], int.from_bytes(entry[16:], "little"), size))
    reader = _Reader(sections[_CURSORS])
    cursors = []
    for _ in range(lanes):
        draw, token, empty = reader.varint(), reader.varint(), reader.varint()
        cursors.append(LaneCursor(draw, token, empty, reader.take(8) if token else b""))
    reader.finish()
    return StreamState(json.loads(sections[_OPTIONS]), tuple(sources), delivered, tuple(cursors))


def _sections(payload: bytes) -> Iterator[tuple[int, bytes]]:
    reader = _Reader(payload)
    while not reader.at_end():
        tag = reader.take(1)[0]
        yield tag, reader.take(reader.varint())


class _Reader:
    """Reads varints and bytes; running past the end is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) != count:
            raise ValueError(f"{count} bytes expected, {len(part)} left")
        self._at += count
        return part

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def finish(self) -> None:
        if not self.at_end():
            raise ValueError(f"{len(self._data) - self._at} bytes too many")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM).digest()


def _name_digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def _option_differences(path: str, saved: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for key in sorted({*saved, *now}):
        name = f"{path}{key}"
        old, new = saved.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _option_differences(f"{name}.", old, new)
        elif old != new:
            yield f"{name} ({old!r}, {new!r})"


def _source_differences(
    saved: tuple[SourceState, ...], now: tuple[SourceState, ...]
) -> Iterator[str]:
    old = {source.name: source for source in saved}
    new = {source.name: source for source in now}
    yield from (f"source {name!r} is gone" for name in old if name not in new)
    yield from (f"source {name!r} is new" for name in new if name not in old)
    common = [name for name in old if name in new]
    if common != [name for name in new if name in old]:
        yield f"the order of sources ({', '.join(old)}; {', '.join(new)})"
    for name in common:
        before, after = old[name], new[name]
        if before.weight != after.weight:
            yield f"weight of {name!r} ({before.weight}/2**32, {after.weight}/2**32)"
        if before.size != after.size:
            yield f"files of {name!r} ({before.size}, {after.size})"
        elif before.digest != after.digest:
            yield f"content of {name!r}: same size, but its files have changed"
