"""The tensors of GPT samples: one block for a batch, and views of it for each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zephon.megatron.config import GPTDatasetConfig

if TYPE_CHECKING:
    import torch


_Outputs: TypeAlias = tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.float32],
    NDArray[np.int64] | None,
    NDArray[np.uint8] | None,
]


class SampleRows:
    """Rows to read samples into.

    Parameters
    ----------
    config : GPTDatasetConfig
        Which fields there are.
    rows : int or None
        How many; None for a single sample, whose tensors are ``[L]``.

    Attributes
    ----------
    tensors : dict
        int64, or float32 for the loss mask, ``[rows, L]`` or ``[L]``, not filled.
    arrays : tuple
        The same memory, in the order in which
        :meth:`zephon._native.gather.SampleGather.gather` takes its outputs.
    """

    __slots__ = ("_attention", "_ends", "arrays", "tensors")

    def __init__(self, config: GPTDatasetConfig, rows: int | None) -> None:
        import torch

        length = config.sequence_length
        shape = (length,) if rows is None else (rows, length)
        tokens = torch.empty(shape, dtype=torch.int64)
        labels = torch.empty(shape, dtype=torch.int64)
        loss_mask = torch.empty(shape, dtype=torch.float32)
        self._attention = config.create_attention_mask
        self._ends: NDArray[np.uint8] | None = None
        if config.reset_attention_mask:
            self._ends = np.empty((rows or 1, length), np.uint8)
        if config.flavour == "automodel":
            self.tensors = {"input_ids": tokens, "labels": labels, "loss_mask": loss_mask}
            position_ids = None
        else:
            positions = torch.empty(shape, dtype=torch.int64)
            self.tensors = {
                "tokens": tokens,
                "labels": labels,
                "loss_mask": loss_mask,
                "position_ids": positions,
            }
            position_ids = positions.numpy()
        self.arrays: _Outputs = (
            tokens.numpy(),
            labels.numpy(),
            loss_mask.numpy(),
            position_ids,
            self._ends,
        )

    def drop_loss(self, row: int) -> None:
        """Let no label of a row count."""
        loss_mask = self.tensors["loss_mask"]
        (loss_mask if loss_mask.ndim == 1 else loss_mask[row]).zero_()

    def item(self) -> dict[str, torch.Tensor]:
        """The single sample of ``rows=None``."""
        return self._with_attention(self.tensors, 0) if self._attention else self.tensors

    def items(self) -> list[dict[str, torch.Tensor]]:
        """A sample for each row, whose tensors are views."""
        names = tuple(self.tensors)
        samples = [
            dict(zip(names, row, strict=True))
            for row in zip(*(tensor.unbind(0) for tensor in self.tensors.values()), strict=True)
        ]
        if not self._attention:
            return samples
        return [self._with_attention(sample, row) for row, sample in enumerate(samples)]

    def _with_attention(self, sample: dict[str, torch.Tensor], row: int) -> dict[str, torch.Tensor]:
        import torch

        length = len(sample["labels"])
        mask = torch.ones((length, length), dtype=torch.bool).triu_(1)
        if self._ends is not None:
            for end in np.flatnonzero(self._ends[row]).tolist():
                mask[end + 1 :, : end + 1] = True
        return {**sample, "attention_mask": mask.unsqueeze(0)}
