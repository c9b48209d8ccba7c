"""What the records of a text are, byte by byte."""

from __future__ import annotations


def records(text: bytes, begin: int = 0) -> list[tuple[int, int, int]]:
    """Begin, end and line number of each line from ``begin`` on that a newline ends, blank or not.

    A line of nothing but spaces, tabs and carriage returns is left out.
    """
    found = []
    number = 1
    first = begin
    for at in range(begin, len(text)):
        if text[at : at + 1] == b"\n":
            if any(byte not in b" \t\r" for byte in text[first:at]):
                found.append((first, at, number))
            first = at + 1
            number += 1
    return found
