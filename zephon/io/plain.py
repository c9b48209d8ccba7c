"""Text in a file that is not compressed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zephon.io.mapped import MappedFile

_PIECE = 64 << 20  # text that is indexed in one native call


class PlainText:
    """The text of a file that is not compressed."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        self.size = file.size

    def pieces(self) -> Iterator[NDArray[np.uint8]]:
        """The mapped bytes, uint8 ``[n]`` each."""
        for start in range(0, self.size, _PIECE):
            yield self.file.data[start : start + _PIECE]

    def restarts(self) -> NDArray[np.int64]:
        """Every byte can be read at once."""
        return np.empty((2, 0), dtype=np.int64)

    def learn(self, size: int, restarts: NDArray[np.int64]) -> None:
        """Nothing that the file does not say."""

    def slices(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[bytes]:
        """Text from ``starts`` to ``ends`` (int64 ``[n]`` each)."""
        return map(self.file.slice, starts.tolist(), ends.tolist())

    def check_size(self) -> None:
        """Raise if the file has shrunk."""
        self.file.check_size()
