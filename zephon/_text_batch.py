"""From rows to a training batch: attention policy and representation in one pass over the tokens.

The same as :func:`zephon.attention.adapt_model_inputs` and
:func:`zephon.output.convert_batch_output` make of any batch, but from the table of segments: where
documents begin is known, so the kernel writes what was asked for and no token is looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from zephon._memory import TensorPool, allocator
from zephon._packed_sequences import build_block_causal_mask
from zephon._training_batch import TrainingBatch
from zephon.errors import ConfigError
from zephon.packing import (
    BatchOutputFormat,
    PackedSequenceContract,
    PackingContract,
    check_output_format,
    read_packing_contract,
)
from zephon.rows import Rows

if TYPE_CHECKING:
    from zephon.types import SampleBatch

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
    pool: TensorPool | None,
    pin_memory: bool,
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
    pool, pin_memory
        Where the tensors ``[B, S]`` take their memory from, see :func:`zephon._memory.allocator`.

    Raises
    ------
    ConfigError
        The contract or the format is unknown, or the batch has no token where one is needed.
    """
    allocate = allocator(pool, pin_memory)
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
        "input_ids": allocate(shape, dtype=int64),
        "labels": allocate(shape, dtype=int64),
        "position_ids": allocate(shape, dtype=int64),
        "padding_mask": allocate(shape, dtype=torch.bool),
    }
    written = {
        "input_ids": fields["input_ids"],
        "labels": fields["labels"],
        "positions": fields["position_ids"],
        "padding_mask": fields["padding_mask"],
    }
    if keep_ids or not joined:
        ids = written["document_ids"] = allocate(shape, dtype=int64)
        if keep_ids:
            fields["document_ids"] = ids
    if joined:  # as enable_xdoc_attention does
        ids = written["row_ids"] = allocate(shape, dtype=int64)
    if metadata:
        written["columns"] = fields["packed_token_indices"] = allocate(shape, dtype=int64)
    more: dict[str, Any] = {}
    if contract is not None and rows.row_length > 1:  # else collation tells that rows are too short
        more = _boundaries(rows, joined=joined, thd=not batched, metadata=metadata, fields=fields)
    sample_batch.collate(
        rows,
        shift=True,
        ignore_index=ignore_index,
        mask_segment_starts=mask_segment_starts,
        joined=joined,
        **written,
        **more,
    )
    if joined or contract is not None:
        fields["attention_document_ids"] = ids
    if batched and contract is not None:
        fields["_packed_seq_ids"] = ids
        block_causal = contract.packed_mask_type == "block_causal"
        fields["attention_mask"] = build_block_causal_mask(ids) if block_causal else ids
    return cast(TrainingBatch, fields)


def _boundaries(
    rows: Rows, *, joined: bool, thd: bool, metadata: bool, fields: dict[str, Any]
) -> dict[str, Any]:
    """Put the lengths of documents into ``fields``; returns what collation is to fill of them."""
    if not (thd or metadata):
        return {}
    count, longest, empty_row = rows.document_count(joined=joined)
    if not count:
        raise ConfigError("the batch is all padding, expected at least one valid token")
    if metadata:
        tables = {"cu_seqlens": torch.empty((len(rows), count + 1), dtype=torch.int32)}
        fields["max_seqlen"] = longest
    else:
        if empty_row >= 0:
            raise ConfigError(
                f"row {empty_row} of the batch has no token, expected at least one in thd"
            )
        shape = (len(rows), count)
        tables = {
            "seq_lens": torch.empty(shape, dtype=torch.int64),
            "seq_lens_padded": torch.empty(shape, dtype=torch.int64),
        }
        fields["qkv_format"] = "thd"
    fields.update(tables)
    return {"slots": count, **tables}
