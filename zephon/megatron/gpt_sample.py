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

    __slots__ = ("_attention", "arrays", "tensors")

    def __init__(self, config: GPTDatasetConfig, rows: int | None) -> None:
        import torch

        length = config.sequence_length
        shape = (length,) if rows is None else (rows, length)
        size = length * (1 if rows is None else rows)
        with_positions = config.flavour != "automodel"
        # One block from numpy: a quarter of the allocations, each cheaper than torch's.
        integers = 3 if with_positions else 2
        block = np.empty(integers * size + (size + 1) // 2, np.int64)
        tokens = block[:size].reshape(shape)
        labels = block[size : 2 * size].reshape(shape)
        loss_mask = block[integers * size :].view(np.float32)[:size].reshape(shape)
        positions = block[2 * size : 3 * size].reshape(shape) if with_positions else None
        ends = np.empty(shape, np.uint8) if config.reset_attention_mask else None

        self.arrays: _Outputs = (tokens, labels, loss_mask, positions, ends)
        self._attention = config.create_attention_mask
        as_tensor = torch.from_numpy
        self.tensors = {
            "tokens" if with_positions else "input_ids": as_tensor(tokens),
            "labels": as_tensor(labels),
            "loss_mask": as_tensor(loss_mask),
        }
        if positions is not None:
            self.tensors["position_ids"] = as_tensor(positions)

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
        ends = self.arrays[-1]
        if ends is not None:
            for end in np.flatnonzero(ends if ends.ndim == 1 else ends[row]).tolist():
                mask[end + 1 :, : end + 1] = True
        return {**sample, "attention_mask": mask.unsqueeze(0)}
