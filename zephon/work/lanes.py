"""The draws of one lane: chunk by chunk, each known without the ones before it."""

from __future__ import annotations

import threading
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native import order as _native
from zephon.errors import ConfigError, ConfigTypeError
from zephon.work.base import Draws, LaneOrder
from zephon.work.plan import Piece, Plan
from zephon.work.source_order import SourceOrder

MAX_LANES = 2**16
LAST_DRAW = 2**45
"""Draws of a lane that may be asked for: 2**61 for the whole of 2**16 lanes."""


class PlannedLane(LaneOrder):
    """One lane of a plan over sources in their order.

    The chunk that was last asked for is kept (2 bytes per draw of it and 16 per
    source). Any thread may ask.

    Parameters
    ----------
    plan : Plan
    order : SourceOrder
        Of the sources that the plan counts.
    lane : int
        0 to ``plan.lanes - 1``.
    run : int
        How often a plan with an end was gone through before: each time begins a
        new pass over every source.
    """

    def __init__(self, plan: Plan, order: SourceOrder, lane: int, run: int = 0) -> None:
        check_lane(lane, plan.lanes)
        self._run = run
        # [sources]: ordinals that the runs before have used up, whole passes of each source
        self._used: NDArray[np.int64] | None = None
        if run:
            documents = np.array([s.documents for s in order.sources], dtype=np.int64)
            passes = -(-plan.documents(len(documents)) // documents)
            self._used = run * passes * documents
        self._plan = plan
        self._order = order
        self._lane = lane
        self._length = plan.length(lane)
        # Draw at which each piece begins, and the tail.
        self._begins = list(accumulate((piece.draws or 0 for piece in plan.pieces), initial=0))
        self._chunk: _Chunk | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannedLane, (self._plan, self._order, self._lane, self._run)

    def length(self) -> int | None:
        """Number of draws of this lane, None if it has no end."""
        return self._length

    def draws(self, first: int, count: int) -> Draws:
        """Draws ``first`` to ``first + count - 1``, fewer where the lane ends before."""
        end = _check_range(first, count)
        if self._length is not None:
            end = min(end, self._length)
        sources, ordinals = self._take(first, end)
        if self._used is not None:
            ordinals = ordinals + self._used[sources]
        rows, passes = self._order.locate(sources, ordinals)
        return Draws(first, sources, rows, passes)

    def _take(self, first: int, end: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Source and ordinal of draws [first, end)."""
        parts = []
        with self._lock:
            while first < end:
                number = bisect_right(self._begins, first) - 1
                pieces = self._plan.pieces
                if pieces and pieces[-1].draws is None:
                    number = min(number, len(pieces) - 1)
                if number >= len(pieces):
                    parts.append(self._take_tail(first, end))
                    break
                begin = self._begins[number]
                chunk = self._enter(number, first - begin)
                stop = min(end, begin + chunk.end)
                parts.append(chunk.take(first - begin, stop - begin))
                first = stop
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        return (
            np.concatenate([none[0], *(sources for sources, _ in parts)]),
            np.concatenate([none[1], *(ordinals for _, ordinals in parts)]),
        )

    def _take_tail(self, first: int, end: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        begin = self._begins[-1]
        mine = slice(self._lane + (first - begin) * self._plan.lanes, None, self._plan.lanes)
        count = end - first
        plan = self._plan
        return plan.tail_sources[mine][:count].copy(), plan.tail_ordinals[mine][:count].copy()

    def _enter(self, number: int, draw: int) -> _Chunk:
        """The chunk of piece ``number`` that holds its ``draw``."""
        chunk = self._chunk
        if chunk is None or chunk.number != number or not chunk.begin <= draw < chunk.end:
            chunk = _Chunk(number, self._plan.pieces[number], draw, self._lane, self._plan.lanes)
            self._chunk = chunk
        return chunk


class _Chunk:
    """A chunk of one lane, and how far it was counted."""

    def __init__(self, number: int, piece: Piece, draw: int, lane: int, lanes: int) -> None:
        self.number = number
        self.begin, self.end = piece.chunk(draw)
        self._sources = piece.sources
        size = len(piece.sources)
        length = self.end - self.begin
        given, taken, first = (np.empty(size, dtype=np.int64) for _ in range(3))
        _native.chunk_counts(
            piece.weights, piece.total, lane, lanes, self.begin, self.end, given, taken, first
        )
        self._sequence = np.empty(length, dtype=np.uint16)  # [draws of the chunk]
        scratch = np.empty(_native.sequence_scratch(size, length), dtype=np.uint64)
        _native.chunk_sequence(
            piece.weights, piece.total, self.begin, given, taken, scratch, self._sequence
        )
        self._first = piece.base + first  # [K]: ordinals at draw `begin`
        self._next = self._first.copy()  # [K]: ordinals at draw `_at`
        self._at = self.begin

    def take(self, first: int, end: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Source and ordinal of draws [first, end) of the piece."""
        if first < self._at:
            self._at = self.begin
            self._next[:] = self._first
        begin = self.begin
        _native.skip_draws(self._sequence[self._at - begin : first - begin], self._next)
        sequence = self._sequence[first - begin : end - begin]
        ordinals = np.empty(len(sequence), dtype=np.int64)
        _native.number_draws(sequence, self._next, ordinals)
        self._at = end
        return self._sources[sequence], ordinals


def check_lane(lane: int, lanes: int) -> None:
    """Refuse a lane that is not one of ``lanes``."""
    for name, value in (("lane", lane), ("lanes", lanes)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigTypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 1 <= lanes <= MAX_LANES:
        raise ConfigError(f"lanes is {lanes}, expected 1 to {MAX_LANES}")
    if not 0 <= lane < lanes:
        raise ConfigError(f"lane is {lane}, expected 0 to {lanes - 1}")


def _check_range(first: int, count: int) -> int:
    if first < 0 or count < 0 or first + count > LAST_DRAW:
        raise ConfigError(
            f"draws {first} to {first + count - 1} are asked for, expected some of 0 to 2**45 - 1"
        )
    return first + count
