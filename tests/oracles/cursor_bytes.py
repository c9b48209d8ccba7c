"""Cursors as the bytes of a state, number by number."""

from __future__ import annotations

from collections.abc import Iterable

from zephon.cursor import LaneCursor


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that more follow."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_cursors(cursors: Iterable[LaneCursor]) -> bytes:
    """All cursors one after the other."""
    out = b""
    for cursor in cursors:
        documents = cursor.documents
        numbers = (documents.draw, documents.token, cursor.rows, cursor.window, cursor.shuffled)
        out += b"".join(map(varint, (*numbers, *documents.dropped.counts()[:4])))
        if cursor.is_open:
            out += cursor.check
    return out
