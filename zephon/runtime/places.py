"""Documents of token files as places: found natively, many at a time, and not read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from zephon._native.places import TokenPlaces as NativePlaces
from zephon.block import SharedBuffers, TokenBlock, TokenDocuments, mapping_of
from zephon.io.dataset import Dataset
from zephon.io.shard import TokenPlaces
from zephon.work.base import Draws, LaneOrder

_FIRST, _MOST = 64, 1024
"""Documents of the first block of a lane, which a batch waits for, and of later ones."""
_IN_ALL, _LEAST = 2**17, 32
"""Documents that all lanes hold together, and one at least."""

_GAP = 64 << 10
"""Bytes between documents that are read from the disk all the same."""
_SMALL = 16 << 20
"""Bytes of a file that needs no reading ahead: the system does that by itself."""


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
        self._places = NativePlaces(
            [(p.start, p.length, p.tokens, _worth_reading_ahead(p)) for p in places]
            for places in sources
        )
        # Of files that it may not write, the system does not say what is in memory.
        self._tells = all(
            os.access(dataset.place(0).file, os.W_OK) for dataset in datasets if dataset.total()
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
        self._places.read_ahead(buffer, start, length, gap=_GAP, skip_resident=self._tells)
        return TokenBlock(draws.first, draws.sources, draws.rows, documents)

    def blocks(self, order: LaneOrder, first: int, lanes: int) -> Iterator[TokenBlock]:
        """Documents of a lane of ``lanes`` from draw ``first`` on, to its end.

        Each but the first is found, and asked for from the disk, while the one before is
        packed. The first may be restored into and looked at before it is collated, so its
        file is checked here; every other one is when a batch is.
        """
        size, most = _FIRST, max(_LEAST, min(_MOST, _IN_ALL // lanes))
        draws = order.draws(first, min(size, most))
        if len(draws):
            self._datasets[int(draws.sources[0])].check(draws.rows[:1])
            yield self.read(draws)
        ahead: TokenBlock | None = None  # while its pages come from the disk another is packed
        while len(draws):
            first += len(draws)
            size *= 4
            draws = order.draws(first, min(size, most))
            block = self.read(draws) if len(draws) else None
            if ahead is not None:
                yield ahead
            ahead = block


def _worth_reading_ahead(place: TokenPlaces) -> bool:
    """Whether it is a mapped file that is not read in no time."""
    return place.tokens.nbytes >= _SMALL and mapping_of(place.tokens) is not None


def are_placed(datasets: Sequence[Dataset]) -> bool:
    """Whether all of them know where their documents lie."""
    return all(dataset.token_places() is not None for dataset in datasets)


def placed_reader(datasets: tuple[Dataset, ...]) -> PlacedReader | None:
    """The reader of these datasets; None if one of them has to be read to find its documents."""
    return PlacedReader(datasets) if are_placed(datasets) else None
