"""A run as pieces of constant weights: where sources end and what happens then.

Computed once, from the number of documents of each source, for a number of
lanes. Inside a piece that ends, the weights *are* the numbers of documents it
takes, so that nothing is lost by rounding: at its end each source has given
exactly that many over all lanes. What is left of a source when it can no
longer fill a round of the lanes goes to the tail, whose documents are dealt to
the lanes in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from zephon._native import order as _native
from zephon.errors import ConfigError
from zephon.work.mixture import effective_chunk_size

MAX_ENDING_SOURCES = 2**12
"""Sources that may end one by one: each can begin a piece, with a weight per source."""

_LONGEST = 2**48  # draws of a piece, as in mixture.hpp


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A stretch of the run with constant weights; every lane takes as many draws of it."""

    sources: NDArray[np.int32]
    """int32 ``[K]``: sources that take part."""

    weights: NDArray[np.int64]
    """int64 ``[K]``: their weights, above 0; the documents they give if the piece ends."""

    total: int
    """Sum of the weights."""

    base: NDArray[np.int64]
    """int64 ``[K]``: ordinals of each that the pieces before have taken."""

    draws: int | None
    """Draws of each lane, None if the piece has no end."""

    chunk_size: int
    """Draws of a chunk; the last one takes what is left, up to twice as many."""

    def chunk(self, draw: int) -> tuple[int, int]:
        """First draw of the chunk that holds ``draw``, and of the one after it."""
        number = draw // self.chunk_size
        if self.draws is None:
            return number * self.chunk_size, (number + 1) * self.chunk_size
        last = max(self.draws // self.chunk_size - 1, 0)
        if number >= last:
            return last * self.chunk_size, self.draws
        return number * self.chunk_size, (number + 1) * self.chunk_size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The pieces of a run and its tail, for a number of lanes."""

    lanes: int
    pieces: tuple[Piece, ...]
    tail_sources: NDArray[np.int32]
    """int32 ``[T]``: source of each document of the tail; lane l takes l, l + lanes, ..."""

    tail_ordinals: NDArray[np.int64]
    """int64 ``[T]``: which of its documents."""

    def length(self, lane: int) -> int | None:
        """Draws of ``lane``, None if the plan has no end."""
        draws = 0
        for piece in self.pieces:
            if piece.draws is None:
                return None
            draws += piece.draws
        return draws + len(range(lane, len(self.tail_sources), self.lanes))

    def documents(self, sources: int) -> NDArray[np.int64]:
        """Documents that a plan with an end takes of each of ``sources``, int64 ``[sources]``."""
        taken = np.bincount(self.tail_sources, minlength=sources).astype(np.int64)
        for piece in self.pieces:
            taken[piece.sources] += piece.weights
        return taken


class _Builder:
    """What the sources have given so far, and the pieces that say so."""

    def __init__(self, sources: int, lanes: int, chunk_size: int) -> None:
        self.lanes = lanes
        self.chunk_size = chunk_size
        self.given = np.zeros(sources, dtype=np.int64)
        self.pieces: list[Piece] = []

    def piece(self, weights: NDArray[np.int64], *, ends: bool) -> None:
        """Add a piece of ``weights`` (int64 ``[K]``, 0 for a source that takes no part)."""
        sources = np.flatnonzero(weights)
        taking = weights[sources]
        total = int(taking.sum())
        if ends and total > _LONGEST:
            raise ConfigError(
                f"a finite run of {total} documents is planned, the most is 2**48; "
                'use exhausted_policy="repeat"'
            )
        self.pieces.append(
            Piece(
                sources=sources.astype(np.int32),
                weights=taking,
                total=total,
                base=self.given[sources],
                draws=total // self.lanes if ends else None,
                chunk_size=effective_chunk_size(self.chunk_size, taking.tolist()),
            )
        )
        if ends:
            self.given += weights

    def finish(self, crumbs: NDArray[np.int64]) -> Plan:
        """End the plan with a tail of ``crumbs`` (int64 ``[K]``) documents of each source."""
        sources = np.repeat(np.arange(len(crumbs), dtype=np.int32), crumbs)  # [T]
        inside = np.arange(len(sources)) - np.repeat(np.cumsum(crumbs) - crumbs, crumbs)
        # A source's documents are spread over the whole tail.
        order = np.lexsort((sources, inside / crumbs[sources]))
        ordinals = self.given[sources] + inside
        return Plan(
            lanes=self.lanes,
            pieces=tuple(self.pieces),
            tail_sources=sources[order],
            tail_ordinals=ordinals[order].astype(np.int64),
        )


def endless_plan(weights: Sequence[int], lanes: int, chunk_size: int) -> Plan:
    """Every source is gone through again and again."""
    builder = _Builder(len(weights), lanes, chunk_size)
    builder.piece(np.array(weights, dtype=np.int64), ends=False)
    return builder.finish(np.zeros(len(weights), dtype=np.int64))


def passes_plan(
    documents: Sequence[int], weights: Sequence[int], passes: int, lanes: int, chunk_size: int
) -> Plan:
    """Ends when the source that takes longest has been gone through ``passes`` times.

    That source gives exactly ``passes * documents``; the others repeat to keep
    their shares, so each of their documents is drawn at least ``passes`` times.
    """
    builder = _Builder(len(weights), lanes, chunk_size)
    total = sum(weights)
    rounds = [Fraction(n, p) for n, p in zip(documents, weights, strict=True)]
    slowest = max(rounds)
    draws = -(-passes * slowest.numerator * total // slowest.denominator)
    if draws > _LONGEST:
        raise ConfigError(
            f"{passes} passes of the dataset that takes longest are {draws} draws of the mixture, "
            'the most is 2**48; give it a larger weight or use exhausted_policy="repeat"'
        )
    share, rest = _scale(np.array(weights, dtype=np.int64), draws, total)
    rest[[r == slowest for r in rounds]] = -1  # they give no document more
    share[np.argsort(-rest, kind="stable")[: draws - int(share.sum())]] += 1

    whole = draws - draws % lanes
    if whole == 0:
        return builder.finish(share)
    dealt = _largest_remainder(share, whole)
    builder.piece(dealt, ends=True)
    return builder.finish(share - dealt)


def ending_plan(
    documents: Sequence[int | None],
    stops: Sequence[bool],
    weights: Sequence[int],
    lanes: int,
    chunk_size: int,
) -> Plan:
    """Sources end one by one; the others share what they leave in their old ratios.

    Parameters
    ----------
    documents : sequence of int or None, ``[K]``
        How many a source gives in all, None for one that repeats for ever.
    stops : sequence of bool, ``[K]``
        Whether the run ends with the source.
    weights : sequence of int, ``[K]``
    lanes, chunk_size : int
    """
    finite = np.array([n is not None for n in documents])
    if finite.sum() > MAX_ENDING_SOURCES:
        raise ConfigError(
            f"{finite.sum()} datasets end one by one, the most is {MAX_ENDING_SOURCES}; "
            'use exhausted_policy=None or "repeat"'
        )
    builder = _Builder(len(weights), lanes, chunk_size)
    weight = np.array(weights, dtype=np.int64)
    stopping = np.array(stops)
    left = np.array([1 if n is None else n for n in documents], dtype=np.int64)
    crumbs = np.zeros_like(left)
    while True:
        ending = np.flatnonzero(finite & (left > 0))
        if len(ending) == 0:
            break
        active = np.where(left > 0, weight, 0)
        sum_active = int(active.sum())
        # Draws after which each source would be used up, and whole rounds of the
        # lanes before the first of them.
        reach, _ = _scale(left[ending], sum_active, active[ending])
        draws = int(reach.min())
        draws -= draws % lanes
        if draws > 0:
            taken = _largest_remainder(active, draws)
            builder.piece(taken, ends=True)
            left[finite] -= taken[finite]
        # What the next round would use up cannot be shared out evenly.
        ended = ending[(reach < draws + lanes) | (left[ending] == 0)]
        stopped = ended[stopping[ended]]
        if len(stopped) > 0:
            ended = stopped
        crumbs[ended] = left[ended]
        left[ended] = 0
        if len(stopped) > 0:
            return builder.finish(crumbs)
    if finite.all():
        return builder.finish(crumbs)
    _then_endless(builder, np.where(finite, 0, weight), crumbs)
    return builder.finish(np.zeros_like(crumbs))


def _then_endless(builder: _Builder, endless: NDArray[np.int64], crumbs: NDArray[np.int64]) -> None:
    """A piece of the crumbs, filled up to whole rounds by the endless sources; then those."""
    few = int(crumbs.sum())
    if few > 0:
        fill = -few % builder.lanes
        builder.piece(crumbs + _largest_remainder(endless, fill), ends=True)
    builder.piece(endless, ends=False)


def _scale(
    a: NDArray[np.int64], b: int, d: NDArray[np.int64] | int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Quotients and remainders of a * b / d, without overflow."""
    quotient, remainder = np.empty_like(a), np.empty_like(a)
    divisor = np.full_like(a, d) if isinstance(d, int) else d
    _native.scale(a, b, divisor, quotient, remainder)
    return quotient, remainder


def _largest_remainder(weights: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Counts in the ratio of ``weights`` that sum to ``total``, by largest remainder."""
    counts, rest = _scale(weights, total, int(weights.sum()))
    counts[np.argsort(-rest, kind="stable")[: total - int(counts.sum())]] += 1
    return counts
