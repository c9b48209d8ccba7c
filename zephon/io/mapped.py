"""A file mapped into memory for reading."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError


class MappedFile:
    """Bytes of a file, mapped once.

    Attributes
    ----------
    data : uint8 ``[size]``, read-only
        The file's bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - held open to notice truncation
        except OSError as error:
            raise DataError(f"cannot be opened: {error.strerror}", file=path) from error
        self.size = os.fstat(self._file.fileno()).st_size
        if self.size == 0:  # an empty file cannot be mapped
            self._map: mmap.mmap | bytes = b""
        else:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self.data: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)

    def check_size(self) -> None:
        """Raise if the file has shrunk: reading past its end would kill the process."""
        size = os.fstat(self._file.fileno()).st_size
        if size < self.size:
            raise DataError(
                f"had {self.size} bytes when it was opened and has {size} now: it was "
                "truncated while in use. Restore the file, or build the dataset anew",
                file=self.path,
            )

    def slice(self, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end``, copied."""
        return self._map[start:end]
