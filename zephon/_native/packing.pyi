import numpy as np
from numpy.typing import NDArray

def pack_decreasing(
    length: NDArray[np.int64],
    *,
    row_length: int,
    max_segments: int = 0,
    best_fit: bool,
    document: NDArray[np.int64],
    splits: NDArray[np.int64],
) -> int: ...
def best_fit_wrap_room(
    total: int, documents: int, *, row_length: int, max_segments: int = 0
) -> tuple[int, int]: ...
def pack_best_fit_wrap(
    length: NDArray[np.int64],
    *,
    row_length: int,
    max_segments: int = 0,
    document: NDArray[np.int64],
    offset: NDArray[np.int64],
    seg_length: NDArray[np.int64],
    splits: NDArray[np.int64],
) -> tuple[int, int]: ...
def pack_wrap(
    length: NDArray[np.int64],
    *,
    row_length: int,
    max_segments: int = 0,
    rows: int,
    skip: int,
    document: NDArray[np.int64],
    offset: NDArray[np.int64],
    seg_length: NDArray[np.int64],
    splits: NDArray[np.int64],
) -> tuple[int, int, int, int]: ...
