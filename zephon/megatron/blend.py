"""Blend lists: ``weight prefix weight prefix ...`` or prefixes alone."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from numbers import Real

from zephon.errors import ConfigError, ConfigTypeError

BlendEntry = str | float | os.PathLike[str]


def get_blend_from_list(
    blend: Iterable[BlendEntry] | None,
) -> tuple[list[str], list[float] | None] | None:
    """Prefixes and weights of a blend given as one flat list.

    Parameters
    ----------
    blend : list or None
        Weights and path prefixes in turn, or prefixes alone. A weight is a
        number or a string that ``float`` reads; a prefix is a string (space
        around it is dropped) or a path.

    Returns
    -------
    None or (list of str, list of float or None)
        None for None. A list of odd length, or without a number at an even
        position, is all prefixes and has no weights.

    Raises
    ------
    ConfigError
        The list is empty; some pairs begin with a number and others do not; or
        a weight is negative, infinite or NaN. Zero is a weight.
    ConfigTypeError
        An entry is neither text, number nor path, or a prefix is a number.

    Warns
    -----
    UserWarning
        The length is odd but every even position holds a number: most likely
        one prefix is missing.
    """
    if blend is None:
        return None
    if isinstance(blend, (str, bytes, os.PathLike)):
        raise ConfigTypeError(
            f"blend must be a list of weights and prefixes, got {blend!r}: write [{blend!r}]"
        )
    entries = list(blend)
    if not entries:
        raise ConfigError("blend is empty: name at least one path prefix")
    for position, entry in enumerate(entries):
        if not isinstance(entry, (str, Real, os.PathLike)):
            raise ConfigTypeError(
                f"blend[{position}] must be a string, a number or a path, got {entry!r}"
            )

    weights = [_number(entry) for entry in entries[::2]]
    numeric = [weight is not None for weight in weights]
    if len(entries) % 2 == 1:
        if all(numeric):
            warnings.warn(
                f"blend has {len(entries)} entries, which are all taken as path prefixes, but "
                "every other one is a number: is a prefix missing?",
                stacklevel=2,
            )
        return [_prefix(entries, position) for position in range(len(entries))], None
    if not any(numeric):
        return [_prefix(entries, position) for position in range(len(entries))], None
    if not all(numeric):
        # Whichever kind the list begins with, the first pair of the other one.
        odd = numeric.index(not numeric[0])
        raise ConfigError(
            f"blend mixes weighted and unweighted prefixes: it begins with "
            f"{entries[0]!r}, {entries[1]!r}, but entries {2 * odd} and {2 * odd + 1} are "
            f"{entries[2 * odd]!r}, {entries[2 * odd + 1]!r}"
        )
    return (
        [_prefix(entries, position) for position in range(1, len(entries), 2)],
        [_weight(entries, 2 * pair, weight) for pair, weight in enumerate(weights)],
    )


def _number(entry: BlendEntry) -> float | None:
    if isinstance(entry, os.PathLike):
        return None
    try:
        return float(entry)
    except ValueError:
        return None
    except OverflowError:  # an int beyond every double
        return math.inf


def _weight(entries: list[BlendEntry], position: int, weight: float | None) -> float:
    if weight is None or not math.isfinite(weight) or weight < 0:
        raise ConfigError(
            f"blend[{position}] is the weight {entries[position]!r} of "
            f"{entries[position + 1]!r}; a weight must be finite and not negative"
        )
    return weight


def _prefix(entries: list[BlendEntry], position: int) -> str:
    entry = entries[position]
    if isinstance(entry, str):
        return entry.strip()
    if isinstance(entry, os.PathLike):
        return os.fspath(entry)
    raise ConfigTypeError(f"blend[{position}] must be a path prefix, got the number {entry!r}")
