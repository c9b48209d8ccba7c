"""A state's bytes: what a stream is made of and where it stands, there and back.

Layout, little endian::

    magic    8 bytes   93 5A 45 50 48 4F 4E 0A
    version  u16       1
    length   u48       bytes of the payload
    payload            sections, each: tag u8, length varint, content
    checksum 16 bytes  BLAKE2b over everything before it

Sections of version 1, each once and in this order: ``1`` position (lanes,
delivered lane-batches and finished passes, varints), ``2`` options (canonical JSON), ``3`` sources
(24 bytes each: digest of the name, digest of the content, integer weight),
``4`` cursors (per lane, varints: draw, token, rows, window, shuffled, and four
counts of what was left out; then eight bytes of check if token, rows or shuffled
is not 0), ``5`` names of the sources and their sizes (JSON, there so that a
refusal can name what differs). The part of one of several ranks also has ``6``:
its rank and their number, varints; :func:`zephon.state.merge` makes a state of all parts. A
run whose sources or shares were changed has ``7``: draws before the first former mixture and
number of those (varints), documents taken before of each source (8 bytes each), then for each
former mixture its draws and draws of a chunk (varints) and a weight for each source (8 bytes
each); a source that is there for those only has the weight 0 in ``3``. Where operators left
documents out or made several of one, ``8`` has for each lane, varints: documents of the draw that
come before, and how many were left out.

There is one encoding of a state: equal states are equal bytes. Nothing is ever
unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zephon.cursor import DocumentCursor, Dropped, LaneCursor
from zephon.errors import ConfigTypeError, StateError
from zephon.work.history import History, Stretch

MAGIC = b"\x93ZEPHON\n"
VERSION = 1
_SIZES = frozenset(("format", "documents", "shards", "bytes"))
_HEADER = len(MAGIC) + 2 + 6
_CHECKSUM = 16
_POSITION, _OPTIONS, _SOURCES, _CURSORS, _NAMES, _PART, _HISTORY, _CHILDREN = range(1, 9)


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
    passes : int
        Finite passes that were finished before.
    part : tuple of int or None
        Rank and number of ranks, if these are the cursors of one rank's lanes only.
    history : History or None
        Former mixtures, if the sources or shares were changed.
    """

    options: dict[str, Any]
    sources: tuple[SourceState, ...]
    delivered: int
    cursors: tuple[LaneCursor, ...]
    passes: int = 0
    part: tuple[int, int] | None = None
    history: History | None = None

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self.cursors)


def encode(state: StreamState) -> bytes:
    """The bytes of a state."""
    cursors = bytearray()
    for cursor in state.cursors:
        documents = cursor.documents
        for value in (
            documents.draw,
            documents.token,
            cursor.rows,
            cursor.window,
            cursor.shuffled,
            *documents.dropped.counts()[:4],
        ):
            cursors += _varint(value)
        if cursor.is_open:
            cursors += cursor.check
    sources = b"".join(
        _name_digest(source.name) + source.digest + source.weight.to_bytes(8, "little")
        for source in state.sources
    )
    names = [{"name": source.name, **source.size} for source in state.sources]
    position = b"".join(map(_varint, (state.lanes, state.delivered, state.passes)))
    sections = [
        (_POSITION, position),
        (_OPTIONS, to_json(state.options)),
        (_SOURCES, sources),
        (_CURSORS, bytes(cursors)),
        (_NAMES, to_json(names)),
    ]
    if state.part is not None:
        sections.append((_PART, b"".join(map(_varint, state.part))))
    if state.history is not None:
        sections.append((_HISTORY, _history_bytes(state.history)))
    children = [(c.documents.child, c.documents.dropped.filtered) for c in state.cursors]
    if any(map(any, children)):
        sections.append((_CHILDREN, b"".join(_varint(n) for pair in children for n in pair)))
    payload = b"".join(bytes([tag]) + _varint(len(content)) + content for tag, content in sections)
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
        state = _parse(payload)
        # There is one encoding of a state; whatever else decodes to it was made by hand.
        if encode(state) != bytes(data):
            raise ValueError("it is not written as states are")
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        # The checksum fits, so this was written so: a bug or a forgery, not damage.
        raise StateError(f"the state's content is malformed ({error})") from error
    except RecursionError:
        raise StateError("the state's content is malformed (nested too deeply)") from None
    return state


