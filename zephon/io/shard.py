"""What a format has to offer: one opened file, and how to find and open it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import Documents


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document comes from; record counts from 1."""

    file: str
    record: int
    byte_offset: int | None = None

    def as_kwargs(self) -> dict[str, Any]:
        """The place as the keyword arguments of :class:`zephon.errors.DataError`."""
        return {"file": self.file, "record": self.record, "byte_offset": self.byte_offset}


class Shard(ABC):
    """One file, or one table in memory, opened for random access.

    Attributes
    ----------
    nbytes : int
        Size of the data, for choosing how much to read at a time.
    gives_text : bool
        Whether documents are text without a doubt, so that a pipeline has to tokenize them.
    """

    nbytes: int
    gives_text: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """Number of documents."""

    @abstractmethod
    def read(self, rows: NDArray[np.int64]) -> Documents:
        """Documents ``rows`` (int64 ``[n]``, each below ``len(self)``), in that order."""

    def check(self) -> None:
        """Raise if the file has shrunk since it was opened; nothing to do in memory."""
        return

    def token_lengths(self) -> NDArray[np.int64] | None:
        """Tokens of each document, int64 ``[documents]``; None if they would have to be read."""
        return None

    @property
    def unit_documents(self) -> int:
        """Documents that are decoded together at most to read one; 1 if each can be read alone."""
        return 1

    def units(self) -> NDArray[np.int64] | None:
        """First document of each run that is decoded together, int64 ``[units]``; none is empty.

        None if every document can be read alone, or if it does not matter which are read
        one after the other. Blocks of ``shuffle_block_size="auto"`` are made of whole units.
        """
        return None

    def decode(self, rows: NDArray[np.int64]) -> None:
        """Have what ``rows`` lie in decoded and held for a while; nothing to do where it is not.

        Called from any thread, before :meth:`read` comes to them.
        """
        return

    def as_text(self, field: str) -> Shard:
        """What reads these documents for a pipeline that tokenizes ``field``.

        The shard itself, unless it could give tokens or text and would give tokens.
        """
        return self

    def fields(self, row: int) -> Mapping[str, Any]:
        """Fields of document ``row`` beside its tokens that do not go along with them.

        Asked of shards that give tokens, when somebody looks at a document of a batch.
        """
        return {}

    @abstractmethod
    def place(self, row: int) -> Place:
        """Where document ``row`` stands, for error messages."""

    @abstractmethod
    def digest(self) -> bytes:
        """Sixteen bytes that change when the shard's content does."""


class Format(ABC):
    """A kind of file.

    A format is recognised by content where its suffix does not settle it, and
    opens one path at a time.

    Attributes
    ----------
    name : str
        What ``fmt=`` calls it.
    suffixes : tuple of str
        Endings that belong to it, with the dot, in lower case (``".csv"``, ``".csv.gz"``).
    signatures : tuple of bytes
        How its files begin, if no other format's do: what begins so is of this format,
        whatever it is called.
    """

    name: str
    suffixes: tuple[str, ...]
    signatures: tuple[bytes, ...] = ()

    @abstractmethod
    def open(self, path: Path) -> Shard:
        """Open ``path``; :class:`zephon.errors.DataError` if it cannot be read."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file that begins with ``head`` (4096 bytes, or all) is of this format.

        Asked where neither a signature nor the suffix tells.
        """
        return path.name.lower().endswith(self.suffixes)

    def canonical(self, path: Path) -> Path:
        """The one path that stands for ``path`` where several files make a shard."""
        return path
