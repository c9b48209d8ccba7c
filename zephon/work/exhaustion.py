"""What happens when a dataset has been gone through: the policies, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from zephon.errors import ConfigError, ConfigTypeError
from zephon.work.plan import Plan, ending_plan, endless_plan, passes_plan

Policy = Literal["stop", "repeat", "redistribute"]
POLICIES: tuple[str, ...] = get_args(Policy)

_MOST_DOCUMENTS = 2**40  # that a source of a finite plan gives: plans count in 64 bits

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustion:
    """How every source ends."""

    names: tuple[str, ...]
    """Of the sources."""

    policies: tuple[Policy, ...]
    """One per source."""

    repeats: tuple[int | None, ...]
    """Passes that a repeating source gives in all, None for no limit."""

    stop_after_passes: int | None
    """The run ends when each source has been gone through this many times."""

    @property
    def endless(self) -> bool:
        """Whether every source repeats without limit."""
        return (
            self.stop_after_passes is None
            and all(one == "repeat" for one in self.policies)
            and all(count is None for count in self.repeats)
        )

    def plan(
        self, documents: Sequence[int], weights: Sequence[int], lanes: int, chunk_size: int
    ) -> Plan:
        """The run for sources of ``documents`` each, over ``lanes``."""
        if self.stop_after_passes is not None:
            passes = self.stop_after_passes
            return passes_plan(documents, weights, passes, lanes, chunk_size)
        limits = [self._limit(i, count) for i, count in enumerate(documents)]
        if all(limit is None for limit in limits):
            return endless_plan(weights, lanes, chunk_size)
        stops = [policy == "stop" for policy in self.policies]
        return ending_plan(limits, stops, weights, lanes, chunk_size)

    def _limit(self, source: int, documents: int) -> int | None:
        """Documents that a source gives in all."""
        passes = self.repeats[source] if self.policies[source] == "repeat" else 1
        if passes is not None and passes * documents > _MOST_DOCUMENTS:
            raise ConfigError(
                f"dataset {self.names[source]!r} would give {passes * documents} documents and "
                'leave, the most is 2**40; use exhausted_policy="repeat" without max_repeats'
            )
        return None if passes is None else passes * documents

    def options(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "exhausted_policy": uniform(self.names, self.policies),
            "max_repeats": uniform(self.names, self.repeats),
            "stop_after_passes": self.stop_after_passes,
        }


def resolve_exhaustion(
    names: Sequence[str],
    policy: Policy | Mapping[str, Policy] | None,
    max_repeats: int | Mapping[str, int | None] | None,
    stop_after_passes: int | None,
) -> Exhaustion:
    """Check the options and give each source its policy.

    See :class:`~zephon.work.StaticMixtureWorkSource` for their meaning.
    """
    if stop_after_passes is not None:
        _check_passes("stop_after_passes", stop_after_passes)
    policies = per_source("exhausted_policy", names, "repeat" if policy is None else policy)
    for name, one in zip(names, policies, strict=True):
        if one not in POLICIES:
            raise ConfigError(
                f"exhausted_policy of {name!r} is {one!r}, expected {_either(POLICIES)}, or None"
            )
    repeats = _repeats(names, policies, max_repeats)
    limited = [name for name, count in zip(names, repeats, strict=True) if count is not None]
    if limited and (policy is None or stop_after_passes is not None):
        raise ConfigError(
            f"max_repeats of {limited[0]!r} lets it leave, stop_after_passes lets it repeat until "
            'the end; give one of them, max_repeats with exhausted_policy="repeat"'
        )
    if stop_after_passes is not None and any(one != "repeat" for one in policies):
        raise ConfigError(
            f"stop_after_passes is {stop_after_passes} with exhausted_policy {policy!r}; "
            'it goes with None or "repeat" for every dataset'
        )
    return Exhaustion(
        names=tuple(names),
        policies=policies,
        repeats=repeats,
        stop_after_passes=1 if policy is None and stop_after_passes is None else stop_after_passes,
    )


def _repeats(
    names: Sequence[str],
    policies: Sequence[Policy],
    max_repeats: int | Mapping[str, int | None] | None,
) -> tuple[int | None, ...]:
    if max_repeats is None:
        return (None,) * len(names)
    if isinstance(max_repeats, Mapping):
        per_source("max_repeats", names, max_repeats, partly=True)
        repeats = tuple(max_repeats.get(name) for name in names)
    else:
        repeats = tuple(max_repeats if one == "repeat" else None for one in policies)
        if all(count is None for count in repeats):
            raise ConfigError(
                f"max_repeats is {max_repeats!r}, but no dataset has the policy repeat"
            )
    for name, one, count in zip(names, policies, repeats, strict=True):
        if count is None:
            continue
        _check_passes(f"max_repeats of {name!r}", count)
        if one != "repeat":
            raise ConfigError(f"max_repeats of {name!r} is {count}, but its policy is {one}")
    return repeats


def _check_passes(what: str, passes: object) -> None:
    if isinstance(passes, bool) or not isinstance(passes, int):
        raise ConfigTypeError(f"{what} is {passes!r}, expected an int")
    if not 1 <= passes <= _MOST_DOCUMENTS:
        raise ConfigError(f"{what} is {passes}, expected 1 to 2**40")


def per_source(
    option: str, names: Sequence[str], value: Any, *, partly: bool = False
) -> tuple[Any, ...]:
    """``value`` for every source: the same for all, or by name."""
    if not isinstance(value, Mapping):
        return (value,) * len(names)
    unknown = [name for name in value if name not in set(names)]
    if unknown:
        raise ConfigError(f"{option} names {unknown[0]!r}, which is no dataset; there are {names}")
    missing = [name for name in names if name not in value]
    if missing and not partly:
        raise ConfigError(f"{option} has no value for dataset {missing[0]!r}")
    return tuple(value[name] for name in names if name in value)


def uniform(names: Sequence[str], values: Sequence[_T]) -> _T | dict[str, _T]:
    """The inverse of :func:`per_source`: one value if all are equal, else one per name."""
    if all(value == values[0] for value in values):
        return values[0]
    return dict(zip(names, values, strict=True))


def _either(words: Sequence[str]) -> str:
    return ", ".join(repr(word) for word in words)
