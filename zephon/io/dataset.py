"""A named collection of documents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import Documents, RecordDocuments, TokenDocuments, interleave
from zephon.errors import ConfigError, ConfigTypeError
from zephon.io.decoded import UNITS as TABLE_UNITS
from zephon.io.memory import InMemoryShard
from zephon.io.object_store import is_url
from zephon.io.options import CacheOptions, StoreOptions, in_force
from zephon.io.parallel import in_order
from zephon.io.remote import RemoteShard
from zephon.io.resolve import PathLike, known_formats, resolve
from zephon.io.resolve_remote import open_remote
from zephon.io.shard import Place, Shard, TokenPlaces
from zephon.io.unit_cache import UNITS as TEXT_UNITS


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
        self._text_of: tuple[Dataset, str] | None = None  # what this one reads text of

    @classmethod
    def from_path(
        cls,
        name: str,
        path: PathLike | Sequence[PathLike],
        *,
        fmt: str | None = None,
        io_options: Any = None,
    ) -> Dataset:
        """Documents of a file, a folder, a glob pattern, a ``.bin/.idx`` prefix or a list of them.

        Instead of files these may be URLs of objects (``s3://bucket/folder``, ``gs://``,
        ``az://``, ``https://host/file``).

        Parameters
        ----------
        name : str
            Name of the dataset.
        path : str, PathLike or a sequence of them
            Where the files are. All must be of one format.
        fmt : str, optional
            Name of a format: ``"jsonl"``, ``"bin"``, ``"parquet"``, ``"arrow"`` or one that an
            installed package adds; found out from content and suffix if not given.
        io_options : StoreOptions, CacheOptions, mapping, size or folder, optional
            What is kept of the data, and where; see :class:`zephon.io.CacheOptions`.

        Raises
        ------
        DataError
            A file is missing, of no known kind, or damaged.
        ConfigError
            ``fmt`` is unknown or ``path`` is empty.
        """
        options = StoreOptions.from_any(io_options)
        if options.cache.rg_cache_bytes != CacheOptions.rg_cache_bytes:
            _limit_units(options.cache.rg_cache_bytes)
        urls = _urls(name, path)
        shards: Sequence[Shard]
        with in_force(options):
            if urls:
                kind, files, shards = open_remote(name, urls, known_formats(name, fmt)[0], options)
            else:
                kind, paths = resolve(name, path, fmt)
                files = [str(file) for file in paths]
                shards = in_order(kind.open, paths)
        dataset = cls(name, kind.name, shards)
        dataset._rebuild = (name, files, kind.name, None if io_options is None else options)
        return dataset

    @classmethod
    def from_dict(cls, name: str, shards: Mapping[int, InMemoryShard]) -> Dataset:
        """Documents in memory, shard by shard in the order of the keys."""
        if not isinstance(shards, Mapping):
            raise ConfigTypeError(
                f"dataset {name!r}: shards is a {type(shards).__name__}, expected a mapping from "
                "numbers to InMemoryShard, as in {0: InMemoryShard(records)}"
            )
        if not shards:
            raise ConfigError(f"dataset {name!r}: shards is empty, expected at least one")
        for key, shard in shards.items():
            if not isinstance(key, (int, np.integer)):
                raise ConfigTypeError(
                    f"dataset {name!r}: the key {key!r} of shards is a {type(key).__name__}, "
                    "expected a number"
                )
            if not isinstance(shard, InMemoryShard):
                raise ConfigTypeError(
                    f"dataset {name!r}: shard {key!r} is a {type(shard).__name__}, expected an "
                    "InMemoryShard"
                )
        return cls(name, "memory", [shards[key] for key in sorted(shards)])

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rebuild:
            return _open_again, self._rebuild
        if self._text_of:
            return Dataset.as_text, self._text_of
        return Dataset, (self.name, self.format, self._shards)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.format}, {self.total():,} documents "
            f"in {self.shard_count():,} shards)"
        )

    def use(self, options: StoreOptions) -> None:
        """Keep and fetch data by ``options`` from now on; what is open stays open."""
        _limit_units(options.cache.rg_cache_bytes)
        for shard in self._shards:
            if isinstance(shard, RemoteShard):
                shard.use(options)
        if self._rebuild:
            self._rebuild = (*self._rebuild[:3], options)

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

    def units(self) -> NDArray[np.int64] | None:
        """First document of each run that is decoded together, int64 ``[units]``.

        None if all documents of all shards can be read alone.
        """
        parts = [shard.units() for shard in self._shards]
        if all(part is None for part in parts):
            return None
        first = self._ends - self._counts
        # A shard without units is one: what it costs to begin anywhere in it is nothing.
        some = [
            np.zeros(min(count, 1), dtype=np.int64) if part is None else part
            for part, count in zip(parts, self._counts.tolist(), strict=True)
        ]
        return np.concatenate([part + start for part, start in zip(some, first, strict=True)])

    def decode(self, rows: NDArray[np.int64]) -> None:
        """Have what ``rows`` lie in decoded, for a :meth:`read` that comes soon."""
        shard_of = np.searchsorted(self._ends, rows, side="right")
        for shard in np.unique(shard_of).tolist():
            first = self._ends[shard] - self._counts[shard]
            self._shards[shard].decode(rows[shard_of == shard] - first)

    @property
    def gives_text(self) -> bool:
        """Whether documents are text without a doubt, so that a pipeline has to tokenize them."""
        return self.format == "jsonl" or any(shard.gives_text for shard in self._shards)

    def as_text(self, field: str) -> Dataset:
        """What reads these documents for a pipeline that tokenizes ``field``."""
        shards = [shard.as_text(field) for shard in self._shards]
        if all(new is old for new, old in zip(shards, self._shards, strict=True)):
            return self
        made = Dataset(self.name, self.format, shards)
        made._text_of = self, field
        return made

    def fields(self, row: int) -> Mapping[str, Any]:
        """Fields of document ``row`` beside its tokens that do not go along with them."""
        shard, local = self.sample_id(row)
        return self._shards[shard].fields(local)

    def sample_id(self, row: int) -> tuple[int, int]:
        """Shard and number inside it of document ``row``."""
        shard = int(self._ends.searchsorted(row, side="right"))
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


def _limit_units(nbytes: int) -> None:
    """Blocks of compressed text and units of tables: each kind may take so much."""
    TEXT_UNITS.set_limit(nbytes)
    TABLE_UNITS.set_limit(nbytes)


def _open_again(
    name: str, files: list[str], fmt: str, options: StoreOptions | None = None
) -> Dataset:
    return Dataset.from_path(name, files, fmt=fmt, io_options=options)


def _urls(name: str, path: Any) -> list[str]:
    """The URLs that ``path`` names, none if it names files."""
    many: Any = [path] if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(many, Sequence):
        return []  # refused with the paths
    urls: list[str] = [one for one in many if is_url(one)]
    if urls and len(urls) < len(many):
        raise ConfigError(f"dataset {name!r}: path mixes URLs and files: make a dataset of each")
    return urls


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
