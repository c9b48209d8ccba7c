# cython: language_level=3, boundscheck=False, wraparound=False
"""Rows from segments of documents: checks around zephon/collate.hpp and cu_seqlens.hpp."""

from operator import index

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from libc.stdint cimport (
    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uintptr_t,
)
from libcpp cimport bool as cbool
from libcpp.vector cimport vector


cdef extern from "zephon/segments.hpp" namespace "zephon" nogil:
    cdef enum class RowFault:
        none
        splits_start
        splits_order
        splits_end
        length
        row_length
    cdef struct SegmentTable:
        const int64_t* length
        const int64_t* row_splits
        int64_t segments
        int64_t rows
    cdef struct RowCheck:
        RowFault fault
        int64_t index
    RowCheck check_rows(const SegmentTable&, int64_t) noexcept

cdef extern from "zephon/cu_seqlens.hpp" namespace "zephon" nogil:
    cdef struct DocumentCount:
        int64_t most
        int64_t longest
        int64_t empty_row
    int64_t count_boundaries(const SegmentTable&, int64_t, cbool) noexcept
    void write_cu_seqlens "zephon::row_cu_seqlens"(
        const SegmentTable&, int64_t, cbool, cbool, int32_t, int64_t, int32_t*, int32_t*) noexcept
    void write_seq_lens "zephon::row_seq_lens"(
        const SegmentTable&, int64_t, cbool, int64_t, int64_t, int64_t*, int64_t*) noexcept
    DocumentCount run_count "zephon::count_documents"(
        const SegmentTable&, int64_t, cbool) noexcept

cdef extern from "zephon/collate.hpp" namespace "zephon" nogil:
    cdef enum class TokenType:
        int8
        uint8
        int16
        uint16
        int32
        uint32
        int64
    cdef struct TokenBuffer:
        const void* tokens
        const uint8_t* loss_mask
        int64_t size
        TokenType type
    cdef struct SegmentSources:
        const TokenBuffer* buffers
        const int32_t* buffer
        const int64_t* start
        const uint8_t* mask_starts
        int64_t buffer_count
    cdef enum class SourceFault:
        none
        buffer
        bounds
    cdef struct SourceCheck:
        SourceFault fault
        int64_t index
    cdef struct CollateOptions:
        int64_t row_length
        cbool shift
        int64_t pad_id
        int64_t ignore_index
        int64_t vocab_size
        cbool through_row
    cdef enum class IndexType:
        int64
        int32
    cdef struct CollateOutputs:
        int64_t* input_ids
        int64_t* labels
        void* positions
        void* document_ids
        uint8_t* padding_mask
        IndexType index_type
        int64_t* row_ids
        int64_t* columns
    cdef struct OutsideVocabulary:
        int64_t segment
        int64_t offset
        int64_t id
    SourceCheck check_sources(const SegmentTable&, const SegmentSources&) noexcept
    OutsideVocabulary run_collate "zephon::collate_rows"(
        const SegmentTable&, const SegmentSources&, const CollateOptions&,
        const CollateOutputs&) noexcept


cdef enum Kind:
    OTHER = 0
    SIGNED = 1
    UNSIGNED = 2  # uint8 is also a mask
    BOOL = 4


cdef class _Array:
    """The memory of an array, borrowed through the buffer protocol while this lives."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self):
        self.held = False

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef const char* format(self) noexcept:
        """Its format, without a prefix for the machine's own byte order."""
        cdef const char* text = self.view.format
        if text == NULL:
            return b"B"
        # NumPy marks misaligned arrays by "=".
        return text + 1 if text[0] == b"=" or text[0] == b"@" else text

    cdef int kind(self) noexcept:
        cdef const char* text = self.format()
        cdef char code = text[0]
        if code == 0 or text[1] != 0:
            return OTHER  # structured or byte-swapped
        if code == b"b" or code == b"h" or code == b"i" or code == b"l" or code == b"q":
            return SIGNED
        if code == b"B" or code == b"H" or code == b"I" or code == b"L" or code == b"Q":
            return UNSIGNED
        return BOOL if code == b"?" else OTHER

    cdef str describe(self):
        cdef Py_ssize_t i
        cdef str text = (<bytes> self.format()).decode()
        floats = {"e": "float16", "f": "float32", "d": "float64"}
        stem = {SIGNED: "int", UNSIGNED: "uint"}.get(self.kind())
        if stem is not None:
            text = f"{stem}{8 * self.view.itemsize}"
        elif self.kind() == BOOL:
            text = "bool"
        else:
            text = floats.get(text, f"format {text!r}")
        return f"{text} {[self.view.shape[i] for i in range(self.view.ndim)]}"


