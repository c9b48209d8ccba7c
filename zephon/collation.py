"""A batch of rows as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError
from zephon.rows import Rows


class Collatable(Protocol):
    """What is needed of a batch; :class:`zephon.types.SampleBatch` is one."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    @property
    def ids(self) -> list[tuple[int, int, int]]:
        """Where each row comes from."""
        ...

    def rows(self, tokens_field: str = "auto") -> Rows:
        """The segment table."""
        ...

    def collate(self, rows: Rows, *, shift: bool, ignore_index: int, **more: Any) -> None:
        """Fill arrays from the table."""
        ...


def to_training(
    batch: Collatable,
    *,
    tokens_field: str = "auto",
    return_labels: bool = False,
    dtype: Any = "auto",
    ignore_index: int = -100,
    rename_fields: Mapping[str, str] | None = None,
    flatten: bool = False,
    exclude_fields: Sequence[str] = (),
    return_num_valid_tokens: bool = False,
    return_loss_mask: bool = False,
    return_cu_seqlens: bool = False,
    return_padding_mask: bool = False,
    return_document_ids: bool = False,
    mask_segment_starts: bool = False,
) -> dict[str, Any]:
    """Tensors of a batch, everything derived from its segments in one pass over the tokens.

    With ``B`` rows of ``L`` tokens, ``W = L - 1`` if labels are asked for (inputs
    are the tokens without the last, labels those without the first) and ``W = L``
    otherwise. Padding is one trailing segment: its positions run from 0, its
    document id is 0, its labels are ignored.

    Parameters
    ----------
    batch : SampleBatch
        What to convert; it is not changed.
    tokens_field : str
        Field of hand-made payloads that holds the tokens; ``"auto"`` takes the first
        of ``input_ids``, ``tokens``, ``token_ids``, ``ids``.
    return_labels : bool
        Add ``labels`` int64 ``[B, W]``, shifted.
    dtype : torch.dtype, NumPy dtype, "auto" or None
        Of token ids, labels, positions and document ids. ``"auto"`` is
        ``torch.int64``; a NumPy dtype gives arrays instead of tensors; None lists.
    ignore_index : int
        Label of targets that are padding or masked.
    rename_fields : mapping, optional
        New names of fields; every source must exist, no target may be taken.
    flatten : bool
        ``[B * W]`` instead of ``[B, W]``.
    exclude_fields : sequence of str
        Fields to leave out, by their names after renaming.
    return_num_valid_tokens : bool
        Add ``num_valid_tokens``: labels that are not ``ignore_index``.
    return_loss_mask : bool
        Add ``loss_mask`` float32: 1 where a label is not ``ignore_index``.
    return_cu_seqlens : bool
        Add ``cu_seqlens`` int32 ``[B, K]``, padded with the row's length, and
        ``max_seqlen`` int32 ``[B]``; flattened, one vector and an int.
    return_padding_mask : bool
        Add ``padding_mask`` bool, True at padding.
    return_document_ids : bool
        Add ``document_ids``: 1, 2, ... by segment of the row, 0 at padding.
    mask_segment_starts : bool
        Do not learn the first token of a document from the document before it.

    Returns
    -------
    dict
        ``ids`` (list of sample ids), ``texts`` (list of str), ``input_ids``,
        ``positions`` and what was asked for.

    Raises
    ------
    DataError
        A token id is outside the vocabulary, or a payload has no tokens.
    ConfigError
        Options that do not go together, or rows of different lengths.
    """
    if (return_loss_mask or return_num_valid_tokens) and not return_labels:
        name = "return_loss_mask" if return_loss_mask else "return_num_valid_tokens"
        raise ConfigError(f"{name}=True needs return_labels=True: both are about labels")
    if isinstance(exclude_fields, str):
        raise ConfigTypeError(
            f"exclude_fields is the str {exclude_fields!r}, expected a sequence of names"
        )
    container = _Container(dtype)
    out: dict[str, Any] = {"ids": batch.ids, "texts": [""] * len(batch)}
    if return_num_valid_tokens:
        out["num_valid_tokens"] = 0
    if len(batch):
        rows = batch.rows(tokens_field)
        shape = (len(rows), rows.row_length - int(return_labels))
        wanted: dict[str, type[np.generic]] = {"input_ids": np.int64, "positions": np.int64}
        if return_labels:
            wanted["labels"] = np.int64
        if return_document_ids:
            wanted["document_ids"] = np.int64
        if return_padding_mask:
            wanted["padding_mask"] = np.bool_
        arrays = {name: container.empty(shape, kind) for name, kind in wanted.items()}
        batch.collate(
            rows,
            shift=return_labels,
            ignore_index=ignore_index,
            mask_segment_starts=mask_segment_starts,
            **arrays,
        )
        if return_loss_mask or return_num_valid_tokens:
            valid = arrays["labels"] != ignore_index
            if return_loss_mask:
                arrays["loss_mask"] = valid.astype(np.float32)
            if return_num_valid_tokens:
                out["num_valid_tokens"] = int(valid.sum())
        for name, array in arrays.items():
            out[name] = container.wrap(array.reshape(-1) if flatten else array)
        if return_cu_seqlens:
            lengths, longest = rows.cu_seqlens(
                shift=return_labels, include_padding=True, fill=shape[1]
            )
            if flatten:
                out["cu_seqlens"] = container.wrap(_flat_cu_seqlens(lengths, shape[1]))
                out["max_seqlen"] = int(longest.max(initial=0))
            else:
                out["cu_seqlens"] = container.wrap(lengths)
                out["max_seqlen"] = container.wrap(longest)
        _rename(out, rename_fields or {})
    return {name: value for name, value in out.items() if name not in exclude_fields}


