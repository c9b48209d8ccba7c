# cython: language_level=3, boundscheck=False, wraparound=False
"""Places of documents in token files: checks around zephon/places.hpp and read_ahead.hpp."""

from cpython.buffer cimport PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libcpp.vector cimport vector


cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass const_ints "std::span<const std::int32_t>":
        const_ints()
        const_ints(const int32_t*, size_t)
    cdef cppclass ints "std::span<std::int32_t>":
        ints()
        ints(int32_t*, size_t)
    cdef cppclass const_longs "std::span<const std::int64_t>":
        const_longs()
        const_longs(const int64_t*, size_t)
    cdef cppclass longs "std::span<std::int64_t>":
        longs()
        longs(int64_t*, size_t)

cdef extern from "zephon/places.hpp" namespace "zephon" nogil:
    cdef struct ShardPlaces:
        const int64_t* start
        const int64_t* length
        int64_t documents
        int64_t tokens
    cdef cppclass const_shards "std::span<const zephon::ShardPlaces>":
        const_shards()
        const_shards(const ShardPlaces*, size_t)
    cdef struct CppPlaces "zephon::TokenPlaces":
        const_shards shards
        const_longs end
        const_longs first_shard
    cdef enum class PlaceFault:
        none
        source
        row
        document
    cdef struct PlaceCheck:
        PlaceFault fault
        size_t index
    PlaceCheck find_places(
        const CppPlaces&, const_ints, const_longs, ints, longs, longs) noexcept


cdef extern from "zephon/read_ahead.hpp" namespace "zephon" nogil:
    cdef struct AddressRange:
        uintptr_t begin
        uintptr_t end
    cdef struct Advice:
        int64_t runs
        int64_t asked
    cdef cppclass ranges_view "std::span<zephon::AddressRange>":
        ranges_view()
        ranges_view(AddressRange*, size_t)
    Advice will_need(ranges_view, uintptr_t, bint) noexcept


cdef struct Memory:
    uintptr_t address  # 0: not in a mapped file
    int64_t itemsize


