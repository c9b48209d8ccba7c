# cython: language_level=3, boundscheck=False, wraparound=False
"""Rows from lengths of documents: checks around zephon/packing.hpp."""

from operator import index

from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t
from libcpp cimport bool as cbool


cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass const_longs "std::span<const std::int64_t>":
        const_longs()
        const_longs(const int64_t*, size_t)
    cdef cppclass longs "std::span<std::int64_t>":
        longs()
        longs(int64_t*, size_t)

cdef extern from "zephon/packing.hpp" namespace "zephon" nogil:
    const int64_t kMaxWindowRowLength
    const int64_t kMaxWindowDocuments
    const int64_t kMaxTokens
    cdef struct RowLimits:
        int64_t row_length
        int64_t max_segments
    cdef struct LengthSum:
        int64_t total
        size_t end
        cbool overflow
    LengthSum sum_lengths(const_longs, int64_t, int64_t) noexcept
    cdef enum class Fit:
        first
        best
    int64_t cpp_decreasing "zephon::pack_decreasing"(
        const_longs, RowLimits, Fit, longs, longs) except +
    cdef struct SegmentOutput:
        longs document
        longs offset
        longs length
        longs splits
    cdef struct RowCount:
        int64_t rows
        int64_t segments
    RowCount cpp_room "zephon::best_fit_wrap_room"(int64_t, int64_t, RowLimits) noexcept
    RowCount cpp_best_fit_wrap "zephon::pack_best_fit_wrap"(
        const_longs, RowLimits, const SegmentOutput&) except +
    cdef struct WrapEnd:
        int64_t rows
        int64_t segments
        int64_t documents
        int64_t tokens
    WrapEnd cpp_wrap "zephon::pack_wrap"(
        const_longs, RowLimits, int64_t, int64_t, const SegmentOutput&) noexcept


cdef inline const_longs _in(const int64_t[::1] view) noexcept:
    return const_longs(&view[0], <size_t> view.shape[0]) if view.shape[0] else const_longs()


cdef inline longs _out(int64_t[::1] view) noexcept:
    return longs(&view[0], <size_t> view.shape[0]) if view.shape[0] else longs()


cdef int64_t _integer(object value, str name, int64_t low, int64_t high) except? -1:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = index(value)
    if not low <= number <= high:
        raise ValueError(f"{name} must lie in [{low}, {high}], got {number}")
    return number


cdef RowLimits _limits(object row_length, object max_segments, int64_t longest) except *:
    cdef RowLimits limits
    limits.row_length = _integer(row_length, "row_length", 1, longest)
    limits.max_segments = _integer(max_segments, "max_segments", 0, INT32_MAX)
    return limits


cdef int64_t _total(const int64_t[::1] length, int64_t low, int64_t high,
                    str expected) except? -1:
    """The sum of ``length``, each of which must lie in [low, high]."""
    cdef const_longs view = _in(length)
    cdef LengthSum found
    with nogil:
        found = sum_lengths(view, low, high)
    if found.end < <size_t> length.shape[0]:
        if found.overflow:
            raise ValueError(f"length must sum to at most {kMaxTokens}, "
                             f"got more at index {found.end}")
        raise ValueError(f"length must be {expected}, got {length[found.end]} "
                         f"at index {found.end}")
    return found.total


cdef int _window(const int64_t[::1] length) except -1:
    if length.shape[0] > kMaxWindowDocuments:
        raise ValueError(f"length must hold at most {kMaxWindowDocuments} documents, "
                         f"got {length.shape[0]}")
    return 0


cdef int _room(str name, int64_t size, int64_t needed) except -1:
    if size < needed:
        raise ValueError(f"{name} needs room for {needed}, has {size}")
    return 0


def pack_decreasing(
    const int64_t[::1] length not None, *, row_length, max_segments=0, bint best_fit,
    int64_t[::1] document not None, int64_t[::1] splits not None,
):
    """Put whole documents into rows, the longest first, of equals the earlier first.

    Parameters
    ----------
    length : int64 ``[n]``
        Tokens of each document, 1 to ``row_length``; n is at most 2**26.
    row_length : int
        Tokens of a row, 1 to 2**24.
    max_segments : int
        Documents of a row at most; 0 means any number.
    best_fit : bool
        A document goes into the row with the least room that suffices, of equals the
        earliest; without it into the earliest row with room. Where there is none it
        opens the next row.
    document : int64 ``[n]`` or longer, written
        The documents row by row, in a row as they were placed.
    splits : int64 ``[n + 1]`` or longer, written
        Row ``b`` is ``document[splits[b]:splits[b + 1]]``; what follows
        ``splits[rows]`` is left as it was.

    Returns
    -------
    int
        The number of rows.
    """
    cdef RowLimits limits = _limits(row_length, max_segments, kMaxWindowRowLength)
    cdef Fit fit = Fit.best if best_fit else Fit.first
    cdef int64_t rows
    _window(length)
    _total(length, 1, limits.row_length, f"1 to row_length = {limits.row_length}")
    _room("document", document.shape[0], length.shape[0])
    _room("splits", splits.shape[0], length.shape[0] + 1)
    cdef const_longs length_view = _in(length)
    cdef longs document_view = _out(document)
    cdef longs splits_view = _out(splits)
    with nogil:
        rows = cpp_decreasing(length_view, limits, fit, document_view, splits_view)
    return rows


