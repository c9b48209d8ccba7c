"""What lanes drew before the present mixture: a run whose sources or shares were changed.

A change takes effect for all lanes behind the same draw, at the end of a chunk. So the
documents of each source that were taken before are known in closed form, and the
present mixture goes on behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zephon._native import order as _native
from zephon.work.plan import Piece, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Draws of one former mixture."""

    draws: int
    """Of each lane, a multiple of ``chunk_size``."""

    chunk_size: int
    """Draws of a chunk."""

    weights: tuple[int, ...]
    """One per source, 0 for those that took no part."""

    def piece(self, base: Sequence[int]) -> Piece:
        """The piece of a plan that it is, behind ``base`` documents of each source."""
        sources = np.flatnonzero(self.weights)
        weights = np.array(self.weights, dtype=np.int64)[sources]
        return Piece(
            sources=sources.astype(np.int32),
            weights=weights,
            total=int(weights.sum()),
            base=np.array(base, dtype=np.int64)[sources],
            draws=self.draws,
            chunk_size=self.chunk_size,
        )

    def taken(self, lanes: int) -> NDArray[np.int64]:
        """Documents of each source that all lanes took, int64 ``[sources]``."""
        sources = np.flatnonzero(self.weights)
        weights = np.array(self.weights, dtype=np.int64)[sources]
        given, part, first = (np.empty(len(sources), dtype=np.int64) for _ in range(3))
        # The first ordinal of lane 0 in the chunk behind the stretch is what all lanes took.
        end = self.draws + self.chunk_size
        _native.chunk_counts(
            weights, int(weights.sum()), 0, lanes, self.draws, end, given, part, first
        )
        taken = np.zeros(len(self.weights), dtype=np.int64)
        taken[sources] = first
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Former mixtures of a run that has no end.

    What lies behind every lane is summed up: ``begin`` and ``base``.
    """

    begin: int = 0
    """Draws of each lane before the first stretch."""

    base: tuple[int, ...]
    """Documents of each source that all lanes took in those."""

    stretches: tuple[Stretch, ...] = ()
    """Former mixtures that some lane has still to draw from."""

    @property
    def end(self) -> int:
        """Draw of each lane at which the present mixture begins."""
        return self.begin + sum(stretch.draws for stretch in self.stretches)

    def then(self, stretch: Stretch) -> History:
        """With one more former mixture; without it if it has no draws."""
        if stretch.draws == 0:
            return self
        return replace(self, stretches=(*self.stretches, stretch))

    def behind(self, draw: int, lanes: int) -> History:
        """Without the stretches that every one of ``lanes`` has left, being at ``draw`` or on."""
        now = self
        while now.stretches and now.begin + now.stretches[0].draws <= draw:
            first = now.stretches[0]
            base = np.array(now.base, dtype=np.int64) + first.taken(lanes)
            now = History(
                begin=now.begin + first.draws,
                base=tuple(base.tolist()),
                stretches=now.stretches[1:],
            )
        return now

    def picked(self, sources: Sequence[int | None]) -> History:
        """For another list of sources: the place of each in this one, None if it is new."""
        return History(
            begin=self.begin,
            base=pick(self.base, sources),
            stretches=tuple(
                replace(stretch, weights=pick(stretch.weights, sources))
                for stretch in self.stretches
            ),
        )

    def involves(self, source: int) -> bool:
        """Whether some lane may have still to draw from it in a former mixture."""
        return any(stretch.weights[source] for stretch in self.stretches)

    def plan(self, weights: Sequence[int], lanes: int, chunk_size: int) -> Plan:
        """The former mixtures, then the present one without end."""
        pieces = []
        base = np.array(self.base, dtype=np.int64)
        none = np.empty(0, dtype=np.int64)
        if self.begin:
            pieces.append(
                Piece(
                    sources=none.astype(np.int32),
                    weights=none,
                    total=0,
                    base=none,
                    draws=self.begin,
                    chunk_size=self.begin,
                )
            )
        for stretch in self.stretches:
            pieces.append(stretch.piece(base.tolist()))
            base = base + stretch.taken(lanes)
        present = Stretch(draws=0, chunk_size=chunk_size, weights=tuple(weights))
        pieces.append(replace(present.piece(base.tolist()), draws=None))
        return Plan(
            lanes=lanes,
            pieces=tuple(pieces),
            tail_sources=none.astype(np.int32),
            tail_ordinals=none,
        )


def pick(values: Sequence[int], places: Sequence[int | None]) -> tuple[int, ...]:
    """The values at ``places``, 0 where there is none."""
    return tuple(0 if place is None else values[place] for place in places)
