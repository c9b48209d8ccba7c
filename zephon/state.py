"""The bytes of a state: where a stream stands, and which stream it is.

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
its rank and their number, varints; :func:`merge` makes a state of all parts.

There is one encoding of a state: equal states are equal bytes. Nothing is ever
unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zephon._native.cursors import encode_cursors
from zephon.cursor import DocumentCursor, Dropped, LaneCursor
from zephon.errors import ConfigTypeError, StateError
from zephon.runtime.exchange import Exchange

MAGIC = b"\x93ZEPHON\n"
VERSION = 1
_SIZES = frozenset(("format", "documents", "shards", "bytes"))
_FINE, _FAILED = b"\0", b"\1"
_HEADER = len(MAGIC) + 2 + 6
_CHECKSUM = 16
_POSITION, _OPTIONS, _SOURCES, _CURSORS, _NAMES, _PART = range(1, 7)


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
    """

    options: dict[str, Any]
    sources: tuple[SourceState, ...]
    delivered: int
    cursors: tuple[LaneCursor, ...]
    passes: int = 0
    part: tuple[int, int] | None = None

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self.cursors)


def encode(state: StreamState) -> bytes:
    """The bytes of a state."""
    sources = b"".join(
        _name_digest(source.name) + source.digest + source.weight.to_bytes(8, "little")
        for source in state.sources
    )
    names = [{"name": source.name, **source.size} for source in state.sources]
    position = b"".join(map(_varint, (state.lanes, state.delivered, state.passes)))
    sections = [
        (_POSITION, position),
        (_OPTIONS, _json(state.options)),
        (_SOURCES, sources),
        (_CURSORS, encode_cursors(state.cursors)),
        (_NAMES, _json(names)),
    ]
    if state.part is not None:
        sections.append((_PART, b"".join(map(_varint, state.part))))
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


def merge(parts: Sequence[bytes]) -> bytes:
    """The state of a run from the local states of all its data-parallel ranks.

    Parameters
    ----------
    parts : sequence of bytes
        What ``Pipeline.local_state()`` returned on each rank behind the same
        step, in any order. Several ranks of one data-parallel group may give the
        same part.

    Returns
    -------
    bytes
        The same on every rank, whatever their number.

    Raises
    ------
    StateError
        A part is missing, of another stream, or behind another step.
    """
    states = [decode(part) for part in parts]
    if not states:
        raise StateError("no parts of a state to merge")
    first = states[0]
    if first.part is None:
        if any(encode(state) != encode(first) for state in states):
            raise StateError("the parts are whole states of different positions")
        return encode(first)
    ranks = first.part[1]
    found: dict[int, StreamState] = {}
    for state in states:
        if state.part is None or state.part[1] != ranks:
            raise StateError(f"the parts are of runs of different sizes, one is of {ranks} ranks")
        verify(state, first.options, first.sources)
        rank = state.part[0]
        if (state.delivered, state.passes) != (first.delivered, first.passes):
            raise StateError(
                f"rank {rank} stands behind lane-batch {state.delivered} of pass {state.passes}, "
                f"rank {first.part[0]} behind {first.delivered} of {first.passes}: save the state "
                "behind the same step on every rank"
            )
        if rank in found and encode(found[rank]) != encode(state):
            raise StateError(f"rank {rank} gave two different parts")
        found[rank] = state
    missing = [str(rank) for rank in range(ranks) if rank not in found]
    if missing:
        raise StateError(f"of {ranks} ranks these gave no part: {', '.join(missing)}")
    # A rank owns every lane whose distance from the next lane-batch is its rank, modulo ranks.
    cursors = tuple(
        found[(lane - first.delivered) % ranks].cursors[lane] for lane in range(first.lanes)
    )
    return encode(replace(first, cursors=cursors, part=None))


def gather(local: bytes | Exception, exchange: Exchange) -> bytes:
    """The state of the run, on every rank, from what each rank knows of it.

    All ranks call this behind the same step, also those that failed: an error of
    one is raised on all of them at once.

    Parameters
    ----------
    local : bytes or Exception
        What ``Pipeline.local_state()`` returned here, or what it raised.
    exchange : Exchange
        Where the ranks meet, see :mod:`zephon.runtime.exchange`.

    Returns
    -------
    bytes
        The same on every rank.

    Raises
    ------
    StateError
        A rank failed, stands behind another step, or is of another stream; the
        message names it.
    MissingRanksError
        Not all ranks came in time.
    """
    failed = isinstance(local, Exception)
    mine = _FAILED + _told(local).encode() if isinstance(local, Exception) else _FINE + local
    given = exchange.exchange(mine)
    errors = [
        f"rank {rank}: {part[1:].decode(errors='replace')}"
        for rank, part in enumerate(given)
        if part[:1] == _FAILED
    ]
    if errors:
        error = StateError(
            "the state cannot be gathered, because ranks failed. " + "; ".join(errors)
        )
        raise error from (local if failed else None)  # type: ignore[misc]
    return merge([part[1:] for part in given])


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def describe(data: bytes) -> str:
    """What a state says, for people."""
    state = decode(data)
    lines = [
        f"zephon state, version {VERSION}, {len(data):,} bytes",
        f"delivered: {state.delivered:,} lane-batches over {state.lanes:,} lanes, in pass "
        f"{state.passes + 1:,}",
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
        documents = cursor.documents
        place = f"document {documents.draw:,}, token {documents.token:,}"
        if cursor.rows or cursor.shuffled:
            place += f", row {cursor.rows:,} of its window, {cursor.shuffled:,} of the shuffle"
        dropped = documents.dropped
        lines.append(
            f"lane {lane}: {place}; left out {dropped.empty:,} empty and {dropped.oversized:,} "
            "oversized documents"
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
    if list(sections) not in (known, [*known, _PART]):
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
    for _ in range(lanes):
        draw, token, rows, window, shuffled, *dropped = (reader.varint() for _ in range(9))
        documents = DocumentCursor(draw, token, Dropped(*dropped))
        check = reader.take(8) if token or rows or shuffled else b""
        cursors.append(LaneCursor(documents, rows, window, shuffled, check))
    reader.finish()
    options = json.loads(sections[_OPTIONS])
    if not isinstance(options, dict) or options.get("canonical_replicas", lanes) != lanes:
        raise ValueError(f"options {str(options)[:80]} do not go with {lanes} lanes")
    if part is not None and not part[0] < part[1] <= lanes:
        raise ValueError(f"part of rank {part[0]} of {part[1]}, with {lanes} lanes")
    return StreamState(options, tuple(sources), delivered, tuple(cursors), passes, part)


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
            yield f"share of {name!r} ({before.weight / 2**32:.4%}, {after.weight / 2**32:.4%})"
        if before.size != after.size:
            yield from _option_differences(f"{name!r} ", before.size, after.size)
        elif before.digest != after.digest:
            yield f"content of {name!r}: same size, but its files have changed"
