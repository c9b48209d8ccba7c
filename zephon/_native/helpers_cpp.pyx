# cython: language_level=3, boundscheck=False, wraparound=False
"""Megatron's index helpers: checks around zephon/sample_index.hpp and zephon/blending.hpp.

The functions have the names, the argument order and, for every valid input, the
results of the extension that Megatron-LM and NeMo AutoModel compile at run time.
What is undefined there (an abort, a wrapped number, a lost result) is a
ValueError or TypeError here. Arguments may also be given by name.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t

import operator

import numpy as np

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

cdef extern from "zephon/sample_index.hpp" namespace "zephon" nogil:
    cdef cppclass SampleIndexShape:
        SampleIndexShape()
        int64_t sequence_length
        int64_t extra
        int64_t samples
    int64_t count_samples(int64_t, int64_t, int64_t, bint) noexcept
    bint all_within(sizes_view, int32_t, int32_t) noexcept
    int64_t build_sample_index(sizes_view, sizes_view, SampleIndexShape, rows32_view) noexcept
    int64_t build_sample_index(sizes_view, sizes_view, SampleIndexShape, rows64_view) noexcept

cdef extern from "zephon/blending.hpp" namespace "zephon" nogil:
    void blend_weighted(weights_view, ids16_view, rows64_view, rows64_view) noexcept
    void blend_weighted(weights_view, rows32_view, rows64_view, rows64_view) noexcept

cdef object INT32_MAX = 2**31 - 1
cdef object INT64_MAX = 2**63 - 1


def _integer(str name, value, low, high):
    """``value`` as an int between ``low`` and ``high``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}, got {number}")
    return number


def _flag(str name, value):
    """``value`` as a bool; 0 and 1 pass too."""
    try:
        number = operator.index(value)
    except TypeError:
        if isinstance(value, np.bool_):
            return bool(value)
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}") from None
    if number not in (0, 1):
        raise ValueError(f"{name} must be a bool, 0 or 1, got {number}")
    return bool(number)


def _one_dimensional(str name, array):
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    return array


def _integers(str name, value, dtype):
    """``value`` as an aligned C-contiguous 1-D array of ``dtype``; it must fit exactly."""
    array = np.asarray(value)
    if array.size == 0 and not isinstance(value, np.ndarray):
        array = array.astype(dtype)
    if (
        array.dtype.kind in "fO" and not isinstance(value, np.ndarray) and np.ndim(value) == 1
        and all(isinstance(entry, int) for entry in value)
    ):  # numpy makes objects or floats of integers beyond 64 bits
        raise ValueError(f"{name} has a value that does not fit {dtype.__name__}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    _one_dimensional(name, array)
    if array.size and not np.can_cast(array.dtype, dtype):
        limits = np.iinfo(dtype)
        for at in (int(array.argmin()), int(array.argmax())):
            if not limits.min <= int(array[at]) <= limits.max:
                raise ValueError(f"{name}[{at}] is {array[at]}, which does not fit {limits.dtype}")
    return np.require(array, dtype, ("C", "A"))


def _weights(value, count):
    """``value`` as ``count`` finite weights >= 0."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"weights must hold numbers, got dtype {array.dtype}")
    _one_dimensional("weights", array)
    if len(array) != count:
        raise ValueError(f"num_datasets is {count}, but there are {len(array)} weights")
    array = np.require(array, np.float64, ("C", "A"))
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"weights[{at}] is {array[at]}; a weight must be finite and not negative")
    return array


def _output(str name, array, dtypes, size):
    """Check an array to be written to; the array itself, or a contiguous stand-in."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a numpy array to write to, got {type(array).__name__}")
    if array.dtype not in dtypes:
        wanted = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
        raise TypeError(
            f"{name} must have dtype {wanted}, got {array.dtype}: its values would be lost"
        )
    _one_dimensional(name, array)
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and the result is written to it")
    if len(array) < size:
        raise ValueError(f"{name} has room for {len(array)} samples, size is {size}")
    window = array[:size]
    return window if window.flags.carray else np.empty(size, array.dtype)


