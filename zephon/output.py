"""The two representations of a finished batch: rows, or documents by their lengths.

Both hold the same tokens at the same places. ``"thd"`` replaces masks by the length of each
document and of the slot it takes; the framework flattens rows and makes cumulative lengths of
them later.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor

from zephon._packed_sequences import DocumentRuns, check_any_token, check_countable, document_runs
from zephon._training_batch import TrainingBatch
from zephon.errors import ConfigError, ConfigTypeError
from zephon.packing import BatchOutputFormat, check_output_format

__all__ = ["convert_batch_output", "pad_documents_for_context_parallel"]

UNUSED_LENGTH = -1000
"""Fills ``seq_lens`` and ``seq_lens_padded`` after a row's last document."""

_BATCHED_ONLY = (
    "attention_mask",
    "_packed_seq_ids",
    "packed_token_indices",
    "cu_seqlens",
    "max_seqlen",
)


def convert_batch_output(
    batch: TrainingBatch, output_format: BatchOutputFormat = "batched"
) -> TrainingBatch:
    """Put a batch whose attention policy is settled into its output representation.

    Parameters
    ----------
    batch : TrainingBatch
        ``"batched"`` returns it unchanged. ``"thd"`` changes this mapping and returns it: adds
        ``seq_lens``, ``seq_lens_padded`` and ``qkv_format``, and removes the masks and metadata
        that belong to batched output. No tensor is written, moved or copied, and positions stay
        as attention policy made them. The last document's slot takes the padding of its row.
    output_format : {"batched", "thd"}
        The representation.

    Raises
    ------
    ConfigError
        If the format is unknown, or for ``"thd"`` if ``attention_document_ids`` are missing, a row
        has no token, something is excluded or padded before the end of its row's tokens, a
        document lies in two pieces, or the batch has 2**31 places or more.
    """
    check_output_format(output_format)
    if output_format == "batched":
        return batch
    if "attention_document_ids" not in batch:
        raise ConfigError(
            "the batch has no attention_document_ids, expected adapt_model_inputs to have set them"
        )
    ids = batch["attention_document_ids"]  # [B, S]
    runs = document_runs(ids, "attention_document_ids")
    check_any_token(runs, "attention_document_ids")
    _check_trailing_padding(ids > 0, batch["padding_mask"])

    seq_lens = _length_table(runs, len(ids))
    batch["seq_lens"] = seq_lens
    batch["seq_lens_padded"] = _with_row_padding(seq_lens, ids.shape[1])
    batch["qkv_format"] = "thd"
    for name in _BATCHED_ONLY:
        cast(dict[str, object], batch).pop(name, None)
    return batch


