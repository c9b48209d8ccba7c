"""A batch of rows as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon._containers import Container, rename
from zephon._training_options import INDEX_DTYPES, TrainingOptions
from zephon.aligned import MASK_FIELD
from zephon.errors import ConfigError
from zephon.rows import Rows


class Collatable(Protocol):
    """What is needed of a batch; :class:`zephon.types.SampleBatch` is one."""

    def __len__(self) -> int: ...

    @property
    def ids(self) -> tuple[tuple[int, int, int], ...]:
        """Where each row comes from."""
        ...

    def texts(self) -> list[str]:
        """Text of each row, empty where there is none."""
        ...

    def is_text(self) -> bool:
        """Whether all rows are text without tokens."""
        ...

    def has_field(self, name: str) -> bool:
        """Whether the rows carry ``positions`` or a ``loss_mask``."""
        ...

    def rows(self, tokens_field: str = "auto", *, ragged: bool = False) -> Rows:
        """The segment table."""
        ...

    def collate(self, rows: Rows, **given: Any) -> None:
        """Fill arrays or tensors from the table: :meth:`zephon.rows.Rows.collate`."""
        ...

    def field(self, name: str, rows: Rows, width: int) -> NDArray[Any]:
        """Per-token values ``[B, width]``."""
        ...


def to_training(batch: Collatable, options: TrainingOptions) -> dict[str, Any]:
    """Tensors of a batch, everything derived from its segments in one pass over the tokens."""
    out: dict[str, Any] = {"ids": list(batch.ids), "texts": batch.texts()}
    names = options.rename_fields or {}
    if not len(batch):
        out.update(_of_no_rows(options))
        names = {old: new for old, new in names.items() if old in out}
    elif options.tokens_field == "auto" and batch.is_text():
        if asked := options.about_tokens():
            raise ConfigError(f"the batch is text without tokens, but {asked[0]} asks for them")
    else:
        out.update(_Collation(batch, options).fields())
    rename(out, names)
    for name in options.exclude_fields:
        out.pop(name, None)
    return out


def _of_no_rows(options: TrainingOptions) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if options.position_mode == "sequence":
        out["positions"] = []
    for asked, name in (
        (options.return_document_ids, "document_ids"),
        (options.return_padding_mask, "padding_mask"),
        (options.return_loss_mask, MASK_FIELD),
    ):
        if asked:
            out[name] = []
    if options.return_num_valid_tokens:
        out["num_valid_tokens"] = 0
    if options.return_cu_seqlens:
        out["cu_seqlens"], out["max_seqlen"] = ([0], 0) if options.flatten else ([], [])
    return out


class _Collation:
    """One call for a batch that has tokens."""

    def __init__(self, batch: Collatable, options: TrainingOptions) -> None:
        self._batch, self._options = batch, options
        self._container = Container(options.dtype, options.pool, options.pin_memory)
        self._rows = rows = batch.rows(options.tokens_field, ragged=True)
        shift = int(options.return_labels)
        self._width = max(rows.row_length - shift, 0)
        self._widths: list[int] | None = None  # [B], if rows differ in length
        lengths = rows.row_lengths
        if lengths is not None:
            if not (self._container.lists or options.flatten):
                raise ConfigError(
                    f"payloads have different lengths ({min(lengths)} to {max(lengths)}): pack "
                    "them, or ask for flatten=True or lists (dtype=None)"
                )
            self._widths = [max(length - shift, 0) for length in lengths]
        self._bounded = batch.has_field("positions")
        for name in ("return_cu_seqlens", "return_document_ids"):
            if getattr(options, name) and not self._bounded:
                raise ConfigError(
                    f"{name} requires a 'positions' field in every payload: nothing else tells "
                    "where documents begin"
                )

    def fields(self) -> dict[str, Any]:
        """The fields of a batch, all but ``ids`` and ``texts``."""
        options = self._options
        arrays = self._collate()
        out: dict[str, Any] = {}
        if options.return_labels:
            out.update(self._supervise(arrays))
        elif self._batch.has_field(MASK_FIELD):
            arrays[MASK_FIELD] = self._batch.field(MASK_FIELD, self._rows, self._width)
        for name in options.extra_fields:
            if name not in arrays:
                arrays[name] = self._batch.field(name, self._rows, self._width)
        for name, array in arrays.items():
            out[name] = self._container.wrap_rows(array, self._widths, flatten=options.flatten)
        if options.return_cu_seqlens:
            out.update(self._cu_seqlens())
        return out

    def _collate(self) -> dict[str, Any]:
        """What the kernel writes, tensors or arrays ``[B, W]``."""
        options = self._options
        index: type[np.generic] = INDEX_DTYPES[options.index_dtype or "int64"]
        wanted: dict[str, type[np.generic]] = {"input_ids": np.int64}
        if options.return_labels:
            wanted["labels"] = np.int64
        if self._bounded or options.position_mode == "sequence":
            wanted["positions"] = index
        if options.return_document_ids:
            wanted["document_ids"] = index
        if options.return_padding_mask:
            wanted["padding_mask"] = np.bool_
        shape = (len(self._rows), self._width)
        arrays = {name: self._container.empty(shape, kind) for name, kind in wanted.items()}
        if self._width:
            self._batch.collate(
                self._rows,
                shift=options.return_labels,
                ignore_index=options.ignore_index,
                mask_segment_starts=options.mask_segment_starts,
                joined=options.position_mode == "sequence",
                **arrays,
            )
        return arrays

    def _supervise(self, arrays: dict[str, Any]) -> dict[str, int]:
        """Masks that are about values; adds the loss mask, returns the count."""
        options = self._options
        counts = options.return_loss_mask or options.return_num_valid_tokens
        if not (options.eos_mask_loss or counts):
            return {}
        labels = np.asarray(arrays["labels"])  # the memory of the tensor
        if options.eos_mask_loss:
            ended = np.asarray(arrays["input_ids"]) == options.eos_token_id
            labels[ended] = options.ignore_index
        if not counts:
            return {}
        valid = labels != options.ignore_index
        if self._widths is not None:
            valid &= np.arange(self._width) < np.array(self._widths)[:, None]
        if options.return_loss_mask:
            arrays[MASK_FIELD] = valid.astype(np.float32)
        return {"num_valid_tokens": int(valid.sum())} if options.return_num_valid_tokens else {}

    def _cu_seqlens(self) -> dict[str, Any]:
        widths = self._widths
        if self._width == 0:
            ends, longest = (np.zeros((len(self._rows), n), np.int32) for n in (1, 1))
        elif widths is None:
            ends, longest = self._rows.cu_seqlens(
                shift=self._options.return_labels, include_padding=True, fill=self._width
            )
        else:
            ends, longest = self._ragged_cu_seqlens(widths)
        if not self._options.flatten:
            return {
                "cu_seqlens": self._container.wrap(ends),
                "max_seqlen": self._container.wrap(longest.reshape(-1)),
            }
        flat = _flat_cu_seqlens(ends, widths or [self._width] * len(ends))
        return {
            "cu_seqlens": self._container.wrap(flat),
            "max_seqlen": int(longest.max(initial=0)),
        }

    def _ragged_cu_seqlens(self, widths: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """As :meth:`Rows.cu_seqlens`, each row for its own width."""
        shift = self._options.return_labels
        found = []
        for row, width in enumerate(widths):
            one = replace(self._rows.select(slice(row, row + 1)), row_length=width + int(shift))
            ends = np.zeros((1, 1), np.int32)
            if width:
                ends, _ = one.cu_seqlens(shift=shift, include_padding=True, fill=width)
            found.append(ends[0])
        slots = max(map(len, found))
        cu = np.array(
            [
                [*ends, *[width] * (slots - len(ends))]
                for ends, width in zip(found, widths, strict=True)
            ],
            np.int32,
        )
        return cu, np.diff(cu, axis=1).max(axis=1, initial=0).astype(np.int32)


def _flat_cu_seqlens(ends: NDArray[np.int32], widths: Sequence[int]) -> NDArray[np.int32]:
    """Boundaries of rows laid end to end, int32 ``[segments + 1]``."""
    before = np.cumsum([0, *widths])  # [B + 1]: columns before each row
    if before[-1] > np.iinfo(np.int32).max:
        raise ConfigError(
            f"the batch has {before[-1]} tokens, more than int32 cumulative lengths can count: "
            "use smaller batches"
        )
    return np.unique(np.concatenate(([0], (ends + before[:-1, None]).ravel()))).astype(np.int32)
