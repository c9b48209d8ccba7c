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
