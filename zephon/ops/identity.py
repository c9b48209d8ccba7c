"""What tells one user function from another: its name, and a digest of what it does.

A state remembers the functions of its stream. A digest covers a function's bytecode,
constants and defaults, the values that it closes over, and the plain values and functions of
its own module that it names. What those call in other modules is not followed.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zephon.errors import ConfigError, ConfigTypeError

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))


def name_of(function: Callable[..., Any]) -> str:
    """Module and qualified name, for messages and states."""
    if isinstance(function, functools.partial):
        return f"partial({name_of(function.func)})"
    if not hasattr(function, "__qualname__"):
        function = type(function)
    return f"{getattr(function, '__module__', None) or 'builtins'}.{function.__qualname__}"


def identity_of(function: Callable[..., Any], version: str | int | None) -> dict[str, Any]:
    """What a state says of a function: its ``version`` if one was given, else its code.

    Bytecode is another one in each minor version of Python: see :func:`with_python`.
    """
    if version is not None:
        return {"version": version}
    digest = hashlib.blake2b(digest_size=8)
    _feed(digest, function, set())
    return {"code": digest.hexdigest()}


def with_python(said: dict[str, Any]) -> dict[str, Any]:
    """What is said of functions and, if that is digests of code, of which Python's."""
    if not _has_code(said):
        return said
    return {**said, "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}


def _has_code(said: object) -> bool:
    return isinstance(said, dict) and ("code" in said or any(map(_has_code, said.values())))


def check_function(call: str, name: str, function: object) -> None:
    """Raise unless it can be called."""
    if not callable(function):
        raise ConfigTypeError(f"{call}({name}=...) is {function!r}, expected a function")


def check_version(call: str, version: object) -> None:
    """Raise unless it is None, or a str or int that says which version a function is of."""
    if version is None:
        return
    if isinstance(version, bool) or not isinstance(version, (str, int)):
        raise ConfigTypeError(f"{call}(version=...) is {version!r}, expected a str or an int")
    if isinstance(version, str) and not version:
        raise ConfigError(f"{call}(version=...) is empty, expected what tells this version")


def asked_for(function: Callable[..., Any], given: int) -> tuple[str, ...]:
    """Which of ``key`` and ``rng`` a function asks for besides its ``given`` arguments.

    It does by a parameter of that name without a default, or with the default None: a
    parameter ``key="text"`` is something else.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built in, without a signature
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    left = [
        parameter
        for at, parameter in enumerate(parameters)
        if not (parameter.kind in positional and at < given)
    ]
    return tuple(
        p.name
        for p in left
        if p.name in ("key", "rng")
        and p.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        and (p.default is None or p.default is inspect.Parameter.empty)
    )


def _feed(digest: Any, value: object, seen: set[int]) -> None:
    """Feed ``value`` so that different values feed different bytes."""
    if isinstance(value, _PLAIN):
        digest.update(f"{type(value).__name__}:{value!r};".encode("utf-8", "backslashreplace"))
        return
    if id(value) in seen:
        digest.update(b"again;")
        return
    seen.add(id(value))
    if isinstance(value, types.FunctionType):
        _feed_function(digest, value, seen)
    elif isinstance(value, types.MethodType):
        digest.update(b"method")
        _feed(digest, value.__func__, seen)
        _feed_object(digest, value.__self__, seen)
    elif isinstance(value, functools.partial):
        digest.update(b"partial")
        for part in (value.func, value.args, value.keywords):
            _feed(digest, part, seen)
    elif isinstance(value, types.CodeType):
        _feed_code(digest, value, seen)
    elif isinstance(value, (tuple, list)):
        digest.update(f"{type(value).__name__}{len(value)}[".encode())
        for item in value:
            _feed(digest, item, seen)
    elif isinstance(value, (set, frozenset, Mapping)):
        _feed_unordered(digest, value, seen)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest.update(f"array{value.dtype.str}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        digest.update(
            f"{type(value).__name__}:{getattr(value, '__qualname__', value.__name__)}"
            f"@{getattr(value, '__module__', '')};".encode()
        )
    else:
        _feed_object(digest, value, seen)


def _feed_function(digest: Any, function: types.FunctionType, seen: set[int]) -> None:
    digest.update(b"function")
    _feed(digest, function.__code__, seen)
    _feed(digest, function.__defaults__, seen)
    _feed(digest, function.__kwdefaults__, seen)
    for cell in function.__closure__ or ():
        try:
            _feed(digest, cell.cell_contents, seen)
        except ValueError:  # not filled yet
            digest.update(b"empty;")
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        own = isinstance(value, types.FunctionType) and value.__module__ == function.__module__
        if name in function.__globals__ and (own or isinstance(value, (*_PLAIN, tuple, frozenset))):
            digest.update(name.encode())
            _feed(digest, value, seen)


def _names(code: types.CodeType) -> set[str]:
    """Global names of a function's code, and of the functions inside it."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _feed_code(digest: Any, code: types.CodeType, seen: set[int]) -> None:
    # Neither its file nor its lines: moving a function changes nothing.
    digest.update(code.co_code)
    for part in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        digest.update("\0".join(part).encode() + b"\1")
    for const in code.co_consts:
        if not isinstance(const, str) or const != code.co_consts[0]:  # not its docstring
            _feed(digest, const, seen)


def _feed_unordered(digest: Any, value: Any, seen: set[int]) -> None:
    parts = []
    for item in value.items() if isinstance(value, Mapping) else value:
        one = hashlib.blake2b(digest_size=8)
        _feed(one, item, set(seen))
        parts.append(one.digest())
    digest.update(f"{type(value).__name__}{len(parts)}".encode() + b"".join(sorted(parts)))


def _feed_object(digest: Any, value: object, seen: set[int]) -> None:
    """Of an object: its class, what it does when it is called, and its plain attributes."""
    kind = type(value)
    digest.update(f"object:{kind.__module__}.{kind.__qualname__};".encode())
    call = vars(kind).get("__call__")
    if isinstance(call, types.FunctionType):
        _feed(digest, call, seen)
    for name, attribute in sorted(getattr(value, "__dict__", {}).items()):
        if isinstance(attribute, (*_PLAIN, tuple, list, dict, set, frozenset, np.ndarray)):
            digest.update(name.encode())
            _feed(digest, attribute, seen)
