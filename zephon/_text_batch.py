"""From rows to a training batch: attention policy and representation in one pass over the tokens.

The same as :func:`zephon.attention.adapt_model_inputs` and
:func:`zephon.output.convert_batch_output` make of any batch, but from the table of segments: where
documents begin is known, so the kernel writes what was asked for and no token is looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from zephon._packed_sequences import build_block_causal_mask
from zephon._training_batch import TrainingBatch
from zephon.errors import ConfigError
from zephon.output import UNUSED_LENGTH
from zephon.packing import (
    BatchOutputFormat,
    PackedSequenceContract,
    PackingContract,
    check_output_format,
    read_packing_contract,
)
from zephon.rows import Rows

if TYPE_CHECKING:
    from zephon._memory import Allocate
    from zephon.types import SampleBatch

UNUSED_BOUNDARY = -1
"""Fills ``cu_seqlens`` behind a row's last document."""

_DOCUMENT_IDS = PackingContract(return_document_ids=True)
"""What ``"thd"`` output without a contract means."""


def convert_rows(
    sample_batch: SampleBatch,
    rows: Rows,
    packing_contract: PackedSequenceContract | None,
    *,
    ignore_index: int,
    mask_segment_starts: bool,
    joined: bool,
    output_format: BatchOutputFormat,
    allocate: Allocate,
) -> TrainingBatch:
    """Make a training batch of ``rows``, which are those of ``sample_batch``.

    Parameters
    ----------
    packing_contract : PackedSequenceContract or None
        What the model asks for. None: nothing beyond ``document_ids``, so that no
        mask is built.
    joined : bool
        Whether the tokens of a row see those of earlier documents (cross-document attention).
    output_format : {"batched", "thd"}
        The representation. A batch without a token, or with a row without one, can only be
        ``"batched"``, and the former only without metadata.
    allocate : callable
        Makes the tensors ``[B, S]``.

    Raises
    ------
    ConfigError
        The contract or the format is unknown, or the batch has no token where one is needed.
    """
    check_output_format(output_format)
    batched = output_format == "batched"
    contract = None if batched else _DOCUMENT_IDS
    if packing_contract is not None:
        contract = read_packing_contract(packing_contract)
    metadata = batched and contract is not None and contract.return_packed_sequence_metadata
    keep_ids = contract is None or contract.return_document_ids

    shape = (len(rows), max(rows.row_length - 1, 0))
    int64 = torch.int64
    fields: dict[str, Any] = {
        "input_ids": allocate(shape, int64),
        "labels": allocate(shape, int64),
        "position_ids": allocate(shape, int64),
        "padding_mask": allocate(shape, torch.bool),
    }
    written = {
        "input_ids": fields["input_ids"],
        "labels": fields["labels"],
        "positions": fields["position_ids"],
        "padding_mask": fields["padding_mask"],
    }
    if keep_ids or not joined:
        ids = written["document_ids"] = allocate(shape, int64)
        if keep_ids:
            fields["document_ids"] = ids
    if joined:  # as enable_xdoc_attention does
        ids = written["row_ids"] = allocate(shape, int64)
    if metadata:
        written["columns"] = fields["packed_token_indices"] = allocate(shape, int64)
    sample_batch.collate(
        rows,
        shift=True,
        ignore_index=ignore_index,
        mask_segment_starts=mask_segment_starts,
        positions_through_row=joined,
        **written,
    )
    if joined or contract is not None:
        fields["attention_document_ids"] = ids
    if contract is not None:
        if batched:
            fields["_packed_seq_ids"] = ids
            block_causal = contract.packed_mask_type == "block_causal"
            fields["attention_mask"] = build_block_causal_mask(ids) if block_causal else ids
        else:
            fields["seq_lens"], fields["seq_lens_padded"] = _slots(rows, joined=joined)
            fields["qkv_format"] = "thd"
    if metadata:
        fields["cu_seqlens"], fields["max_seqlen"] = _boundaries(rows, joined=joined)
    return cast(TrainingBatch, fields)


def _slots(rows: Rows, *, joined: bool) -> tuple[Tensor, Tensor]:
    """``seq_lens`` and ``seq_lens_padded``: the last slot of a row takes its padding."""
    _require_token(rows)
    splits = rows.splits.tolist()
    for row, first in enumerate(splits[:-1]):
        if first == splits[row + 1]:
            raise ConfigError(f"row {row} of the batch has no token, expected at least one in thd")
    lengths, padded = rows.seq_lens(joined=joined, fill=UNUSED_LENGTH)
    return torch.from_numpy(lengths), torch.from_numpy(padded)


def _boundaries(rows: Rows, *, joined: bool) -> tuple[Tensor, int]:
    """``cu_seqlens`` and ``max_seqlen`` of :class:`zephon.packing.PackedSequenceMetadata`."""
    _require_token(rows)
    ends, longest = rows.cu_seqlens(
        shift=True, include_padding=False, fill=UNUSED_BOUNDARY, joined=joined
    )
    return torch.from_numpy(ends), max(longest.tolist())


def _require_token(rows: Rows) -> None:
    if not len(rows.length):
        raise ConfigError("the batch is all padding, expected at least one valid token")
