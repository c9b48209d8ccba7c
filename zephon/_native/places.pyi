from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class TokenPlaces:
    def __init__(
        self,
        sources: Iterable[
            Iterable[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.integer[Any]], bool]]
        ],
    ) -> None: ...
    def find(
        self,
        sources: NDArray[np.int32],
        rows: NDArray[np.int64],
        buffer: NDArray[np.int32],
        start: NDArray[np.int64],
        length: NDArray[np.int64],
    ) -> None: ...
    def read_ahead(
        self,
        buffer: NDArray[np.int32],
        start: NDArray[np.int64],
        length: NDArray[np.int64],
        *,
        gap: int,
        skip_resident: bool,
    ) -> tuple[int, int]: ...