def _sample_idx(
    dtype, sizes, document_idx, seq_length, num_epochs, tokens_per_epoch, drop_last, add_extra
):
    sizes = _integers("sizes", sizes, np.int32)
    document_idx = _integers("document_idx", document_idx, np.int32)
    length = _integer("seq_length", seq_length, 2, INT32_MAX)
    epochs = _integer("num_epochs", num_epochs, 1, INT32_MAX)
    per_epoch = _integer("tokens_per_epoch", tokens_per_epoch, 2, INT64_MAX)
    drop = _flag("drop_last_partial_sequence", drop_last)
    extra = _flag("add_extra_token_to_sequence", add_extra)
    tokens = epochs * per_epoch
    if tokens > INT64_MAX:
        raise ValueError(
            f"num_epochs * tokens_per_epoch is {tokens}, which does not fit 64 bits"
        )
    if dtype is np.int32 and len(document_idx) > INT32_MAX:
        raise ValueError(
            f"document_idx has {len(document_idx)} entries, too many for 32-bit rows: "
            "use build_sample_idx_int64"
        )

    cdef const int32_t[::1] size_data = sizes
    cdef const int32_t[::1] document_data = document_idx
    cdef size_t size_count = <size_t> size_data.shape[0]
    cdef size_t document_count = <size_t> document_data.shape[0]
    cdef const int32_t* size_at = &size_data[0] if size_count else NULL
    cdef const int32_t* document_at = &document_data[0] if document_count else NULL
    cdef bint sizes_fit = True
    cdef bint documents_fit = True
    cdef int32_t highest = <int32_t> min(len(sizes) - 1, INT32_MAX)
    with nogil:
        sizes_fit = all_within(sizes_view(size_at, size_count), 0, 2147483647)
        documents_fit = all_within(sizes_view(document_at, document_count), 0, highest)
    if not sizes_fit:
        at = int(np.argmin(sizes))
        raise ValueError(f"sizes[{at}] is {sizes[at]}; a document has no negative size")
    if not documents_fit:
        at = int(np.flatnonzero((document_idx < 0) | (document_idx > highest))[0])
        raise ValueError(
            f"document_idx[{at}] is {document_idx[at]}, but there are {len(sizes)} sizes"
        )
    # Before the rows are allocated: a claim beyond any possible content.
    largest = int(sizes.max()) if size_count else 0
    if tokens > largest * len(document_idx):
        _too_few_tokens(tokens, int(sizes[document_idx].sum(dtype=np.int64)))

    cdef SampleIndexShape shape
    shape.sequence_length = length
    shape.extra = extra
    shape.samples = count_samples(tokens, length, extra, drop)
    rows = np.empty((shape.samples + 1, 2), dtype)
    cdef int32_t[:, ::1] rows32
    cdef int64_t[:, ::1] rows64
    cdef size_t values = 2 * (<size_t> shape.samples + 1)
    cdef int64_t held = 0
    if dtype is np.int32:
        rows32 = rows
        with nogil:
            held = build_sample_index(
                sizes_view(size_at, size_count), sizes_view(document_at, document_count), shape,
                rows32_view(&rows32[0, 0], values))
    else:
        rows64 = rows
        with nogil:
            held = build_sample_index(
                sizes_view(size_at, size_count), sizes_view(document_at, document_count), shape,
                rows64_view(&rows64[0, 0], values))
    if tokens > held:
        _too_few_tokens(tokens, held)
    return rows


def _too_few_tokens(claimed, held):
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
    datasets = _integer("num_datasets", num_datasets, 1, INT32_MAX)
    steps = _integer("size", size, 0, INT64_MAX)
    loud = _flag("verbose", verbose)
    ids = _output("dataset_index", dataset_index, id_types, steps)
    samples = _output("dataset_sample_index", dataset_sample_index, (np.int64,), steps)
    if ids.dtype == np.int16 and datasets > 32767:
        raise ValueError(
            f"num_datasets is {datasets}, but an int16 dataset_index numbers at most 32767: "
            "use build_blending_indices_int32"
        )
    weights = _weights(weights, datasets)
    counts = np.zeros(datasets, np.int64)

    cdef const double[::1] weight_data = weights
    cdef int64_t[::1] count_data = counts
    cdef int64_t[::1] sample_data = samples
    cdef int16_t[::1] ids16
    cdef int32_t[::1] ids32
    cdef size_t count = <size_t> datasets
    cdef size_t step_count = <size_t> steps
    if step_count:
        if ids.dtype == np.int16:
            ids16 = ids
            with nogil:
                blend_weighted(
                    weights_view(&weight_data[0], count), ids16_view(&ids16[0], step_count),
                    rows64_view(&sample_data[0], step_count), rows64_view(&count_data[0], count))
        else:
            ids32 = ids
            with nogil:
                blend_weighted(
                    weights_view(&weight_data[0], count), rows32_view(&ids32[0], step_count),
                    rows64_view(&sample_data[0], step_count), rows64_view(&count_data[0], count))
    for target, result in ((dataset_index, ids), (dataset_sample_index, samples)):
        if not np.may_share_memory(target, result):
            target[:steps] = result
    if loud:
        _report_blend(weights, counts, steps)
    return counts


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
