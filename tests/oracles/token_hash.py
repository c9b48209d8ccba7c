"""The hash of token ids that cursors vouch by, one id at a time."""

from __future__ import annotations

from collections.abc import Iterable

_WORD = 2**64


def _step(total: int, word: int) -> int:
    total = (total ^ word % _WORD) * 0x9E3779B97F4A7C15 % _WORD
    return total ^ (total >> 29)


def token_hash(ids: Iterable[int]) -> bytes:
    """Eight bytes, little endian."""
    sums = [1, 2, 3, 4]
    count = 0
    for token in ids:
        sums[count % 4] = _step(sums[count % 4], token)
        count += 1
    value = count
    for total in sums:
        value = _step(value, total)
    return value.to_bytes(8, "little")
