"""``megatron.data.helpers`` of gpt-neox, Megatron-DeepSpeed and older Megatron-LM.

The same functions as today's, with the arguments and the output types that
those code bases use: fewer arguments, whose later additions have the value that
was built in then, and dataset numbers of another width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron import helpers
from zephon.megatron._compile import compile_helper

_ours: Any = compile_helper()

build_blocks_mapping: Callable[..., NDArray[Any]] = _ours.build_blocks_mapping


def build_sample_idx_int32(
    sizes: ArrayLike,
    doc_idx: ArrayLike,
    seq_length: int,
    num_epochs: int,
    tokens_per_epoch: int,
    drop_last: bool = True,
    add_extra_token: int = 1,
) -> NDArray[np.int32]:
    """Where each sample begins, int32 ``[samples + 1, 2]``; see :mod:`zephon.megatron.helpers`."""
    rows: NDArray[np.int32] = _ours.build_sample_idx_int32(
        sizes, doc_idx, seq_length, num_epochs, tokens_per_epoch, drop_last, add_extra_token
    )
    return rows


def build_sample_idx_int64(
    sizes: ArrayLike,
    doc_idx: ArrayLike,
    seq_length: int,
    num_epochs: int,
    tokens_per_epoch: int,
    drop_last: bool = True,
    add_extra_token: int = 1,
) -> NDArray[np.int64]:
    """:func:`build_sample_idx_int32` with int64 rows."""
    rows: NDArray[np.int64] = _ours.build_sample_idx_int64(
        sizes, doc_idx, seq_length, num_epochs, tokens_per_epoch, drop_last, add_extra_token
    )
    return rows


def build_sample_idx(
    sizes: ArrayLike,
    doc_idx: ArrayLike,
    seq_length: int,
    num_epochs: int,
    tokens_per_epoch: int,
    drop_last: bool = True,
    add_extra_token: int = 1,
) -> NDArray[np.int32] | NDArray[np.int64]:
    """:func:`build_sample_idx_int32` where int32 holds every row, else with int64."""
    return helpers.build_sample_idx(
        sizes,
        doc_idx,
        seq_length,
        num_epochs,
        tokens_per_epoch,
        drop_last,
        bool(add_extra_token),
    )


def build_blending_indices(
    dataset_index: NDArray[np.integer[Any]],
    dataset_sample_index: NDArray[np.int64],
    weights: ArrayLike,
    num_datasets: int,
    size: int,
    verbose: bool,
) -> None:
    """Blend datasets into a ``dataset_index`` of any integer type that holds their numbers.

    gpt-neox has used uint8 and Megatron-DeepSpeed int64, where Megatron-LM has
    int16.

    Raises
    ------
    ConfigTypeError
        ``dataset_index`` is not an array of integers.
    ConfigError
        It is too narrow for ``num_datasets``.
    """
    if not isinstance(dataset_index, np.ndarray) or dataset_index.dtype.kind not in "iu":
        raise ConfigTypeError(
            f"dataset_index must be an array of integers, got {_kind(dataset_index)}: the result "
            "would be lost"
        )
    if dataset_index.dtype == np.int16:
        _ours.build_blending_indices(
            dataset_index, dataset_sample_index, weights, num_datasets, size, verbose
        )
        return
    greatest = int(np.iinfo(dataset_index.dtype).max)
    if num_datasets - 1 > greatest:
        raise ConfigError(
            f"dataset_index is {dataset_index.dtype}, which holds numbers up to {greatest}; "
            f"num_datasets is {num_datasets}"
        )
    numbers = np.empty(len(dataset_index), np.int32)
    _ours.build_blending_indices_int32(
        numbers, dataset_sample_index, weights, num_datasets, size, verbose
    )
    dataset_index[:size] = numbers[:size]


def build_mapping(
    docs: ArrayLike,
    sizes: ArrayLike,
    num_epochs: int,
    max_num_samples: int,
    max_seq_length: int,
    short_seq_prob: float,
    seed: int,
    verbose: bool,
    min_num_sent: int = 2,
) -> NDArray[Any]:
    """Sentences into samples, ``[samples, 3]``, of two sentences at least if nothing is said."""
    rows: NDArray[Any] = _ours.build_mapping(
        docs,
        sizes,
        num_epochs,
        max_num_samples,
        max_seq_length,
        short_seq_prob,
        seed,
        verbose,
        min_num_sent,
    )
    return rows


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__
