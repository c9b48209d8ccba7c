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
    block : int64 array
        Their memory: tokens, labels, positions if there are any, and the loss mask.
    arrays : tuple
        The same memory, in the order in which
        :meth:`zephon._native.gather.SampleGather.gather` takes its outputs.
    """

    __slots__ = ("_attention", "arrays", "block", "tensors")

    def __init__(self, config: GPTDatasetConfig, rows: int | None) -> None:
        import torch

        length = config.sequence_length
        size = length if rows is None else rows * length
        with_positions = config.flavour != "automodel"
        # One block from numpy: a quarter of the allocations, each cheaper than torch's.
        begins = (3 if with_positions else 2) * size
        block = np.empty(begins + (size + 1) // 2, np.int64)
        tokens, labels = block[:size], block[size : 2 * size]
        positions = block[2 * size : begins] if with_positions else None
        loss_mask = block[begins:].view(np.float32)
        if size % 2:
            loss_mask = loss_mask[:size]
        if rows is not None:
            shape = (rows, length)
            tokens, labels = tokens.reshape(shape), labels.reshape(shape)
            loss_mask = loss_mask.reshape(shape)
            positions = positions if positions is None else positions.reshape(shape)
        ends = np.empty(tokens.shape, np.uint8) if config.reset_attention_mask else None

        self.block: NDArray[np.int64] = block
        self.arrays: _Outputs = (tokens, labels, loss_mask, positions, ends)
        self._attention = config.create_attention_mask
        as_tensor = torch.from_numpy
        if positions is None:
            self.tensors = {
                "input_ids": as_tensor(tokens),
                "labels": as_tensor(labels),
                "loss_mask": as_tensor(loss_mask),
            }
        else:
            self.tensors = {
                "tokens": as_tensor(tokens),
                "labels": as_tensor(labels),
                "loss_mask": as_tensor(loss_mask),
                "position_ids": as_tensor(positions),
            }

    def drop_loss(self, row: int) -> None:
        """Let no label of a row count."""
        loss_mask = self.tensors["loss_mask"]
        (loss_mask if loss_mask.ndim == 1 else loss_mask[row]).zero_()

    def item(self) -> dict[str, torch.Tensor]:
        """The single sample of ``rows=None``."""
        if not self._attention:
            return self.tensors
        return {**self.tensors, "attention_mask": self._attention_mask(0)}

    def items(self) -> list[dict[str, torch.Tensor]]:
        """A sample for each row, whose tensors are views."""
        names = tuple(self.tensors)
        samples = [
            dict(zip(names, row, strict=True))
            for row in zip(*(tensor.unbind(0) for tensor in self.tensors.values()), strict=True)
        ]
        if self._attention:
            for row, sample in enumerate(samples):
                sample["attention_mask"] = self._attention_mask(row)
        return samples

    def batch(self) -> dict[str, torch.Tensor]:
        """The samples as one: what collating :meth:`items` would copy together."""
        import torch

        if not self._attention:
            return self.tensors
        masks = [self._attention_mask(row) for row in range(len(self.arrays[0]))]
        return {**self.tensors, "attention_mask": torch.stack(masks)}

    def _attention_mask(self, row: int) -> torch.Tensor:
        import torch

        length = self.arrays[0].shape[-1]
        mask = torch.ones((length, length), dtype=torch.bool).triu_(1)
        ends = self.arrays[-1]
        if ends is not None:
            for end in np.flatnonzero(ends if ends.ndim == 1 else ends[row]).tolist():
                mask[end + 1 :, : end + 1] = True
        return mask.unsqueeze(0)
