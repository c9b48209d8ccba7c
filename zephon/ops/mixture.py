"""Keeping the shares of a mixture behind operators that left out or multiplied documents.

Documents of each source wait in a line of their own. The next to come out is the one whose
source is furthest behind its share; if that line is empty, everything waits, up to a bound.
Nothing is left out, and nothing waits longer than to the end of a window.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.identity import check_function, check_version, identity_of
from zephon.ops.operator import WINDOW_DRAWS, Context, Item, Operator, check_window
from zephon.options import check_int
from zephon.records import TOKEN_FIELDS
from zephon.types import SampleRecord

logger = logging.getLogger(__name__)

WeightBy = Callable[[SampleRecord], float] | str


@dataclass(frozen=True, kw_only=True)
class MixtureOptions:
    """How shares are kept.

    Attributes
    ----------
    max_buffer_size : int or None
        Documents that wait at most; None: as many as a window has, so that shares are kept
        as long as it can be done at all. 0 changes no order and only watches.
    drain_target_ratio : float
        When more wait, they come out until so much of ``max_buffer_size`` is left.
    obsolete_drain_rate : float
        Documents of sources without a share that come out for each one of the others.
    weight_by : callable, "samples", "auto" or str
        What a document counts: what a function of its record says, 1, or what its field of
        this name holds (a number, or something with a length). ``"auto"``: its tokens where
        the work source's shares are of tokens, else 1.
    warn_tolerance : float or None
        Warn once if a share was off by more in a window.
    mixture : mapping from name to weight, or None
        The shares; those of the work source if None. Sources that it does not name have none.
    window : int
        Draws after which all that waits comes out and counting begins anew.
    version : str, int or None
        Stands for the function ``weight_by`` in a state, in place of its code.
    """

    max_buffer_size: int | None = 1000
    drain_target_ratio: float = 0.8
    obsolete_drain_rate: float = 0.1
    weight_by: WeightBy = "auto"
    warn_tolerance: float | None = None
    mixture: Mapping[str, float] | None = None
    window: int = WINDOW_DRAWS
    version: str | int | None = None

    def __post_init__(self) -> None:
        if self.max_buffer_size is not None:
            check_int("max_buffer_size", self.max_buffer_size, 0, 2**31)
        _check_share("drain_target_ratio", self.drain_target_ratio)
        _check_share("obsolete_drain_rate", self.obsolete_drain_rate)
        if self.warn_tolerance is not None:
            _check_share("warn_tolerance", self.warn_tolerance)
        if not isinstance(self.weight_by, str):
            check_function("ensure_mixture", "weight_by", self.weight_by)
        elif not self.weight_by:
            raise ConfigError("weight_by is empty, expected 'samples', 'auto' or a field's name")
        if self.mixture is not None:
            _check_mixture(self.mixture)
        check_window("ensure_mixture", "window", self.window)
        check_version("ensure_mixture", self.version)


def _check_share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigTypeError(f"{name} is {value!r}, expected a number")
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value}, expected 0 to 1")


def _check_mixture(mixture: object) -> None:
    if not isinstance(mixture, Mapping):
        raise ConfigTypeError(f"mixture is {mixture!r}, expected a mapping from name to weight")
    if not mixture:
        raise ConfigError("mixture is empty, expected a weight for at least one source")
    for name, weight in mixture.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)):
            raise ConfigTypeError(f"mixture[{name!r}] is {weight!r}, expected a number")
        if not (math.isfinite(weight) and weight > 0):
            raise ConfigError(f"mixture[{name!r}] is {weight}, expected a finite number above 0")


@dataclass(slots=True)
class _Lines:
    """What waits, and what came out, in one window."""

    shares: Mapping[int, float]
    obsolete_rate: float
    lines: dict[int, deque[tuple[Item, float]]] = field(default_factory=dict)
    others: deque[tuple[Item, float, int]] = field(default_factory=deque)
    given: dict[int, float] = field(default_factory=dict)
    waiting: int = 0
    credit: float = 0.0

    def put(self, source: int, item: Item, weight: float) -> None:
        """Let a document wait."""
        self.waiting += 1
        if source in self.shares:
            self.lines.setdefault(source, deque()).append((item, weight))
        else:
            self.others.append((item, weight, source))

    def due(self, *, waiting: bool) -> int | None:
        """The source that is furthest behind, of all or of those where something waits."""
        some = [source for source in self.shares if not waiting or self.lines.get(source)]
        if not some:
            return None
        return min(some, key=lambda source: self.given.get(source, 0.0) / self.shares[source])

    def take(self, source: int) -> Item:
        """Let the first of a source out."""
        item, weight = self.lines[source].popleft()
        self.given[source] = self.given.get(source, 0.0) + weight
        self.waiting -= 1
        self.credit += self.obsolete_rate
        return item

    def take_other(self) -> Item:
        """Let out the first of the sources without a share."""
        item, weight, source = self.others.popleft()
        self.given[source] = self.given.get(source, 0.0) + weight
        self.waiting -= 1
        return item

    def in_order(self) -> list[Item]:
        """What may come out without hurting a share."""
        found = []
        while True:
            if self.others and self.credit >= 1:
                self.credit -= 1
                found.append(self.take_other())
                continue
            source = self.due(waiting=False)
            if source is None or not self.lines.get(source):
                return found
            found.append(self.take(source))

    def drain(self, left: int) -> list[Item]:
        """All but ``left`` of what waits, the best order that is to be had."""
        found: list[Item] = []
        while self.waiting > left:
            source = self.due(waiting=True)
            if source is None or (self.others and self.credit >= 1):
                self.credit = max(self.credit - 1, 0.0)
                found.append(self.take_other())
            else:
                found.append(self.take(source))
        return found


class EnsureMixture(Operator):
    """Documents in an order that keeps the shares, see the module."""

    call = "ensure_mixture"
    sees_windows = True

    def __init__(self, options: MixtureOptions, *, parallelism: int | None = None) -> None:
        self.window, self.parallelism = options.window, parallelism
        self._options = options
        self._names: tuple[str, ...] = ()
        self._shares: dict[int, float] = {}
        self._by_tokens = False

    def bound(
        self, names: Sequence[str], weights: Sequence[float], by_tokens: bool
    ) -> EnsureMixture:
        """This operator for a work source with these sources and shares, of tokens or documents."""
        made = EnsureMixture(self._options, parallelism=self.parallelism)
        asked = self._options.mixture
        if asked is not None and (unknown := [name for name in asked if name not in names]):
            raise ConfigError(
                f"ensure_mixture(mixture=...) names {unknown[0]!r}, but the datasets are "
                f"{', '.join(map(repr, names))}"
            )
        wanted = dict(zip(names, weights, strict=True)) if asked is None else asked
        total = float(sum(wanted.values()))
        made._shares = {
            source: wanted[name] / total for source, name in enumerate(names) if name in wanted
        }
        made._names, made._by_tokens = tuple(names), by_tokens
        return made

    @property
    def follows_shares(self) -> bool:
        """Whether the shares are those of the work source and not its own."""
        return self._options.mixture is None

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What weighs documents, if that is a function."""
        by = self._options.weight_by
        return () if isinstance(by, str) else (by,)

    def shaping(self) -> dict[str, Any]:
        """Everything but what is warned of; shares of the work source are told with it."""
        options = self._options
        by = options.weight_by
        return {
            "max_buffer_size": options.max_buffer_size,
            "drain_target_ratio": options.drain_target_ratio,
            "obsolete_drain_rate": options.obsolete_drain_rate,
            "weight_by": by if isinstance(by, str) else identity_of(by, options.version),
            "mixture": None if options.mixture is None else dict(options.mixture),
            "window": options.window,
        }

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """The documents of a window in another order."""
        options = self._options
        lines = _Lines(self._shares, options.obsolete_drain_rate)
        most = options.max_buffer_size
        found: list[Item] = []

        def give(some: list[Item], draw: int) -> None:
            for item in some:
                item.draw = draw
            found.extend(some)

        for item in items:
            weight = self.guarded(context, number, item, self._weight, context, item)
            lines.put(context.source(item.origin), item, weight)
            draw = item.draw
            give(lines.in_order() if most != 0 else [], draw)
            if most is not None and lines.waiting > most:
                give(lines.drain(int(most * options.drain_target_ratio)), draw)
        give(lines.drain(0), context.last_draw(self.window, items[-1].draw))
        if options.warn_tolerance is not None:
            self._watch(lines.given, options.warn_tolerance, context)
        return found

    def _weight(self, context: Context, item: Item) -> float:
        by = self._options.weight_by
        if by == "samples" or (by == "auto" and not self._by_tokens):
            return 1.0
        if not isinstance(by, str):
            value: Any = by(context.record(item))
        elif by == "auto":
            value = next((item.payload[n] for n in TOKEN_FIELDS if n in item.payload), None)
            if value is None:
                raise TypeError(
                    "the document holds no tokens yet, and the shares are of tokens: call "
                    "ensure_mixture(...) after tokenize(...), or weight_by='samples'"
                )
        elif by not in item.payload:
            raise KeyError(f"there is no field {by!r}, which weight_by names")
        else:
            value = item.payload[by]
        weight = float(len(value) if hasattr(value, "__len__") else value)
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"the weight of the document is {weight}, expected a number from 0 on")
        return weight

    def _watch(self, given: Mapping[int, float], tolerance: float, context: Context) -> None:
        total = sum(given.values())
        if not total:
            return
        off = [
            (abs(given.get(source, 0.0) / total - self._shares.get(source, 0.0)), source)
            for source in {*given, *self._shares}
        ]
        worst, source = max(off)
        if worst > tolerance and (self._names[source], tolerance) not in _TOLD:
            _TOLD.add((self._names[source], tolerance))
            logger.warning(
                "ensure_mixture: %d draws of lane %d gave %r a share of %.1f %%, asked are "
                "%.1f %%: what comes in has not enough of some source for that (said once)",
                self.window,
                context.lane,
                self._names[source],
                100 * given.get(source, 0.0) / total,
                100 * self._shares.get(source, 0.0),
            )


_TOLD: set[tuple[str, float]] = set()
