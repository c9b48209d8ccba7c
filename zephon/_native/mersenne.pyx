# cython: language_level=3, boundscheck=False, wraparound=False
"""numpy's legacy shuffle: checks around zephon/mersenne.hpp."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

import numpy as np

from zephon._native import arguments

cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass key_view "std::span<std::uint32_t, 624>":
        key_view(uint32_t*, size_t)
    cdef cppclass values32_view "std::span<std::uint32_t>":
        values32_view(uint32_t*, size_t)
    cdef cppclass values64_view "std::span<std::uint64_t>":
        values64_view(uint64_t*, size_t)

cdef extern from "zephon/mersenne.hpp" namespace "zephon" nogil:
    cdef cppclass MersenneView:
        MersenneView(key_view, uint32_t&)
        void seed(uint32_t) noexcept
    void shuffle_like_numpy(values32_view, MersenneView) noexcept
    void shuffle_like_numpy(values64_view, MersenneView) noexcept


cdef class NumpyShuffle:
    """Shuffles as ``numpy.random.RandomState(seed)`` does, one array after the other."""

    cdef uint32_t[624] key
    cdef uint32_t used

    def __init__(self, seed):
        cdef uint32_t start = arguments.integer("seed", seed, 0, 2**32 - 1)
        MersenneView(key_view(self.key, 624), self.used).seed(start)

    def shuffle(self, array):
        """Permute ``array`` (1-D, integers of 32 or 64 bits) in place."""
        if not isinstance(array, np.ndarray):
            raise TypeError(f"array must be a numpy array, got {type(array).__name__}")
        if array.dtype.kind not in "iu" or array.dtype.itemsize not in (4, 8):
            raise TypeError(f"array must hold integers of 32 or 64 bits, got {array.dtype}")
        if array.ndim != 1 or not array.flags.carray:
            raise ValueError(
                f"array must be one-dimensional, contiguous and writable, got shape {array.shape} "
                f"with strides {array.strides}{'' if array.flags.writeable else ', read-only'}"
            )
        cdef uint32_t[::1] narrow
        cdef uint64_t[::1] wide
        cdef size_t count = array.size
        if count < 2:
            return
        # Whatever the values mean, they are moved as bits.
        if array.dtype.itemsize == 4:
            narrow = array.view(np.uint32)
            with nogil:
                shuffle_like_numpy(
                    values32_view(&narrow[0], count),
                    MersenneView(key_view(self.key, 624), self.used))
        else:
            wide = array.view(np.uint64)
            with nogil:
                shuffle_like_numpy(
                    values64_view(&wide[0], count),
                    MersenneView(key_view(self.key, 624), self.used))
