"""Where documents lie: their shard, first token and length, looked up one by one."""

from __future__ import annotations

from collections.abc import Sequence

Shard = Sequence[tuple[int, int]]  # (first token, tokens) of each document


def find(sources: Sequence[Sequence[Shard]], source: int, row: int) -> tuple[int, int, int]:
    """Number of the shard among those of all sources, first token and tokens."""
    number = sum(len(shards) for shards in sources[:source])
    for shard in sources[source]:
        if row < len(shard):
            return number, *shard[row]
        row -= len(shard)
        number += 1
    raise LookupError(row)
