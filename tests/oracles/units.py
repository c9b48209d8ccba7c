"""Readable twin of the order of documents inside a source."""

from hashlib import blake2b

from oracles.permutation import fold_key, permute


def source_key(seed: int, purpose: str, name: str) -> int:
    key = fold_key(0, seed)
    key = fold_key(key, int.from_bytes(purpose.encode(), "little"))
    return fold_key(key, int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little"))


def cut(counts: list[int], size: int) -> list[int]:
    """Units of ``size`` documents; the last one of a shard may be shorter."""
    units = []
    for count in counts:
        units += [size] * (count // size)
        if count % size:
            units.append(count % size)
    return units


def locate(
    units: list[int],
    shuffle_units: bool,
    shuffle_rows: bool,
    seed: int,
    name: str,
    reshuffle: bool,
    ordinal: int,
) -> tuple[int, int]:
    """(row in file order, pass) of one ordinal of a source."""
    turn, position = divmod(ordinal, sum(units))
    keyed = turn if reshuffle else 0
    unit_key = fold_key(source_key(seed, "unit", name), keyed)
    row_key = fold_key(source_key(seed, "row", name), keyed)
    slot = 0
    while True:
        unit = permute(len(units), unit_key, slot) if shuffle_units else slot
        if position < units[unit]:
            break
        position -= units[unit]
        slot += 1
    if shuffle_rows:
        position = permute(units[unit], fold_key(row_key, slot), position)
    return sum(units[:unit]) + position, turn


def group(counts: list[int], decoded: list[int], size: int) -> list[int]:
    """Sizes of the units that runs decoded together are put into, shard by shard.

    ``decoded`` has the first document of each run. Runs of a shard whose middles lie between
    the same two multiples of ``size`` are one unit.
    """
    sizes = []
    shard_first = 0
    for count in counts:
        shard_end = shard_first + count
        starts = [first for first in decoded if shard_first <= first < shard_end]
        pieces: dict[int, int] = {}
        ends = [*starts[1:], shard_end] if starts else []
        for first, end in zip(starts, ends, strict=True):
            middle = (first + end - 1 - 2 * shard_first) // 2
            pieces[middle // size] = pieces.get(middle // size, 0) + end - first
        sizes += pieces.values()
        shard_first = shard_end
    return sizes
