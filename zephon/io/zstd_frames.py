"""The frames of a zstandard file (RFC 8878), found by their headers, without decoding.

A reader that starts at any frame needs to know where they begin, and a file that
was cut is told apart from one that ends: decoders take both for the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FRAME = b"\x28\xb5\x2f\xfd"
_ID_BYTES = (0, 1, 2, 4)  # by the last two bits of the descriptor
_SIZE_BYTES = (0, 2, 4, 8)  # by the first two


class DamageError(Exception):
    """A compressed stream is not what it should be at ``byte_offset`` of its file."""

    def __init__(self, message: str, byte_offset: int) -> None:
        super().__init__(message)
        self.byte_offset = byte_offset


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes ``start`` to ``end`` of the file; decoding takes about ``window`` bytes of memory."""

    start: int
    end: int
    window: int


def find_frames(data: NDArray[np.uint8]) -> list[Frame]:
    """Frames of ``data`` (uint8 ``[n]``) in their order, without the skippable ones."""
    view = data.data
    size = len(view)
    at = 0
    frames = []
    while at < size:
        magic = bytes(view[at : at + 4])
        if magic == _FRAME:
            end, window = _frame_end(view, at)
            frames.append(Frame(at, end, window))
        elif len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == b"\x2a\x4d\x18":
            end = at + 8 + int.from_bytes(view[at + 4 : at + 8], "little")
        elif at and not data[at:].any():
            break  # padding
        else:
            raise DamageError(
                f"has {size - at} bytes behind its last zstandard frame that are no frame (they "
                f"begin with {magic!r}). Cut them off or write the file anew",
                at,
            )
        if end > size:
            raise _truncated(at, size)
        at = end
    return frames


def _frame_end(view: memoryview, start: int) -> tuple[int, int]:
    """Where the frame ends and how large its window is."""
    size = len(view)
    at = start + 4
    if at >= size:
        raise _truncated(start, size)
    descriptor = view[at]
    at += 1
    single = descriptor >> 5 & 1
    window = 0
    if not single:
        if at >= size:
            raise _truncated(start, size)
        base = 1 << (10 + (view[at] >> 3))
        window = base + (base >> 3) * (view[at] & 7)
        at += 1
    at += _ID_BYTES[descriptor & 3]
    length = _SIZE_BYTES[descriptor >> 6] or single
    if single:
        window = int.from_bytes(view[at : at + length], "little") + (256 if length == 2 else 0)
    at += length
    last = False
    while not last:
        if at + 3 > size:
            raise _truncated(start, size)
        header = int.from_bytes(view[at : at + 3], "little")
        last = bool(header & 1)
        # A run of one repeated byte stores that byte only.
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
    return at + (4 if descriptor & 4 else 0), window


def _truncated(start: int, size: int) -> DamageError:
    return DamageError(
        f"is truncated zstandard: the frame that begins at byte {start} has no end. Fetch or write "
        "the file anew",
        size,
    )
