"""A dataset whose data is not at hand any more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zephon.block import TokenDocuments
from zephon.io.dataset import Dataset
from zephon.io.shard import Place, Shard


class GoneShard(Shard):
    """As many documents as a dataset had, all without tokens."""

    def __init__(self, name: str, documents: int) -> None:
        self.nbytes = 0
        self._name = name
        self._documents = documents

    def __len__(self) -> int:
        return self._documents

    def read(self, rows: NDArray[np.int64]) -> TokenDocuments:
        """Nothing for each of ``rows``."""
        zeros = np.zeros(len(rows), dtype=np.int64)
        return TokenDocuments(
            buffers=(np.empty(0, dtype=np.int32),),
            buffer=np.zeros(len(rows), dtype=np.int32),
            start=zeros,
            length=zeros,
        )

    def token_lengths(self) -> NDArray[np.int64]:
        """All 0."""
        return np.zeros(self._documents, dtype=np.int64)

    def place(self, row: int) -> Place:
        """The name; there is no file."""
        return Place(f"{self._name} (taken out)", row + 1)

    def digest(self) -> bytes:
        """None that belongs to content: a state keeps what it knew of the source."""
        return bytes(16)


def gone_dataset(name: str, documents: int) -> Dataset:
    """A dataset of ``documents`` empty documents, in the place of one that was taken out."""
    return Dataset(name, "gone", [GoneShard(name, documents)])
