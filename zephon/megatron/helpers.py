"""The index helpers under the names of ``megatron.core.datasets.helpers``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zephon._native.helpers_cpp import (
    build_blending_indices,
    build_blocks_mapping,
    build_exhaustive_blending_indices,
    build_mapping,
    build_sample_idx_int32,
    build_sample_idx_int64,
)
from zephon.errors import ConfigError

__all__ = [
    "build_blending_indices",
    "build_blocks_mapping",
    "build_exhaustive_blending_indices",
    "build_mapping",
    "build_sample_idx",
    "build_sample_idx_int32",
    "build_sample_idx_int64",
]

_INT32_MAX = 2**31 - 1


def build_sample_idx(
    sizes: ArrayLike,
    document_indices: ArrayLike,
    sequence_length: int,
    num_epochs: int,
    tokens_per_epoch: int,
    drop_last_partial_sequence: bool = True,
    add_extra_token_to_sequence: bool = True,
) -> NDArray[np.int32] | NDArray[np.int64]:
    """Where each sample begins, in the narrower integers that hold every row.

    Parameters
    ----------
    sizes : integers ``[documents]``
        Tokens of each document.
    document_indices : integers ``[positions]``
        Documents in training order, all epochs after each other.
    sequence_length : int
        Tokens of a sample, at least 2.
    num_epochs, tokens_per_epoch : int
        Their product is the number of tokens to use.
    drop_last_partial_sequence : bool
        Drop the tokens that do not fill a sample, or make one shorter sample of
        them.
    add_extra_token_to_sequence : bool
        Whether a sample reads one token more, for the last label.

    Returns
    -------
    int32 or int64 ``[samples + 1, 2]``
        Rows of (position in ``document_indices``, offset in that document).

    Raises
    ------
    ConfigError
        ``sizes`` is empty.
    ValueError, TypeError
        As :func:`zephon._native.helpers_cpp.build_sample_idx_int32`.
    """
    lengths: NDArray[Any] = np.asarray(sizes)
    if lengths.size == 0:
        raise ConfigError("sizes is empty: there is no document to take samples from")
    positions: NDArray[Any] = np.asarray(document_indices)
    build = (
        build_sample_idx_int32
        if max(positions.size, int(lengths.max())) <= _INT32_MAX
        else build_sample_idx_int64
    )
    return build(
        lengths,
        positions,
        sequence_length,
        num_epochs,
        tokens_per_epoch,
        drop_last_partial_sequence,
        add_extra_token_to_sequence,
    )
