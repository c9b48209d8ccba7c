import numpy as np
from numpy.typing import NDArray

def fold_key(key: int, word: int) -> int: ...
def permute(n: int, key: int, positions: NDArray[np.int64], out: NDArray[np.int64]) -> None: ...
def permute_inverse(
    n: int, key: int, positions: NDArray[np.int64], out: NDArray[np.int64]
) -> None: ...
def locate(
    units: NDArray[np.int64],
    begin: NDArray[np.int64],
    first_row: NDArray[np.int64],
    mode: NDArray[np.uint8],
    unit_key: NDArray[np.uint64],
    row_key: NDArray[np.uint64],
    prefix: NDArray[np.int64],
    held: NDArray[np.int64],
    visit: NDArray[np.int64],
    sources: NDArray[np.int32],
    ordinals: NDArray[np.int64],
    rows: NDArray[np.int64],
    passes: NDArray[np.int64],
) -> None: ...
def chunk_counts(
    weights: NDArray[np.int64],
    total: int,
    lane: int,
    lanes: int,
    t0: int,
    t1: int,
    given: NDArray[np.int64],
    taken: NDArray[np.int64],
    first: NDArray[np.int64],
) -> None: ...
def chunk_sequence(
    weights: NDArray[np.int64],
    total: int,
    t0: int,
    given: NDArray[np.int64],
    taken: NDArray[np.int64],
    scratch: NDArray[np.uint64],
    out: NDArray[np.uint16],
) -> bool: ...
def sequence_scratch(sources: int, length: int) -> int: ...
def number_draws(
    sequence: NDArray[np.uint16], next: NDArray[np.int64], ordinals: NDArray[np.int64]
) -> None: ...
def skip_draws(sequence: NDArray[np.uint16], next: NDArray[np.int64]) -> None: ...
def scale(
    a: NDArray[np.int64],
    b: int,
    d: NDArray[np.int64],
    quotient: NDArray[np.int64],
    remainder: NDArray[np.int64],
) -> None: ...
