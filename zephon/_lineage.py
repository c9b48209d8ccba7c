"""Paths through operators that made several documents of one, as one number each."""

from __future__ import annotations

from collections.abc import Sequence

from zephon.errors import ConfigError

_LEVELS, _BITS = 3, 20


def lineage_code(path: Sequence[int]) -> int:
    """A path through at most three fan-outs as one number; 0 for none."""
    if not path:
        return 0
    if len(path) > _LEVELS or max(path) >= 2**_BITS - 1:
        raise ConfigError(
            f"a document was made by fan-outs along {tuple(path)}: more than {_LEVELS} of them, or "
            f"more than {2**_BITS - 1:,} documents of one"
        )
    return sum((index + 1) << (_BITS * level) for level, index in enumerate(path))


def lineage_path(code: int) -> tuple[int, ...]:
    """The path that :func:`lineage_code` made a number of."""
    path = []
    while code:
        path.append(code % 2**_BITS - 1)
        code >>= _BITS
    return tuple(path)
