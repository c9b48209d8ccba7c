"""A file mapped into memory for reading."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError

READ = mmap.ACCESS_READ


class MappedFile:
    """Bytes of a file, mapped once.

    Attributes
    ----------
    data : uint8 ``[size]``, read-only
        The file's bytes.
    modified : int
        When it was last written to, in nanoseconds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                self.size, self.modified = status.st_size, status.st_mtime_ns
                # An empty file cannot be mapped. The map keeps the file open by itself.
                self._map = mmap.mmap(file.fileno(), 0, access=READ) if self.size else None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=path) from error
        self.data: NDArray[np.uint8] = np.frombuffer(self._map or b"", dtype=np.uint8)

    def check_size(self) -> None:
        """Raise if the file has shrunk: reading past its end would kill the process."""
        size = self._map.size() if self._map else 0
        if size < self.size:
            raise DataError(
                f"had {self.size} bytes when it was opened and has {size} now: it was "
                "truncated while in use. Restore the file, or build the dataset anew",
                file=self.path,
            )

    def slice(self, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end``, copied."""
        return self._map[start:end] if self._map else b""