cdef str _label(str name, Py_ssize_t number):
    return name if number < 0 else f"{name}[{number}]"


cdef _Array _borrow(object value, str name, str dtype, int kinds, Py_ssize_t itemsize, int ndim,
                    int64_t first, int64_t second=0, bint writable=False, Py_ssize_t number=-1):
    """Check an argument and borrow its memory.

    ``first`` and ``second`` are its ``ndim`` dimensions; there and for ``itemsize`` -1
    means any. ``number`` is the place of the array in the sequence ``name``.
    """
    cdef _Array array = _Array()
    cdef Py_buffer* view = &array.view
    try:
        PyObject_GetBuffer(value, view, PyBUF_FORMAT | PyBUF_STRIDES)
    except (BufferError, TypeError, ValueError) as error:
        raise TypeError(
            f"{_label(name, number)} must be {dtype}, got {type(value).__name__}") from error
    array.held = True
    if not array.kind() & kinds or (itemsize != -1 and view.itemsize != itemsize):
        raise TypeError(f"{_label(name, number)} must be {dtype}, got {array.describe()}")
    if (
        view.ndim != ndim
        or (first != -1 and view.shape[0] != first)
        or (ndim == 2 and second != -1 and view.shape[1] != second)
    ):
        shape = ", ".join("any" if n == -1 else str(n) for n in (first, second)[:ndim])
        raise ValueError(
            f"{_label(name, number)} must have shape [{shape}], got {array.describe()}")
    if not PyBuffer_IsContiguous(view, b"C"):
        raise ValueError(
            f"{_label(name, number)} must be C-contiguous, got strided {array.describe()}")
    if <uintptr_t> view.buf % <uintptr_t> view.itemsize != 0:
        raise ValueError(
            f"{_label(name, number)} must be aligned to its {view.itemsize} byte items")
    if writable and view.readonly:
        raise ValueError(f"{_label(name, number)} must be writable, got a read-only array")
    return array


cdef _Array _int64(object value, str name, int64_t size):
    return _borrow(value, name, "an int64 array", SIGNED, 8, 1, size)


cdef _Array _mask(object value, str name, int64_t size, Py_ssize_t number=-1):
    return _borrow(value, name, "a uint8 or bool array", UNSIGNED | BOOL, 1, 1, size, 0,
                   False, number)


cdef int64_t _integer(object value, str name, int64_t low, int64_t high) except? -1:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = index(value)
    if not low <= number <= high:
        raise ValueError(f"{name} must lie in [{low}, {high}], got {number}")
    return number


cdef SegmentTable _table(_Array length, _Array row_splits, int64_t row_length,
                         str limit) except *:
    """The segment table of two arrays, checked for rows of at most ``row_length`` tokens."""
    cdef SegmentTable table
    cdef RowCheck check
    cdef int64_t i
    if row_splits.view.shape[0] == 0:
        raise ValueError("row_splits must hold a first 0 and the end of each row, got no entry")
    table.length = <const int64_t*> length.view.buf
    table.row_splits = <const int64_t*> row_splits.view.buf
    table.segments = length.view.shape[0]
    table.rows = row_splits.view.shape[0] - 1
    with nogil:
        check = check_rows(table, row_length)
    i = check.index
    if check.fault == RowFault.splits_start:
        raise ValueError(f"row_splits must start at 0, got {table.row_splits[0]}")
    if check.fault == RowFault.splits_order:
        raise ValueError(f"row_splits must ascend, got {table.row_splits[i]} before "
                         f"{table.row_splits[i + 1]} at index {i}")
    if check.fault == RowFault.splits_end:
        raise ValueError(f"row_splits must end at the number of segments, {table.segments}, "
                         f"got {table.row_splits[i]}")
    if check.fault == RowFault.length:
        raise ValueError(f"seg_length must be at least 1, got {table.length[i]} at index {i}")
    if check.fault == RowFault.row_length:
        raise ValueError(f"seg_length must sum to at most {limit} = {row_length} in each row, "
                         f"got more in row {i}")
    return table


