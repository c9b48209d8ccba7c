"""Writing a ``.bin/.idx`` pair."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from zephon.errors import ConfigError, ConfigTypeError, DataError, LifecycleError
from zephon.megatron.index_file import CODES, HEADER, MAGIC, VERSION
from zephon.megatron.indexed import IndexedDataset

_CHUNK = 1 << 18  # index entries copied at a time
_BUFFER = 1 << 18  # bytes held back of each file
_MOST_ITEMS = 2**31 - 1  # a length is an int32


def optimal_dtype(
    vocab_size: int | None = None, *, greatest_id: int | None = None
) -> type[np.uint16] | type[np.int32]:
    """The dtype to write tokens with.

    Parameters
    ----------
    vocab_size : int, optional
        Megatron's rule: uint16 below 65,500 tokens.
    greatest_id : int, optional
        Where no vocabulary size is known: uint16 if the greatest id is at most
        65,535.

    Returns
    -------
    type
        ``numpy.uint16`` or ``numpy.int32``; int32 if nothing is given.
    """
    if vocab_size is not None:
        return np.uint16 if vocab_size < 65500 else np.int32
    return np.uint16 if greatest_id is not None and greatest_id <= 65535 else np.int32


class IndexedDatasetBuilder:
    """Writes sequences one after the other; :meth:`finalize` makes them a dataset.

    Memory is bounded whatever the number of sequences. Until ``finalize`` the
    items are in ``<bin_path>.partial`` and the index in unnamed temporary files
    beside it; then both appear under their names at once, the index last, so a
    reader never sees half a pair. Used as a context manager, a builder that was
    not finalized removes what it wrote.

    Parameters
    ----------
    bin_path : str or path
        The ``.bin`` to write.
    dtype : dtype
        Of the items: uint8, int8, int16, uint16, int32, int64, float32 or float64.
    multimodal : bool
        Keep a mode (int8) for each sequence.
    """

    def __init__(
        self,
        bin_path: str | os.PathLike[str],
        dtype: DTypeLike = np.int32,
        multimodal: bool = False,
    ) -> None:
        self._dtype = np.dtype(dtype)
        if self._dtype not in CODES:
            known = ", ".join(str(dtype) for dtype in CODES)
            raise ConfigError(f"dtype must be one of {known}, got {self._dtype}")
        self._bin_path = os.fspath(bin_path)
        self._partial = self._bin_path + ".partial"
        self._multimodal = multimodal
        self._sequences = 0
        self._documents = 0
        self._ended = 0  # sequences in documents that have ended
        folder = os.path.dirname(self._bin_path) or "."
        with ExitStack() as stack:
            self._data: IO[bytes] = stack.enter_context(open(self._partial, "wb", _BUFFER))
            self._lengths = stack.enter_context(
                tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)
            )
            self._bounds = stack.enter_context(
                tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)
            )
            self._modes = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=_BUFFER))
            self._files: ExitStack | None = stack.pop_all()

    def __enter__(self) -> IndexedDatasetBuilder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what has been written, unless it was finalized. May be called twice."""
        if self._files is not None:
            self._files.close()
            self._files = None
            os.unlink(self._partial)

    def add_item(self, tensor: ArrayLike, mode: int = 0) -> None:
        """Append one sequence to the current document.

        Parameters
        ----------
        tensor : array, tensor on the CPU or list ``[items]``
            Every value must fit the dtype.
        mode : int
            Of this sequence, -128 to 127, if multimodal.

        Raises
        ------
        DataError
            A value does not fit, naming the document and the sequence.
        """
        items = self._checked(tensor)
        modes = self._checked_modes([mode] if mode else None, 1)
        self._append(items, np.array([items.size]), modes)

    def end_document(self) -> None:
        """End the current document; without a sequence in it, it is an empty one."""
        self._require_open()
        self._end_document()

    def add_document(
        self, tensor: ArrayLike, lengths: ArrayLike, modes: ArrayLike | None = None
    ) -> None:
        """Append one document of several sequences.

        Parameters
        ----------
        tensor : array, tensor on the CPU or list ``[items]``
            Its sequences one after the other.
        lengths : integers ``[sequences]``
            Items of each; they sum to the number of items.
        modes : integers ``[sequences]``, optional
            Mode of each, if multimodal; 0 if not given.
        """
        items = self._checked(tensor)
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or (sizes.size and sizes.dtype.kind not in "iu"):
            raise ConfigTypeError(f"lengths must be a list of integers, got {lengths!r}")
        if (sizes.size and int(sizes.min()) < 0) or sum(sizes.tolist()) != items.size:
            raise ConfigError(
                f"lengths of document {self._documents} must be at least 0 and sum to its "
                f"{items.size} items, got {lengths!r}"
            )
        self._append(items, sizes, self._checked_modes(modes, sizes.size))
        self._end_document()

    def add_index(self, path_prefix: str | os.PathLike[str]) -> None:
        """Append all documents of another dataset.

        Raises
        ------
        ConfigError
            Its dtype is another one.
        LifecycleError
            The current document has not ended.
        DataError
            The other dataset is damaged.
        """
        self._require_open()
        self._require_ended("add_index")
        other = IndexedDataset(path_prefix, multimodal=self._multimodal)
        if other.dtype != self._dtype:
            raise ConfigError(
                f"{other.path_prefix} holds {other.dtype}, but {self._bin_path} is written as "
                f"{self._dtype}"
            )
        for first in range(0, len(other), _CHUNK):
            self._copy_sequences(other, first, min(first + _CHUNK, len(other)))
        bounds = other.document_indices
        for first in range(1, len(bounds), _CHUNK):
            self._bounds.write((bounds[first : first + _CHUNK] + self._sequences).tobytes())
        self._sequences += len(other)
        self._documents += len(bounds) - 1
        self._ended = self._sequences

    def finalize(self, idx_path: str | os.PathLike[str]) -> None:
        """Write the index, then put both files in place.

        Parameters
        ----------
        idx_path : str or path
            The ``.idx`` to write.

        Raises
        ------
        LifecycleError
            The last document has not ended: its sequences would belong to none,
            and no reader takes such a file.
        """
        self._require_open()
        self._require_ended("finalize")
        target = os.fspath(idx_path)
        _flush(self._data)
        partial = target + ".partial"
        try:
            with open(partial, "wb") as index:
                self._write_index(index)
                _flush(index)
            # An older index must not be seen beside the new items.
            if os.path.exists(target):
                os.unlink(target)
            os.replace(self._partial, self._bin_path)
            os.replace(partial, target)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise
        if self._files is not None:
            self._files.close()
            self._files = None

    def _append(self, items: NDArray[Any], sizes: NDArray[Any], modes: bytes) -> None:
        if sizes.size and int(sizes.max()) > _MOST_ITEMS:
            raise DataError(
                f"document {self._documents} has a sequence of {int(sizes.max())} items; a length "
                f"is at most {_MOST_ITEMS}",
                file=self._bin_path,
            )
        self._data.write(items.data)
        self._lengths.write(sizes.astype("<i4").tobytes())
        self._modes.write(modes)
        self._sequences += sizes.size

    def _end_document(self) -> None:
        self._bounds.write(np.array([self._sequences], "<i8").tobytes())
        self._documents += 1
        self._ended = self._sequences

    def _copy_sequences(self, other: IndexedDataset, first: int, stop: int) -> None:
        lengths = other.sequence_lengths[first:stop]
        starts = other.sequence_starts[first:stop]
        self._lengths.write(lengths.tobytes())
        modes = other.sequence_modes
        if modes is not None:
            self._modes.write(modes[first:stop].tobytes())
        ends = starts + lengths
        # Sequences that lie back to back are one run of bytes.
        breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        for begin, end in zip(
            starts[np.concatenate([[0], breaks])].tolist(),
            ends[np.concatenate([breaks - 1, [stop - first - 1]])].tolist(),
            strict=True,
        ):
            for at in range(begin, end, _CHUNK):
                self._data.write(other.items[at : min(at + _CHUNK, end)].data)

    def _write_index(self, index: IO[bytes]) -> None:
        index.write(
            HEADER.pack(MAGIC, VERSION, CODES[self._dtype], self._sequences, self._documents + 1)
        )
        _copy(self._lengths, index)
        position = 0
        for lengths in _chunks(self._lengths, "<i4"):
            sizes = lengths.astype(np.int64) * self._dtype.itemsize
            ends = position + np.cumsum(sizes)
            index.write((ends - sizes).astype("<i8").tobytes())
            position = int(ends[-1])
        index.write(np.zeros(1, "<i8").tobytes())
        _copy(self._bounds, index)
        _copy(self._modes, index)

    def _checked(self, tensor: ArrayLike) -> NDArray[Any]:
        """``tensor`` in the dtype of the file, contiguous; every value must survive."""
        self._require_open()
        array = np.asarray(tensor)
        if array.ndim != 1:
            raise ConfigError(f"a sequence must have one dimension, got shape {array.shape}")
        if array.size == 0 or array.dtype == self._dtype:
            return np.ascontiguousarray(array, self._dtype)
        if array.dtype.kind not in ("iu" if self._dtype.kind in "iu" else "iuf"):
            raise ConfigTypeError(
                f"{self._dtype} items are written, got {array.dtype} in document "
                f"{self._documents}, sequence {self._sequences}"
            )
        if not np.can_cast(array.dtype, self._dtype):
            self._require_fit(array)
        return np.ascontiguousarray(array, self._dtype)

    def _require_fit(self, array: NDArray[Any]) -> None:
        low: float
        high: float
        if self._dtype.kind in "iu":
            low, high = np.iinfo(self._dtype).min, np.iinfo(self._dtype).max
            finite = array
        else:
            low, high = float(np.finfo(self._dtype).min), float(np.finfo(self._dtype).max)
            finite = np.where(np.isfinite(array), array, 0)
        for at in (int(finite.argmin()), int(finite.argmax())):
            if not low <= finite[at].item() <= high:
                raise DataError(
                    f"document {self._documents}, sequence {self._sequences} holds {array[at]} at "
                    f"position {at}, which does not fit {self._dtype} ({low} to {high})",
                    file=self._bin_path,
                )

    def _checked_modes(self, modes: ArrayLike | None, count: int) -> bytes:
        """What the index stores for ``count`` sequences: nothing unless multimodal."""
        if modes is None:
            return bytes(count) if self._multimodal else b""
        if not self._multimodal:
            raise ConfigError("modes are given, but the builder is not multimodal")
        array = np.asarray(modes)
        if array.shape != (count,) or (count and array.dtype.kind not in "iu"):
            raise ConfigError(f"modes must be one integer for each of {count} sequences: {modes!r}")
        if count and not -128 <= int(array.min()) <= int(array.max()) <= 127:
            raise ConfigError(f"modes must be from -128 to 127, got {modes!r}")
        return array.astype(np.int8).tobytes()

    def _require_open(self) -> None:
        if self._files is None:
            raise LifecycleError(f"the builder of {self._bin_path} is finalized or closed")

    def _require_ended(self, what: str) -> None:
        if self._ended != self._sequences:
            raise LifecycleError(
                f"{what} before end_document(): document {self._documents} has "
                f"{self._sequences - self._ended} sequences and has not ended"
            )


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    source.seek(0)
    shutil.copyfileobj(source, target, 1 << 20)


def _chunks(source: IO[bytes], dtype: str) -> Iterator[NDArray[Any]]:
    source.seek(0)
    while chunk := source.read(_CHUNK * np.dtype(dtype).itemsize):
        yield np.frombuffer(chunk, dtype)
