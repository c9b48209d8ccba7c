from typing import Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zephon._native.sentence_mapping import build_blocks_mapping as build_blocks_mapping
from zephon._native.sentence_mapping import build_mapping as build_mapping
from zephon._threads import get_threads as get_threads
from zephon._threads import set_threads as set_threads

def build_sample_idx_int32(
    sizes: ArrayLike,
    document_idx: ArrayLike,
    seq_length: SupportsIndex,
    num_epochs: SupportsIndex,
    tokens_per_epoch: SupportsIndex,
    drop_last_partial_sequence: bool | SupportsIndex,
    add_extra_token_to_sequence: bool | SupportsIndex,
) -> NDArray[np.int32]:
    """Where each sample begins: rows of (position in ``document_idx``, offset).

    Parameters
    ----------
    sizes : integers ``[documents]``
        Tokens of each document, 0 to 2**31 - 1.
    document_idx : integers ``[positions]``
        Documents in training order, all epochs after each other.
    seq_length : int
        Tokens of a sample, at least 2.
    num_epochs, tokens_per_epoch : int
        Their product is the number of tokens to use; ``document_idx`` must hold
        at least as many.
    drop_last_partial_sequence : bool
        Drop the tokens that do not fill a sample, or make one shorter sample of
        them. The count is exact, where the reference rounds it to single
        precision.
    add_extra_token_to_sequence : bool
        Whether a sample reads one token more, for the last label.

    Returns
    -------
    int32 ``[samples + 1, 2]``
        Sample k spans row k to row k + 1.

    Raises
    ------
    TypeError
        An argument is not of integers, or not a number at all.
    ValueError
        A value is out of range, or the documents hold fewer tokens than claimed.
    """

def build_sample_idx_int64(
    sizes: ArrayLike,
    document_idx: ArrayLike,
    seq_length: SupportsIndex,
    num_epochs: SupportsIndex,
    tokens_per_epoch: SupportsIndex,
    drop_last_partial_sequence: bool | SupportsIndex,
    add_extra_token_to_sequence: bool | SupportsIndex,
) -> NDArray[np.int64]:
    """:func:`build_sample_idx_int32` with int64 rows, for 2**31 positions or more."""

def build_blending_indices(
    dataset_index: NDArray[np.int16],
    dataset_sample_index: NDArray[np.int64],
    weights: ArrayLike,
    num_datasets: SupportsIndex,
    size: SupportsIndex,
    verbose: bool | SupportsIndex,
) -> None:
    """Blend datasets so that each keeps to its weight at every step.

    Step s draws the dataset for which ``weight * max(s, 1) - draws so far`` is
    greatest; the lowest index wins a tie.

    Parameters
    ----------
    dataset_index : int16 ``[size]`` or longer, written to
        Dataset of each step.
    dataset_sample_index : int64 ``[size]`` or longer, written to
        How often that dataset had been drawn before.
    weights : numbers ``[num_datasets]``
        Finite and not negative. Used as given: they should sum to 1.
    num_datasets : int
        At most 32767, the greatest int16.
    size : int
        Steps.
    verbose : bool
        Print the weights and what was achieved.

    Raises
    ------
    TypeError
        An output is not of its dtype: the result would be lost.
    ValueError
        A value is out of range, or an output is too short or read-only.
    """

def build_blending_indices_int32(
    dataset_index: NDArray[np.int32],
    dataset_sample_index: NDArray[np.int64],
    weights: ArrayLike,
    num_datasets: SupportsIndex,
    size: SupportsIndex,
    verbose: bool | SupportsIndex,
) -> None:
    """:func:`build_blending_indices` for up to 2**31 - 1 datasets."""

def build_blending_indices_counted(
    dataset_index: NDArray[np.int16] | NDArray[np.int32],
    dataset_sample_index: NDArray[np.int64],
    weights: ArrayLike,
    num_datasets: SupportsIndex,
    size: SupportsIndex,
    verbose: bool | SupportsIndex,
) -> NDArray[np.int64]:
    """:func:`build_blending_indices` that returns how often each dataset was drawn.

    Returns
    -------
    int64 ``[num_datasets]``
        They sum to ``size``; known anyway, so nobody has to count the result.
    """

def build_exhaustive_blending_indices(
    dataset_index: NDArray[np.int16],
    dataset_sample_index: NDArray[np.int64],
    sizes: ArrayLike,
    num_datasets: SupportsIndex,
) -> None:
    """Blend every sample of every dataset, spread as evenly as their sizes allow.

    The rule is that of :func:`build_blending_indices` with ``size / total`` as
    weights, among the datasets that have a sample left.

    Parameters
    ----------
    dataset_index : int16 ``[total]`` or longer, written to
    dataset_sample_index : int64 ``[total]`` or longer, written to
    sizes : integers ``[num_datasets]``
        Samples of each dataset, at least 1; ``total`` is their sum.
    num_datasets : int
        At most 32767, the greatest int16.

    Raises
    ------
    TypeError, ValueError
        As :func:`build_blending_indices`; also for a dataset without a sample.
    """

def build_exhaustive_blending_indices_int32(
    dataset_index: NDArray[np.int32],
    dataset_sample_index: NDArray[np.int64],
    sizes: ArrayLike,
    num_datasets: SupportsIndex,
) -> None:
    """:func:`build_exhaustive_blending_indices` for up to 2**31 - 1 datasets."""

def blend_kernel() -> Literal["avx512", "baseline"]:
    """Which kernel blends of up to 64 datasets run on this processor; the results are the same."""
