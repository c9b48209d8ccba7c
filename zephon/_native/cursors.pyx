# cython: language_level=3, boundscheck=False, wraparound=False
"""Cursors as bytes, and the token ids that they vouch for: zephon/token_hash.hpp."""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memset
from libcpp.vector cimport vector


cdef extern from "zephon/tokens.hpp" namespace "zephon" nogil:
    cdef enum class TokenType:
        int8
        uint8
        int16
        uint16
        int32
        uint32
        int64

cdef extern from "zephon/token_hash.hpp" namespace "zephon" nogil:
    cdef cppclass TokenHash:
        TokenHash() noexcept
        void add(const void*, TokenType, int64_t) noexcept
        uint64_t value() noexcept


cdef int _token_type(const Py_buffer* view, TokenType* found) noexcept:
    """Whether a buffer holds token ids, and of which type."""
    cdef const char* text = view.format
    cdef bint signed
    if text == NULL:
        text = b"B"
    if text[0] == b"=" or text[0] == b"@":
        text += 1
    cdef char code = text[0]
    if code == 0 or text[1] != 0:
        return False
    if code == b"b" or code == b"h" or code == b"i" or code == b"l" or code == b"q":
        signed = True
    elif code == b"B" or code == b"H" or code == b"I" or code == b"L" or code == b"Q":
        signed = False
    else:
        return False
    if view.itemsize == 1:
        found[0] = TokenType.int8 if signed else TokenType.uint8
    elif view.itemsize == 2:
        found[0] = TokenType.int16 if signed else TokenType.uint16
    elif view.itemsize == 4:
        found[0] = TokenType.int32 if signed else TokenType.uint32
    elif signed:
        found[0] = TokenType.int64
    else:
        return False
    return True


cdef extern from *:
    """
    static inline void zephon_prefetch(const char* at) {
      __builtin_prefetch(at);
      __builtin_prefetch(at + 64);
    }
    """
    void zephon_prefetch(const char*) noexcept nogil

cdef enum:
    VIEWS = 16

cdef struct Views:  # of the arrays that were met last; zeros at first
    PyObject* arrays[VIEWS]
    Py_buffer views[VIEWS]
    TokenType kinds[VIEWS]


cdef void _forget(Views* known) noexcept:
    cdef int i
    for i in range(VIEWS):
        PyBuffer_Release(&known.views[i])


cdef int _borrow(object array, Py_buffer* view, TokenType* kind, str name) except -1:
    """Borrow the memory of a 1-D array of integers."""
    PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_STRIDES)
    if view.ndim != 1 or not _token_type(view, kind) or not PyBuffer_IsContiguous(view, b"C") or (
            <uintptr_t> view.buf % <uintptr_t> view.itemsize != 0):
        PyBuffer_Release(view)
        raise TypeError(f"{name} must be a contiguous 1-D array of integers, got {array!r}")
    return 0


cdef int _known(object array, Views* known) except -1:
    """Which of the views is that of an array."""
    cdef uintptr_t address = <uintptr_t> <PyObject*> array
    cdef int i = <int> ((address >> 4 ^ address >> 8) % VIEWS)
    if known.arrays[i] != <PyObject*> array:
        PyBuffer_Release(&known.views[i])
        known.arrays[i] = NULL
        _borrow(array, &known.views[i], &known.kinds[i], "tokens")
        known.arrays[i] = <PyObject*> array  # which the view keeps
    return i


