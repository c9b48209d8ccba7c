"""Checks of arguments that come from Python, before a kernel sees them.

A wrong kind is a TypeError, a wrong value a ValueError; both name the argument.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1


def integer(name: str, value: object, low: int, high: int) -> int:
    """``value`` as an int from ``low`` to ``high``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}, got {number}")
    return number


def flag(name: str, value: object) -> bool:
    """``value`` as a bool; 0 and 1 pass too."""
    if isinstance(value, np.bool_):
        return bool(value)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}") from None
    if number not in (0, 1):
        raise ValueError(f"{name} must be a bool, 0 or 1, got {number}")
    return bool(number)


def probability(name: str, value: object) -> float:
    """``value`` as a float from 0 to 1."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a number, got {type(value).__name__}") from None
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {number}")
    return number


def integers(name: str, value: ArrayLike, dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """``value`` as an aligned C-contiguous 1-D array of ``dtype``; it must fit exactly."""
    array = np.asarray(value)
    if array.size == 0 and not isinstance(value, np.ndarray):
        array = array.astype(dtype)
    if (
        array.dtype.kind in "fO"
        and isinstance(value, (list, tuple))
        and all(isinstance(entry, int) for entry in value)
    ):  # numpy makes objects or floats of integers beyond 64 bits
        raise ValueError(f"{name} has a value that does not fit {dtype.__name__}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    _require_one_dimension(name, array)
    if array.size and not np.can_cast(array.dtype, dtype):
        limits = np.iinfo(dtype)
        for at in (int(array.argmin()), int(array.argmax())):
            if not limits.min <= int(array[at]) <= limits.max:
                raise ValueError(f"{name}[{at}] is {array[at]}, which does not fit {limits.dtype}")
    return np.require(array, dtype, ("C", "A"))


def weights(value: ArrayLike, count: int) -> NDArray[np.float64]:
    """``value`` as ``count`` finite weights that are not negative."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"weights must hold numbers, got dtype {array.dtype}")
    _require_one_dimension("weights", array)
    if len(array) != count:
        raise ValueError(f"num_datasets is {count}, but there are {len(array)} weights")
    array = np.require(array, np.float64, ("C", "A"))
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"weights[{at}] is {array[at]}; a weight must be finite and not negative")
    return array


def output(name: str, array: object, dtypes: tuple[type, ...], size: int) -> NDArray[Any]:
    """The first ``size`` entries of an array to be written to.

    An array that is not contiguous is replaced by a new one, whose content
    :func:`deliver` then carries over.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a numpy array to write to, got {type(array).__name__}")
    if array.dtype not in dtypes:
        wanted = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
        raise TypeError(
            f"{name} must have dtype {wanted}, got {array.dtype}: its values would be lost"
        )
    _require_one_dimension(name, array)
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and the result is written to it")
    if len(array) < size:
        raise ValueError(f"{name} has room for {len(array)} samples, but there are {size}")
    window = array[:size]
    return window if window.flags.carray else np.empty(size, array.dtype)


def deliver(array: NDArray[Any], result: NDArray[Any]) -> None:
    """Carry over what was written to a stand-in of ``array``."""
    if not np.may_share_memory(array, result):
        array[: len(result)] = result


def round_half_up(number: float) -> int:
    """The nearest integer, as C rounds: halves go away from zero."""
    floor = math.floor(number)
    return floor + (number - floor >= 0.5)


def _require_one_dimension(name: str, array: NDArray[Any]) -> None:
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
