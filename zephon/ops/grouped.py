"""Operators on several documents at a time, in windows that begin anew every some draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.identity import asked_for, check_function, check_version, identity_of, name_of
from zephon.ops.operator import WINDOW_DRAWS, Context, Item, Operator, check_window
from zephon.types import SampleBatch, SampleRecord

GROUP_DRAWS = 32
"""Draws that map_batch sees at a time before packing, if nothing else is said."""


class MapGroup(Operator):
    """A function on the documents of every ``size`` draws, as one batch of records.

    Parameters
    ----------
    function : callable
        From a SampleBatch to a SampleBatch of any number of records, or to None. The meta
        of a record it gives is that of one it was given, or a child's of it.
    size : int
        Draws; a group has fewer documents where some were left out before.
    drop_none : bool
        Whether None leaves out and counts the whole group; else it is an error.
    version, parallelism
        As of :class:`zephon.ops.transform.MapTransform`.
    """

    call = "map_batch"
    sees_windows = True

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        size: int = GROUP_DRAWS,
        drop_none: bool = True,
        version: str | int | None = None,
        parallelism: int | None = None,
    ) -> None:
        check_function(self.call, "transform_fn", function)
        check_window(self.call, "size", size)
        if not isinstance(drop_none, bool):
            raise ConfigTypeError(f"drop_none is {drop_none!r}, expected True or False")
        check_version(self.call, version)
        self.window, self.parallelism = size, parallelism
        self._function, self._drop_none, self._version = function, drop_none, version
        self._asked = asked_for(function, 1)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function."""
        return (self._function,)

    def shaping(self) -> dict[str, Any]:
        """Which function, how many draws, and what None means."""
        return {
            **identity_of(self._function, self._version),
            "size": self.window,
            "drop_none": self._drop_none,
        }

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """Call it once."""
        window = items[0].draw // self.window
        more = self.extras(self._asked, lambda: context.window_key(number, window))
        batch = SampleBatch([context.record(item) for item in items])
        made = self.guarded(context, number, items[0], self._records, batch, more)
        draw = context.last_draw(self.window, items[0].draw)
        if made is None:
            for item in items:
                item.draw = draw
                context.leave_out(item)
            return []
        return [
            self.guarded(context, number, items[0], context.item, record, draw, "the function")
            for record in made
        ]

    def _records(self, batch: SampleBatch, more: dict[str, Any]) -> Sequence[Any] | None:
        made = self._function(batch, **more)
        if made is None:
            if not self._drop_none:
                raise TypeError("the function gave None, and drop_none=False does not allow that")
            return None
        if not isinstance(made, SampleBatch):
            raise TypeError(f"the function gave a {type(made).__name__}, expected a SampleBatch")
        return made.records


@dataclass(frozen=True, kw_only=True)
class StatefulFunctions:
    """The functions of a transform with a memory.

    Attributes
    ----------
    init_state : callable
        Gives the state of a window before its first document.
    push : callable
        From the state and a list with one record to the next state and the records that
        come out.
    flush : callable or None
        From the state at the end of a window to the records that still come out.
    should_flush : callable or None
        From the state after a push to whether it is flushed, and begun anew, right then.
    transform : callable or None
        From a list of records that come out to those that do in their place.
    """

    init_state: Callable[[], Any]
    push: Callable[[Any, list[SampleRecord]], tuple[Any, list[SampleRecord]]]
    flush: Callable[[Any], list[SampleRecord]] | None = None
    should_flush: Callable[[Any], bool] | None = None
    transform: Callable[[list[SampleRecord]], list[SampleRecord]] | None = None

    def given(self) -> dict[str, Callable[..., Any]]:
        """Those that there are, by name."""
        names = ("init_state", "push", "flush", "should_flush", "transform")
        return {name: f for name in names if (f := getattr(self, name)) is not None}


class StatefulTransform(Operator):
    """Functions with a memory, which begins anew every ``window`` draws of a lane.

    A document may come out later than it went in, in its window, or not at all.

    Parameters
    ----------
    name : str
        What messages and states call it.
    functions : StatefulFunctions
        What it does.
    window : int
        Draws. Restoring computes up to so many again.
    version, parallelism
        As of :class:`zephon.ops.transform.MapTransform`.
    """

    call = "stateful_transform"
    sees_windows = True

    def __init__(
        self,
        name: str,
        functions: StatefulFunctions,
        *,
        window: int = WINDOW_DRAWS,
        version: str | int | None = None,
        parallelism: int | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise ConfigTypeError(f"name is {name!r}, expected a str")
        if not name:
            raise ConfigError("name is empty: messages and states need what to call the stage")
        for argument, function in functions.given().items():
            check_function(self.call, argument, function)
        for argument in ("init_state", "push"):
            check_function(self.call, argument, getattr(functions, argument))
        check_window(self.call, "window", window)
        check_version(self.call, version)
        self.window, self.parallelism = window, parallelism
        self._name, self._do, self._version = name, functions, version

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """All of them."""
        return tuple(self._do.given().values())

    def __str__(self) -> str:
        return f"{self.call}({self._name!r}, {name_of(self._do.push)})"

    def shaping(self) -> dict[str, Any]:
        """Which functions, and how often they begin anew."""
        given = self._do.given()
        if self._version is not None:
            return {"window": self.window, "version": self._version}
        return {
            "window": self.window,
            **{name: identity_of(function, None) for name, function in given.items()},
        }

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """Push each document of the window, then flush what the state holds."""
        do = self._do
        found: list[Item] = []

        def give(at: Item, draw: int, records: Any, what: str) -> None:
            if not isinstance(records, (list, tuple)):
                error = TypeError(f"{what} gave a {type(records).__name__}, expected a list")
                raise self.error(context, at, error)
            if do.transform is not None and records:
                records = self.guarded(context, number, at, do.transform, list(records))
            for record in records:
                found.append(self.guarded(context, number, at, context.item, record, draw, what))

        state = self.guarded(context, number, items[0], do.init_state)
        for item in items:
            made = self.guarded(context, number, item, do.push, state, [context.record(item)])
            if not isinstance(made, tuple) or len(made) != 2:
                error = TypeError("push gave no pair of the next state and a list of records")
                raise self.error(context, item, error)
            state, records = made
            give(item, item.draw, records, "push")
            if do.should_flush is not None and self.guarded(
                context, number, item, do.should_flush, state
            ):
                if do.flush is not None:
                    records = self.guarded(context, number, item, do.flush, state)
                    give(item, item.draw, records, "flush")
                state = self.guarded(context, number, item, do.init_state)
        if do.flush is not None:
            last = items[-1]
            draw = context.last_draw(self.window, last.draw)
            give(last, draw, self.guarded(context, number, last, do.flush, state), "flush")
        return found
