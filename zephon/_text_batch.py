"""From collated text to a training batch: attention policy first, then the representation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from zephon._training_batch import TrainingBatch
from zephon.attention import adapt_model_inputs, enable_xdoc_attention
from zephon.errors import ConfigError, ConfigTypeError
from zephon.output import convert_batch_output
from zephon.packing import (
    BatchOutputFormat,
    PackedSequenceContract,
    PackingContract,
    check_output_format,
)

_FIELDS = {
    "input_ids": torch.int64,
    "labels": torch.int64,
    "position_ids": torch.int64,
    "padding_mask": torch.bool,
    "document_ids": torch.int64,
}


def adapt_training_batch(
    fields: Mapping[str, Tensor],
    *,
    packing_contract: PackedSequenceContract | None,
    allow_cross_document_attention: bool = False,
    output_format: BatchOutputFormat = "batched",
) -> TrainingBatch:
    """Make a training batch of collated tensors.

    Parameters
    ----------
    fields : mapping
        ``input_ids``, ``labels``, ``padding_mask`` and ``document_ids`` (numbers of the segments
        of a row from 1, 0 on padding), all ``[B, S]``, and ``position_ids`` ``[B, S]`` or
        ``[A, B, S]``; padding_mask bool, the others int64. ``attention_document_ids`` where some
        tokens take no part. Other fields ride along. Neither the mapping nor its tensors change,
        but the batch shares those tensors that it takes over.
    packing_contract : PackedSequenceContract or None
        What the model asks for. None: nothing beyond ``document_ids``, so that no
        mask is built.
    allow_cross_document_attention : bool
        Whether the tokens of a row see those of earlier documents.
    output_format : {"batched", "thd"}
        The representation. A batch without a token, or with a row without one, can only be
        ``"batched"``, and the former only without metadata.

    Raises
    ------
    ConfigError
        If a field is missing or has another shape, ``S`` is 0, padding and ``document_ids``
        disagree, or one of the two steps refuses the batch; ConfigTypeError for another dtype.
    """
    _check_fields(fields)
    return adapt_collated(
        fields,
        packing_contract=packing_contract,
        allow_cross_document_attention=allow_cross_document_attention,
        output_format=output_format,
    )


def adapt_collated(
    fields: Mapping[str, Tensor],
    *,
    packing_contract: PackedSequenceContract | None,
    allow_cross_document_attention: bool,
    output_format: BatchOutputFormat,
) -> TrainingBatch:
    """:func:`adapt_training_batch` for fields that the collation kernel has just filled.

    They agree by construction; checking them again would pass over every token.
    """
    check_output_format(output_format)
    batch = cast(TrainingBatch, dict(fields))
    if allow_cross_document_attention:
        enable_xdoc_attention(batch)
    if packing_contract is None and output_format == "batched":
        return batch
    contract = packing_contract or PackingContract(return_document_ids=True)
    adapt_model_inputs(batch, contract, output_format=output_format)
    return convert_batch_output(batch, output_format)


def _check_fields(fields: Mapping[str, Tensor]) -> None:
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise ConfigError(f"the collated fields lack {', '.join(missing)}")
    shape = fields["input_ids"].shape
    if len(shape) != 2 or 0 in shape:
        raise ConfigError(
            f"input_ids have shape {tuple(shape)}, expected [batch, sequence] with at least one "
            "row and, after the shift, at least one token in it"
        )
    for name, dtype in _FIELDS.items():
        value = fields[name]
        if value.dtype != dtype:
            raise ConfigTypeError(f"{name} is {value.dtype}, expected {dtype}")
        axes = value.shape[1:] if name == "position_ids" and value.ndim == 3 else value.shape
        if axes != shape:
            raise ConfigError(
                f"{name} has shape {tuple(value.shape)}, expected {tuple(shape)} as input_ids"
            )
    if not torch.equal(fields["document_ids"] == 0, fields["padding_mask"]):
        raise ConfigError("padding_mask is not True exactly where document_ids are 0")
