"""Attention policy: which tokens of a packed row see each other, and in what form a model is told.

Stateless. Both adapters put new tensors into the mapping that they are given and return it; they
write into no tensor.
"""

from __future__ import annotations

import torch

from zephon._packed_sequences import (
    build_block_causal_mask,
    build_packed_sequence_metadata,
    check_document_ids,
)
from zephon._training_batch import TrainingBatch
from zephon.errors import ConfigError, ConfigTypeError
from zephon.packing import (
    BatchOutputFormat,
    PackedSequenceContract,
    check_output_format,
    read_packing_contract,
)

__all__ = [
    "TrainingBatch",
    "adapt_model_inputs",
    "enable_xdoc_attention",
    "require_supported_packing_contract",
]


def require_supported_packing_contract(
    packing_contract: PackedSequenceContract, sequence_length: int | None = None
) -> None:
    """Check once, while a loader is being built, that a model's requests can be met.

    Parameters
    ----------
    packing_contract : PackedSequenceContract
        What the model asks for.
    sequence_length : int or None
        Tokens per row after the shift, to compare with the contract's ``max_sequence_length``.

    Raises
    ------
    ConfigError
        If the contract has an unknown value, or the rows are longer than the model takes;
        ConfigTypeError if something has the wrong type.
    """
    limit = read_packing_contract(packing_contract).max_sequence_length
    if sequence_length is None:
        return
    if not isinstance(sequence_length, int) or isinstance(sequence_length, bool):
        raise ConfigTypeError(f"sequence_length is {sequence_length!r}, expected an int or None")
    if sequence_length < 1:
        raise ConfigError(f"sequence_length is {sequence_length}, expected at least 1")
    if limit is not None and limit < sequence_length:
        raise ConfigError(
            f"sequence_length is {sequence_length}, expected at most {limit}, "
            "the max_sequence_length of the packing_contract"
        )


def enable_xdoc_attention(batch: TrainingBatch) -> TrainingBatch:
    """Let every token see all earlier ones of its row, and count positions through the row.

    Sets ``attention_document_ids`` to 1 on every token that takes part (those above 0 in
    ``attention_document_ids`` if the batch has them already, else in ``document_ids``) and to 0
    elsewhere, and ``position_ids`` to 0, 1, ..., S - 1. ``document_ids`` and ``labels`` stay.

    Raises
    ------
    ConfigError
        If the batch lacks ``document_ids``, or its positions are not ``[B, S]``: there is no rule
        to join the positions of several rope axes.
    """
    document_ids = _document_ids(batch, "enable_xdoc_attention")
    positions = batch["position_ids"]
    if positions.shape != document_ids.shape:
        raise ConfigError(
            f"position_ids have shape {tuple(positions.shape)}, expected "
            f"{tuple(document_ids.shape)} as document_ids: cross-document attention is defined "
            "for text positions only"
        )
    membership = batch.get("attention_document_ids", document_ids)
    batch["attention_document_ids"] = (membership > 0).to(torch.int64)
    columns = torch.arange(positions.shape[1], dtype=positions.dtype, device=positions.device)
    batch["position_ids"] = columns.repeat(positions.shape[0], 1)
    return batch


def adapt_model_inputs(
    batch: TrainingBatch,
    packing_contract: PackedSequenceContract,
    *,
    output_format: BatchOutputFormat = "batched",
) -> TrainingBatch:
    """Give the model its document boundaries in the form that it asks for.

    Sets ``attention_document_ids`` if the batch has none. In batched output also sets
    ``_packed_seq_ids``, ``attention_mask`` by the contract's ``packed_mask_type``, and the three
    fields of :class:`zephon.packing.PackedSequenceMetadata` if the contract asks for them; in
    ``"thd"`` output lengths take their place (:func:`zephon.output.convert_batch_output`). Removes
    ``document_ids`` unless the contract asks for them.

    A ``"block_causal"`` mask costs ``B * S * S`` bytes and as much time.

    Raises
    ------
    ConfigError
        If the batch lacks ``document_ids``, or numbers a document in two pieces, or asks for
        metadata of a batch without a token, or for an unknown mask or format.
    """
    check_output_format(output_format)
    contract = read_packing_contract(packing_contract)
    document_ids = _document_ids(batch, "adapt_model_inputs")
    if not contract.return_document_ids:
        batch.pop("document_ids")
    if "attention_document_ids" not in batch:
        keep = contract.return_document_ids
        batch["attention_document_ids"] = document_ids.clone() if keep else document_ids
    membership = batch["attention_document_ids"]
    if membership.shape != document_ids.shape:
        raise ConfigError(
            f"attention_document_ids have shape {tuple(membership.shape)}, expected "
            f"{tuple(document_ids.shape)} as document_ids"
        )
    check_document_ids(membership, "attention_document_ids")
    if output_format == "thd":
        return batch

    batch["_packed_seq_ids"] = membership.clone()
    if contract.packed_mask_type == "block_causal":
        batch["attention_mask"] = build_block_causal_mask(membership)
    else:
        batch["attention_mask"] = membership.clone()
    if contract.return_packed_sequence_metadata:
        batch.update(build_packed_sequence_metadata(membership))  # type: ignore[typeddict-item]
    return batch


def _document_ids(batch: TrainingBatch, function: str) -> torch.Tensor:
    if "document_ids" not in batch:
        raise ConfigError(f"the batch has no document_ids, which {function} needs")
    return batch["document_ids"]