cdef TokenType _token_type(_Array array) noexcept:
    cdef bint signed = array.kind() == SIGNED
    if array.view.itemsize == 1:
        return TokenType.int8 if signed else TokenType.uint8
    if array.view.itemsize == 2:
        return TokenType.int16 if signed else TokenType.uint16
    if array.view.itemsize == 4:
        return TokenType.int32 if signed else TokenType.uint32
    return TokenType.int64


cdef TokenBuffer _token_buffer(object tokens, object loss_mask, Py_ssize_t i, list held) except *:
    """``buffers[i]`` and its mask; their memory is borrowed by ``held``."""
    cdef str dtype = "an int8 to int64 or uint8 to uint32 array"
    cdef TokenBuffer buffer
    cdef _Array array = _borrow(
        tokens, "buffers", dtype, SIGNED | UNSIGNED, -1, 1, -1, 0, False, i)
    if array.view.itemsize == 8 and array.kind() == UNSIGNED:
        raise TypeError(f"buffers[{i}] must be {dtype}, got {array.describe()}")
    held.append(array)
    buffer.tokens = array.view.buf
    buffer.size = array.view.shape[0]
    buffer.type = _token_type(array)
    buffer.loss_mask = NULL
    if loss_mask is not None:
        array = _mask(loss_mask, "loss_mask", buffer.size, i)
        held.append(array)
        buffer.loss_mask = <const uint8_t*> array.view.buf
    return buffer


cdef class Buffers:
    """Buffers of tokens that many calls of :func:`collate_rows` share, checked once.

    ``buffers`` is what that function takes; the memory is borrowed as long as this lives.
    """

    cdef vector[TokenBuffer] buffers
    cdef list held

    def __init__(self, buffers):
        self.held = []
        self.buffers.clear()
        for i, tokens in enumerate(buffers):
            self.buffers.push_back(_token_buffer(tokens, None, i, self.held))

    def __len__(self):
        return self.buffers.size()


cdef bint _is_tensor(object value) except -1:
    return not PyObject_CheckBuffer(value) and hasattr(value, "data_ptr")


cdef void* _output(object value, str name, str dtype, str tensor_dtype, int kinds,
                   Py_ssize_t itemsize, tuple shape, list held) except? NULL:
    """The memory of an output, NULL for None; that of an array is borrowed by ``held``.

    A tensor is asked for its address, which costs a fraction of an array over it.
    """
    cdef _Array array
    cdef uintptr_t address
    if value is None:
        return NULL
    if _is_tensor(value):
        kind = str(value.dtype)
        if kind != tensor_dtype or value.shape != shape or not value.is_cpu or (
                not value.is_contiguous()):
            raise ValueError(
                f"{name} must be a contiguous {tensor_dtype} tensor {list(shape)} of the CPU, got "
                f"{kind} {list(value.shape)} on {value.device}, strides {list(value.stride())}")
        address = value.data_ptr()
        if address % <uintptr_t> itemsize != 0:
            raise ValueError(f"{name} must be aligned to its {itemsize} byte items")
        return <void*> address
    array = _borrow(value, name, dtype, kinds, itemsize, 2, shape[0], shape[1], True)
    held.append(array)
    return array.view.buf


cdef int64_t* _int64_output(object value, str name, tuple shape, list held) except? NULL:
    return <int64_t*> _output(
        value, name, "an int64 array", "torch.int64", SIGNED, 8, shape, held)


cdef Py_ssize_t _itemsize(object value) except -1:
    """Bytes of an index in an output that was given: 4 or, also of what is no output, 8."""
    if value is None:
        return 8
    size = value.element_size() if _is_tensor(value) else getattr(value, "itemsize", 8)
    return 4 if size == 4 else 8


