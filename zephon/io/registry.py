"""The formats that there are: those of this package, and those that installed packages add.

A package adds a format with an entry point of the group ``zephon.formats``, named
like the format, that leads to a subclass of :class:`zephon.io.Format` or to an
object of one. It is imported with the first dataset whose format is not one of this
package's or not given. One that cannot be loaded is an error for those who name it.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from zephon.errors import ConfigError
from zephon.io.columnar import ArrowFormat, ParquetFormat
from zephon.io.indexed import IndexedFormat
from zephon.io.jsonl import JsonlFormat
from zephon.io.shard import Format

GROUP = "zephon.formats"

FORMATS: dict[str, Format] = {
    fmt.name: fmt for fmt in (JsonlFormat(), IndexedFormat(), ParquetFormat(), ArrowFormat())
}
"""Those of this package, by name."""


def format_named(name: str, asked_by: str) -> Format:
    """The format called ``name``.

    Raises
    ------
    ConfigError
        There is none, or it cannot be loaded; ``asked_by`` begins the message.
    """
    found = _added()
    if name in FORMATS and name not in found:
        return FORMATS[name]
    if name not in found:
        names = [*FORMATS, *found]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(
            f"{asked_by}: unknown format {name!r}; known formats: {', '.join(names)}{hint}"
        )
    return _load(name)


def added_formats() -> tuple[list[Format], dict[str, str]]:
    """Formats that other packages add, and why each that cannot be used cannot, by name."""
    formats, broken = [], {}
    for name in _added():
        try:
            formats.append(_load(name))
        except ConfigError as error:
            broken[name] = str(error)
    return formats, broken


@lru_cache(maxsize=1)
def _added() -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name; several of one name are an error for whoever uses it."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in sorted(entry_points(group=GROUP), key=_said_by):
        # One distribution that is found twice on the path is still one.
        if entry not in found.get(entry.name, ()):
            found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


@lru_cache(maxsize=64)
def _load(name: str) -> Format:
    entries = _added()[name]
    if len(entries) > 1 or name in FORMATS:
        owners = ["zephon itself"] * (name in FORMATS) + [_said_by(one) for one in entries]
        raise ConfigError(
            f"the format {name!r} is claimed by {' and by '.join(owners)}: uninstall all but one"
        )
    entry = entries[0]
    try:
        loaded = entry.load()
        made = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # whatever importing somebody's module may raise
        raise ConfigError(
            f"the format {name!r} of {_said_by(entry)} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    if problem := _not_a_format(made, name):
        raise ConfigError(f"the format {name!r} of {_said_by(entry)} {problem}")
    format_: Format = made
    return format_


def _not_a_format(made: object, name: str) -> str:
    if not isinstance(made, Format):
        return f"is a {type(made).__name__}, expected a subclass of zephon.io.Format"
    if getattr(made, "name", None) != name:
        return f"calls itself {getattr(made, 'name', None)!r}: the entry point must have its name"
    for suffix in getattr(made, "suffixes", (None,)):
        if not isinstance(suffix, str) or not suffix.startswith(".") or suffix != suffix.lower():
            return f"has the suffix {suffix!r}, expected lower case with a dot, such as '.csv'"
    return ""


def _said_by(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist else "an unknown package"
    return f"{package} ({entry.value})"
