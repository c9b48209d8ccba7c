"""What arrays of a batch become: tensors, arrays of a NumPy dtype, or lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zephon._memory import TensorPool, allocator
from zephon.errors import ConfigError, ConfigTypeError

_TORCH_NAMES: dict[type[np.generic], str] = {
    np.int64: "int64",
    np.int32: "int32",
    np.bool_: "bool",
}


class Container:
    """Makes memory to fill, and of it what the caller asked for.

    Memory for tensors comes from torch, whose allocator reuses it from batch to
    batch; a fresh NumPy array of this size is mapped and zeroed each time.

    Parameters
    ----------
    dtype : torch.dtype, NumPy dtype, "auto" or None
        ``"auto"`` is ``torch.int64``; None is lists.
    pool, pin_memory
        Where memory for tensors comes from, see :func:`zephon._memory.allocator`.
    """

    def __init__(
        self, dtype: Any, pool: TensorPool | None = None, pin_memory: bool = False
    ) -> None:
        self._torch: Any = None
        self._dtype: Any = None
        self.lists = dtype is None
        tensors = (isinstance(dtype, str) and dtype == "auto") or type(dtype).__module__ == "torch"
        if (pool is not None or pin_memory) and not tensors:
            raise ConfigError(f"pool and pin_memory are about tensors, but dtype is {dtype!r}")
        if dtype is None:
            return
        if tensors:
            import torch

            self._allocate = allocator(pool, pin_memory)
            self._torch = torch
            self._dtype = torch.int64 if isinstance(dtype, str) else dtype
        else:
            try:
                self._dtype = np.dtype(dtype)
            except TypeError:
                raise ConfigTypeError(
                    f"dtype is {dtype!r}, expected 'auto', a torch dtype, a NumPy dtype or None"
                ) from None

    def empty(self, shape: tuple[int, int], dtype: type[np.generic]) -> Any:
        """A tensor or an array to fill, of a type that torch has."""
        if self._torch is None:
            return np.empty(shape, dtype)
        return self._allocate(shape, dtype=getattr(self._torch, _TORCH_NAMES[dtype]))

    def wrap(self, values: Any) -> Any:
        """An array, or a tensor of :meth:`empty`, in the container asked for.

        int64 gets the dtype asked for.
        """
        if self.lists:
            return values.tolist()
        if self._torch is None:
            return values.astype(self._dtype, copy=False) if values.dtype == np.int64 else values
        tensor = self._torch.from_numpy(values) if isinstance(values, np.ndarray) else values
        kind, int64 = self._dtype, self._torch.int64
        return tensor.to(kind) if kind is not int64 and tensor.dtype is int64 else tensor

    def wrap_rows(self, values: Any, widths: Sequence[int] | None, *, flatten: bool) -> Any:
        """Rows ``[B, W]``; of each only ``widths[b]`` columns if rows differ in length."""
        if widths is None:
            return self.wrap(values.reshape(-1) if flatten else values)
        rows = [values[row, :width] for row, width in enumerate(widths)]
        return self.wrap(np.concatenate(rows)) if flatten else [self.wrap(row) for row in rows]


def rename(fields: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename in place; swaps are allowed, nothing is overwritten."""
    if not names:
        return
    missing = [old for old in names if old not in fields]
    if missing:
        raise ConfigError(
            f"rename_fields names {missing[0]!r}, which the batch has not: it has "
            f"{', '.join(fields)} (source keys not in output)"
        )
    taken = {name for name in fields if name not in names}
    for new in names.values():
        if new in taken:
            raise ConfigError(
                f"rename_fields would give two fields the name {new!r} (target keys collide)"
            )
        taken.add(new)
    moved = {new: fields.pop(old) for old, new in names.items()}
    fields.update(moved)
