import numpy as np
from numpy.typing import NDArray

def count_lines(data: NDArray[np.uint8]) -> int: ...
def index_lines(data: NDArray[np.uint8], base: int, out: NDArray[np.int64]) -> int: ...
def index_records(
    data: NDArray[np.uint8],
    base: int,
    begin: int,
    number: int,
    blank: bool,
    out: NDArray[np.int64],
) -> tuple[int, int, int, bool]: ...
