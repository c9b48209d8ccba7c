"""Take the symbols that only a debugger reads off a shared library.

binutils strip one CPU's files each and zig's objcopy cannot do it, hence these few lines.
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ALLOC, _NOBITS, _STRTAB = 0x2, 8, 3


def strip(data: bytes) -> bytes:
    """``data``, a 64-bit little-endian ELF file, with the sections that are loaded and no other.

    Raises
    ------
    ValueError
        Not such a file, or loaded sections stand behind others in its table.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    header = list(_HEADER.unpack_from(data))
    sections_at, size, count, names_at = header[6], header[11], header[12], header[13]
    if size != _SECTION.size:
        raise ValueError(f"section headers of {size} bytes, expected {_SECTION.size}")
    sections = [_SECTION.unpack_from(data, sections_at + i * size) for i in range(count)]
    names = sections[names_at]
    text = data[names[4] : names[4] + names[5]]

    kept = [i for i, section in enumerate(sections) if i == 0 or section[2] & _ALLOC]
    # Symbols and sections name sections by number: the numbers must stay.
    if kept != list(range(len(kept))):
        raise ValueError("loaded sections stand behind others, their numbers would change")

    end = _HEADER.size
    for i in kept:
        kind, offset, length = sections[i][1], sections[i][4], sections[i][5]
        end = max(end, offset + (0 if kind in (0, _NOBITS) else length))
    for i in range(header[10]):
        segment = _SEGMENT.unpack_from(data, header[5] + i * header[9])
        end = max(end, segment[2] + segment[5])

    table, out = b"\0", []
    for i in kept:
        name = text[sections[i][0] : text.index(b"\0", sections[i][0])]
        place = len(table) if name else 0
        table += name + b"\0" if name else b""
        out.append(_SECTION.pack(place, *sections[i][1:]))
    place = len(table)
    table += b".shstrtab\0"
    out.append(_SECTION.pack(place, _STRTAB, 0, 0, end, len(table), 0, 0, 1, 0))

    body = data[:end] + table
    body += b"\0" * (-len(body) % 8)
    header[6], header[12], header[13] = len(body), len(out), len(kept)
    return _HEADER.pack(*header) + body[_HEADER.size :] + b"".join(out)
