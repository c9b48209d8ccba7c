"""The ``.idx`` file of an indexed dataset: its layout, and whether it can be trusted.

Little endian, packed: 9 bytes of magic, uint64 version 1, uint8 dtype code,
uint64 n sequences, uint64 m entries of the document index, then

====================  ==============================================================
int32 lengths[n]      items of each sequence
int64 pointers[n]     byte of the ``.bin`` at which it begins
int64 documents[m]    first sequence of each document, and n at the end: m - 1
                      documents
int8 modes[n]         multimodal files only; nothing in the header says so
====================  ==============================================================
"""

from __future__ import annotations

import mmap
import os
import struct
import warnings
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.int8),
    3: np.dtype(np.int16),
    4: np.dtype(np.int32),
    5: np.dtype(np.int64),
    6: np.dtype(np.float64),
    7: np.dtype(np.float32),
    8: np.dtype(np.uint16),
}
CODES = {dtype: code for code, dtype in DTYPES.items()}

_CHUNK = 1 << 20  # entries checked at a time: the check's memory stays bounded

Buffer = mmap.mmap | bytes


@dataclass(frozen=True, slots=True)
class IndexTables:
    """Views of a mapped index. The format aligns none of the tables.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the items in the ``.bin``.
    lengths : int32 ``[n]``
    pointers : int64 ``[n]``
    documents : int64 ``[m]``
    modes : int8 ``[n]`` or None
        None unless the file was read as multimodal.
    """

    dtype: np.dtype[Any]
    lengths: NDArray[np.int32]
    pointers: NDArray[np.int64]
    documents: NDArray[np.int64]
    modes: NDArray[np.int8] | None


