# cython: language_level=3, boundscheck=False, wraparound=False
"""Samples of a GPT index into rows: checks around zephon/sample_gather.hpp."""

from operator import index

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uintptr_t
from libcpp cimport bool as cbool


cdef extern from "zephon/sample_gather.hpp" namespace "zephon" nogil:
    cdef enum class TokenType:
        int8
        uint8
        int16
        uint16
        int32
        uint32
        int64
    cdef struct SampleTables:
        const void* tokens
        int64_t token_count
        TokenType type
        const int64_t* starts
        const int32_t* lengths
        int64_t sequences
        const int32_t* document_index
        int64_t positions
        const void* sample_index
        cbool wide_rows
        const void* shuffle_index
        cbool wide_shuffle
        int64_t samples
    cdef struct SampleRules:
        int64_t sequence_length
        cbool extra
        cbool mask_pad
        int64_t pad_id
        cbool mask_eod
        cbool restart_at_eod
        int64_t eod_id
    cdef struct SampleRows:
        int64_t* tokens
        int64_t* labels
        float* loss_mask
        int64_t* position_ids
        uint8_t* document_ends
    cdef enum class SampleFault:
        none
        shuffle
        row
        document
        offset
        tokens
    cdef struct GatherCheck:
        SampleFault fault
        int64_t sample
    GatherCheck gather_samples(
        const SampleTables&, const SampleRules&, const int64_t*, const int64_t*, int64_t,
        const SampleRows&) noexcept


cdef str _SIGNED = "bhilq"
cdef str _UNSIGNED = "BHILQ"


cdef class _Array:
    """The memory of an array, borrowed through the buffer protocol while this lives."""

    cdef Py_buffer view
    cdef bint held
    cdef str kind  # its format character; byte-swapped ones keep their prefix

    def __cinit__(self):
        self.held = False

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef bint holds(self, str kinds, Py_ssize_t itemsize):
        return len(self.kind) == 1 and self.kind in kinds and self.view.itemsize == itemsize


cdef _Array _borrow(object value, str name, str dtype, bint writable=False):
    """An aligned C-contiguous array; its dtype and shape are the caller's to check."""
    cdef _Array array = _Array()
    try:
        PyObject_GetBuffer(value, &array.view, PyBUF_FORMAT | PyBUF_STRIDES)
    except (BufferError, TypeError, ValueError) as error:
        raise TypeError(f"{name} must be {dtype}, got {type(value).__name__}") from error
    array.held = True
    array.kind = (<bytes> array.view.format).decode() if array.view.format != NULL else "B"
    if array.kind[:1] in ("=", "@"):  # the machine's own byte order
        array.kind = array.kind[1:]
    if not PyBuffer_IsContiguous(&array.view, b"C"):
        raise ValueError(f"{name} must be C-contiguous")
    if <uintptr_t> array.view.buf % <uintptr_t> array.view.itemsize != 0:
        raise ValueError(f"{name} must be aligned to its {array.view.itemsize} byte items")
    if writable and array.view.readonly:
        raise ValueError(f"{name} must be writable, got a read-only array")
    return array


cdef object _wrong_dtype(str name, str dtype, _Array array):
    return TypeError(
        f"{name} must be {dtype}, got format {array.kind!r} of {array.view.itemsize} bytes")


cdef _Array _vector(object value, str name, str dtype, str kinds, Py_ssize_t itemsize):
    cdef _Array array = _borrow(value, name, dtype)
    if not array.holds(kinds, itemsize):
        raise _wrong_dtype(name, dtype, array)
    if array.view.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.view.ndim}")
    return array


cdef _Array _rows(object value, str name, str dtype, str kinds, Py_ssize_t itemsize,
                  int64_t columns, int64_t rows):
    """An output of whole rows; as many as ``rows`` unless that is -1."""
    cdef _Array array = _borrow(value, name, dtype, True)
    cdef int64_t items
    if not array.holds(kinds, itemsize):
        raise _wrong_dtype(name, dtype, array)
    items = array.view.len // itemsize
    if items % columns != 0 or (rows != -1 and items != rows * columns):
        wanted = f"rows of {columns}" if rows == -1 else f"{rows} rows of {columns}"
        raise ValueError(f"{name} must have {wanted} items, got {items} items")
    return array


cdef int64_t _integer(object value, str name, int64_t low, int64_t high) except? -1:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = index(value)
    if not low <= number <= high:
        raise ValueError(f"{name} must lie in [{low}, {high}], got {number}")
    return number


cdef TokenType _token_type(_Array array) except *:
    cdef Py_ssize_t size = array.view.itemsize
    if array.kind in _SIGNED:
        return (TokenType.int8 if size == 1 else TokenType.int16 if size == 2
                else TokenType.int32 if size == 4 else TokenType.int64)
    return (TokenType.uint8 if size == 1 else TokenType.uint16 if size == 2
            else TokenType.uint32)


