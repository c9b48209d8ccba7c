"""What differs between the stream of a state and the stream of a pipeline, by kind."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from zephon._state_format import SourceState, StreamState, to_json
from zephon.errors import StateError
from zephon.options import CHANGES

# Options of a work source that may be given for all sources or by name.
_BY_SOURCE = ("exhausted_policy", "max_repeats", "shuffle_block_size", "reshuffle_on_repeat")
# Options of a work source that follow from the weights.
_OF_WEIGHTS = ("chunk_size", "token_shares")

ENGINE = "engine"
"""What computed the token ids: it is written down for people and need not agree."""


class Difference(NamedTuple):
    """One thing that differs."""

    kind: str
    """One of :data:`zephon.options.CHANGES`, or ``"options"``."""

    text: str
    """What, with the saved value and the present one."""


def verify(
    state: StreamState,
    options: dict[str, Any],
    sources: tuple[SourceState, ...],
    allowed: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Raise if ``state`` is not of the stream with these options and sources.

    Parameters
    ----------
    state : StreamState
        What was saved.
    options, sources
        Of the stream that is to continue it.
    allowed : collection of str
        Kinds of difference that are returned rather than refused.

    Raises
    ------
    StateError
        Lists everything that differs and is not allowed, not only the first difference.
    """
    found = tuple(differences(state, options, sources))
    refused = [one for one in found if one.kind not in allowed]
    if not refused:
        return found
    hint = "Build the pipeline as it was when the state was saved, or start a new run"
    kinds = {one.kind for one in refused}
    if kinds <= {"content"}:
        hint += ", or say options(on_change=[..., 'content']) if the documents are the same"
    elif kinds <= set(CHANGES):
        hint += ", or say options(on_change='adopt') if the change is meant"
    raise StateError(
        "the state is of another stream and cannot be continued by this pipeline. "
        "What differs (saved, now): " + "; ".join(one.text for one in refused) + ". " + hint
    )


def differences(
    state: StreamState, options: dict[str, Any], sources: tuple[SourceState, ...]
) -> Iterator[Difference]:
    """Everything that differs between a state and a stream of ``options`` and ``sources``."""
    saved, now = dict(state.options), json.loads(to_json(options))
    for one in (saved, now):
        one.pop(ENGINE, None)
    works = [one["work"] for one in (saved, now) if isinstance(one.get("work"), dict)]
    if len(works) == 2:
        names = [[s.name for s in state.sources if s.weight], [s.name for s in sources if s.weight]]
        common = set(names[0]) & set(names[1])
        saved["work"], now["work"] = (
            _by_name(work, own, common) for work, own in zip(works, names, strict=True)
        )
        for option in _OF_WEIGHTS:
            old, new = (one["work"].pop(option, None) for one in (saved, now))
            if old != new:
                yield Difference("weights", f"work.{option} ({old!r}, {new!r})")
    for text in _option_differences("", saved, now):
        yield Difference("options", text)
    yield from _source_differences(state.sources, sources)


def _by_name(work: Mapping[str, Any], names: list[str], common: set[str]) -> dict[str, Any]:
    """Options of a work source with those by source spelled out, for ``common`` sources."""
    out = dict(work)
    for option in _BY_SOURCE:
        if option in out:
            value = out[option]
            each = value if isinstance(value, dict) else dict.fromkeys(names, value)
            out[option] = {name: each.get(name) for name in names if name in common}
    return out


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
) -> Iterator[Difference]:
    # A source of weight 0 was taken out before, and is there for what was drawn of it only.
    old = {source.name: source for source in saved if source.weight}
    new = {source.name: source for source in now if source.weight}
    for name in old:
        if name not in new:
            yield Difference("removed", f"source {name!r} is gone")
    for name in new:
        if name not in old:
            yield Difference("added", f"source {name!r} is new")
    common = [name for name in old if name in new]
    if common != [name for name in new if name in old]:
        text = f"the order of sources ({', '.join(old)}; {', '.join(new)})"
        yield Difference("order", text)
    for name in common:
        before, after = old[name], new[name]
        if before.weight != after.weight:
            shares = f"{before.weight / 2**32:.4%}, {after.weight / 2**32:.4%}"
            yield Difference("weights", f"share of {name!r} ({shares})")
        if before.size != after.size:
            # Their number decides the order, so other documents make another stream.
            kinds = {"documents": "options", "shards": "options"}
            for key in sorted({*before.size, *after.size}):
                if before.size.get(key) != after.size.get(key):
                    values = f"({before.size.get(key)!r}, {after.size.get(key)!r})"
                    yield Difference(kinds.get(key, "content"), f"{name!r} {key} {values}")
        elif before.digest != after.digest:
            yield Difference(
                "content", f"content of {name!r}: same size, but its files have changed"
            )
