"""What a format has to offer: one opened file, and how to find and open it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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


class TokenPlaces(NamedTuple):
    """The documents of a shard as places in one buffer.

    Attributes
    ----------
    tokens : 1-D C-contiguous integer array
        The buffer.
    start, length : int64 ``[documents]``
        First token and number of tokens of each document.
    """

    tokens: NDArray[np.integer[Any]]
    start: NDArray[np.int64]
    length: NDArray[np.int64]


class Shard(ABC):
    """One file, or one table in memory, opened for random access.

    Attributes
    ----------
    nbytes : int
        Size of the data, for choosing how much to read at a time.
    """

    nbytes: int

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

    def token_places(self) -> TokenPlaces | None:
        """Where every document lies, if all lie in one buffer of tokens and have nothing beside.

        None if documents have to be read to be found.
        """
        return None

    @property
    def unit_documents(self) -> int:
        """Documents that are decoded together at most to read one; 1 if each can be read alone."""
        return 1

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
        Endings that belong to it, with the dot, in lower case.
    """

    name: str
    suffixes: tuple[str, ...]

    @abstractmethod
    def open(self, path: Path) -> Shard:
        """Open ``path``; :class:`zephon.errors.DataError` if it cannot be read."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file that begins with ``head`` is of this format."""
        return path.suffix.lower() in self.suffixes

    def canonical(self, path: Path) -> Path:
        """The one path that stands for ``path`` where several files make a shard."""
        return path
