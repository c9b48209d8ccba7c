"""Documents of token files as places: found natively, many at a time, and not read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zephon._native.places import TokenPlaces
from zephon.block import SharedBuffers, TokenBlock, TokenDocuments
from zephon.io.dataset import Dataset
from zephon.work.base import Draws, LaneOrder

_FIRST, _MOST = 64, 1024
"""Documents of the first block of a lane, which a batch waits for, and of later ones."""
_IN_ALL, _LEAST = 2**17, 32
"""Documents that all lanes hold together, and one at least."""


class PlacedReader:
    """From draws to places in mapped files, for datasets that know where all documents lie.

    The same for every lane: the tables are those of the datasets.

    Parameters
    ----------
    datasets : tuple of Dataset
        All of them have :meth:`Dataset.token_places`; see :func:`placed_reader`.
    """

    def __init__(self, datasets: tuple[Dataset, ...]) -> None:
        sources = [dataset.token_places() or [] for dataset in datasets]
        self._datasets = datasets
        shards = [place for places in sources for place in places]
        self._source = np.repeat(np.arange(len(sources)), list(map(len, sources)))  # [shards]
        self._first = np.concatenate([dataset.first_rows() for dataset in datasets])  # [shards]
        self._buffers = SharedBuffers.of((place.tokens for place in shards), self._check)
        self._places = TokenPlaces(
            [(place.start, place.length, len(place.tokens)) for place in places]
            for places in sources
        )

    def _check(self, shard: int) -> None:
        """Let the dataset tell what is wrong with a file."""
        self._datasets[int(self._source[shard])].check(self._first[shard : shard + 1])

    def read(self, draws: Draws) -> TokenBlock:
        """The documents of ``draws``, in their order."""
        count = len(draws)
        buffer = np.empty(count, dtype=np.int32)
        start, length = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        self._places.find(draws.sources, draws.rows, buffer, start, length)
        documents = TokenDocuments(self._buffers, buffer, start, length)
        return TokenBlock(draws.first, draws.sources, draws.rows, documents)

    def blocks(self, order: LaneOrder, first: int, lanes: int) -> Iterator[TokenBlock]:
        """Documents of a lane of ``lanes`` from draw ``first`` on, to its end.

        A block that is restored into is looked at before it is collated, so its file is
        checked here; every other one is when a batch is.
        """
        size, most = _FIRST, max(_LEAST, min(_MOST, _IN_ALL // lanes))
        begun = False
        while len(draws := order.draws(first, min(size, most))):
            if not begun:
                self._datasets[int(draws.sources[0])].check(draws.rows[:1])
                begun = True
            yield self.read(draws)
            first += len(draws)
            size *= 4


def placed_reader(datasets: tuple[Dataset, ...]) -> PlacedReader | None:
    """The reader of these datasets; None if one of them has to be read to find its documents."""
    if any(dataset.token_places() is None for dataset in datasets):
        return None
    return PlacedReader(datasets)
