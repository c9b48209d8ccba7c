"""What a few bytes tell of a file: which format it is, and whether it is the same as before."""

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


_MAGIC = (
    (b"PAR1", "parquet", "Parquet"),
    (b"ARROW1\0\0", "arrow", "an Arrow IPC file"),
    (b"\xff\xff\xff\xff", "arrow", "an Arrow IPC stream"),
    (b"MMIDIDX\0\0", "bin", "the index of a .bin/.idx pair"),
)


def other_format(head: bytes) -> str:
    """What a file that was taken for text is by its first bytes; empty if nothing speaks up."""
    for magic, name, title in _MAGIC:
        if head.startswith(magic):
            return f"is {title}, no JSON Lines. Name it by its own suffix or with fmt={name!r}"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is text in UTF-16 by its byte order mark. Convert it to UTF-8"
    return ""


def _probe_starts(size: int) -> Iterable[int]:
    if size <= PROBES * PROBE_BYTES:
        return range(0, size, PROBE_BYTES)
    step = (size - PROBE_BYTES) // (PROBES - 1)
    return [i * step for i in range(PROBES - 1)] + [size - PROBE_BYTES]
