"""Readable twin of zephon/mixture.hpp: integer weights, counts, chunks."""

from fractions import Fraction
from math import ceil, floor


def largest_remainder(weights: list, total: int) -> list[int]:
    """Integers proportional to ``weights`` that sum to ``total``, each at least 1."""
    shares = [Fraction(w) * total / sum(map(Fraction, weights)) for w in weights]
    counts = [floor(share) for share in shares]
    by_remainder = sorted(range(len(weights)), key=lambda i: (counts[i] - shares[i], i))
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    for i, count in enumerate(counts):
        if count == 0:
            counts[counts.index(max(counts))] -= 1
            counts[i] = 1
    return counts


def lane_counts(weights: list[int], lane: int, lanes: int, t: int) -> list[int]:
    """Documents of every source in the first ``t`` draws of a lane."""
    total = sum(weights)
    phase = Fraction(2 * lane + 1, 2 * lanes)
    bounds = [floor(Fraction(sum(weights[:j]) * t, total) + phase) for j in range(len(weights) + 1)]
    return [bounds[i + 1] - bounds[i] for i in range(len(weights))]


def earliest_due(length: int, windows: list[list[tuple[int, int]]]) -> list[int] | None:
    """Sources for slots 1..length; ``windows[i]`` are (first, due) slots of source i's units."""
    windows = [list(units) for units in windows]
    sequence = []
    for slot in range(1, length + 1):
        ready = [
            (units[0][1], i) for i, units in enumerate(windows) if units and units[0][0] <= slot
        ]
        if not ready or min(ready)[0] < slot:
            return None
        source = min(ready)[1]
        windows[source].pop(0)
        sequence.append(source)
    return sequence


def chunk_sequence(
    weights: list[int], t0: int, given: list[int], taken: list[int]
) -> tuple[list[int], bool]:
    """The source of every draw of a chunk, and whether the absolute windows held."""
    total, length = sum(weights), sum(taken)

    def window(n: int, d: int, unit: int, shift: int) -> tuple[int, int]:
        return floor(Fraction((unit - 1) * n, d)) + 1 - shift, ceil(Fraction(unit * n, d)) - shift

    absolute = [
        [window(total, p, unit, t0) for unit in range(had + 1, had + take + 1)]
        for p, had, take in zip(weights, given, taken, strict=True)
    ]
    sequence = earliest_due(length, absolute)
    if sequence is not None:
        return sequence, True
    relative = [[window(length, take, unit, 0) for unit in range(1, take + 1)] for take in taken]
    sequence = earliest_due(length, relative)
    assert sequence is not None
    return sequence, False
