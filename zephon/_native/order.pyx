# cython: language_level=3, boundscheck=False, wraparound=False
"""Order of documents and of sources: checks around permutation.hpp and mixture.hpp."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t


cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass const_longs "std::span<const std::int64_t>":
        const_longs()
        const_longs(const int64_t*, size_t)
    cdef cppclass longs "std::span<std::int64_t>":
        longs()
        longs(int64_t*, size_t)
    cdef cppclass const_ints "std::span<const std::int32_t>":
        const_ints()
        const_ints(const int32_t*, size_t)
    cdef cppclass const_bytes "std::span<const std::uint8_t>":
        const_bytes()
        const_bytes(const uint8_t*, size_t)
    cdef cppclass const_keys "std::span<const std::uint64_t>":
        const_keys()
        const_keys(const uint64_t*, size_t)
    cdef cppclass words "std::span<std::uint64_t>":
        words()
        words(uint64_t*, size_t)
    cdef cppclass const_shorts "std::span<const std::uint16_t>":
        const_shorts()
        const_shorts(const uint16_t*, size_t)
    cdef cppclass shorts "std::span<std::uint16_t>":
        shorts()
        shorts(uint16_t*, size_t)

cdef extern from "zephon/permutation.hpp" namespace "zephon" nogil:
    uint64_t cpp_fold_key "zephon::fold_key"(uint64_t, uint64_t) noexcept
    cdef cppclass Permutation:
        Permutation(uint64_t, uint64_t) noexcept
        void forward(const_longs, longs) noexcept
        void inverse(const_longs, longs) noexcept
    size_t find_outside(const_longs, int64_t) noexcept
    cdef struct SourceOrder:
        const_longs units
        const_longs begin
        const_longs first_row
        const_bytes mode
        const_keys unit_key
        const_keys row_key
        longs prefix
        longs held
    void cpp_locate "zephon::locate"(
        const SourceOrder&, const_longs, const_ints, const_longs, longs, longs) noexcept

cdef extern from "zephon/mixture.hpp" namespace "zephon" nogil:
    void cpp_chunk_counts "zephon::chunk_counts"(
        const_longs, int64_t, int64_t, int64_t, int64_t, int64_t, longs, longs, longs) noexcept
    size_t chunk_sequence_scratch(size_t, size_t) noexcept
    bint cpp_chunk_sequence "zephon::chunk_sequence"(
        const_longs, int64_t, int64_t, const_longs, const_longs, words, shorts) noexcept
    int cpp_greatest_source "zephon::greatest_source"(const_shorts) noexcept
    void cpp_number_draws "zephon::number_draws"(const_shorts, longs, longs) noexcept
    void cpp_skip_draws "zephon::skip_draws"(const_shorts, longs) noexcept
    bint cpp_scale "zephon::scale"(const_longs, int64_t, const_longs, longs, longs) noexcept


cdef int64_t WIDE = (<int64_t> 1) << 62   # documents of a source, draws of a run
cdef int64_t LONG = (<int64_t> 1) << 48   # draws of a lane, sum of integer weights
cdef int64_t SHORT = 1 << 16              # sources, lanes


# Spans of views. The address of the first element of an empty view is not taken.

cdef inline const_longs _in(const int64_t[::1] view) noexcept:
    return const_longs(&view[0], <size_t> view.shape[0]) if view.shape[0] else const_longs()


cdef inline longs _out(int64_t[::1] view) noexcept:
    return longs(&view[0], <size_t> view.shape[0]) if view.shape[0] else longs()


cdef inline const_ints _in_ints(const int32_t[::1] view) noexcept:
    return const_ints(&view[0], <size_t> view.shape[0]) if view.shape[0] else const_ints()


cdef inline const_keys _in_keys(const uint64_t[::1] view) noexcept:
    return const_keys(&view[0], <size_t> view.shape[0]) if view.shape[0] else const_keys()


cdef inline const_bytes _in_bytes(const uint8_t[::1] view) noexcept:
    return const_bytes(&view[0], <size_t> view.shape[0]) if view.shape[0] else const_bytes()


cdef inline const_shorts _in_shorts(const uint16_t[::1] view) noexcept:
    return const_shorts(&view[0], <size_t> view.shape[0]) if view.shape[0] else const_shorts()


cdef int64_t _whole(str name, object value, int64_t low, int64_t high) except? -1:
    """``value`` as an int of [low, high]."""
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}, expected {low} to {high}")
    return number


cdef uint64_t _key(str name, object value) except? 0:
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} is {number}, expected 0 to 2**64 - 1")
    return number


cdef int _same(str name, Py_ssize_t size, str other, Py_ssize_t expected) except -1:
    if size != expected:
        raise ValueError(f"{name} has {size} elements, {other} has {expected}")
    return 0


cdef int _inside(str name, const int64_t[::1] values, int64_t n) except -1:
    """Every value is in [0, n)."""
    cdef const_longs view = _in(values)
    cdef size_t bad
    with nogil:
        bad = find_outside(view, n)
    if bad < <size_t> values.shape[0]:
        raise ValueError(f"{name}[{bad}] is {values[bad]}, expected 0 to {n - 1}")
    return 0


def fold_key(key, word):
    """Key for ``word`` under ``key``, both of [0, 2**64)."""
    return cpp_fold_key(_key("key", key), _key("word", word))


def permute(n, key, const int64_t[::1] positions not None, int64_t[::1] out not None):
    """Write where the permutation of [0, n) drawn by ``key`` sends ``positions`` to ``out``.

    Both are int64 ``[m]`` and may be the same array; 1 <= n <= 2**62.
    """
    _permute(n, key, positions, out, False)


def permute_inverse(n, key, const int64_t[::1] positions not None, int64_t[::1] out not None):
    """The inverse of ``permute`` with the same ``n`` and ``key``."""
    _permute(n, key, positions, out, True)


cdef _permute(object n, object key, const int64_t[::1] positions, int64_t[::1] out, bint inverse):
    cdef int64_t size = _whole("n", n, 1, WIDE)
    cdef uint64_t drawn_by = _key("key", key)
    _same("out", out.shape[0], "positions", positions.shape[0])
    _inside("positions", positions, size)
    cdef const_longs source = _in(positions)
    cdef longs target = _out(out)
    cdef Permutation* permutation = new Permutation(<uint64_t> size, drawn_by)
    with nogil:
        if inverse:
            permutation.inverse(source, target)
        else:
            permutation.forward(source, target)
    del permutation


def locate(
    const int64_t[::1] units not None,
    const int64_t[::1] begin not None,
    const int64_t[::1] first_row not None,
    const uint8_t[::1] mode not None,
    const uint64_t[::1] unit_key not None,
    const uint64_t[::1] row_key not None,
    int64_t[::1] prefix not None,
    int64_t[::1] held not None,
    const int64_t[::1] visit not None,
    const int32_t[::1] sources not None,
    const int64_t[::1] ordinals not None,
    int64_t[::1] rows not None,
    int64_t[::1] passes not None,
):
    """Rows and passes (int64 ``[m]``) of the ``ordinals`` of ``sources`` (int64, int32 ``[m]``).

    ``units``, ``begin``, ``first_row``, ``mode``, the keys, ``prefix`` and ``held``
    are the members of SourceOrder in permutation.hpp; ``visit`` (int64 ``[m]``)
    is the order in which to work. One thread at a time per ``prefix``.
    """
    cdef Py_ssize_t count = units.shape[0]
    cdef Py_ssize_t size = first_row.shape[0]
    cdef Py_ssize_t m = ordinals.shape[0]
    cdef Py_ssize_t i
    cdef int64_t end = 0
    _same("begin", begin.shape[0], "units", count)
    _same("mode", mode.shape[0], "units", count)
    _same("unit_key", unit_key.shape[0], "units", count)
    _same("row_key", row_key.shape[0], "units", count)
    _same("held", held.shape[0], "units, twice,", 2 * count)
    _same("prefix", prefix.shape[0], "first_row, twice,", 2 * size)
    for name, given in (("visit", visit), ("sources", sources), ("rows", rows), ("passes", passes)):
        _same(name, given.shape[0], "ordinals", m)
    for i in range(count):
        if units[i] < 1 or begin[i] != end or units[i] >= size - end:
            raise ValueError(f"units[{i}] is {units[i]} and begins at {begin[i]} of {size} rows")
        end += units[i] + 1
        if not 1 <= first_row[end - 1] <= WIDE:
            raise ValueError(f"source {i} has {first_row[end - 1]} documents, expected 1 to {WIDE}")
        if mode[i] > 7:
            raise ValueError(f"mode[{i}] is {mode[i]}, expected 0 to 7")
    for i in range(m):
        if not 0 <= sources[i] < count:
            raise ValueError(f"sources[{i}] is {sources[i]}, expected 0 to {count - 1}")
        if ordinals[i] < 0:
            raise ValueError(f"ordinals[{i}] is {ordinals[i]}, expected 0 or more")
    _inside("visit", visit, m)

    cdef SourceOrder order
    order.units = _in(units)
    order.begin = _in(begin)
    order.first_row = _in(first_row)
    order.mode = _in_bytes(mode)
    order.unit_key = _in_keys(unit_key)
    order.row_key = _in_keys(row_key)
    order.prefix = _out(prefix)
    order.held = _out(held)
    cdef const_longs visit_view = _in(visit)
    cdef const_ints sources_view = _in_ints(sources)
    cdef const_longs ordinals_view = _in(ordinals)
    cdef longs rows_view = _out(rows)
    cdef longs passes_view = _out(passes)
    with nogil:
        cpp_locate(order, visit_view, sources_view, ordinals_view, rows_view, passes_view)


cdef int _check_weights(const int64_t[::1] weights, int64_t total) except -1:
    cdef Py_ssize_t i
    cdef int64_t left = total
    if not 1 <= weights.shape[0] <= SHORT:
        raise ValueError(f"weights has {weights.shape[0]} elements, expected 1 to {SHORT}")
    for i in range(weights.shape[0]):
        if not 0 <= weights[i] <= left:
            raise ValueError(f"weights[{i}] is {weights[i]}, with {left} of {total} left")
        left -= weights[i]
    if left:
        raise ValueError(f"weights sum to {total - left}, expected {total}")
    return 0


def chunk_counts(
    const int64_t[::1] weights not None, total, lane, lanes, t0, t1,
    int64_t[::1] given not None, int64_t[::1] taken not None, int64_t[::1] first not None,
):
    """Counts and first ordinals of the chunk of draws [t0, t1) of one lane.

    ``weights`` (int64 ``[K]``) sum to ``total``. Written, each int64 ``[K]``: how
    many documents of each source the lane took before (``given``), takes in the
    chunk (``taken``), and the ordinal of its first one in the piece (``first``).
    """
    cdef int64_t p = _whole("total", total, 1, LONG)
    cdef int64_t r = _whole("lanes", lanes, 1, SHORT)
    cdef int64_t own = _whole("lane", lane, 0, r - 1)
    cdef int64_t end = _whole("t1", t1, 0, min(LONG, WIDE // r))
    cdef int64_t start = _whole("t0", t0, 0, end)
    cdef Py_ssize_t count = weights.shape[0]
    _check_weights(weights, p)
    _same("given", given.shape[0], "weights", count)
    _same("taken", taken.shape[0], "weights", count)
    _same("first", first.shape[0], "weights", count)
    cdef const_longs weights_view = _in(weights)
    cdef longs given_view = _out(given)
    cdef longs taken_view = _out(taken)
    cdef longs first_view = _out(first)
    with nogil:
        cpp_chunk_counts(
            weights_view, p, own, r, start, end, given_view, taken_view, first_view)


def chunk_sequence(
    const int64_t[::1] weights not None, total, t0,
    const int64_t[::1] given not None, const int64_t[::1] taken not None,
    uint64_t[::1] scratch not None, uint16_t[::1] out not None,
):
    """Write the source of every draw of a chunk to ``out`` (uint16 ``[length]``).

    The arguments are those of ``chunk_counts``; ``scratch`` is uint64 of
    ``sequence_scratch(K, length)``. Returns whether every draw stays less than
    one document from its share; otherwise they stay less than two.
    """
    cdef int64_t p = _whole("total", total, 1, LONG)
    cdef int64_t start = _whole("t0", t0, 0, LONG)
    cdef Py_ssize_t count = weights.shape[0]
    cdef Py_ssize_t i
    cdef int64_t left = out.shape[0]
    cdef bint held
    _check_weights(weights, p)
    _same("given", given.shape[0], "weights", count)
    _same("taken", taken.shape[0], "weights", count)
    for i in range(count):
        if not 0 <= taken[i] <= left or (taken[i] and not weights[i]):
            raise ValueError(f"taken[{i}] is {taken[i]}, with {left} of {out.shape[0]} draws left")
        if not 0 <= given[i] <= LONG:
            raise ValueError(f"given[{i}] is {given[i]}, expected 0 to {LONG}")
        left -= taken[i]
    if left:
        raise ValueError(f"taken leaves {left} of the {out.shape[0]} draws of out empty")
    cdef size_t needed = chunk_sequence_scratch(<size_t> count, <size_t> out.shape[0])
    if <size_t> scratch.shape[0] < needed:
        raise ValueError(f"scratch has {scratch.shape[0]} words, {needed} are needed")
    if out.shape[0] == 0:
        return True
    cdef const_longs weights_view = _in(weights)
    cdef const_longs given_view = _in(given)
    cdef const_longs taken_view = _in(taken)
    cdef words scratch_view = words(&scratch[0], <size_t> scratch.shape[0])
    cdef shorts out_view = shorts(&out[0], <size_t> out.shape[0])
    with nogil:
        held = cpp_chunk_sequence(
            weights_view, p, start, given_view, taken_view, scratch_view, out_view)
    return held


def sequence_scratch(sources, length):
    """Words of scratch that ``chunk_sequence`` needs."""
    return chunk_sequence_scratch(
        <size_t> _whole("sources", sources, 1, SHORT), <size_t> _whole("length", length, 0, LONG))


cdef int _check_sequence(const uint16_t[::1] sequence, Py_ssize_t count) except -1:
    cdef const_shorts view = _in_shorts(sequence)
    cdef int worst
    with nogil:
        worst = cpp_greatest_source(view)
    if worst >= count:
        raise ValueError(f"sequence holds source {worst}, next has {count} elements")
    return 0


def number_draws(
    const uint16_t[::1] sequence not None, int64_t[::1] next not None,
    int64_t[::1] ordinals not None,
):
    """``ordinals[k] = next[sequence[k]]``, counting that element of ``next`` on."""
    _check_sequence(sequence, next.shape[0])
    _same("ordinals", ordinals.shape[0], "sequence", sequence.shape[0])
    cdef const_shorts sequence_view = _in_shorts(sequence)
    cdef longs next_view = _out(next)
    cdef longs ordinals_view = _out(ordinals)
    with nogil:
        cpp_number_draws(sequence_view, next_view, ordinals_view)


def skip_draws(const uint16_t[::1] sequence not None, int64_t[::1] next not None):
    """Count ``next`` on by one for every draw of its source in ``sequence``."""
    _check_sequence(sequence, next.shape[0])
    cdef const_shorts sequence_view = _in_shorts(sequence)
    cdef longs next_view = _out(next)
    with nogil:
        cpp_skip_draws(sequence_view, next_view)


def scale(
    const int64_t[::1] a not None, b, const int64_t[::1] d not None,
    int64_t[::1] quotient not None, int64_t[::1] remainder not None,
):
    """``quotient, remainder = divmod(a * b, d)`` without overflow, all int64 ``[n]``."""
    cdef int64_t factor = _whole("b", b, 0, 2**63 - 1)
    cdef Py_ssize_t size = a.shape[0]
    cdef Py_ssize_t i
    cdef bint fits
    _same("d", d.shape[0], "a", size)
    _same("quotient", quotient.shape[0], "a", size)
    _same("remainder", remainder.shape[0], "a", size)
    for i in range(size):
        if a[i] < 0 or d[i] < 1:
            raise ValueError(f"a[{i}] is {a[i]} and d[{i}] is {d[i]}, expected at least 0 and 1")
    cdef const_longs a_view = _in(a)
    cdef const_longs d_view = _in(d)
    cdef longs quotient_view = _out(quotient)
    cdef longs remainder_view = _out(remainder)
    with nogil:
        fits = cpp_scale(a_view, factor, d_view, quotient_view, remainder_view)
    if not fits:
        raise ValueError(f"a * {factor} / d is above 2**62")