def map_file(path: str, what: str) -> tuple[Buffer, tuple[int, int]]:
    """Map a file for reading; its bytes, and (size, time of change) to know it by."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            # An empty file cannot be mapped.
            content = (
                mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
                if status.st_size
                else b""
            )
    except FileNotFoundError:
        raise DataError(f"the {what} is missing", file=path) from None
    except OSError as error:
        raise DataError(f"the {what} cannot be read: {error.strerror}", file=path) from error
    return content, (status.st_size, status.st_mtime_ns)


def read_tables(path: str, content: Buffer, *, multimodal: bool) -> IndexTables:
    """Find the tables of an index; the header is checked, the entries are not.

    Raises
    ------
    DataError
        This is no index of version 1, or it is cut short.
    """
    size = len(content)

    def refuse(message: str, byte_offset: int | None = None) -> NoReturn:
        raise DataError(message, file=path, byte_offset=byte_offset)

    if size == 0:
        refuse(
            "the index is empty (0 bytes): was its writer interrupted, or does a network file "
            "system not show it yet?"
        )
    magic = content[: len(MAGIC)]
    if magic != MAGIC:
        legacy = " but a legacy one, without memory mapping" if magic.startswith(b"TNTIDX") else ""
        refuse(
            f"magic is {magic!r}, expected {MAGIC!r}: this is not a Megatron index of version 1"
            f"{legacy}",
            0,
        )
    if size < HEADER.size:
        refuse(f"the index has {size} bytes, but its header alone takes {HEADER.size}")
    _, version, code, sequences, entries = HEADER.unpack_from(content)
    if version != VERSION:
        refuse(f"version {version} is not supported, only {VERSION}", 9)
    if code not in DTYPES:
        known = ", ".join(f"{code} ({dtype})" for code, dtype in DTYPES.items())
        refuse(f"unknown dtype code {code}; the codes are {known}", 17)

    # Python's integers: counts from a damaged header may not fit 64 bits here.
    pointers_at = HEADER.size + 4 * sequences
    documents_at = pointers_at + 8 * sequences
    modes_at = documents_at + 8 * entries
    needed = modes_at + (sequences if multimodal else 0)
    if size < needed:
        refuse(
            f"the index has {size} bytes, but {sequences} sequences and {entries} document "
            f"index entries{' with modes' if multimodal else ''} need {needed}: was it copied or "
            "written to its end?"
        )
    if size not in (needed, modes_at + sequences):
        warnings.warn(
            f"{path}: {size - needed} bytes after the {needed} that the header describes are "
            "not read",
            stacklevel=4,
        )
    return IndexTables(
        dtype=DTYPES[code],
        lengths=np.frombuffer(content, "<i4", sequences, HEADER.size),
        pointers=np.frombuffer(content, "<i8", sequences, pointers_at),
        documents=np.frombuffer(content, "<i8", entries, documents_at),
        modes=np.frombuffer(content, np.int8, sequences, modes_at) if multimodal else None,
    )


def check_tables(tables: IndexTables, path: str, bin_path: str, bin_size: int) -> None:
    """Check every entry of an index against itself and against its ``.bin``.

    One vectorised pass in bounded memory, exact for every 64-bit value.

    Raises
    ------
    DataError
        Naming the file, the first sequence or document that is wrong, and both
        numbers.

    Warns
    -----
    UserWarning
        The ``.bin`` goes on after the last sequence.
    """
    _check_documents(tables, path)
    covered = _check_sequences(tables, path, bin_path, bin_size)
    if covered < bin_size:
        warnings.warn(
            f"{bin_path}: {bin_size - covered} trailing bytes are not covered by the index, "
            f"which ends at byte {covered} of {bin_size}: were the items written as another "
            f"dtype than {tables.dtype}?",
            stacklevel=4,
        )


def _check_sequences(tables: IndexTables, path: str, bin_path: str, bin_size: int) -> int:
    """Bytes of the ``.bin`` up to the end of the last item that the index names."""
    count = len(tables.lengths)
    itemsize = tables.dtype.itemsize
    pointers_at = HEADER.size + 4 * count
    covered = 0
    beyond: tuple[int, int, int] | None = None  # the first sequence past the end, and its bytes
    for first in range(0, count, _CHUNK):
        lengths = tables.lengths[first : first + _CHUNK].astype(np.uint64)
        pointers = tables.pointers[first : first + _CHUNK].astype(np.uint64)
        # A negative number is a huge one as uint64: one comparison finds it.
        at = _first(lengths > np.uint64(2**31 - 1))
        if at is not None:
            at += first
            raise DataError(
                f"sequence {at} has length {tables.lengths[at]}; the least is 0",
                file=path,
                byte_offset=HEADER.size + 4 * at,
            )
        at = _first(pointers > np.uint64(2**63 - 1))
        if at is not None:
            at += first
            raise DataError(
                f"sequence {at} begins at byte {tables.pointers[at]} of the .bin; the least is 0. "
                "A writer that adds up sizes in 32 bits goes wrong like this beyond 2 GiB",
                file=path,
                byte_offset=pointers_at + 8 * at,
            )
        at = _first(pointers % np.uint64(itemsize) != 0)
        if at is not None:
            at += first
            raise DataError(
                f"sequence {at} begins at byte {tables.pointers[at]} of the .bin, which is no "
                f"multiple of the {itemsize} bytes of {tables.dtype}",
                file=path,
                byte_offset=pointers_at + 8 * at,
            )
        ends = pointers + lengths * np.uint64(itemsize)
        covered = max(covered, int(ends.max()))
        if beyond is None:
            at = _first(ends > np.uint64(bin_size))
            if at is not None:
                beyond = first + at, int(pointers[at]), int(ends[at])
    if beyond is not None:
        sequence, start, end = beyond
        raise DataError(
            f"the file has {bin_size} bytes, but its index {path} needs {covered}: sequence "
            f"{sequence} goes from byte {start} to byte {end}",
            file=bin_path,
        )
    return covered


def _check_documents(tables: IndexTables, path: str) -> None:
    count = len(tables.lengths)
    documents = tables.documents
    documents_at = HEADER.size + 12 * count
    if len(documents) == 0:
        raise DataError(
            f"the document index has 0 entries; for {count} sequences it begins with 0 and ends "
            f"with {count}",
            file=path,
        )
    if documents[0] != 0:
        raise DataError(
            f"the document index begins at sequence {documents[0]}, expected 0",
            file=path,
            byte_offset=documents_at,
        )
    if documents[-1] != count:
        raise DataError(
            f"the document index ends at {documents[-1]}, expected {count}, the number of "
            "sequences. Tools that merge files without merging this table leave it so: merge "
            "with IndexedDatasetBuilder.add_index",
            file=path,
            byte_offset=documents_at + 8 * (len(documents) - 1),
        )
    for first in range(0, len(documents) - 1, _CHUNK):
        bounds = documents[first : first + _CHUNK + 1]
        at = _first(bounds[1:] < bounds[:-1])
        if at is not None:
            at += first
            raise DataError(
                f"the document index is not sorted: document {at} begins at sequence "
                f"{documents[at]} and ends before sequence {documents[at + 1]}",
                file=path,
                byte_offset=documents_at + 8 * (at + 1),
            )


def _first(wrong: NDArray[np.bool_]) -> int | None:
    at = int(wrong.argmax())
    return at if wrong[at] else None
