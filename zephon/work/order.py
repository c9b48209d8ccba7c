"""Keys and seekable permutations: what makes an order a function instead of a history.

A permutation of ``[0, n)`` is drawn by a 64-bit key and can be asked at any
position at the same small cost, without a table of ``n`` entries. The key is
derived from the seed, what the permutation is for, and what it belongs to (a
source by its *name*), so that nothing moves when another source is added.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from zephon._native import order as _native
from zephon.errors import ConfigError, ConfigTypeError


def derive_key(seed: int, purpose: str, *parts: int | str) -> int:
    """Key of 64 bits for one use of randomness.

    Parameters
    ----------
    seed : int
        Of the run, 0 to ``2**64 - 1``.
    purpose : str
        What the key is for: 1 to 8 ASCII characters.
    *parts : int or str
        What it belongs to, outermost first: a name counts by its hash, a
        number (0 to ``2**64 - 1``) by its value.
    """
    check_seed(seed)
    tag = purpose.encode("ascii")
    if not 1 <= len(tag) <= 8:
        raise ConfigError(f"purpose is {purpose!r}, expected 1 to 8 ASCII characters")
    key = _native.fold_key(0, seed)
    key = _native.fold_key(key, int.from_bytes(tag, "little"))
    for part in parts:
        key = _native.fold_key(key, hash_name(part) if isinstance(part, str) else part)
    return key


def hash_name(name: str) -> int:
    """64 bits that stand for ``name`` in keys: BLAKE2b of its UTF-8 form."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def check_seed(seed: int) -> None:
    """Refuse what is not an int of 0 to ``2**64 - 1``."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ConfigTypeError(f"seed must be an int, not {type(seed).__name__}")
    if not 0 <= seed < 2**64:
        raise ConfigError(f"seed is {seed}, expected 0 to 2**64 - 1")


def permute(n: int, key: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the permutation of ``[0, n)`` drawn by ``key`` sends ``positions``.

    Parameters
    ----------
    n : int
        1 to ``2**62``.
    key : int
        See :func:`derive_key`.
    positions : int64 ``[m]``, C-contiguous
        Each in ``[0, n)``, in any order.

    Returns
    -------
    int64 ``[m]``

    Raises
    ------
    ValueError
        For a position outside of ``[0, n)``, naming it.
    """
    out = np.empty_like(positions)
    _native.permute(n, key, positions, out)
    return out


def permute_inverse(n: int, key: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions that :func:`permute` sends to ``values``."""
    out = np.empty_like(values)
    _native.permute_inverse(n, key, values, out)
    return out
