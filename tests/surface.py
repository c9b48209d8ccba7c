"""Signatures as they were printed, read again."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any


def parse(signature: str) -> dict[str, tuple[str, object]]:
    """Parameters of a printed signature: name to kind, and default as it was printed."""
    text = re.sub(r"<[^<>]*(?:<[^<>]*>)?[^<>]*>", "...", signature)
    text = re.sub(r"ForwardRef\('[^']*'\)", "...", text)
    function = ast.parse(f"def f{text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    placed = [*given.posonlyargs, *given.args]
    defaults: list[Any] = [None] * (len(placed) - len(given.defaults)) + given.defaults
    found: dict[str, tuple[str, object]] = {}
    for one, default in zip(placed, defaults, strict=True):
        found[one.arg] = ("placed", ast.unparse(default) if default is not None else None)
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found[one.arg] = ("named", ast.unparse(value) if value is not None else None)
    found.pop("self", None)
    found.pop("cls", None)
    return found


def gaps(path: str, ours: Any, signature: str) -> Iterator[str]:
    """Parameters that ``ours`` has not, or has with another default, as ``path(name)``."""
    mine = inspect.signature(ours).parameters
    for name, (_, default) in parse(signature).items():
        if name not in mine:
            yield f"{path}({name})"
        elif default not in (None, "...") and repr(mine[name].default) != default:
            yield f"{path}({name}=)"


def missing(modules: Mapping[str, Mapping[str, Any]], resolve: Any) -> Iterator[str]:
    """Dotted names of a surface that are not there, or not like that.

    ``resolve(module, name)`` gives what there is, None for nothing.
    """
    for module, names in modules.items():
        for name, entry in names.items():
            path, ours = f"{module}.{name}", resolve(module, name)
            if ours is None:
                yield path
                continue
            signature = entry.get("signature", "")
            if signature and "*args" not in signature:
                yield from gaps(path, ours, signature)
            for member, taken in entry.get("members", {}).items():
                found = inspect.getattr_static(ours, member, None)
                if found is None:
                    yield f"{path}.{member}"
                elif taken != "property":
                    yield from gaps(f"{path}.{member}", getattr(ours, member), taken)