def collate_rows(
    object buffers, object seg_buffer, object seg_start, object seg_length, object row_splits, *,
    object row_length, bint shift, object pad_id, object ignore_index, object vocab_size=0,
    object mask_start=None, object loss_mask=None, object input_ids=None, object labels=None,
    object positions=None, object document_ids=None, object padding_mask=None,
    object row_ids=None, object columns=None, bint joined=False, object slots=0,
    object cu_seqlens=None, object seq_lens=None, object seq_lens_padded=None,
):
    """Gather segments of documents into rows, widened to int64 and shifted.

    Row ``b`` is segments ``row_splits[b]`` to ``row_splits[b + 1] - 1``, one after
    another, then padding up to ``row_length`` tokens. Only the outputs that are given
    are written; each is ``[B, W]``, where W is ``row_length - 1`` with ``shift`` and
    ``row_length`` without. Outputs are arrays or PyTorch tensors of the CPU.

    Parameters
    ----------
    buffers : Buffers, or a sequence of int8 to int64 or uint8 to uint32 ``[any]``
        The memory that the documents lie in.
    seg_buffer : int32 ``[n]``
        Which buffer each segment lies in.
    seg_start, seg_length : int64 ``[n]``
        Its first token there and its number of tokens, at least 1.
    row_splits : int64 ``[B + 1]``
    row_length : int
        Tokens of a row before the shift.
    shift : bool
        Inputs are a row's tokens but the last and labels all but the first; without it
        inputs are all tokens and there are no labels.
    pad_id, ignore_index : int
        The input id of padding, the label where there is no target.
    vocab_size : int
        Every id must lie in ``[0, vocab_size)``; 0 means no check.
    mask_start : uint8 or bool ``[n]``, optional
        Not 0: the segment's first token is no target. Read only for ``labels``.
    loss_mask : sequence of uint8 or bool ``[any]`` or None, optional
        For each buffer, which of its tokens may be targets. Read only for ``labels``.
    input_ids, labels : int64, optional
        The last real token of a row with padding has the label ``ignore_index``.
    positions : int64 or int32, optional
        From 0 in each segment and in the padding.
    document_ids : int64 or int32, optional
        The number of the segment in its row, from 1; 0 is padding. Of the same type as
        ``positions`` if both are given.
    padding_mask : uint8 or bool, optional
        1 is padding. Of a tensor bool.
    row_ids : int64, optional
        1 on every token, 0 on padding: document ids if the row is one document.
    columns : int64, optional
        The column of each token, -1 on padding.
    joined : bool
        Rows are one document each for what follows, and positions are 0 to ``W - 1`` in all.
    slots : int
        Documents of a row at most, see :func:`count_documents`.
    cu_seqlens : int32 ``[B, slots + 1]``, optional
        Per row 0, then the end of each document; -1 behind the last one.
    seq_lens, seq_lens_padded : int64 ``[B, slots]``, optional
        Length of each document, and the same with the padding of the row added to its last
        one; -1000 behind it.

    Returns
    -------
    (segment, offset, id) or None
        The first token outside the vocabulary, by its segment and its place there; the
        outputs are then partly written. None if there is none.
    """
    cdef SegmentTable table
    cdef SegmentSources sources
    cdef SourceCheck check
    cdef CollateOptions options
    cdef CollateOutputs outputs
    cdef OutsideVocabulary outside
    cdef vector[TokenBuffer] token_buffers
    cdef Buffers shared
    cdef _Array a_length, a_splits, a_buffer, a_start, array
    cdef list held = []
    cdef int64_t i, width
    cdef Py_ssize_t itemsize
    cdef str index_dtype = "an int64 or int32 array"
    cdef str tensor_dtype = "torch.int64"
    cdef tuple shape
    cdef DocumentCount count
    cdef cbool one
    cdef int64_t room
    cdef int32_t* cu_out
    cdef int64_t* lens_out
    cdef int64_t* padded_out

    options.row_length = _integer(row_length, "row_length", 1, INT32_MAX)
    options.shift = shift
    options.pad_id = _integer(pad_id, "pad_id", INT64_MIN, INT64_MAX)
    options.ignore_index = _integer(ignore_index, "ignore_index", INT64_MIN, INT64_MAX)
    options.vocab_size = _integer(vocab_size, "vocab_size", 0, INT64_MAX)
    options.through_row = joined

    a_length = _int64(seg_length, "seg_length", -1)
    a_splits = _int64(row_splits, "row_splits", -1)
    table = _table(a_length, a_splits, options.row_length, "row_length")
    a_buffer = _borrow(seg_buffer, "seg_buffer", "an int32 array", SIGNED, 4, 1, table.segments)
    a_start = _int64(seg_start, "seg_start", table.segments)
    sources.buffer = <const int32_t*> a_buffer.view.buf
    sources.start = <const int64_t*> a_start.view.buf
    sources.mask_starts = NULL
    if mask_start is not None:
        array = _mask(mask_start, "mask_start", table.segments)
        held.append(array)
        sources.mask_starts = <const uint8_t*> array.view.buf

    if isinstance(buffers, Buffers):
        if loss_mask is not None:
            raise ValueError("loss_mask must be None with shared Buffers, which have none")
        shared = <Buffers> buffers
        sources.buffers = shared.buffers.data()
        sources.buffer_count = <int64_t> shared.buffers.size()
    else:
        masks = [None] * len(buffers) if loss_mask is None else loss_mask
        if len(masks) != len(buffers):
            raise ValueError(f"loss_mask must have one entry for each of the {len(buffers)} "
                             f"buffers, got {len(masks)}")
        token_buffers.reserve(len(buffers))
        for i, (tokens, mask) in enumerate(zip(buffers, masks)):
            token_buffers.push_back(_token_buffer(tokens, mask, i, held))
        sources.buffers = token_buffers.data()
        sources.buffer_count = <int64_t> token_buffers.size()
    with nogil:
        check = check_sources(table, sources)
    i = check.index
    if check.fault == SourceFault.buffer:
        raise ValueError(f"seg_buffer must lie in [0, {sources.buffer_count}), "
                         f"got {sources.buffer[i]} at index {i}")
    if check.fault == SourceFault.bounds:
        raise ValueError(
            f"segment {i} must lie inside buffers[{sources.buffer[i]}], which has "
            f"{sources.buffers[sources.buffer[i]].size} tokens, got seg_start {sources.start[i]} "
            f"and seg_length {table.length[i]}")

    if labels is not None and not shift:
        raise ValueError("labels must be None without shift: they are the shifted tokens")
    width = options.row_length - 1 if shift else options.row_length
    shape = (table.rows, width)
    outputs.input_ids = _int64_output(input_ids, "input_ids", shape, held)
    outputs.labels = _int64_output(labels, "labels", shape, held)
    itemsize = _itemsize(document_ids if positions is None else positions)
    outputs.index_type = IndexType.int32 if itemsize == 4 else IndexType.int64
    if itemsize == 4:
        tensor_dtype = "torch.int32"
    outputs.positions = _output(
        positions, "positions", index_dtype, tensor_dtype, SIGNED, itemsize, shape, held)
    if positions is not None:
        index_dtype = "an int64 or int32 array, the same as positions"
    outputs.document_ids = _output(
        document_ids, "document_ids", index_dtype, tensor_dtype, SIGNED, itemsize, shape, held)
    outputs.padding_mask = <uint8_t*> _output(
        padding_mask, "padding_mask", "a uint8 or bool array", "torch.bool", UNSIGNED | BOOL, 1,
        shape, held)
    outputs.row_ids = _int64_output(row_ids, "row_ids", shape, held)
    outputs.columns = _int64_output(columns, "columns", shape, held)
    if cu_seqlens is not None or seq_lens is not None or seq_lens_padded is not None:
        room = _integer(slots, "slots", 0, INT32_MAX)
        one = joined
        with nogil:
            count = run_count(table, width, one)
        if room < count.most:
            raise ValueError(f"slots must be at least {count.most}, got {room}")
        shape = (table.rows, room + 1)
        cu_out = <int32_t*> _output(cu_seqlens, "cu_seqlens", "an int32 array", "torch.int32",
                                    SIGNED, 4, shape, held)
        shape = (table.rows, room)
        lens_out = _int64_output(seq_lens, "seq_lens", shape, held)
        padded_out = _int64_output(seq_lens_padded, "seq_lens_padded", shape, held)
        with nogil:
            write_seq_lens(table, width, one, -1000, room, lens_out, padded_out)
            if cu_out != NULL:
                write_cu_seqlens(table, width, False, one, -1, room + 1, cu_out, NULL)

    with nogil:
        outside = run_collate(table, sources, options, outputs)
    if outside.segment < 0:
        return None
    return outside.segment, outside.offset, outside.id