def _flat_cu_seqlens(lengths: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """Boundaries of rows laid end to end, int32 ``[segments + 1]``."""
    total = len(lengths) * width
    if total > np.iinfo(np.int32).max:
        raise ConfigError(
            f"the batch has {total} tokens, more than int32 cumulative lengths can count: "
            "use smaller batches"
        )
    ends = lengths[:, 1:] + np.arange(len(lengths), dtype=np.int32)[:, None] * np.int32(width)
    return np.concatenate(([0], np.unique(ends))).astype(np.int32)


class _Container:
    """What arrays become: tensors, arrays of a NumPy dtype, or lists.

    Memory for tensors comes from torch, whose allocator reuses it from batch to
    batch; a fresh NumPy array of this size is mapped and zeroed each time.
    """

    def __init__(self, dtype: Any) -> None:
        self._torch: Any = None
        self._dtype: Any = None
        if dtype is None:
            self._kind = "lists"
        elif (isinstance(dtype, str) and dtype == "auto") or type(dtype).__module__ == "torch":
            import torch

            self._kind, self._torch = "tensors", torch
            self._dtype = torch.int64 if isinstance(dtype, str) else dtype
        else:
            self._kind = "arrays"
            try:
                self._dtype = np.dtype(dtype)
            except TypeError:
                raise ConfigTypeError(
                    f"dtype is {dtype!r}, expected 'auto', a torch dtype, a NumPy dtype or None"
                ) from None

    def empty(self, shape: tuple[int, int], dtype: type[np.generic]) -> NDArray[Any]:
        """An array to fill, int64 or bool."""
        if self._torch is None:
            return np.empty(shape, dtype)
        kind = self._torch.bool if dtype is np.bool_ else self._torch.int64
        array: NDArray[Any] = self._torch.empty(shape, dtype=kind).numpy()
        return array

    def wrap(self, array: NDArray[Any]) -> Any:
        """``array`` in the container asked for; int64 gets the dtype asked for."""
        if self._kind == "lists":
            return array.tolist()
        convert = array.dtype == np.int64
        if self._torch is None:
            return array.astype(self._dtype, copy=False) if convert else array
        tensor = self._torch.from_numpy(array)
        return tensor.to(self._dtype) if convert else tensor


def _rename(fields: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename in place; swaps are allowed, nothing is overwritten."""
    missing = [old for old in names if old not in fields]
    if missing:
        raise ConfigError(
            f"rename_fields names {missing[0]!r}, which the batch has not: it has "
            f"{', '.join(fields)}"
        )
    kept = [name for name in fields if name not in names]
    taken = set(kept)
    for new in names.values():
        if new in taken:
            raise ConfigError(f"rename_fields would give two fields the name {new!r}")
        taken.add(new)
    moved = {new: fields.pop(old) for old, new in names.items()}
    fields.update(moved)
