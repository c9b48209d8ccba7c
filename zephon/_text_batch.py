"""From collated text to a training batch: attention policy first, then the representation.

The same as :func:`zephon.attention.adapt_model_inputs` and
:func:`zephon.output.convert_batch_output` make of any batch, but from the table of segments: where
documents begin is known, so no token is looked at again.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, cast

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

UNUSED_BOUNDARY = -1
"""Fills ``cu_seqlens`` behind a row's last document."""


def document_lengths(rows: Rows, *, joined: bool) -> list[list[int]]:
    """Lengths of the documents of each row behind the shift; one for each row if ``joined``.

    The last token of a full row is a label only, so its document is one shorter, or gone. Lists,
    since a batch has few documents and a call into NumPy costs as much as many of them.
    """
    places = rows.row_length - 1
    lengths, splits = rows.length.tolist(), rows.splits.tolist()
    found = []
    for first, end in pairwise(splits):
        part = lengths[first:end]
        if sum(part) > places:
            part[-1] -= 1
        if part and not part[-1]:
            part.pop()
        found.append([sum(part)] if joined and part else part)
    return found


def adapt_collated(
    fields: dict[str, Tensor],
    rows: Rows,
    *,
    packing_contract: PackedSequenceContract | None,
    allow_cross_document_attention: bool,
    output_format: BatchOutputFormat,
) -> TrainingBatch:
    """Make a training batch of tensors that were collated from ``rows``.

    Parameters
    ----------
    fields : dict
        ``input_ids``, ``labels``, ``position_ids``, ``document_ids`` int64 and ``padding_mask``
        bool, all ``[B, S]``. The batch takes them over; none is written into. Positions are not
        needed with cross-document attention, which counts them through the row.
    rows : Rows
        What they were collated from.
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
        The contract or the format is unknown, or the batch has no token where one is needed.
    """
    check_output_format(output_format)
    batch = cast(TrainingBatch, fields)
    if allow_cross_document_attention:  # as enable_xdoc_attention does
        length, places = batch["input_ids"].shape
        batch["attention_document_ids"] = (~batch["padding_mask"]).to(torch.int64)
        batch["position_ids"] = torch.arange(places).expand(length, places).clone()
    if packing_contract is None and output_format == "batched":
        return batch
    contract = read_packing_contract(packing_contract or PackingContract(return_document_ids=True))
    ids = batch.setdefault("attention_document_ids", batch["document_ids"])
    if not contract.return_document_ids:
        del batch["document_ids"]
    if output_format == "thd":
        documents = document_lengths(rows, joined=allow_cross_document_attention)
        batch["seq_lens"], batch["seq_lens_padded"] = _slots(documents, ids.shape[1])
        batch["qkv_format"] = "thd"
        return batch
    batch["_packed_seq_ids"] = ids
    if contract.packed_mask_type == "block_causal":
        batch["attention_mask"] = build_block_causal_mask(ids)
    else:
        batch["attention_mask"] = ids
    if contract.return_packed_sequence_metadata:
        documents = document_lengths(rows, joined=allow_cross_document_attention)
        cast(dict[str, Any], batch).update(_metadata(documents, ids.shape[1]))
    return batch


def _slots(documents: list[list[int]], places: int) -> tuple[Tensor, Tensor]:
    """``seq_lens`` and ``seq_lens_padded``: the last slot of a row takes its padding."""
    _require_token(documents)
    for row, part in enumerate(documents):
        if not part:
            raise ConfigError(f"row {row} of the batch has no token, expected at least one in thd")
    slots = [[*part[:-1], places - sum(part[:-1])] for part in documents]
    return _table(documents, UNUSED_LENGTH), _table(slots, UNUSED_LENGTH)


def _metadata(documents: list[list[int]], places: int) -> dict[str, Any]:
    """The fields of :class:`zephon.packing.PackedSequenceMetadata`."""
    _require_token(documents)
    ends = [list(accumulate(part, initial=0)) for part in documents]
    indices = torch.arange(places).expand(len(documents), places).clone()
    for row, part in enumerate(ends):
        if part[-1] < places:
            indices[row, part[-1] :] = -1
    return {
        "packed_token_indices": indices,
        "cu_seqlens": _table(ends, UNUSED_BOUNDARY).to(torch.int32),
        "max_seqlen": max(max(part, default=0) for part in documents),
    }


def _table(rows: list[list[int]], unused: int) -> Tensor:
    """int64 ``[B, K]`` of rows of different lengths."""
    width = max(map(len, rows))
    return torch.tensor([row + [unused] * (width - len(row)) for row in rows], dtype=torch.int64)


def _require_token(documents: list[list[int]]) -> None:
    if not any(documents):
        raise ConfigError("the batch is all padding, expected at least one valid token")
