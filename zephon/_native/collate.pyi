from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

class Buffers:
    def __init__(self, buffers: Sequence[NDArray[np.integer[Any]]]) -> None: ...
    def __len__(self) -> int: ...

def collate_rows(
    buffers: Buffers | Sequence[NDArray[np.integer[Any]]],
    seg_buffer: NDArray[np.int32],
    seg_start: NDArray[np.int64],
    seg_length: NDArray[np.int64],
    row_splits: NDArray[np.int64],
    *,
    row_length: int,
    shift: bool,
    pad_id: int,
    ignore_index: int,
    vocab_size: int = 0,
    mask_start: NDArray[np.uint8] | NDArray[np.bool_] | None = None,
    loss_mask: Sequence[NDArray[np.uint8] | NDArray[np.bool_] | None] | None = None,
    input_ids: NDArray[np.int64] | Tensor | None = None,
    labels: NDArray[np.int64] | Tensor | None = None,
    positions: NDArray[np.int64] | NDArray[np.int32] | Tensor | None = None,
    document_ids: NDArray[np.int64] | NDArray[np.int32] | Tensor | None = None,
    padding_mask: NDArray[np.uint8] | NDArray[np.bool_] | Tensor | None = None,
    row_ids: NDArray[np.int64] | Tensor | None = None,
    columns: NDArray[np.int64] | Tensor | None = None,
    joined: bool = False,
    slots: int = 0,
    cu_seqlens: NDArray[np.int32] | Tensor | None = None,
    seq_lens: NDArray[np.int64] | Tensor | None = None,
    seq_lens_padded: NDArray[np.int64] | Tensor | None = None,
) -> tuple[int, int, int] | None: ...
def row_cu_seqlens(
    seg_length: NDArray[np.int64],
    row_splits: NDArray[np.int64],
    *,
    width: int,
    include_padding: bool,
    fill: int,
    cu_seqlens: NDArray[np.int32],
    max_seqlen: NDArray[np.int32],
) -> int: ...
def count_documents(
    seg_length: NDArray[np.int64], row_splits: NDArray[np.int64], *, width: int, joined: bool
) -> tuple[int, int, int]: ...
