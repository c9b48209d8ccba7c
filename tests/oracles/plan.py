"""Readable twin of finite plans: pieces of exact counts, then a tail dealt to the lanes."""

from fractions import Fraction
from math import ceil, floor

from oracles.lanes import chunk


def shares(weights: dict[int, int], total: int) -> dict[int, int]:
    """Largest remainder; a count may be 0."""
    exact = {i: Fraction(w * total, sum(weights.values())) for i, w in weights.items()}
    counts = {i: floor(share) for i, share in exact.items()}
    by_remainder = sorted(counts, key=lambda i: (counts[i] - exact[i], i))
    for i in by_remainder[: total - sum(counts.values())]:
        counts[i] += 1
    return counts


def ending(
    documents: list[int | None], stops: list[bool], weights: list[int], lanes: int
) -> tuple[list[dict[int, int]], dict[int, int], bool]:
    """Counts per piece, counts of the tail, and whether the last piece has no end."""
    left = dict(enumerate(documents))
    pieces: list[dict[int, int]] = []
    tail: dict[int, int] = {}
    while any(n is not None for n in left.values()):
        active = {i: weights[i] for i in left}
        rate = {i: Fraction(active[i], sum(active.values())) for i in left}
        finite = [i for i in left if left[i] is not None]
        reach = {i: floor(left[i] / rate[i]) for i in finite}
        draws = min(reach.values()) // lanes * lanes
        if draws > 0:
            taken = shares(active, draws)
            pieces.append(taken)
            for i in finite:
                left[i] -= taken[i]
        ended = [i for i in finite if reach[i] < draws + lanes or left[i] == 0]
        stopped = [i for i in ended if stops[i]]
        for i in stopped or ended:
            tail[i] = left.pop(i)
        tail = {i: n for i, n in tail.items() if n > 0}
        if stopped:
            return pieces, tail, False
    if not left:
        return pieces, tail, False
    endless = {i: weights[i] for i in left}
    if tail:
        fill = -sum(tail.values()) % lanes
        pieces.append({**tail, **shares(endless, fill)})
    pieces.append(endless)
    return pieces, {}, True


def passes(
    documents: list[int], weights: list[int], count: int, lanes: int
) -> tuple[list[dict[int, int]], dict[int, int]]:
    """Counts of the only piece, if any, and of the tail."""
    total = sum(weights)
    turns = [Fraction(n, w) for n, w in zip(documents, weights, strict=True)]
    slowest = max(turns)
    draws = ceil(count * slowest * total)
    exact = [Fraction(draws * w, total) for w in weights]
    given = {i: floor(share) for i, share in enumerate(exact)}
    others = [i for i in given if turns[i] != slowest]
    others.sort(key=lambda i: (given[i] - exact[i], i))
    for i in others[: draws - sum(given.values())]:
        given[i] += 1
    whole = draws // lanes * lanes
    if whole == 0:
        return [], given
    dealt = shares(given, whole)
    return [dealt], {i: given[i] - dealt[i] for i in given}


def tail_order(tail: dict[int, int], given: dict[int, int]) -> list[tuple[int, int]]:
    """(source, ordinal) of the tail, each source spread over the whole of it."""
    spread = [
        (Fraction(j, count), i, given.get(i, 0) + j)
        for i, count in tail.items()
        for j in range(count)
    ]
    return [(i, ordinal) for _, i, ordinal in sorted(spread)]


def lane_draws(
    pieces: list[dict[int, int]],
    tail: dict[int, int],
    lane: int,
    lanes: int,
    chunk_size: int,
) -> list[tuple[int, int]]:
    """(source, ordinal) of every draw of one lane of a plan that ends."""
    given: dict[int, int] = {}
    draws = []
    for piece in pieces:
        sources = sorted(i for i in piece if piece[i] > 0)
        weights = [piece[i] for i in sources]
        length = sum(weights) // lanes
        size = max(chunk_size, ceil(Fraction(sum(weights), min(weights))))
        ends = [size * (k + 1) for k in range(max(1, length // size) - 1)] + [length]
        begin = 0
        for end in ends:
            for source, ordinal in chunk(weights, lane, lanes, begin, end):
                i = sources[source]
                draws.append((i, given.get(i, 0) + ordinal))
            begin = end
        for i in sources:
            given[i] = given.get(i, 0) + piece[i]
    return draws + tail_order(tail, given)[lane::lanes]