cdef class TokenPlaces:
    """Where the documents of sources of tokens lie, looked up without Python per document.

    Parameters
    ----------
    sources : sequence of sequences of (start, length, tokens, mapped)
        For each source its shards: the first token and the number of tokens of each
        document (int64 ``[documents]`` both), the tokens of the whole buffer as a 1-D
        array, and whether they lie in a mapped file that is worth reading ahead. Shards
        are numbered through all sources. The arrays are borrowed as long as this lives.
    """

    cdef vector[ShardPlaces] _shards
    cdef vector[Memory] _memory
    cdef vector[int64_t] _end
    cdef vector[int64_t] _first_shard
    cdef list _held

    def __init__(self, sources):
        cdef const int64_t[::1] start
        cdef const int64_t[::1] length
        cdef ShardPlaces shard
        cdef Memory memory
        cdef Py_buffer view
        cdef int64_t documents
        self._held = []
        self._shards.clear()
        self._memory.clear()
        self._end.clear()
        self._first_shard.assign(1, 0)
        for i, shards in enumerate(sources):
            documents = 0
            for one, other, tokens, mapped in shards:
                start, length = one, other
                if start.shape[0] != length.shape[0]:
                    raise ValueError(f"source {i}: start has {start.shape[0]} elements, length has "
                                     f"{length.shape[0]}")
                PyObject_GetBuffer(tokens, &view, PyBUF_STRIDES)
                if view.ndim != 1 or view.strides[0] != view.itemsize:
                    PyBuffer_Release(&view)
                    raise ValueError(f"source {i}: tokens must be a contiguous 1-D array")
                shard.tokens = view.shape[0]
                memory.address = <uintptr_t> view.buf if mapped else 0
                memory.itemsize = view.itemsize
                PyBuffer_Release(&view)
                self._held.append((start, length, tokens))
                shard.start = &start[0] if start.shape[0] else NULL
                shard.length = &length[0] if length.shape[0] else NULL
                shard.documents = start.shape[0]
                documents += start.shape[0]
                self._shards.push_back(shard)
                self._memory.push_back(memory)
                self._end.push_back(documents)
            if <int64_t> self._shards.size() == self._first_shard.back():
                raise ValueError(f"source {i} has no shards, expected at least one")
            if self._shards.size() > 0x7FFFFFFF:
                raise ValueError("there are more than 2**31 - 1 shards")
            self._first_shard.push_back(<int64_t> self._shards.size())
        if self._shards.empty():
            raise ValueError("there are no sources, expected at least one")

    def find(
        self, const int32_t[::1] sources not None, const int64_t[::1] rows not None,
        int32_t[::1] buffer not None, int64_t[::1] start not None, int64_t[::1] length not None,
    ):
        """Write where the documents ``rows`` of ``sources`` lie; all arrays are ``[n]``.

        ``buffer`` receives the number of the shard, ``start`` the first token in it and
        ``length`` the number of tokens.
        """
        cdef CppPlaces places
        cdef PlaceCheck check
        cdef Py_ssize_t count = rows.shape[0]
        for name, size in (("sources", sources.shape[0]), ("buffer", buffer.shape[0]),
                           ("start", start.shape[0]), ("length", length.shape[0])):
            if size != count:
                raise ValueError(f"{name} has {size} elements, rows has {count}")
        if count == 0:
            return
        places.shards = const_shards(self._shards.data(), self._shards.size())
        places.end = const_longs(self._end.data(), self._end.size())
        places.first_shard = const_longs(self._first_shard.data(), self._first_shard.size())
        cdef size_t n = <size_t> count
        with nogil:
            check = find_places(
                places, const_ints(&sources[0], n), const_longs(&rows[0], n),
                ints(&buffer[0], n), longs(&start[0], n), longs(&length[0], n))
        cdef size_t i = check.index
        if check.fault == PlaceFault.source:
            raise ValueError(f"sources[{i}] is {sources[i]}, expected 0 to "
                             f"{self._first_shard.size() - 2}")
        if check.fault == PlaceFault.row:
            raise ValueError(f"rows[{i}] is {rows[i]}, which source {sources[i]} does not have")
        if check.fault == PlaceFault.document:
            raise ValueError(f"document {rows[i]} of source {sources[i]} does not lie inside its "
                             "buffer: the index is damaged")

    def read_ahead(
        self, const int32_t[::1] buffer not None, const int64_t[::1] start not None,
        const int64_t[::1] length not None, *, int64_t gap, bint skip_resident,
    ):
        """Ask the system for the pages of documents as :meth:`find` found them.

        Of those in mapped files; what lies at most ``gap`` bytes apart is asked for
        together. ``skip_resident`` leaves out what is in memory, as far as it is known.
        Returns in how many runs the documents lie and how many were asked for; (0, 0) if
        all that was looked at is in memory.
        """
        cdef vector[AddressRange] ranges
        cdef AddressRange one
        cdef Advice advice
        cdef Memory memory
        cdef Py_ssize_t i
        cdef int32_t number
        for name, size in (("start", start.shape[0]), ("length", length.shape[0])):
            if size != buffer.shape[0]:
                raise ValueError(f"{name} has {size} elements, buffer has {buffer.shape[0]}")
        if gap < 0:
            raise ValueError(f"gap is {gap}, expected 0 or more")
        ranges.reserve(<size_t> buffer.shape[0])
        for i in range(buffer.shape[0]):
            number = buffer[i]
            if not 0 <= number < <int64_t> self._memory.size():
                raise ValueError(f"buffer[{i}] is {number}, expected 0 to "
                                 f"{self._memory.size() - 1}")
            if (
                start[i] < 0 or length[i] < 0 or start[i] > self._shards[number].tokens
                or length[i] > self._shards[number].tokens - start[i]
            ):
                raise ValueError(f"document {i} does not lie inside its buffer")
            memory = self._memory[number]
            if memory.address:
                one.begin = memory.address + <uintptr_t> (start[i] * memory.itemsize)
                one.end = one.begin + <uintptr_t> (length[i] * memory.itemsize)
                ranges.push_back(one)
        with nogil:
            advice = will_need(
                ranges_view(ranges.data(), ranges.size()), <uintptr_t> gap, skip_resident)
        return advice.runs, advice.asked