def best_fit_wrap_room(total, documents, *, row_length, max_segments=0):
    """Segments and rows that ``pack_best_fit_wrap`` may write at most.

    Parameters
    ----------
    total : int
        The sum of the lengths, at most 2**62.
    documents : int
        How many there are.
    row_length, max_segments : int
        As there.

    Returns
    -------
    (segments, rows) : tuple of int
        Segments: ``documents + total // row_length``. Rows: ``total / row_length``,
        rounded up; with a limit of segments
        ``total // row_length + documents // max_segments + 1``, or as many as segments
        if that is less.
    """
    cdef RowLimits limits = _limits(row_length, max_segments, kMaxWindowRowLength)
    cdef int64_t tokens = _integer(total, "total", 0, kMaxTokens)
    cdef int64_t count = _integer(documents, "documents", 0, min(tokens, kMaxWindowDocuments))
    cdef RowCount room = cpp_room(tokens, count, limits)
    return room.segments, room.rows


def pack_best_fit_wrap(
    const int64_t[::1] length not None, *, row_length, max_segments=0,
    int64_t[::1] document not None, int64_t[::1] offset not None,
    int64_t[::1] seg_length not None, int64_t[::1] splits not None,
):
    """Put documents into rows without padding, cutting few of them.

    Documents longer than a row are first cut into pieces of ``row_length`` from
    their beginning. Then rows are filled one after the other: by the longest piece
    that fits, of equals the one that has been there longest; when none fits, the
    longest piece of all is cut to fill the row and its rest becomes a new piece.
    Every token comes out once, those of a document in ascending order. Without
    ``max_segments`` only the last row may be short.

    Parameters
    ----------
    length : int64 ``[n]``
        Tokens of each document, at least 1, and at most 2**62 in all; n is at most 2**26.
    row_length : int
        Tokens of a row, 1 to 2**24.
    max_segments : int
        A row with so many segments closes, also if it is short; 0 means any number.
    document, offset, seg_length : int64 ``[m]``, written
        For each segment its document, its first token there and its number of tokens.
    splits : int64 ``[r + 1]``, written
        Row ``b`` is the segments ``splits[b]`` to ``splits[b + 1] - 1``.

    m and r must be at least what ``best_fit_wrap_room`` says; what is not needed is
    left as it was.

    Returns
    -------
    (rows, segments) : tuple of int
    """
    cdef RowLimits limits = _limits(row_length, max_segments, kMaxWindowRowLength)
    cdef SegmentOutput out
    cdef RowCount count
    _window(length)
    count = cpp_room(_total(length, 1, INT64_MAX, "at least 1"), length.shape[0], limits)
    _room("document", document.shape[0], count.segments)
    _room("offset", offset.shape[0], count.segments)
    _room("seg_length", seg_length.shape[0], count.segments)
    _room("splits", splits.shape[0], count.rows + 1)
    out.document = _out(document)
    out.offset = _out(offset)
    out.length = _out(seg_length)
    out.splits = _out(splits)
    cdef const_longs length_view = _in(length)
    with nogil:
        count = cpp_best_fit_wrap(length_view, limits, out)
    return count.rows, count.segments


def pack_wrap(
    const int64_t[::1] length not None, *, row_length, max_segments=0, rows, skip,
    int64_t[::1] document not None, int64_t[::1] offset not None,
    int64_t[::1] seg_length not None, int64_t[::1] splits not None,
):
    """Lay documents end to end and cut complete rows from them.

    Parameters
    ----------
    length : int64 ``[n]``
        Tokens of each document, at most 2**62 in all. Empty ones make no segment.
    row_length : int
        Tokens of a row, 1 to 2**31 - 1.
    max_segments : int
        A row with so many segments is complete too; 0 means any number.
    rows : int
        Rows to make at most.
    skip : int
        Where in document 0 to begin, at most its length; 0 if there is none.
    document, offset, seg_length : int64 ``[n + rows]`` or longer, written
        For each segment its document, its first token there (``skip`` included) and
        its number of tokens. What follows the last segment has no meaning.
    splits : int64 ``[rows + 1]`` or longer, written
        Row ``b`` is the segments ``splits[b]`` to ``splits[b + 1] - 1``.

    Returns
    -------
    (rows_done, segments, documents_done, tokens_done) : tuple of int
        The last two say where the next row begins: in document ``documents_done``, n if
        all are used up, at its token ``tokens_done``. That is just behind the last
        token taken: 0 of the next document where one was used up, and of an empty one
        if that follows. It is ``(0, skip)`` if no row is complete.
    """
    cdef RowLimits limits = _limits(row_length, max_segments, INT32_MAX)
    cdef int64_t wanted = _integer(rows, "rows", 0, kMaxTokens)
    cdef SegmentOutput out
    cdef WrapEnd end
    _total(length, 0, INT64_MAX, "at least 0")
    cdef int64_t begin = _integer(skip, "skip", 0, length[0] if length.shape[0] else 0)
    _room("document", document.shape[0], length.shape[0] + wanted)
    _room("offset", offset.shape[0], length.shape[0] + wanted)
    _room("seg_length", seg_length.shape[0], length.shape[0] + wanted)
    _room("splits", splits.shape[0], wanted + 1)
    out.document = _out(document)
    out.offset = _out(offset)
    out.length = _out(seg_length)
    out.splits = _out(splits)
    cdef const_longs length_view = _in(length)
    with nogil:
        end = cpp_wrap(length_view, limits, wanted, begin, out)
    return end.rows, end.segments, end.documents, end.tokens
