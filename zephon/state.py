"""States: the bytes that say where a stream stands, and which stream it is.

A state is a position of at most 64 bytes per lane, and what identifies the stream: 24 bytes per
source and its options as JSON, with names and sizes of the sources beside them, so that a refusal
can say what differs. Bytes and layout: :mod:`zephon._state_format`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from zephon._state_differences import ENGINE, verify
from zephon._state_format import VERSION, SourceState, StreamState, decode, encode
from zephon.errors import ConfigTypeError, StateError
from zephon.runtime.exchange import Exchange

__all__ = [
    "VERSION",
    "SourceState",
    "StreamState",
    "decode",
    "describe",
    "encode",
    "gather",
    "local_state",
    "merge",
    "verify",
]

_FINE, _FAILED = b"\0", b"\1"


class HasLocalState(Protocol):
    """A pipeline or a loader."""

    def local_state(self) -> bytes:
        """What this rank knows of the position."""
        ...


def local_state(source: HasLocalState) -> bytes:
    """What this rank knows of the state of a pipeline or a loader, with no communication.

    Asks no thread anything: for a rank that cannot reach the others any more.
    """
    return source.local_state()


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
    given: object = parts
    if isinstance(given, (bytes, str)) or not isinstance(given, Iterable):
        raise ConfigTypeError(f"parts is a {type(parts).__name__}, expected a list of bytes")
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
        if state.history != first.history:
            raise StateError("the parts are of runs whose mixture was changed in different ways")
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
        if not source.weight:
            lines.append(f"  {source.name}: taken out; drawn from up to the end of a chunk")
            continue
        lines.append(
            f"  {source.name}: {source.weight / total:.4%} of documents, {size['documents']:,} "
            f"documents in {size['shards']:,} shards, {size['bytes']:,} bytes, {size['format']}"
        )
    if state.history is not None:
        lines.append(f"the mixture is that since draw {state.history.end:,} of each lane")
    options = dict(state.options)
    if engine := options.pop(ENGINE, None):
        lines.append(f"token ids computed by {engine}, which may be another one when resuming")
    lines.append("options: " + json.dumps(options, sort_keys=True))
    for lane, cursor in enumerate(state.cursors[:16]):
        documents = cursor.documents
        child = f".{documents.child:,}" if documents.child else ""
        place = f"document {documents.draw:,}{child}, token {documents.token:,}"
        if cursor.rows or cursor.shuffled:
            place += f", row {cursor.rows:,} of its window, {cursor.shuffled:,} of the shuffle"
        dropped = documents.dropped
        filtered = f", {dropped.filtered:,} by operators" if dropped.filtered else ""
        lines.append(
            f"lane {lane}: {place}; left out {dropped.empty:,} empty and {dropped.oversized:,} "
            f"oversized documents{filtered}"
        )
    if state.lanes > 16:
        lines.append(f"... and {state.lanes - 16:,} more lanes")
    return "\n".join(lines)
