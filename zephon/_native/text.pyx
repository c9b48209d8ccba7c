# cython: language_level=3, boundscheck=False, wraparound=False
"""Line index of a text file: checks around zephon/lines.hpp."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t


cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass bytes_view "std::span<const std::uint8_t>":
        bytes_view(const uint8_t*, size_t)
    cdef cppclass offsets_view "std::span<std::int64_t>":
        offsets_view(int64_t*, size_t)

cdef extern from "zephon/lines.hpp" namespace "zephon" nogil:
    size_t count_newlines(bytes_view) noexcept
    size_t find_newlines(bytes_view, int64_t, offsets_view) noexcept
    cdef cppclass OpenLine:
        int64_t begin
        int64_t number
        bint blank
    size_t scan_records(
        bytes_view, int64_t, OpenLine&, int64_t*, int64_t*, int64_t*
    ) noexcept


def count_lines(const uint8_t[::1] data not None):
    """Number of newline bytes in ``data`` (uint8 ``[n]``)."""
    cdef size_t size = <size_t> data.shape[0]
    cdef size_t found = 0
    if size == 0:
        return 0
    with nogil:
        found = count_newlines(bytes_view(&data[0], size))
    return found


def index_lines(const uint8_t[::1] data not None, int64_t base, int64_t[::1] out not None):
    """Write ``base`` + the position of each newline of ``data`` to ``out``.

    ``out`` (int64 ``[m]``) must have room for all of them; returns their number.
    """
    cdef size_t size = <size_t> data.shape[0]
    cdef size_t room = <size_t> out.shape[0]
    cdef size_t found = 0
    if size == 0:
        return 0
    with nogil:
        found = count_newlines(bytes_view(&data[0], size))
    if found > room:
        raise ValueError(f"out has room for {room} offsets, data holds {found} newlines")
    if found == 0:
        return 0
    with nogil:
        find_newlines(bytes_view(&data[0], size), base, offsets_view(&out[0], room))
    return found


def index_records(
    const uint8_t[::1] data not None,
    int64_t base,
    int64_t begin,
    int64_t number,
    bint blank,
    int64_t[:, ::1] out not None,
):
    """Find the records of a piece of a text: its lines that are not blank.

    ``data`` (uint8 ``[n]``) lies at byte ``base`` of the text. The line that the
    piece before ended in begins at ``begin``, is the ``number``-th and ``blank`` says
    whether it holds only white space so far. Begin, end and number of each record
    that ends in ``data`` are written to the three rows of ``out`` (int64 ``[3, m]``,
    ``m`` at least the newlines of ``data``).

    Returns their number and the ``begin``, ``number`` and ``blank`` of the line that
    ``data`` ends in.
    """
    cdef size_t size = <size_t> data.shape[0]
    cdef size_t found = 0
    cdef OpenLine line
    if base < 0 or base > 2**62 or begin < 0 or begin > base + data.shape[0]:
        raise ValueError(
            f"the line begins at {begin} and the data at {base}, expected 0 <= begin <= "
            f"base + {size}"
        )
    if out.shape[0] != 3:
        raise ValueError(f"out has {out.shape[0]} rows, expected 3")
    line.begin, line.number, line.blank = begin, number, blank
    if size == 0:
        return 0, begin, number, blank
    with nogil:
        found = count_newlines(bytes_view(&data[0], size))
    if found > <size_t> out.shape[1]:
        raise ValueError(f"out has room for {out.shape[1]} records, data holds {found} newlines")
    with nogil:
        found = scan_records(
            bytes_view(&data[0], size), base, line,
            &out[0, 0] if found else NULL, &out[1, 0] if found else NULL,
            &out[2, 0] if found else NULL,
        )
    return found, line.begin, line.number, line.blank
