"""Readable twin of a piece: the chunks of all lanes, by counting everything before them."""

from oracles.mixture import chunk_sequence, lane_counts


def first_ordinals(weights: list[int], lane: int, lanes: int, t0: int, t1: int) -> list[int]:
    """Ordinal of the first document of each source in chunk [t0, t1) of a lane.

    All lanes take their draws before t0 first, then the chunks of the round
    [t0, t1) are taken lane after lane.
    """
    first = [0] * len(weights)
    for other in range(lanes):
        for i, count in enumerate(lane_counts(weights, other, lanes, t0)):
            first[i] += count
    for other in range(lane):
        begin = lane_counts(weights, other, lanes, t0)
        end = lane_counts(weights, other, lanes, t1)
        for i in range(len(weights)):
            first[i] += end[i] - begin[i]
    return first


def chunk(weights: list[int], lane: int, lanes: int, t0: int, t1: int) -> list[tuple[int, int]]:
    """(source, ordinal in the piece) of every draw of chunk [t0, t1)."""
    given = lane_counts(weights, lane, lanes, t0)
    end = lane_counts(weights, lane, lanes, t1)
    taken = [after - before for before, after in zip(given, end, strict=True)]
    following = first_ordinals(weights, lane, lanes, t0, t1)
    draws = []
    for source in chunk_sequence(weights, t0, given, taken)[0]:
        draws.append((source, following[source]))
        following[source] += 1
    return draws