def pad_documents_for_context_parallel(
    batch: TrainingBatch, context_parallel_size: int, pad_token_id: int, ignore_index: int
) -> TrainingBatch:
    """Move documents apart until each slot can be split over context-parallel ranks.

    Load-balanced context parallelism cuts every slot into ``2 * context_parallel_size`` equal
    parts, so a slot must be a multiple of that. Documents keep their order, their row and their
    labels; all rows become as long as the longest one needs.

    Parameters
    ----------
    batch : TrainingBatch
        In ``"thd"`` representation; neither it nor its tensors change.
    context_parallel_size : int
        Number of context-parallel ranks. With 1 the batch is returned as it is.
    pad_token_id, ignore_index : int
        What ``input_ids`` and ``labels`` hold on padding. Document ids are 0 there,
        ``padding_mask`` is True, and positions count on from the document before, so that no
        padding looks like the start of one.

    Returns
    -------
    TrainingBatch
        A new ``"thd"`` batch: ``seq_lens`` as before, ``seq_lens_padded`` the new slots. Fields
        that have no token axis are passed on.

    Raises
    ------
    ConfigError
        If the size is below 1, or the batch is not in ``"thd"`` representation, has a token field
        whose padding value is unknown, or would reach 2**31 places; ConfigTypeError if an
        argument is no int.

    Examples
    --------
    Documents of 5, 3 and 1 tokens, over 2 ranks, take 8, 4 and 4 places.
    """
    for argument, given in (
        ("context_parallel_size", context_parallel_size),
        ("pad_token_id", pad_token_id),
        ("ignore_index", ignore_index),
    ):
        if not isinstance(given, int) or isinstance(given, bool):
            raise ConfigTypeError(f"{argument} is {given!r}, expected an int")
    if context_parallel_size < 1:
        raise ConfigError(f"context_parallel_size is {context_parallel_size}, expected at least 1")
    if batch.get("qkv_format") != "thd":
        raise ConfigError(
            f"the batch has qkv_format {batch.get('qkv_format')!r}, expected 'thd': "
            "convert_batch_output comes first"
        )
    if context_parallel_size == 1:
        return batch
    shape = batch["input_ids"].shape
    layout = _spread(batch["seq_lens"], batch["seq_lens_padded"], shape, 2 * context_parallel_size)
    new_shape = (shape[0], len(layout.source) // shape[0])
    is_pad = layout.beyond > 0
    padding = {
        "input_ids": pad_token_id,
        "labels": ignore_index,
        "document_ids": 0,
        "attention_document_ids": 0,
    }
    padded: dict[str, object] = {
        "seq_lens": batch["seq_lens"].clone(),
        "seq_lens_padded": layout.slots,
        "padding_mask": is_pad.view(new_shape),
    }
    for name, value in batch.items():
        if name in padded:
            continue
        if name == "position_ids":
            positions = cast(Tensor, value).flatten(-2)[..., layout.source] + layout.beyond
            padded[name] = positions.view(*positions.shape[:-1], *new_shape)
        elif name in padding:
            moved = cast(Tensor, value).flatten()[layout.source]
            padded[name] = moved.masked_fill_(is_pad, padding[name]).view(new_shape)
        elif isinstance(value, Tensor) and value.shape[:2] == shape:
            raise ConfigError(
                f"field {name!r} has a value per token, and nothing says what it is on padding"
            )
        else:
            padded[name] = value
    return cast(TrainingBatch, padded)


class _Spread(NamedTuple):
    """Where the places of a batch ``[B, S']`` come from when its documents are moved apart."""

    slots: Tensor  # [B, K], the new seq_lens_padded
    source: Tensor  # [B * S'], the old place of a token; for padding that of the token before it
    beyond: Tensor  # [B * S'], how far behind that token; 0 for the token itself


def _spread(lens: Tensor, old_slots: Tensor, shape: tuple[int, ...], multiple: int) -> _Spread:
    """Round the slot of each document up to a multiple, and all rows to the longest."""
    is_used = lens != UNUSED_LENGTH  # [B, K]
    rounded = torch.where(is_used, (lens + multiple - 1) // multiple * multiple, UNUSED_LENGTH)
    length = int(torch.where(is_used, rounded, 0).sum(1).max())  # S'
    check_countable(shape[0] * length, "the padded batch")
    slots = _with_row_padding(rounded, length)

    rows = is_used.nonzero()[:, 0]  # [documents]
    old_starts = _slot_starts(old_slots, is_used) + rows * shape[1]
    new_starts = _slot_starts(slots, is_used) + rows * length
    document = torch.repeat_interleave(slots[is_used])  # [B * S']
    offset = torch.arange(len(document), device=document.device) - new_starts[document]
    beyond = (offset - (lens[is_used] - 1)[document]).clamp_min(0)
    return _Spread(slots, old_starts[document] + offset - beyond, beyond)


def _check_trailing_padding(is_member: Tensor, padding_mask: Tensor) -> None:
    """Refuse rows whose members ``[B, S]`` are not a prefix, or are padding."""
    if padding_mask.shape != is_member.shape:
        raise ConfigError(
            f"padding_mask has shape {tuple(padding_mask.shape)}, expected "
            f"{tuple(is_member.shape)} as attention_document_ids"
        )
    returns = (is_member[:, 1:] & ~is_member[:, :-1]).any(1)
    _refuse(returns, "an exclusion before the end of its tokens", "only trailing ones in thd")
    ends = (padding_mask[:, :-1] & ~padding_mask[:, 1:]).any(1)
    _refuse(ends, "padding before the end of the row", "only trailing padding in thd")
    _refuse((padding_mask & is_member).any(1), "padding inside a document", "document id 0 there")
    _refuse(~is_member.any(1), "no token", "at least one in thd")


def _refuse(is_bad: Tensor, found: str, expected: str) -> None:
    if bool(is_bad.any()):
        raise ConfigError(
            f"row {int(is_bad.nonzero()[0, 0])} of the batch has {found}, expected {expected}"
        )


def _length_table(runs: DocumentRuns, rows: int) -> Tensor:
    """Length of each document, as a table ``[B, K]``."""
    table = runs.lengths.new_full((rows, int(runs.slots.max()) + 1), UNUSED_LENGTH)
    table[runs.rows, runs.slots] = runs.lengths
    return table


def _with_row_padding(slots: Tensor, length: int) -> Tensor:
    """Slots ``[B, K]`` with the last of each row extended, so that the row takes ``length``."""
    is_used = slots != UNUSED_LENGTH
    last = is_used.sum(1, keepdim=True) - 1
    missing = length - torch.where(is_used, slots, 0).sum(1, keepdim=True)
    return slots.scatter_add(1, last, missing)


def _slot_starts(slots: Tensor, is_used: Tensor) -> Tensor:
    """Column at which each used slot of ``[B, K]`` begins, row by row: ``[documents]``."""
    taken = torch.where(is_used, slots, 0)
    return (taken.cumsum(1) - taken)[is_used]
