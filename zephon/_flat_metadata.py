"""From the document boundaries of each row to those of one flat stream, on the model's side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zephon._packed_sequences import check_countable
from zephon.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


def flatten_packed_sequence_metadata(
    packed_token_indices: Tensor,
    cu_seqlens: Tensor,
    *,
    batch_size: int,
    sequence_length: int,
) -> tuple[Tensor, Tensor]:
    """Turn metadata of rows into that of one flat stream of ``batch_size * sequence_length``.

    Parameters
    ----------
    packed_token_indices, cu_seqlens : integer ``[B, S]`` and ``[B, K + 1]``
        As in :class:`PackedSequenceMetadata`; or both 1-D and flat already, which are checked and
        returned as they are.

    Returns
    -------
    packed_token_indices : integer ``[tokens]``
        Places of the tokens in the flattened batch.
    cu_seqlens : int32 ``[documents + 1]``
        Cumulative document lengths from 0 to ``tokens``.

    Raises
    ------
    ConfigError
        If the shapes disagree, an index lies outside its row, or a row's boundaries do not start
        at 0, fall, go on after a -1 or end anywhere but at its number of tokens; or if there is
        no token at all.
    """
    import torch

    if packed_token_indices.ndim == 1 and cu_seqlens.ndim == 1:
        _check_flat(packed_token_indices, cu_seqlens, batch_size * sequence_length)
        return packed_token_indices, cu_seqlens
    if tuple(packed_token_indices.shape) != (batch_size, sequence_length) or (
        cu_seqlens.ndim != 2 or cu_seqlens.shape[0] != batch_size or cu_seqlens.shape[1] < 1
    ):
        raise ConfigError(
            f"packed_token_indices and cu_seqlens have shapes {tuple(packed_token_indices.shape)} "
            f"and {tuple(cu_seqlens.shape)}, expected ({batch_size}, {sequence_length}) and "
            f"({batch_size}, documents + 1)"
        )
    check_countable(batch_size * sequence_length, "packed_token_indices")
    outside = (packed_token_indices < -1) | (packed_token_indices >= sequence_length)
    _refuse_rows(outside.any(1), f"packed_token_indices outside [-1, {sequence_length})")
    is_token = packed_token_indices >= 0  # [B, S]
    tokens_in_row = is_token.sum(1)  # [B]

    is_boundary = cu_seqlens >= 0  # [B, K + 1]
    before, after = cu_seqlens[:, :-1], cu_seqlens[:, 1:]
    _refuse_rows((cu_seqlens < -1).any(1), "cu_seqlens below -1")
    _refuse_rows(cu_seqlens[:, 0] != 0, "cu_seqlens that do not start at 0")
    _refuse_rows((is_boundary[:, 1:] & ~is_boundary[:, :-1]).any(1), "cu_seqlens after a -1")
    _refuse_rows((is_boundary[:, 1:] & (after < before)).any(1), "cu_seqlens that fall")
    _refuse_rows(
        cu_seqlens.amax(1) != tokens_in_row,
        "cu_seqlens that do not end at its number of packed tokens",
    )
    if not bool(is_token.any()):
        raise ConfigError("packed_token_indices hold no token, expected at least one document")

    row_starts = torch.arange(batch_size, device=is_token.device) * sequence_length
    tokens_before_row = tokens_in_row.cumsum(0) - tokens_in_row
    indices = (packed_token_indices + row_starts[:, None])[is_token]
    ends = (after + tokens_before_row[:, None])[is_boundary[:, 1:]].to(torch.int32)
    return indices, torch.cat((ends.new_zeros(1), ends))


def _check_flat(indices: Tensor, cu_seqlens: Tensor, places: int) -> None:
    if len(cu_seqlens) < 2 or int(cu_seqlens[0]) != 0 or int(cu_seqlens[-1]) != len(indices):
        raise ConfigError(
            f"cu_seqlens are {_shortened(cu_seqlens)}, expected values from 0 to "
            f"{len(indices)}, the number of packed_token_indices"
        )
    if bool((cu_seqlens[1:] < cu_seqlens[:-1]).any()):
        raise ConfigError(f"cu_seqlens are {_shortened(cu_seqlens)}, expected no value to fall")
    if bool(((indices < 0) | (indices >= places)).any()):
        raise ConfigError(
            f"packed_token_indices go from {int(indices.min())} to {int(indices.max())}, "
            f"expected places in [0, {places})"
        )


def _refuse_rows(is_bad: Tensor, what: str) -> None:
    if bool(is_bad.any()):
        raise ConfigError(f"row {int(is_bad.nonzero()[0, 0])} has {what}")


def _shortened(values: Tensor) -> str:
    shown = ", ".join(str(value) for value in values[:8].tolist())
    return f"[{shown}{', ...' if len(values) > 8 else ''}]"