def _payload(data: bytes) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigTypeError(f"Expected the state as bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data:
        raise StateError("the state is empty (0 bytes): was the checkpoint written completely?")
    if not data.startswith(MAGIC):
        kind = "something else"
        if data[:1] == b"\x80":
            kind = "a pickle, which is never loaded"
        elif data[:2] == b"PK":
            kind = "an archive, as torch.save writes: the state is the bytes under 'zephon' in it"
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
    known = [_POSITION, _OPTIONS, _SOURCES, _CURSORS, _NAMES]
    optional = [tag for tag in (_PART, _HISTORY, _CHILDREN) if tag in sections]
    if list(sections) != [*known, *optional]:
        raise ValueError(f"sections {list(sections)}")
    lanes, delivered, passes = _varints(sections[_POSITION], 3)
    part = None
    if _PART in sections:
        rank, ranks = _varints(sections[_PART], 2)
        part = rank, ranks
    names = json.loads(sections[_NAMES])
    packed = sections[_SOURCES]
    if len(packed) != 24 * len(names):
        raise ValueError(f"{len(packed)} bytes for {len(names)} sources")
    sources = []
    for i, size in enumerate(names):
        name = size.pop("name")
        if not isinstance(name, str) or not _SIZES.issubset(size):
            raise ValueError(f"source {i} lacks its name or sizes")
        entry = packed[24 * i : 24 * i + 24]
        if entry[:8] != _name_digest(name):
            raise ValueError(f"the name {name!r} has another digest")
        sources.append(SourceState(name, entry[8:16], int.from_bytes(entry[16:], "little"), size))
    reader = _Reader(sections[_CURSORS])
    cursors = []
    children = [0] * 2 * lanes
    if _CHILDREN in sections:
        children = _varints(sections[_CHILDREN], 2 * lanes)
    for lane in range(lanes):
        draw, token, rows, window, shuffled, *counts = (reader.varint() for _ in range(9))
        child, filtered = children[2 * lane : 2 * lane + 2]
        dropped = replace(Dropped(*counts), filtered=filtered)
        documents = DocumentCursor(draw, token, dropped, child)
        check = reader.take(8) if token or rows or shuffled else b""
        cursors.append(LaneCursor(documents, rows, window, shuffled, check))
    reader.finish()
    options = json.loads(sections[_OPTIONS])
    if not isinstance(options, dict) or options.get("canonical_replicas", lanes) != lanes:
        raise ValueError(f"options {str(options)[:80]} do not go with {lanes} lanes")
    if part is not None and not part[0] < part[1] <= lanes:
        raise ValueError(f"part of rank {part[0]} of {part[1]}, with {lanes} lanes")
    history = None
    if _HISTORY in sections:
        history = _parse_history(sections[_HISTORY], len(sources))
    return StreamState(options, tuple(sources), delivered, tuple(cursors), passes, part, history)


def _history_bytes(history: History) -> bytes:
    out = bytearray(_varint(history.begin) + _varint(len(history.stretches)))
    out += _eights(history.base)
    for stretch in history.stretches:
        out += _varint(stretch.draws) + _varint(stretch.chunk_size) + _eights(stretch.weights)
    return bytes(out)


def _parse_history(content: bytes, sources: int) -> History:
    reader = _Reader(content)
    begin, count = reader.varint(), reader.varint()
    base = reader.eights(sources)
    stretches = []
    for _ in range(count):
        draws, chunk_size, weights = reader.varint(), reader.varint(), reader.eights(sources)
        if not (chunk_size and draws and draws % chunk_size == 0 and any(weights)):
            raise ValueError(f"a former mixture of {draws} draws in chunks of {chunk_size}")
        stretches.append(Stretch(draws=draws, chunk_size=chunk_size, weights=weights))
    reader.finish()
    return History(begin=begin, base=base, stretches=tuple(stretches))


def _eights(values: Sequence[int]) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def _varints(data: bytes, count: int) -> list[int]:
    reader = _Reader(data)
    values = [reader.varint() for _ in range(count)]
    reader.finish()
    return values


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
                break
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        if value >= 2**63:
            raise ValueError(f"the number {value}")
        return value

    def eights(self, count: int) -> tuple[int, ...]:
        """Numbers of eight bytes, below 2**63."""
        data = self.take(8 * count)
        values = tuple(int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count))
        if any(value >= 2**63 for value in values):
            raise ValueError(f"the number {max(values)}")
        return values

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


def to_json(value: object) -> bytes:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM).digest()


def _name_digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()
