from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

class TokenPlaces:
    def __init__(
        self, sources: Iterable[Iterable[tuple[NDArray[np.int64], NDArray[np.int64], int]]]
    ) -> None: ...
    def find(
        self,
        sources: NDArray[np.int32],
        rows: NDArray[np.int64],
        buffer: NDArray[np.int32],
        start: NDArray[np.int64],
        length: NDArray[np.int64],
    ) -> None: ...
