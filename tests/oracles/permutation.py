"""Readable twin of zephon/permutation.hpp: keys and the seekable permutation."""

from math import isqrt

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def splitmix64(x: int) -> int:
    x = (x + GAMMA) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fold_key(key: int, word: int) -> int:
    return splitmix64(key ^ word)


def stream(key: int):
    """The SplitMix64 generator started at ``key``."""
    while True:
        yield splitmix64(key)
        key = (key + GAMMA) & MASK


def table(n: int, key: int) -> list[int]:
    """Fisher-Yates for n <= 256."""
    values = list(range(n))
    random = stream(key)
    for i in range(n - 1, 0, -1):
        j = (next(random) * (i + 1)) >> 64
        values[i], values[j] = values[j], values[i]
    return values


def halves(n: int) -> tuple[int, int]:
    high = isqrt(n - 1) + 1
    return high, -(-n // high)


def scramble(z: int, size: int, wide: bool) -> int:
    z = (z * 0xBF58476D1CE4E5B9) & MASK
    z ^= z >> 32
    z = (z * 0x94D049BB133111EB) & MASK
    return (z * size) >> 64 if wide else ((z >> 32) * size) >> 32


def once(x: int, n: int, key: int) -> int:
    """Eight rounds on [0, high * low), which is a little more than [0, n)."""
    high, low = halves(n)
    wide = n > 2**40
    keys = [k for k, _ in zip(stream(key), range(8), strict=False)]
    left, right = divmod(x, low)
    for r in range(0, 8, 2):
        left = (left + scramble((right + keys[r]) & MASK, high, wide)) % high
        right = (right + scramble((left + keys[r + 1]) & MASK, low, wide)) % low
    return left * low + right


def permute(n: int, key: int, position: int) -> int:
    if n <= 256:
        return table(n, key)[position]
    value = once(position, n, key)
    while value >= n:
        value = once(value, n, key)
    return value
