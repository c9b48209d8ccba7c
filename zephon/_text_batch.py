"""From collated text to a training batch: attention policy first, then the representation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from torch import Tensor

from zephon._training_batch import TrainingBatch
from zephon.attention import adapt_model_inputs, enable_xdoc_attention
from zephon.output import convert_batch_output
from zephon.packing import (
    BatchOutputFormat,
    PackedSequenceContract,
    PackingContract,
    check_output_format,
)


def adapt_collated(
    fields: Mapping[str, Tensor],
    *,
    packing_contract: PackedSequenceContract | None,
    allow_cross_document_attention: bool,
    output_format: BatchOutputFormat,
) -> TrainingBatch:
    """Make a training batch of tensors that the collation kernel has just filled.

    They agree by construction; checking them would pass over every token once more.

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
        One of the two steps refuses the batch.
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