cdef class SampleGather:
    """Reads samples of one index. See the stub."""

    cdef SampleTables tables
    cdef SampleRules rules
    cdef bint has_eod
    cdef tuple held

    def __cinit__(
        self, tokens, starts, lengths, document_index, sample_index, shuffle_index, *,
        sequence_length, add_extra_token, pad_id=None, eod_id=None, mask_eod=False,
        restart_at_eod=False,
    ):
        cdef str integers = "an int8 to int64 or uint8 to uint32 array"
        cdef _Array a_tokens = _borrow(tokens, "tokens", integers)
        if (len(a_tokens.kind) != 1 or a_tokens.kind not in _SIGNED + _UNSIGNED
                or (a_tokens.view.itemsize == 8 and a_tokens.kind in _UNSIGNED)):
            raise _wrong_dtype("tokens", integers, a_tokens)
        if a_tokens.view.ndim != 1:
            raise ValueError(f"tokens must have one dimension, got {a_tokens.view.ndim}")
        cdef _Array a_starts = _vector(starts, "starts", "an int64 array", _SIGNED, 8)
        cdef _Array a_lengths = _vector(lengths, "lengths", "an int32 array", _SIGNED, 4)
        if a_starts.view.shape[0] != a_lengths.view.shape[0]:
            raise ValueError(f"starts has {a_starts.view.shape[0]} sequences, but lengths has "
                             f"{a_lengths.view.shape[0]}")
        cdef _Array a_documents = _vector(
            document_index, "document_index", "an int32 array", _SIGNED, 4)
        cdef str dtype = "an int32 or int64 array"
        cdef _Array a_samples = _borrow(sample_index, "sample_index", dtype)
        if not (a_samples.holds(_SIGNED, 4) or a_samples.holds(_SIGNED, 8)):
            raise _wrong_dtype("sample_index", dtype, a_samples)
        if (a_samples.view.ndim != 2 or a_samples.view.shape[1] != 2
                or a_samples.view.shape[0] == 0):
            raise ValueError("sample_index must have shape [samples + 1, 2]")
        cdef str shuffle_dtype = "a uint32 or int64 array"
        cdef _Array a_shuffle = _borrow(shuffle_index, "shuffle_index", shuffle_dtype)
        if not (a_shuffle.holds(_UNSIGNED, 4) or a_shuffle.holds(_SIGNED, 8)):
            raise _wrong_dtype("shuffle_index", shuffle_dtype, a_shuffle)
        if a_shuffle.view.ndim != 1 or a_shuffle.view.shape[0] != a_samples.view.shape[0] - 1:
            raise ValueError(
                f"shuffle_index must have one entry for each of the "
                f"{a_samples.view.shape[0] - 1} samples of sample_index")

        self.held = (a_tokens, a_starts, a_lengths, a_documents, a_samples, a_shuffle)
        self.tables.tokens = a_tokens.view.buf
        self.tables.token_count = a_tokens.view.shape[0]
        self.tables.type = _token_type(a_tokens)
        self.tables.starts = <const int64_t*> a_starts.view.buf
        self.tables.lengths = <const int32_t*> a_lengths.view.buf
        self.tables.sequences = a_starts.view.shape[0]
        self.tables.document_index = <const int32_t*> a_documents.view.buf
        self.tables.positions = a_documents.view.shape[0]
        self.tables.sample_index = a_samples.view.buf
        self.tables.wide_rows = a_samples.view.itemsize == 8
        self.tables.shuffle_index = a_shuffle.view.buf
        self.tables.wide_shuffle = a_shuffle.view.itemsize == 8
        self.tables.samples = a_shuffle.view.shape[0]

        self.rules.sequence_length = _integer(sequence_length, "sequence_length", 1, INT32_MAX)
        self.rules.extra = bool(add_extra_token)
        self.rules.mask_pad = pad_id is not None
        self.rules.pad_id = (
            0 if pad_id is None else _integer(pad_id, "pad_id", INT64_MIN, INT64_MAX))
        if eod_id is None and (mask_eod or restart_at_eod):
            raise ValueError("mask_eod and restart_at_eod need eod_id, got None")
        self.has_eod = eod_id is not None
        self.rules.eod_id = (
            0 if eod_id is None else _integer(eod_id, "eod_id", INT64_MIN, INT64_MAX))
        self.rules.mask_eod = bool(mask_eod)
        self.rules.restart_at_eod = bool(restart_at_eod)

    def gather(
        self, samples, rows, tokens, labels, loss_mask=None, position_ids=None,
        document_ends=None,
    ):
        """Fill rows with samples. See the stub."""
        cdef int64_t columns = self.rules.sequence_length
        cdef str integers = "an int64 array"
        cdef _Array a_samples = _vector(samples, "samples", integers, _SIGNED, 8)
        cdef _Array a_rows = _vector(rows, "rows", integers, _SIGNED, 8)
        cdef _Array a_tokens = _rows(tokens, "tokens", integers, _SIGNED, 8, columns, -1)
        cdef int64_t height = a_tokens.view.len // 8 // columns
        cdef _Array a_labels = _rows(labels, "labels", integers, _SIGNED, 8, columns, height)
        cdef _Array a_loss = None
        cdef _Array a_positions = None
        cdef _Array a_ends = None
        cdef SampleRows out
        out.tokens = <int64_t*> a_tokens.view.buf
        out.labels = <int64_t*> a_labels.view.buf
        out.loss_mask = NULL
        out.position_ids = NULL
        out.document_ends = NULL
        if loss_mask is not None:
            a_loss = _rows(loss_mask, "loss_mask", "a float32 array", "f", 4, columns, height)
            out.loss_mask = <float*> a_loss.view.buf
        if position_ids is not None:
            a_positions = _rows(
                position_ids, "position_ids", integers, _SIGNED, 8, columns, height)
            out.position_ids = <int64_t*> a_positions.view.buf
        if document_ends is not None:
            if not self.has_eod:
                raise ValueError("document_ends needs eod_id, which is None")
            a_ends = _rows(
                document_ends, "document_ends", "a uint8 array", "B", 1, columns, height)
            out.document_ends = <uint8_t*> a_ends.view.buf

        cdef const int64_t* which = <const int64_t*> a_samples.view.buf
        cdef const int64_t* to = <const int64_t*> a_rows.view.buf
        cdef int64_t count = a_samples.view.shape[0]
        cdef int64_t i
        if a_rows.view.shape[0] != count:
            raise ValueError(f"rows must have one entry for each of the {count} samples, got "
                             f"{a_rows.view.shape[0]}")
        for i in range(count):
            if not 0 <= which[i] < self.tables.samples:
                raise ValueError(f"samples must lie in [0, {self.tables.samples}), got "
                                 f"{which[i]} at index {i}")
            if not 0 <= to[i] < height:
                raise ValueError(f"rows must lie in [0, {height}), got {to[i]} at index {i}")
        cdef GatherCheck check
        with nogil:
            check = gather_samples(self.tables, self.rules, which, to, count, out)
        if check.fault != SampleFault.none:
            raise ValueError(_complaint(check.fault, check.sample))

    def gather_one(self, sample, block, document_ends=None):
        """Fill a block with one sample. See the stub."""
        cdef int64_t columns = self.rules.sequence_length
        cdef int64_t which = _integer(sample, "sample", 0, self.tables.samples - 1)
        cdef _Array a_block = _vector(block, "block", "an int64 array", _SIGNED, 8)
        cdef int64_t least = 2 * columns + (columns + 1) // 2
        cdef int64_t items = a_block.view.shape[0]
        cdef _Array a_ends = None
        cdef SampleRows out
        if a_block.view.readonly:
            raise ValueError("block must be writable, got a read-only array")
        if items != least and items != least + columns:
            raise ValueError(
                f"block must have {least} items, or {least + columns} with positions, got {items}")
        out.tokens = <int64_t*> a_block.view.buf
        out.labels = out.tokens + columns
        out.position_ids = out.labels + columns if items != least else NULL
        out.loss_mask = <float*> (out.tokens + (items - (columns + 1) // 2))
        out.document_ends = NULL
        if document_ends is not None:
            if not self.has_eod:
                raise ValueError("document_ends needs eod_id, which is None")
            a_ends = _rows(document_ends, "document_ends", "a uint8 array", "B", 1, columns, 1)
            out.document_ends = <uint8_t*> a_ends.view.buf
        cdef int64_t row = 0
        cdef GatherCheck check
        with nogil:
            check = gather_samples(self.tables, self.rules, &which, &row, 1, out)
        if check.fault != SampleFault.none:
            raise ValueError(_complaint(check.fault, check.sample))


cdef str _complaint(SampleFault fault, int64_t sample):
    cdef str what
    if fault == SampleFault.shuffle:
        what = "shuffle_index names a sample that is not there"
    elif fault == SampleFault.row:
        what = "its rows of sample_index do not span one sample"
    elif fault == SampleFault.document:
        what = "document_index names a sequence that is not there"
    elif fault == SampleFault.offset:
        what = "sample_index has an offset outside its sequence"
    else:
        what = "a sequence lies outside the tokens"
    return f"sample {sample} cannot be read: {what}"