cdef uint64_t _hash_row(tuple table, Views* known) except? 0:
    """The hash of a row's first tokens of each segment, without an array for each of them."""
    cdef TokenHash made
    cdef TokenType kind
    cdef Py_buffer views[4]
    cdef int i
    cdef int64_t s, row, first, last, each, start, count
    cdef const char* at
    cdef const int32_t* buffer
    cdef const int64_t* columns[4]
    buffers, row, each = table[0], table[5], table[6]
    memset(views, 0, sizeof(views))
    try:
        for i in range(4):
            _borrow(table[1 + i], &views[i], &kind, "a column of rows")
            if kind != (TokenType.int64 if i else TokenType.int32) or (
                    i < 3 and views[i].shape[0] != views[0].shape[0]):
                raise ValueError(f"column {i} of rows does not fit the others: {table[1 + i]!r}")
            columns[i] = <const int64_t*> views[i].buf
        buffer = <const int32_t*> views[0].buf
        if not 0 <= row < views[3].shape[0] - 1:
            raise ValueError(f"row {row} is none of {views[3].shape[0] - 1}")
        first, last = columns[3][row], columns[3][row + 1]
        if not 0 <= first <= last <= views[0].shape[0]:
            raise ValueError(f"row {row} has the segments {first} to {last} of "
                             f"{views[0].shape[0]}")
        if last > first:
            each = max(each // (last - first), 1)
        for s in range(first, last):
            i = _known(buffers[buffer[s]], known)
            start, count = columns[1][s], columns[2][s]
            if start < 0 or count < 0 or start > known.views[i].shape[0] or (
                    count > known.views[i].shape[0] - start):
                raise ValueError(f"segment {s} leaves its buffer")
            zephon_prefetch(<const char*> known.views[i].buf + start * known.views[i].itemsize)
        for s in range(first, last):
            i = _known(buffers[buffer[s]], known)
            at = <const char*> known.views[i].buf + columns[1][s] * known.views[i].itemsize
            made.add(at, known.kinds[i], min(columns[2][s], each))
    finally:
        for i in range(4):
            PyBuffer_Release(&views[i])
    return made.value()


cdef uint64_t _hash(object parts, Views* known) except? 0:
    cdef TokenHash made
    cdef Py_buffer view
    cdef TokenType kind
    table = getattr(parts, "table", None)
    if table is not None:
        return _hash_row(table, known)
    for i, part in enumerate(parts):
        try:
            PyObject_GetBuffer(part, &view, PyBUF_FORMAT | PyBUF_STRIDES)
        except (BufferError, TypeError, ValueError) as error:
            raise TypeError(f"parts[{i}] must be an array of integers, got "
                            f"{type(part).__name__}") from error
        try:
            if view.ndim != 1 or not _token_type(&view, &kind):
                told = (<bytes> view.format).decode()
                raise TypeError(f"parts[{i}] must be a 1-D array of int8 to int64 or uint8 to "
                                f"uint32, got {view.ndim} axes of format {told!r}")
            if not PyBuffer_IsContiguous(&view, b"C"):
                raise ValueError(f"parts[{i}] must be contiguous")
            if <uintptr_t> view.buf % <uintptr_t> view.itemsize != 0:
                raise ValueError(
                    f"parts[{i}] must be aligned to its {view.itemsize} byte items")
            made.add(view.buf, kind, view.shape[0])
        finally:
            PyBuffer_Release(&view)
    return made.value()


def hash_tokens(parts):
    """Eight bytes over the token ids of ``parts``, end to end.

    Parameters
    ----------
    parts : iterable of int8 to int64 or uint8 to uint32 ``[any]``
        The value depends on the ids and not on their type, nor on where parts are cut.
        Of a :class:`zephon.rows.RowTokens` its table is read instead.
    """
    cdef Views known
    memset(&known, 0, sizeof(known))
    try:
        return (<uint64_t> _hash(parts, &known)).to_bytes(8, "little")
    finally:
        _forget(&known)


cdef int _varint(vector[uint8_t]& out, object value) except -1:
    cdef int64_t number
    try:
        number = value
    except OverflowError:
        number = -1
    if number < 0:
        raise ValueError(f"a count in a cursor is {value}, expected 0 to 2**63 - 1")
    while number >= 0x80:
        out.push_back(<uint8_t> (number & 0x7F | 0x80))
        number >>= 7
    out.push_back(<uint8_t> number)
    return 0


cdef int _encode(object cursor, vector[uint8_t]& out, Views* known) except -1:
    cdef uint64_t check
    cdef int i
    cdef bytes given
    documents = cursor.documents
    dropped = documents.dropped
    token, rows, shuffled = documents.token, cursor.rows, cursor.shuffled
    _varint(out, documents.draw)
    _varint(out, token)
    _varint(out, rows)
    _varint(out, cursor.window)
    _varint(out, shuffled)
    _varint(out, dropped.empty)
    _varint(out, dropped.oversized)
    _varint(out, dropped.oversized_tokens)
    _varint(out, dropped.tail_tokens)
    if token or rows or shuffled:
        evidence = cursor._evidence
        if isinstance(evidence, bytes):
            given = evidence
            for i in range(len(given)):
                out.push_back(given[i])
        else:
            check = _hash(evidence, known)
            for i in range(8):
                out.push_back(<uint8_t> (check >> (8 * i)))
    return 0


def encode_cursors(cursors):
    """The bytes of cursors (:class:`zephon.cursor.LaneCursor`) one after the other.

    Of each the varints draw, token, rows, window, shuffled and the four counts of what
    was left out; then eight bytes of check if token, rows or shuffled is not 0.
    """
    cdef vector[uint8_t] out
    cdef Views known
    memset(&known, 0, sizeof(known))
    try:
        for cursor in cursors:
            _encode(cursor, out, &known)
    finally:
        _forget(&known)
    return bytes((<char*> out.data())[:out.size()]) if out.size() else b""
