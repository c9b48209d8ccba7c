"""Reading a ``.bin/.idx`` pair."""

from __future__ import annotations

import operator
import os
from functools import cached_property
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.megatron.index_file import IndexTables, check_tables, map_file, read_tables

Sequence: TypeAlias = NDArray[Any]
Fingerprint: TypeAlias = tuple[tuple[int, int], tuple[int, int]]

_BLOCK = 1 << 20  # items whose values are checked at a time


def strip_suffix(path_prefix: str | os.PathLike[str]) -> str:
    """The common prefix of a pair, given that or either of its files."""
    prefix = os.fspath(path_prefix)
    return prefix[:-4] if prefix.endswith((".bin", ".idx")) else prefix


class IndexedDataset:
    """Sequences of items, memory mapped, grouped into documents.

    The index is checked against itself and against the ``.bin`` once, when the
    dataset is opened; see :mod:`zephon.megatron.index_file`. A pickled dataset
    is its path: it is opened anew where it arrives, and checked again only if
    the files have changed.

    Parameters
    ----------
    path_prefix : str or path
        Path of the pair; the ``.bin`` or ``.idx`` at its end may be left out.
    multimodal : bool
        Read the mode of each sequence too.
    mmap : bool
        With False, items are read from the file with each access, for file
        systems that do not map well. The index is mapped all the same.

    Raises
    ------
    DataError
        A file is missing, is something else or is damaged.

    Warns
    -----
    UserWarning
        A file goes on after what the index describes.
    """

    def __init__(
        self,
        path_prefix: str | os.PathLike[str],
        multimodal: bool = False,
        mmap: bool = True,
    ) -> None:
        self._prefix = strip_suffix(path_prefix)
        self._multimodal = multimodal
        self._mmap = mmap
        self._fingerprint = self._open(trusted=None)

    def _open(self, trusted: Fingerprint | None) -> Fingerprint:
        index_path, bin_path = self._prefix + ".idx", self._prefix + ".bin"
        index, index_known = map_file(index_path, "index of this dataset")
        self._content, bin_known = map_file(bin_path, f"data file of {index_path}")
        self._tables: IndexTables = read_tables(index_path, index, multimodal=self._multimodal)
        if (index_known, bin_known) != trusted:
            check_tables(self._tables, index_path, bin_path, len(self._content))
        dtype = self._tables.dtype
        self._items = np.frombuffer(self._content, dtype, len(self._content) // dtype.itemsize)
        return index_known, bin_known

    def __getstate__(self) -> tuple[str, bool, bool, Fingerprint]:
        return self._prefix, self._multimodal, self._mmap, self._fingerprint

    def __setstate__(self, state: tuple[str, bool, bool, Fingerprint]) -> None:
        self._prefix, self._multimodal, self._mmap, trusted = state
        self._fingerprint = self._open(trusted)

    @staticmethod
    def exists(path_prefix: str | os.PathLike[str]) -> bool:
        """Whether both files of a pair are there."""
        prefix = strip_suffix(path_prefix)
        return os.path.exists(prefix + ".idx") and os.path.exists(prefix + ".bin")

    @property
    def path_prefix(self) -> str:
        """Path of the pair without ``.bin`` or ``.idx``."""
        return self._prefix

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the items."""
        return self._tables.dtype

    @cached_property
    def sequence_lengths(self) -> NDArray[np.int32]:
        """Items of each sequence, int32 ``[sequences]``."""
        return _aligned(self._tables.lengths)

    @cached_property
    def sequence_starts(self) -> NDArray[np.int64]:
        """Item of :attr:`tokens` at which each sequence begins, int64 ``[sequences]``."""
        starts = self._tables.pointers // self.dtype.itemsize
        starts.flags.writeable = False
        return starts

    @cached_property
    def document_indices(self) -> NDArray[np.int64]:
        """First sequence of each document, then their number: int64 ``[documents + 1]``."""
        return _aligned(self._tables.documents)

    @cached_property
    def sequence_modes(self) -> NDArray[np.int8] | None:
        """Mode of each sequence, int8 ``[sequences]``; None unless multimodal."""
        return self._tables.modes

    @property
    def items(self) -> NDArray[Any]:
        """The whole ``.bin`` as one read-only array of :attr:`dtype`, without a copy."""
        return self._items

    @property
    def tokens(self) -> NDArray[np.integer[Any]]:
        """:attr:`items`, where they can be token ids.

        Raises
        ------
        DataError
            The items are not integers.
        """
        if self.dtype.kind not in "iu":
            raise DataError(
                f"items are {self.dtype}, but tokens must be of an integer dtype",
                file=self._prefix + ".idx",
            )
        return self._items

    def __len__(self) -> int:
        return len(self._tables.lengths)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """One sequence, or a list of them for a slice.

        Parameters
        ----------
        index : int or slice
            Negative numbers count from the end. A slice has step 1.

        Returns
        -------
        array, or list of array
            Views of the mapped file. If multimodal, a tuple of that and of the
            mode or the array of modes.
        """
        if not isinstance(index, slice):
            return self.get(index)
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise ConfigError(f"a slice of a dataset must have step 1, got {step}")
        sequences = [self._sequence(at) for at in range(start, stop)]
        if not sequences:
            # As in Megatron, where a split of nothing has one part.
            sequences = [self._read(0, 0)]
        modes = self._tables.modes
        return sequences if modes is None else (sequences, modes[start:stop])

    def get(self, idx: SupportsIndex, offset: int = 0, length: int | None = None) -> Any:
        """Part of one sequence, or the whole.

        Parameters
        ----------
        idx : int
            Sequence; negative numbers count from the end.
        offset : int
            First item.
        length : int, optional
            Items; to the end of the sequence if not given.

        Returns
        -------
        array ``[length]``
            A view of the mapped file; (array, mode) if multimodal.
        """
        try:
            given = operator.index(idx)
        except TypeError:
            raise ConfigTypeError(
                f"a dataset is indexed by an integer or a slice, got {type(idx).__name__}"
            ) from None
        at = given + len(self) if given < 0 else given
        if not 0 <= at < len(self):
            raise IndexError(
                f"sequence {given} of {self._prefix} is out of range: it has {len(self)}"
            )
        part = self._sequence(at, offset, length)
        modes = self._tables.modes
        return part if modes is None else (part, modes[at])

    def _sequence(self, at: int, offset: int = 0, length: int | None = None) -> Sequence:
        whole = int(self._tables.lengths[at])
        wanted = whole - offset if length is None else length
        if not (0 <= offset <= whole and 0 <= wanted <= whole - offset):
            raise ConfigError(
                f"sequence {at} of {self._prefix} has {whole} items; offset {offset} and length "
                f"{length} do not lie inside"
            )
        start = int(self._tables.pointers[at]) // self.dtype.itemsize
        return self._read(start + offset, wanted)

    def _read(self, start: int, count: int) -> Sequence:
        if self._mmap:
            return self._items[start : start + count]
        out = np.empty(count, self.dtype)
        path = self._prefix + ".bin"
        with open(path, "rb", buffering=0) as file:
            file.seek(start * self.dtype.itemsize)
            view = out.view(np.uint8).data
            while view:
                got = file.readinto(view)
                if not got:
                    raise DataError(
                        f"the file has lost {len(view)} bytes since it was opened",
                        file=path,
                        byte_offset=start * self.dtype.itemsize,
                    )
                view = view[got:]
        return out

    def check_token_ids(self, vocab_size: int | None = None, *, whole: bool = False) -> None:
        """Check that tokens are ids: not negative, and below ``vocab_size`` if given.

        Reads the first and the last 2**20 items, which shows a wrong dtype or a
        wrong vocabulary at once; with ``whole`` every item.

        Raises
        ------
        DataError
            Naming the document, the sequence and the offset of the first wrong
            id, or saying that the items are not integers.
        """
        tokens = self.tokens
        if vocab_size is not None and vocab_size < 1:
            raise ConfigError(f"vocab_size must be at least 1, got {vocab_size}")
        total = len(tokens)
        firsts = range(0, total, _BLOCK) if whole else sorted({0, max(0, total - _BLOCK)})
        for first in firsts:
            block = tokens[first : first + _BLOCK]
            if not block.size:
                continue
            too_low = self.dtype.kind == "i" and int(block.min()) < 0
            too_high = vocab_size is not None and int(block.max()) >= vocab_size
            if too_low or too_high:
                limit = int(np.iinfo(self.dtype).max) + 1 if vocab_size is None else vocab_size
                self._refuse_tokens(first, (block < 0) | (block >= limit), limit)

    def _refuse_tokens(self, first: int, wrong: NDArray[np.bool_], limit: int) -> None:
        """Name the first of the ``wrong`` items from item ``first`` on that a sequence holds."""
        starts, lengths = self.sequence_starts, self.sequence_lengths
        begins = np.zeros(len(wrong) + 1, np.int64)
        np.add.at(begins, np.clip(starts - first, 0, len(wrong)), 1)
        np.add.at(begins, np.clip(starts + lengths - first, 0, len(wrong)), -1)
        wrong = wrong & (np.cumsum(begins[:-1]) > 0)
        if not wrong.any():
            return
        at = first + int(wrong.argmax())
        sequence = int(np.flatnonzero((starts <= at) & (at < starts + lengths))[0])
        document = int(np.searchsorted(self.document_indices, sequence, "right")) - 1
        raise DataError(
            f"token {self._items[at]} at offset {at - starts[sequence]} of sequence {sequence} "
            f"(document {document}) is not from 0 to {limit - 1}",
            file=self._prefix + ".bin",
            byte_offset=at * self.dtype.itemsize,
        )


def _aligned(table: NDArray[Any]) -> NDArray[Any]:
    copy = table.copy()
    copy.flags.writeable = False
    return copy