def row_cu_seqlens(
    object seg_length, object row_splits, *, object width, bint include_padding, object fill,
    object cu_seqlens, object max_seqlen,
):
    """Write where the segments of each row begin and end, counted in its input columns.

    Parameters
    ----------
    seg_length : int64 ``[n]``, row_splits : int64 ``[B + 1]``
        The segment table, as :func:`collate_rows` takes it.
    width : int
        W, the input columns of a row. A row may hold one token more, which occurs only
        as a label and adds no boundary.
    include_padding : bool
        Close the padding of a row like a segment, with W itself.
    fill : int
        What unused slots hold.
    cu_seqlens : int32 ``[B, slots]``, written
        Per row 0, then the end of each segment, strictly ascending and at most W.
    max_seqlen : int32 ``[B]``, written
        The longest of the row's steps, 0 if it has none.
    Returns
    -------
    int
        The slots used by the row that uses most; ``slots`` must be at least that.
    """
    cdef int64_t columns = _integer(width, "width", 0, INT32_MAX)
    cdef int32_t unused = <int32_t> _integer(fill, "fill", INT32_MIN, INT32_MAX)
    cdef cbool padding = include_padding
    cdef _Array a_length = _int64(seg_length, "seg_length", -1)
    cdef _Array a_splits = _int64(row_splits, "row_splits", -1)
    cdef SegmentTable table = _table(a_length, a_splits, columns + 1, "width + 1")
    cdef _Array a_cu = _borrow(cu_seqlens, "cu_seqlens", "an int32 array", SIGNED, 4, 2,
                               table.rows, -1, True)
    cdef _Array a_max = _borrow(max_seqlen, "max_seqlen", "an int32 array", SIGNED, 4, 1,
                                table.rows, 0, True)
    cdef int32_t* cu_out = <int32_t*> a_cu.view.buf
    cdef int32_t* max_out = <int32_t*> a_max.view.buf
    cdef int64_t slots = a_cu.view.shape[1]
    cdef int64_t needed
    with nogil:
        needed = count_boundaries(table, columns, padding)
    if slots < needed:
        raise ValueError(f"cu_seqlens must have at least {needed} slots in each row, got {slots}")
    with nogil:
        write_cu_seqlens(table, columns, padding, False, unused, slots, cu_out, max_out)
    return needed


def count_documents(object seg_length, object row_splits, *, object width, bint joined):
    """Count the documents that rows have in their input columns.

    Parameters
    ----------
    seg_length, row_splits, width
        As :func:`row_cu_seqlens` takes them.
    joined : bool
        Count the segments of a row as one.

    Returns
    -------
    (most, longest, empty_row) : tuple of int
        Documents of the row that has most, columns of the longest one, and the first row
        that has none; -1 if there is no such row.
    """
    cdef int64_t columns = _integer(width, "width", 0, INT32_MAX)
    cdef cbool one = joined
    cdef _Array a_length = _int64(seg_length, "seg_length", -1)
    cdef _Array a_splits = _int64(row_splits, "row_splits", -1)
    cdef SegmentTable table = _table(a_length, a_splits, columns + 1, "width + 1")
    cdef DocumentCount count
    with nogil:
        count = run_count(table, columns, one)
    return count.most, count.longest, count.empty_row
