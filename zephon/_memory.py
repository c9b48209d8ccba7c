"""Where the memory of a batch's tensors comes from."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError
from zephon.options import check_int

if TYPE_CHECKING:
    import torch


class Allocate(Protocol):
    """What makes a tensor to fill, called as ``torch.empty`` is."""

    def __call__(self, shape: tuple[int, ...], /, *, dtype: torch.dtype) -> torch.Tensor: ...


_ALIGNMENT = 64


class TensorPool:
    """Memory that batches take in turn, each block only when nothing refers to it any more.

    A block comes back when the last tensor, view, NumPy array or DLPack capsule over it
    is gone, so a batch that is kept, wherever and as whatever, is never written to again;
    while all blocks are in use, more are made. What refers to memory by its bare address
    (an asynchronous copy to a device) has to keep the tensor until it is done, as with any
    tensor. The tensors cannot be resized in place.

    One pool may serve several pipelines and threads.

    Parameters
    ----------
    most : int
        Blocks of one shape and type that are kept for use; a batch takes one for each tensor.
    """

    def __init__(self, most: int = 64) -> None:
        check_int("most", most, 1, 2**20)
        self._most = most
        self._free: dict[tuple[tuple[int, ...], torch.dtype], deque[NDArray[Any]]] = {}
        # For each block in use what watches the array that torch holds, where the block
        # belongs, and the block; by the identity of the first.
        self._watched: dict[int, tuple[weakref.ref[Any], deque[NDArray[Any]], NDArray[Any]]] = {}
        self._on_death = self._take_back

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of this shape with whatever was in its memory before."""
        import torch

        free = self._free.get((shape, dtype))
        if free is None:
            free = self._free.setdefault((shape, dtype), deque(maxlen=self._most))
        try:
            block = free.pop()  # the one that was used last: it may still be in a cache
        except IndexError:
            block = _aligned(shape, torch.empty(0, dtype=dtype).numpy().dtype)
        # The array belongs to the tensor's storage and dies with it; views of it are others.
        array = block.view()
        reference = weakref.ref(array, self._on_death)
        self._watched[id(reference)] = reference, free, block
        return torch.from_numpy(array)

    def _take_back(self, reference: weakref.ref[Any]) -> None:
        _, free, block = self._watched.pop(id(reference))
        free.append(block)

    def __repr__(self) -> str:
        free = sum(map(len, self._free.values()))
        return f"TensorPool({len(self._watched)} blocks in use, {free} free)"


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    skip = -memory.ctypes.data % _ALIGNMENT
    return memory[skip : skip + size].view(dtype).reshape(shape)


def allocator(pool: TensorPool | None, pin_memory: bool) -> Allocate:
    """What makes tensors to fill: fresh ones, those of a pool, or pinned ones.

    Raises
    ------
    ConfigError
        Both are asked for, or memory cannot be pinned here.
    """
    import torch

    if pool is None and pin_memory is False:
        return torch.empty
    if pool is not None:
        if not isinstance(pool, TensorPool):
            raise ConfigTypeError(f"pool is {pool!r}, expected a TensorPool or None")
        if pin_memory:
            raise ConfigError(
                "pool and pin_memory are two ways: torch keeps pinned memory for use again by "
                "itself. Give one of them"
            )
        return pool.empty
    if not isinstance(pin_memory, bool):
        raise ConfigTypeError(f"pin_memory is {pin_memory!r}, expected True or False")
    if not torch.cuda.is_available():
        raise ConfigError(
            "pin_memory=True pins memory for copies to a CUDA device, and torch finds none here: "
            "leave it out, or look at torch.cuda.is_available()"
        )
    return _pinned


def _pinned(shape: Sequence[int], *, dtype: torch.dtype) -> torch.Tensor:
    import torch

    return torch.empty(shape, dtype=dtype, pin_memory=True)
