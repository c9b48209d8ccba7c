# cython: language_level=3, boundscheck=False, wraparound=False
"""Cursors as bytes, and the token ids that they vouch for: zephon/token_hash.hpp."""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport int64_t, uint64_t, uint8_t, uintptr_t
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


cdef uint64_t _hash(object parts) except? 0:
    cdef TokenHash made
    cdef Py_buffer view
    cdef TokenType kind
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
    parts : sequence of int8 to int64 or uint8 to uint32 ``[any]``
        The value depends on the ids and not on their type, nor on where parts are cut.
    """
    return (<uint64_t> _hash(parts)).to_bytes(8, "little")


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


def encode_cursors(cursors):
    """The bytes of cursors (:class:`zephon.cursor.LaneCursor`) one after the other.

    Of each the varints draw, token, rows, window, shuffled and the four counts of what
    was left out; then eight bytes of check if token, rows or shuffled is not 0.
    """
    cdef vector[uint8_t] out
    cdef uint64_t check
    cdef int i
    cdef bytes given
    for cursor in cursors:
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
                continue
            check = _hash(evidence)
            for i in range(8):
                out.push_back(<uint8_t> (check >> (8 * i)))
    return bytes((<char*> out.data())[:out.size()]) if out.size() else b""
