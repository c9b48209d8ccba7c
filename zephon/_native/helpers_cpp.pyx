# cython: language_level=3, boundscheck=False, wraparound=False
"""Megatron's index helpers: checks around zephon/sample_index.hpp and zephon/blending.hpp.

The functions have the names, the argument order and, for every valid input, the
results of the extension that Megatron-LM and NeMo AutoModel compile at run time.
What is undefined there (an abort, a wrapped number, a lost result) is a
ValueError or TypeError here. Arguments may also be given by name.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t

import numpy as np

from zephon import _threads
from zephon._native import arguments
from zephon._native.arguments import INT32_MAX, INT64_MAX
from zephon._native.sentence_mapping import build_blocks_mapping, build_mapping  # no-cython-lint
from zephon._threads import get_threads, set_threads  # no-cython-lint

cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass sizes_view "std::span<const std::int32_t>":
        sizes_view(const int32_t*, size_t)
    cdef cppclass rows32_view "std::span<std::int32_t>":
        rows32_view(int32_t*, size_t)
    cdef cppclass rows64_view "std::span<std::int64_t>":
        rows64_view(int64_t*, size_t)
    cdef cppclass weights_view "std::span<const double>":
        weights_view(const double*, size_t)
    cdef cppclass ids16_view "std::span<std::int16_t>":
        ids16_view(int16_t*, size_t)
    cdef cppclass counts_view "std::span<const std::int64_t>":
        counts_view(const int64_t*, size_t)

cdef extern from "zephon/cpu.hpp" namespace "zephon" nogil:
    bint has_avx512() noexcept

cdef extern from "zephon/threads.hpp" namespace "zephon" nogil:
    cdef cppclass Threads:
        Threads()
        size_t most
        size_t least_items

cdef extern from "zephon/sample_index.hpp" namespace "zephon" nogil:
    cdef cppclass SampleIndexShape:
        SampleIndexShape()
        int64_t sequence_length
        int64_t extra
        int64_t samples
    int64_t count_samples(int64_t, int64_t, int64_t, bint) noexcept
    const int64_t not_countable
    int64_t count_tokens(sizes_view, sizes_view) noexcept
    int64_t build_sample_index(
        sizes_view, sizes_view, SampleIndexShape, rows32_view, Threads) except +
    int64_t build_sample_index(
        sizes_view, sizes_view, SampleIndexShape, rows64_view, Threads) except +

cdef extern from "zephon/blending.hpp" namespace "zephon" nogil:
    void blend_weighted(weights_view, ids16_view, rows64_view, rows64_view, Threads) except +
    void blend_weighted(weights_view, rows32_view, rows64_view, rows64_view, Threads) except +
    void blend_exhaustively(counts_view, ids16_view, rows64_view, rows64_view, Threads) except +
    void blend_exhaustively(counts_view, rows32_view, rows64_view, rows64_view, Threads) except +


cdef Threads _threads_for(items):
    cdef Threads threads
    threads.least_items = _threads.LEAST_ITEMS
    threads.most = _threads.get_threads() if items >= 2 * _threads.LEAST_ITEMS else 1
    return threads


def _sample_idx(
    dtype, sizes, document_idx, seq_length, num_epochs, tokens_per_epoch, drop_last, add_extra
):
    # Before such an array is converted, which may take as much memory again.
    positions = getattr(document_idx, "size", 0)
    if dtype is np.int32 and isinstance(positions, int) and positions > INT32_MAX:
        raise ValueError(
            f"document_idx has {positions} entries, too many for 32-bit rows: "
            "use build_sample_idx_int64"
        )
    sizes = arguments.integers("sizes", sizes, np.int32)
    document_idx = arguments.integers("document_idx", document_idx, np.int32)
    length = arguments.integer("seq_length", seq_length, 2, INT32_MAX)
    epochs = arguments.integer("num_epochs", num_epochs, 1, INT32_MAX)
    per_epoch = arguments.integer("tokens_per_epoch", tokens_per_epoch, 2, INT64_MAX)
    drop = arguments.flag("drop_last_partial_sequence", drop_last)
    extra = arguments.flag("add_extra_token_to_sequence", add_extra)
    tokens = epochs * per_epoch
    if tokens > INT64_MAX:
        raise ValueError(
            f"num_epochs * tokens_per_epoch is {tokens}, which does not fit 64 bits"
        )

    cdef const int32_t[::1] size_data = sizes
    cdef const int32_t[::1] document_data = document_idx
    cdef size_t size_count = <size_t> size_data.shape[0]
    cdef size_t document_count = <size_t> document_data.shape[0]
    cdef const int32_t* size_at = &size_data[0] if size_count else NULL
    cdef const int32_t* document_at = &document_data[0] if document_count else NULL
    cdef Threads threads = _threads_for(max(len(sizes), len(document_idx)))
    cdef SampleIndexShape shape
    cdef int64_t held = 0
    shape.sequence_length = length
    shape.extra = extra
    shape.samples = count_samples(tokens, length, extra, drop)
    if shape.samples > 16 * len(document_idx):
        # Long documents, or a claim beyond their content that must not be allocated for.
        with nogil:
            held = count_tokens(
                sizes_view(size_at, size_count), sizes_view(document_at, document_count))
        _require_tokens(tokens, held, sizes, document_idx)
    rows = np.empty((shape.samples + 1, 2), dtype)
    cdef int32_t[:, ::1] rows32
    cdef int64_t[:, ::1] rows64
    cdef size_t values = 2 * (<size_t> shape.samples + 1)
    if dtype is np.int32:
        rows32 = rows
        with nogil:
            held = build_sample_index(
                sizes_view(size_at, size_count), sizes_view(document_at, document_count), shape,
                rows32_view(&rows32[0, 0], values), threads)
    else:
        rows64 = rows
        with nogil:
            held = build_sample_index(
                sizes_view(size_at, size_count), sizes_view(document_at, document_count), shape,
                rows64_view(&rows64[0, 0], values), threads)
    _require_tokens(tokens, held, sizes, document_idx)
    return rows


def _require_tokens(claimed, held, sizes, document_idx):
    if held == not_countable:
        strange = np.flatnonzero((document_idx < 0) | (document_idx >= len(sizes)))
        if len(strange):
            at = int(strange[0])
            raise ValueError(
                f"document_idx[{at}] is {document_idx[at]}, but there are {len(sizes)} sizes"
            )
        at = int(document_idx[np.argmin(sizes[document_idx])])
        raise ValueError(f"sizes[{at}] is {sizes[at]}; a document has no negative size")
    if claimed > held:
        raise ValueError(
            f"num_epochs * tokens_per_epoch is {claimed}, but the documents of document_idx hold "
            f"{held} tokens"
        )


def build_sample_idx_int32(
    sizes, document_idx, seq_length, num_epochs, tokens_per_epoch, drop_last_partial_sequence,
    add_extra_token_to_sequence,
):
    """Where each sample begins, as int32 ``[samples + 1, 2]``. See the stub."""
    return _sample_idx(
        np.int32, sizes, document_idx, seq_length, num_epochs, tokens_per_epoch,
        drop_last_partial_sequence, add_extra_token_to_sequence)


def build_sample_idx_int64(
    sizes, document_idx, seq_length, num_epochs, tokens_per_epoch, drop_last_partial_sequence,
    add_extra_token_to_sequence,
):
    """Where each sample begins, as int64 ``[samples + 1, 2]``. See the stub."""
    return _sample_idx(
        np.int64, sizes, document_idx, seq_length, num_epochs, tokens_per_epoch,
        drop_last_partial_sequence, add_extra_token_to_sequence)


def _blend(id_types, dataset_index, dataset_sample_index, weights, num_datasets, size, verbose):
    datasets = arguments.integer("num_datasets", num_datasets, 1, INT32_MAX)
    steps = arguments.integer("size", size, 0, INT64_MAX)
    loud = arguments.flag("verbose", verbose)
    ids, samples = _outputs(id_types, dataset_index, dataset_sample_index, datasets, steps)
    weights = arguments.weights(weights, datasets)
    counts = np.zeros(datasets, np.int64)

    cdef const double[::1] weight_data = weights
    cdef int64_t[::1] count_data = counts
    cdef int64_t[::1] sample_data = samples
    cdef int16_t[::1] ids16
    cdef int32_t[::1] ids32
    cdef size_t count = <size_t> datasets
    cdef size_t step_count = <size_t> steps
    cdef Threads threads = _threads_for(steps)
    if step_count and ids.dtype == np.int16:
        ids16 = ids
        with nogil:
            blend_weighted(
                weights_view(&weight_data[0], count), ids16_view(&ids16[0], step_count),
                rows64_view(&sample_data[0], step_count), rows64_view(&count_data[0], count),
                threads)
    elif step_count:
        ids32 = ids
        with nogil:
            blend_weighted(
                weights_view(&weight_data[0], count), rows32_view(&ids32[0], step_count),
                rows64_view(&sample_data[0], step_count), rows64_view(&count_data[0], count),
                threads)
    arguments.deliver(dataset_index, ids)
    arguments.deliver(dataset_sample_index, samples)
    if loud:
        _report_blend(weights, counts, steps)
    return counts


def _outputs(id_types, dataset_index, dataset_sample_index, datasets, steps):
    ids = arguments.output("dataset_index", dataset_index, id_types, steps)
    samples = arguments.output("dataset_sample_index", dataset_sample_index, (np.int64,), steps)
    if ids.dtype == np.int16 and datasets > 32767:
        raise ValueError(
            f"num_datasets is {datasets}, but an int16 dataset_index numbers at most 32767: "
            "use the function of the same name that ends in _int32"
        )
    return ids, samples


def _report_blend(weights, counts, steps):
    lines = ["> building indices for blended datasets ...", " > sample ratios:"]
    for dataset, (weight, count) in enumerate(zip(weights.tolist(), counts.tolist())):
        achieved = count / steps if steps else float("nan")
        lines.append(f"   dataset {dataset}, input: {weight:g}, achieved: {achieved:g}")
    print("\n".join(lines), flush=True)


def build_blending_indices(
    dataset_index, dataset_sample_index, weights, num_datasets, size, verbose
):
    """Fill both arrays with a blend of ``size`` samples. See the stub."""
    _blend(
        (np.int16,), dataset_index, dataset_sample_index, weights, num_datasets, size, verbose)


def build_blending_indices_int32(
    dataset_index, dataset_sample_index, weights, num_datasets, size, verbose
):
    """The same with an int32 ``dataset_index``, for more than 32767 datasets."""
    _blend(
        (np.int32,), dataset_index, dataset_sample_index, weights, num_datasets, size, verbose)


def build_blending_indices_counted(
    dataset_index, dataset_sample_index, weights, num_datasets, size, verbose
):
    """The same with an int16 or int32 ``dataset_index``; returns the draws of each dataset."""
    return _blend(
        (np.int16, np.int32), dataset_index, dataset_sample_index, weights, num_datasets, size,
        verbose)


def _blend_exhaustively(id_types, dataset_index, dataset_sample_index, sizes, num_datasets):
    datasets = arguments.integer("num_datasets", num_datasets, 1, INT32_MAX)
    sizes = arguments.integers("sizes", sizes, np.int64)
    if len(sizes) != datasets:
        raise ValueError(f"num_datasets is {datasets}, but there are {len(sizes)} sizes")
    if sizes.min() < 1:
        at = int(sizes.argmin())
        raise ValueError(f"sizes[{at}] is {sizes[at]}; every dataset needs a sample to blend")
    total = sum(sizes.tolist())
    ids, samples = _outputs(id_types, dataset_index, dataset_sample_index, datasets, total)
    counts = np.zeros(datasets, np.int64)

    cdef const int64_t[::1] size_data = sizes
    cdef int64_t[::1] count_data = counts
    cdef int64_t[::1] sample_data = samples
    cdef int16_t[::1] ids16
    cdef int32_t[::1] ids32
    cdef size_t count = <size_t> datasets
    cdef size_t step_count = <size_t> total
    cdef Threads threads = _threads_for(total)
    if ids.dtype == np.int16:
        ids16 = ids
        with nogil:
            blend_exhaustively(
                counts_view(&size_data[0], count), ids16_view(&ids16[0], step_count),
                rows64_view(&sample_data[0], step_count), rows64_view(&count_data[0], count),
                threads)
    else:
        ids32 = ids
        with nogil:
            blend_exhaustively(
                counts_view(&size_data[0], count), rows32_view(&ids32[0], step_count),
                rows64_view(&sample_data[0], step_count), rows64_view(&count_data[0], count),
                threads)
    arguments.deliver(dataset_index, ids)
    arguments.deliver(dataset_sample_index, samples)


def build_exhaustive_blending_indices(dataset_index, dataset_sample_index, sizes, num_datasets):
    """Fill both arrays with a blend of every sample of every dataset. See the stub."""
    _blend_exhaustively((np.int16,), dataset_index, dataset_sample_index, sizes, num_datasets)


def build_exhaustive_blending_indices_int32(
    dataset_index, dataset_sample_index, sizes, num_datasets
):
    """The same with an int32 ``dataset_index``, for more than 32767 datasets."""
    _blend_exhaustively((np.int32,), dataset_index, dataset_sample_index, sizes, num_datasets)


def blend_kernel():
    """Which kernel blends of up to 64 datasets run on this processor: avx512 or baseline."""
    return "avx512" if has_avx512() else "baseline"
