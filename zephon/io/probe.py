"""A digest of a large file that does not read all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROBES = 64
PROBE_BYTES = 4096


def probe_digest(data: NDArray[np.uint8], *extra: NDArray[Any] | bytes) -> bytes:
    """Sixteen bytes over the size of ``data``, 64 spread pages of it, and ``extra``.

    A file that was replaced, cut, extended or rewritten is noticed; a change of
    a few bytes between two probes is not, unless ``extra`` (the index) moves
    with it. Reading everything would cost a pass over the corpus at each start.
    """
    size = len(data)
    digest = hashlib.blake2b(digest_size=16)
    digest.update(size.to_bytes(8, "little"))
    for start in _probe_starts(size):
        digest.update(data[start : start + PROBE_BYTES].tobytes())
    for part in extra:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return digest.digest()


def _probe_starts(size: int) -> Iterable[int]:
    if size <= PROBES * PROBE_BYTES:
        return range(0, size, PROBE_BYTES)
    step = (size - PROBE_BYTES) // (PROBES - 1)
    return [i * step for i in range(PROBES - 1)] + [size - PROBE_BYTES]
