"""What the loader yields: one training batch as a mapping of CPU tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from torch import Tensor


class _EveryBatch(TypedDict):
    """The fields that no batch is without."""

    input_ids: Tensor
    """int64 ``[B, S]``: the tokens of each row without its last one."""

    labels: Tensor
    """int64 ``[B, S]``: the tokens of each row without its first one; the ignore index where a
    target does not count."""

    position_ids: Tensor
    """int64 ``[B, S]``, or ``[A, B, S]`` with ``A`` rope axes: restarts at every document, or
    counts 0 to ``S - 1`` through the row under cross-document attention."""

    padding_mask: Tensor
    """bool ``[B, S]``: True where there is padding. Comes from the packing, never from a token."""


class TrainingBatch(_EveryBatch, total=False):
    """Packed rows, ready for a model.

    ``B`` is the number of rows, ``S`` the shifted length (tokens per row less one) and ``K`` the
    most documents in any row of the batch. Fields beyond these ride along as they came. Document
    ids that are the same under several names are one tensor: copy before writing into one of
    them. Unused places are -1 in
    ``packed_token_indices`` and ``cu_seqlens``, and -1000 in ``seq_lens`` and ``seq_lens_padded``.
    """

    document_ids: Tensor
    """int64 ``[B, S]``: which document of its row a token belongs to, from 1; 0 on padding. Never
    joined by cross-document attention. There if the packing contract asks for it."""

    attention_document_ids: Tensor
    """int64 ``[B, S]``: like ``document_ids`` for attention: tokens see earlier ones of the same
    number. 0 also on tokens that take no part; 1 throughout under cross-document attention."""

    attention_mask: Tensor
    """Batched output only. For ``"block_causal"`` bool ``[B, 1, S, S]``, True where query ``i`` may
    attend to key ``j``; for ``"document_ids"`` int64 ``[B, S]``, the attention document ids."""

    _packed_seq_ids: Tensor
    """int64 ``[B, S]``, batched output only: the attention document ids, in every batch, under the
    name that recurrent and sliding-window layers look for."""

    packed_token_indices: Tensor
    """int64 ``[B, S]``, if metadata is asked for: the column of each token; -1 on padding."""

    cu_seqlens: Tensor
    """int32 ``[B, K + 1]``, if metadata is asked for: cumulative document lengths of each row from
    0, padding not counted; -1 after a row's last one."""

    max_seqlen: int
    """If metadata is asked for: tokens of the longest document in the whole batch."""

    seq_lens: Tensor
    """int64 ``[B, K]``, ``"thd"`` output only: tokens of each document; -1000 where unused."""

    seq_lens_padded: Tensor
    """int64 ``[B, K]``, ``"thd"`` output only: places each document takes, padding after it
    included; a row's sum is ``S``; -1000 where unused."""

    qkv_format: str
    """``"thd"``, in that output only."""
