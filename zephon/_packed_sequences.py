"""Document boundaries in packed rows, from one numbering of their tokens.

A *sequence mask* ``[B, S]`` numbers the documents of each row; its tokens are 0 where there is
padding. The numbers must keep a document together (an exclusion inside a document does not part
it), and documents are listed row by row in the order in which they stand, which is the order of
their numbers wherever those ascend. A mask of only 0 and 1, or a bool mask, makes one document of
each row, so it means what an ordinary padding mask means.

Every function costs time in proportion to ``B * S``, except the block causal mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from zephon.errors import ConfigError, ConfigTypeError

if TYPE_CHECKING:
    from torch import Tensor

_INT32_MAX = 2**31 - 1


class PackedSequenceMetadata(TypedDict):
    """Boundaries of a batch row by row, so that a pipeline schedule can split it by rows."""

    packed_token_indices: Tensor
    """int64 ``[B, S]``: the column of each token; -1 on padding."""

    cu_seqlens: Tensor
    """int32 ``[B, K + 1]``: cumulative document lengths of each row from 0; -1 where unused."""

    max_seqlen: int
    """Tokens of the longest document."""


class DocumentRuns(NamedTuple):
    """The documents of a batch, row by row, in the order in which they stand."""

    indices: Tensor
    """int64 ``[tokens]``: places of the tokens that belong to a document, in ``[0, B * S)``."""

    rows: Tensor
    """int64 ``[documents]``: the row that each document is in."""

    slots: Tensor
    """int64 ``[documents]``: how many documents stand before each in its row."""

    lengths: Tensor
    """int64 ``[documents]``: tokens of each document."""


def document_runs(mask: Tensor, name: str) -> DocumentRuns:
    """Find the documents of a sequence mask ``[B, S]``; ``name`` is what errors call it.

    Raises
    ------
    ConfigError
        If the mask has another rank, negative numbers, the same number on both sides of another
        one, or more places than 32-bit cumulative lengths can count.
    ConfigTypeError
        If it is neither integer nor bool.
    """
    import torch

    _check_mask(mask, name)
    flat = mask.flatten()
    is_token = flat != 0
    indices = is_token.nonzero().squeeze(1)  # [tokens]
    ids = flat[indices]
    if ids.dtype != torch.bool and bool((ids < 0).any()):
        raise ConfigError(
            f"{name} holds {int(ids.min())}, expected 0 on padding and document numbers from 1"
        )
    tokens_in_row = is_token.view(mask.shape).sum(1)  # [B]
    row_starts = tokens_in_row.cumsum(0) - tokens_in_row
    is_first = torch.ones_like(ids, dtype=torch.bool)
    is_first[1:] = ids[1:] != ids[:-1]
    is_first[row_starts[tokens_in_row > 0]] = True
    starts = is_first.nonzero().squeeze(1)  # [documents], places in `indices`
    rows = indices[starts] // max(mask.shape[1], 1)
    _check_contiguous(rows, ids[starts], name)

    lengths = torch.diff(starts, append=starts.new_tensor([len(ids)]))
    per_row = torch.bincount(rows, minlength=mask.shape[0])  # [B]
    first_of_row = per_row.cumsum(0) - per_row
    slots = torch.arange(len(rows), device=rows.device) - first_of_row[rows]
    return DocumentRuns(indices, rows, slots, lengths)


def check_document_ids(ids: Tensor, name: str) -> None:
    """Refuse a numbering that :func:`document_runs` refuses, without finding the documents.

    Numbers that never fall before the padding at the end of their row, which is what packing
    produces, are passed with a few comparisons.
    """
    _check_mask(ids, name)
    before, after = ids[:, :-1], ids[:, 1:]
    in_order = (after == 0) | ((after >= before) & (before > 0))
    if not bool(in_order.all()) or not bool((ids[:, :1] >= 0).all()):
        document_runs(ids, name)


def get_seqlens_in_batch(attention_mask: Tensor) -> Tensor:
    """Lengths of the documents in a sequence mask.

    Parameters
    ----------
    attention_mask : integer or bool ``[B, S]``
        The sequence mask.

    Returns
    -------
    Tensor
        int64 ``[documents]``, row by row; empty if there is no token.

    Raises
    ------
    ConfigError, ConfigTypeError
        If the mask is not a sequence mask.

    Examples
    --------
    >>> get_seqlens_in_batch(torch.tensor([[1, 1, 2, 2, 2, 0], [1, 2, 2, 3, 3, 3]])).tolist()
    [2, 3, 1, 2, 3]
    """
    return document_runs(attention_mask, "attention_mask").lengths


def get_unpad_data(attention_mask: Tensor) -> tuple[Tensor, Tensor, int]:
    """Gather indices and cumulative lengths for a variable-length attention kernel.

    Parameters
    ----------
    attention_mask : integer or bool ``[B, S]``
        The sequence mask.

    Returns
    -------
    indices : int64 ``[tokens]``
        Places of the tokens in the flattened batch.
    cu_seqlens : int32 ``[documents + 1]``
        Cumulative document lengths from 0.
    max_seqlen : int
        Tokens of the longest document.

    Raises
    ------
    ConfigError, ConfigTypeError
        If the mask is not a sequence mask, or has no token.
    """
    import torch

    runs = document_runs(attention_mask, "attention_mask")
    check_any_token(runs, "attention_mask")
    ends = runs.lengths.cumsum(0).to(torch.int32)
    return runs.indices, torch.cat((ends.new_zeros(1), ends)), int(runs.lengths.max())


def build_packed_sequence_metadata(attention_mask: Tensor) -> PackedSequenceMetadata:
    """Boundaries of each row, as :class:`PackedSequenceMetadata`.

    Parameters
    ----------
    attention_mask : integer or bool ``[B, S]``
        The sequence mask. ``K`` is its greatest number, so none may exceed ``S``.

    Raises
    ------
    ConfigError, ConfigTypeError
        If the mask is not a sequence mask, has no token, or a number above ``S``.
    """
    import torch

    runs = document_runs(attention_mask, "attention_mask")
    check_any_token(runs, "attention_mask")
    rows, columns = attention_mask.shape
    most = int(attention_mask.max())
    if most > columns:
        raise ConfigError(
            f"attention_mask holds document number {most}, expected at most {columns}, "
            "the length of its rows"
        )
    device = attention_mask.device
    indices = torch.where(attention_mask > 0, torch.arange(columns, device=device), -1)
    ends = runs.lengths.cumsum(0)  # over the whole batch
    tokens_in_row = (attention_mask > 0).sum(1)
    tokens_before_row = tokens_in_row.cumsum(0) - tokens_in_row
    cu_seqlens = torch.full((rows, most + 1), -1, dtype=torch.int32, device=device)
    cu_seqlens[:, 0] = 0
    cu_seqlens[runs.rows, runs.slots + 1] = (ends - tokens_before_row[runs.rows]).to(torch.int32)
    return PackedSequenceMetadata(
        packed_token_indices=indices, cu_seqlens=cu_seqlens, max_seqlen=int(runs.lengths.max())
    )


def is_indexed_packed_mask(attention_mask: Tensor | None) -> bool:
    """Whether a mask numbers several documents in some row.

    A mask of rows with one document each cannot be told from a 0/1 padding mask, and need not be:
    both mean the same. So it is False for them, for bool masks, other ranks and None.
    """
    import torch

    if attention_mask is None or attention_mask.dtype == torch.bool or attention_mask.ndim != 2:
        return False
    return bool((attention_mask > 1).any())


def build_block_causal_mask(document_ids: Tensor) -> Tensor:
    """The dense mask of causal attention within each document.

    Costs ``B * S * S`` bytes and as many operations: 1 GiB for a single row of 32,768 tokens.

    Parameters
    ----------
    document_ids : integer ``[B, S]``
        Document numbers from 1; 0 takes no part.

    Returns
    -------
    Tensor
        bool ``[B, 1, S, S]``: True at ``[b, 0, i, j]`` if token ``i`` may attend to token ``j``:
        the same document, ``j <= i``, neither 0. The row of a 0 is False throughout.
    """
    import torch

    _check_mask(document_ids, "document_ids")
    ids = document_ids.to(torch.int64)
    excluded = ids <= 0
    queries, keys = ids.masked_fill(excluded, 0), ids.masked_fill(excluded, -1)  # never equal
    same_document = queries[:, :, None] == keys[:, None, :]  # [B, S, S]
    return same_document.tril_()[:, None]


def _check_mask(mask: Tensor, name: str) -> None:
    if mask.ndim != 2:
        raise ConfigError(f"{name} has shape {tuple(mask.shape)}, expected [batch, sequence]")
    if mask.is_floating_point() or mask.is_complex():
        raise ConfigTypeError(f"{name} is {mask.dtype}, expected integers or bool")
    check_countable(mask.numel(), name)


def check_countable(places: int, name: str) -> None:
    """Refuse more places than cumulative lengths of 32 bits can count."""
    if places > _INT32_MAX:
        raise ConfigError(
            f"{name} has {places} places, expected at most {_INT32_MAX}, "
            "since kernels take cumulative lengths in 32 bits"
        )


def _check_contiguous(rows: Tensor, ids: Tensor, name: str) -> None:
    """Refuse an id that two runs of the same row have."""
    import torch

    falls = (rows[1:] == rows[:-1]) & (ids[1:] < ids[:-1])
    if not bool(falls.any()):  # ascending: no number can come back
        return
    pairs, counts = torch.unique(torch.stack((rows, ids.to(rows))), dim=1, return_counts=True)
    if bool((counts > 1).any()):
        row, number = pairs[:, counts > 1][:, 0].tolist()
        raise ConfigError(
            f"{name} has document {number} of row {row} on both sides of another document, "
            "expected documents in one piece"
        )


def check_any_token(runs: DocumentRuns, name: str) -> None:
    """Refuse a batch that is padding throughout."""
    if len(runs.indices) == 0:
        raise ConfigError(f"{name} is all padding, expected at least one valid token")
