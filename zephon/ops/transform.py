"""Operators on single documents: functions that map, filter and fan out, decoding, splitting."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.ops.identity import asked_for, check_function, check_version, identity_of
from zephon.ops.operator import Context, Item, Operator, check_payload, has_tokens
from zephon.options import check_int
from zephon.records import TOKEN_FIELDS, as_tokens, token_field


class MapTransform(Operator):
    """A function from a document to a document, to none, or to several.

    Parameters
    ----------
    function : callable
        Of a payload (a dict of its own) and, if it asks for them, ``key`` and ``rng``.
    drop_none : bool
        Whether None leaves a document out and counts it; else it is an error.
    version : str, int or None
        Stands for the function in a state, in place of its code.
    parallelism : int or None
        Threads or processes that may be in it at a time.
    """

    call = "map_transform"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        drop_none: bool = True,
        version: str | int | None = None,
        parallelism: int | None = None,
    ) -> None:
        check_function(self.call, "transform_fn", function)
        if not isinstance(drop_none, bool):
            raise ConfigTypeError(f"drop_none is {drop_none!r}, expected True or False")
        check_version(self.call, version)
        self.parallelism = parallelism
        self._function, self._drop_none, self._version = function, drop_none, version
        self._asked = asked_for(function, 1)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function."""
        return (self._function,)

    @property
    def is_random(self) -> bool:
        """Whether the function asks for a key."""
        return bool(self._asked)

    def shaping(self) -> dict[str, Any]:
        """Which function, and what None means."""
        return {**identity_of(self._function, self._version), "drop_none": self._drop_none}

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """Call it on each document."""
        found: list[Item] = []
        for item in items:
            more = self.extras(self._asked, lambda item=item: context.key(item, number))  # type: ignore[misc]
            made = self.guarded(context, number, item, self._results, item.payload, more)
            if made is None:
                context.leave_out(item)
            elif isinstance(made, list):
                if not made:
                    context.leave_out(item)
                found += [
                    _tokens_or_not(item.child(index, payload)) for index, payload in enumerate(made)
                ]
            else:
                found.append(_tokens_or_not(item.with_payload(made)))
        return found

    def _results(
        self, payload: Mapping[str, Any], more: dict[str, Any]
    ) -> Mapping[str, Any] | list[Mapping[str, Any]] | None:
        """What the function returns: a document, a list of them, or nothing."""
        made = self._function(payload, **more)
        if made is None:
            if not self._drop_none:
                raise TypeError("the function gave None, and drop_none=False does not allow that")
            return None
        if isinstance(made, (list, tuple, Iterator)):
            return [check_payload(one, "the function") for one in made]
        return check_payload(made, "the function")


def _tokens_or_not(item: Item) -> Item:
    item.tokens = has_tokens(item.payload)
    return item


class DecodeText(Operator):
    """Bytes become text; what is text already, numbers and tokens stay what they are.

    Parameters
    ----------
    field : str or None
        The field to decode; all that hold bytes if None.
    encoding, errors : str
        As of :meth:`bytes.decode`.
    parallelism : int or None
        Threads or processes that may be in it at a time.
    """

    call = "decode_text"
    touches_tokens = False

    def __init__(
        self,
        *,
        field: str | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        parallelism: int | None = None,
    ) -> None:
        if field is not None and not isinstance(field, str):
            raise ConfigTypeError(f"field is {field!r}, expected the name of a field or None")
        try:
            codecs.lookup(encoding)
            codecs.lookup_error(errors)
        except (LookupError, TypeError) as error:
            raise ConfigError(
                f"decode_text(encoding={encoding!r}, errors={errors!r}): {error}"
            ) from error
        self.parallelism = parallelism
        self._field, self._encoding, self._errors = field, encoding, errors

    def shaping(self) -> dict[str, Any]:
        """How bytes are decoded."""
        return {"field": self._field, "encoding": self._encoding, "errors": self._errors}

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """Decode the fields of each document."""
        return [
            item.with_payload(self.guarded(context, number, item, self._decode, item.payload))
            for item in items
        ]

    def _decode(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._field is not None:
            names = [self._field] if isinstance(payload.get(self._field), _BYTES) else []
        else:
            names = [name for name, value in payload.items() if isinstance(value, _BYTES)]
        if not names:
            return payload
        decoded = {
            name: bytes(payload[name]).decode(self._encoding, self._errors) for name in names
        }
        return {**payload, **decoded}


_BYTES = (bytes, bytearray, memoryview)


class TokensFrom(Operator):
    """The token ids of each document are those of one field, whatever else looks like tokens.

    Parameters
    ----------
    field : str
        Its name; a document without it is an error.
    """

    call = "pack_flat"

    def __init__(self, field: str) -> None:
        self._field = field

    def shaping(self) -> dict[str, Any]:
        """The field."""
        return {"tokens_field": self._field}

    def __str__(self) -> str:
        return f"{self.call}(tokens_field={self._field!r})"

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """Put the field where tokens are looked for."""
        return [self._renamed(item, context) for item in items]

    def _renamed(self, item: Item, context: Context) -> Item:
        payload = item.payload
        if self._field not in payload:
            names = ", ".join(payload) or "none"
            missing = DataError(f"no field {self._field!r}, the document has: {names}")
            raise self.error(context, item, missing)
        rest = {name: payload[name] for name in payload if name not in TOKEN_FIELDS}
        rest.pop(self._field, None)
        return _tokens_or_not(item.with_payload({TOKEN_FIELDS[0]: payload[self._field], **rest}))


class SplitLong(Operator):
    """Documents of more than ``max_length`` tokens become several of at most so many."""

    call = "split_long_samples"

    def __init__(self, max_length: int) -> None:
        check_int("max_length", max_length, 1, 2**31 - 1)
        self._longest = max_length

    def shaping(self) -> dict[str, Any]:
        """The length."""
        return {"max_length": self._longest}

    def __str__(self) -> str:
        return f"{self.call}({self._longest})"

    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """Cut what is too long; fields with one value for each token are cut with them."""
        found: list[Item] = []
        for item in items:
            if not item.tokens:
                raise self.error(context, item, DataError("the document holds no token ids"))
            found += self._split(item, context)
        return found

    def _split(self, item: Item, context: Context) -> list[Item]:
        try:
            name = token_field(item.payload)
            count = len(as_tokens(item.payload[name], f"the field {name!r}"))
        except DataError as error:
            raise self.error(context, item, error) from error
        if count <= self._longest:
            return [item]
        cut = {
            field: value
            for field, value in item.payload.items()
            if field == name
            or (isinstance(value, (list, tuple, np.ndarray)) and len(value) == count)
        }
        return [
            item.child(
                index,
                {
                    **item.payload,
                    **{field: value[at : at + self._longest] for field, value in cut.items()},
                },
            )
            for index, at in enumerate(range(0, count, self._longest))
        ]
