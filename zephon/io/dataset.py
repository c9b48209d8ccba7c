"""A named collection of documents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import Documents, RecordDocuments, TokenDocuments, interleave
from zephon.errors import ConfigError, ConfigTypeError
from zephon.io.memory import InMemoryShard
from zephon.io.resolve import PathLike, resolve
from zephon.io.shard import Place, Shard, TokenPlaces


class Dataset:
    """A named source of documents, spread over one or more shards.

    Made by :meth:`from_path` or :meth:`from_dict`. Documents are numbered in
    file order, through all shards.

    Attributes
    ----------
    name : str
        What mixtures, states and messages call it.
    format : str
        Name of its format, ``"memory"`` for one made by :meth:`from_dict`.
    """

    def __init__(self, name: str, format: str, shards: Sequence[Shard]) -> None:
        if not isinstance(name, str):
            raise ConfigTypeError(f"name is {name!r}, expected a str")
        if not name:
            raise ConfigError("name is empty: a dataset needs a name to be mixed and resumed by")
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise ConfigError(f"name is {name!r}, which UTF-8 cannot write: choose another one")
        self.name = name
        self.format = format
        self._shards = tuple(shards)
        self._counts = np.array([len(shard) for shard in self._shards], dtype=np.int64)
        self._ends = np.cumsum(self._counts)  # [shards]: documents up to and with each shard
        self._rebuild: tuple[Any, ...] = ()

    @classmethod
    def from_path(
        cls, name: str, path: PathLike | Sequence[PathLike], *, fmt: str | None = None
    ) -> Dataset:
        """Documents of a file, a folder, a glob pattern, a ``.bin/.idx`` prefix or a list of them.

        Parameters
        ----------
        name : str
            Name of the dataset.
        path : str, PathLike or a sequence of them
            Where the files are. All must be of one format.
        fmt : str, optional
            ``"jsonl"`` or ``"bin"``; found out from suffix and content if not given.

        Raises
        ------
        DataError
            A file is missing, of no known kind, or damaged.
        ConfigError
            ``fmt`` is unknown or ``path`` is empty.
        """
        kind, files = resolve(name, path, fmt)
        dataset = cls(name, kind.name, [kind.open(file) for file in files])
        dataset._rebuild = (Dataset.from_path, name, [str(file) for file in files], kind.name)
        return dataset

    @classmethod
    def from_dict(cls, name: str, shards: Mapping[int, InMemoryShard]) -> Dataset:
        """Documents in memory, shard by shard in the order of the keys."""
        if not shards:
            raise ConfigError(f"dataset {name!r}: shards is empty, expected at least one")
        for key, shard in shards.items():
            if not isinstance(shard, InMemoryShard):
                raise ConfigTypeError(
                    f"dataset {name!r}: shard {key!r} is a {type(shard).__name__}, expected an "
                    "InMemoryShard"
                )
        return cls(name, "memory", [shards[key] for key in sorted(shards)])

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rebuild:
            _, name, files, fmt = self._rebuild
            return _open_again, (name, files, fmt)
        return Dataset, (self.name, self.format, self._shards)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.format}, {self.total():,} documents "
            f"in {self.shard_count():,} shards)"
        )

    def counts(self) -> NDArray[np.int64]:
        """Documents of each shard, int64 ``[shards]``."""
        return self._counts

    def ids(self) -> NDArray[np.int64]:
        """Number of each shard, int64 ``[shards]``."""
        return np.arange(len(self._shards), dtype=np.int64)

    def raw_bytes(self) -> NDArray[np.int64]:
        """Size of each shard in bytes, int64 ``[shards]``."""
        return np.array([shard.nbytes for shard in self._shards], dtype=np.int64)

    def shard_count(self) -> int:
        """Number of shards."""
        return len(self._shards)

    def max_count(self) -> int:
        """Documents of the largest shard."""
        return int(self._counts.max())

    def total(self) -> int:
        """Number of documents."""
        return int(self._ends[-1])

    def read(self, rows: NDArray[np.int64]) -> Documents:
        """Documents ``rows`` (int64 ``[n]``, in file order numbering), in that order."""
        if len(self._shards) == 1:
            return self._shards[0].read(rows)
        shard_of = np.searchsorted(self._ends, rows, side="right")
        first = self._ends - self._counts
        picks = [np.flatnonzero(shard_of == shard) for shard in np.unique(shard_of)]
        parts = [
            self._shards[shard_of[pick[0]]].read(rows[pick] - first[shard_of[pick[0]]])
            for pick in picks
        ]
        return _interleave(parts, picks, len(rows))

    def check(self, rows: NDArray[np.int64]) -> None:
        """Raise if a file that ``rows`` lie in has shrunk since it was opened.

        Reading a mapped file past its end would kill the process.
        """
        if len(self._shards) == 1:
            self._shards[0].check()
            return
        for shard in set(np.searchsorted(self._ends, rows, side="right").tolist()):
            self._shards[shard].check()

    def first_rows(self) -> NDArray[np.int64]:
        """Number of the first document of each shard, int64 ``[shards]``."""
        first: NDArray[np.int64] = self._ends - self._counts
        return first

    def token_lengths(self) -> NDArray[np.int64] | None:
        """Tokens of each document, int64 ``[documents]``; None if a shard does not know them."""
        parts = [shard.token_lengths() for shard in self._shards]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def token_places(self) -> list[TokenPlaces] | None:
        """Where all documents lie, shard by shard; None if some have to be read to be found."""
        parts = [shard.token_places() for shard in self._shards]
        known = [part for part in parts if part is not None]
        return known if len(known) == len(parts) else None

    def unit_documents(self) -> int:
        """Documents that are decoded together at most to read one."""
        return max(shard.unit_documents for shard in self._shards)

    def sample_id(self, row: int) -> tuple[int, int]:
        """Shard and number inside it of document ``row``."""
        shard = int(np.searchsorted(self._ends, row, side="right"))
        return shard, row - int(self._ends[shard] - self._counts[shard])

    def place(self, row: int) -> Place:
        """Where document ``row`` stands, for error messages."""
        shard, local = self.sample_id(row)
        return self._shards[shard].place(local)

    def digest(self) -> bytes:
        """Sixteen bytes that change when a shard's content, size or order does."""
        digest = hashlib.blake2b(self.format.encode(), digest_size=16)
        for shard in self._shards:
            digest.update(shard.digest())
        return digest.digest()


def _open_again(name: str, files: list[str], fmt: str) -> Dataset:
    return Dataset.from_path(name, files, fmt=fmt)


def _interleave(parts: list[Documents], picks: list[NDArray[np.intp]], count: int) -> Documents:
    """One run of ``count`` documents from parts that belong at ``picks``."""
    if all(isinstance(part, RecordDocuments) for part in parts):
        records: list[Any] = [None] * count
        for part, pick in zip(parts, picks, strict=True):
            assert isinstance(part, RecordDocuments)
            for where, record in zip(pick.tolist(), part.records, strict=True):
                records[where] = record
        return RecordDocuments(records)
    return interleave([part for part in parts if isinstance(part, TokenDocuments)], picks, count)
