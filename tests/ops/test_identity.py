"""What a state says of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.identity import asked_for, check_version, identity_of, name_of


def compiled(source: str, name: str = "f") -> Callable[..., Any]:
    """A function of this source, as if it stood in a module."""
    space: dict[str, Any] = {"__name__": "somewhere"}
    exec(source, space)
    function: Callable[..., Any] = space[name]
    return function


def same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    return identity_of(one, None) == identity_of(other, None)


CHANGES = [
    ("def f(d): return d", "def f(d): return None"),
    ("def f(d): return d + 1", "def f(d): return d + 2"),
    ("def f(d, n=1): return n", "def f(d, n=2): return n"),
    ("def f(d, *, n=1): return n", "def f(d, *, n=2): return n"),
    ("LEAST = 3\ndef f(d): return d > LEAST", "LEAST = 4\ndef f(d): return d > LEAST"),
    (
        "def g(d): return 1\ndef f(d): return g(d)",
        "def g(d): return 2\ndef f(d): return g(d)",
    ),
    (
        "def f(d): return [x + 1 for x in d]",
        "def f(d): return [x + 2 for x in d]",
    ),
    ("def f(d): return d in {'a', 'b'}", "def f(d): return d in {'a', 'c'}"),
    ("f = lambda d: d", "f = lambda d: -d"),
    (
        "class C:\n def __call__(self, d): return 1\nf = C()",
        "class C:\n def __call__(self, d): return 2\nf = C()",
    ),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_change_of_what_a_function_does_changes_its_digest(before: str, after: str) -> None:
    assert same(compiled(before), compiled(before))
    assert not same(compiled(before), compiled(after))


def test_moving_or_describing_a_function_changes_nothing() -> None:
    plain = 'def f(d):\n    "One text."\n    return d + 1'
    moved = '\n\n# A comment.\n\ndef f(d):\n    "Another text."\n\n    return d + 1'
    assert same(compiled(plain), compiled(moved))


def test_what_a_function_closes_over_counts() -> None:
    def make(value: Any) -> Callable[[Any], Any]:
        return lambda document: (document, value)

    for one, other in [
        (1, 2),
        ("a", "b"),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        (np.arange(3), np.arange(1, 4)),
        (make(1), make(2)),
    ]:
        assert same(make(one), make(one))
        assert not same(make(one), make(other))
    assert same(make({"a": 1, "b": 2}), make({"b": 2, "a": 1}))
    assert same(make({3, 1}), make({1, 3}))


def test_partials_and_objects_differ_by_their_arguments_and_attributes() -> None:
    def scale(document: Any, by: int) -> Any:
        return document * by

    assert same(functools.partial(scale, by=2), functools.partial(scale, by=2))
    assert not same(functools.partial(scale, by=2), functools.partial(scale, by=3))
    assert name_of(functools.partial(scale, by=2)).startswith("partial(")

    class Least:
        def __init__(self, number: int) -> None:
            self.number = number

        def __call__(self, document: Any) -> bool:
            return bool(document > self.number)

        def method(self, document: Any) -> bool:
            return bool(document < self.number)

    assert same(Least(1), Least(1))
    assert not same(Least(1), Least(2))
    assert not same(Least(1).method, Least(2).method)
    assert name_of(Least(1)).endswith("Least")


def test_a_function_that_calls_itself_has_an_end() -> None:
    assert same(*[compiled("def f(d): return f(d - 1) if d else 0")] * 2)


def test_a_version_stands_for_the_code() -> None:
    one, other = compiled("def f(d): return 1"), compiled("def f(d): return 2")
    assert identity_of(one, 3) == identity_of(other, 3) == {"version": 3}


def test_built_in_functions_go_by_their_names() -> None:
    assert same(dict, dict)
    assert not same(dict, list)
    assert same(len, len)


def test_a_function_asks_for_a_key_by_a_parameter_without_a_default() -> None:
    def both(document: Any, key: int, *, rng: Any = None) -> None: ...
    def a_field(document: Any, key: str = "text") -> None: ...
    def first(key: Any) -> None: ...

    assert asked_for(both, 1) == ("key", "rng")
    assert asked_for(a_field, 1) == ()
    assert asked_for(first, 1) == ()
    assert asked_for(functools.partial(both, key=1), 1) == ("rng",)
    assert asked_for(dict, 1) == ()


def test_a_version_is_a_str_or_an_int() -> None:
    check_version("f", "2")
    with pytest.raises(ConfigTypeError, match=r"f\(version=...\) is 1.5, expected a str or an int"):
        check_version("f", 1.5)
    with pytest.raises(ConfigError, match=r"f\(version=...\) is empty"):
        check_version("f", "")
