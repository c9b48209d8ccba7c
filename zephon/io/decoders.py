"""Reading gzip and zstandard streams piece by piece, over all their members and frames."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import Any

from zephon.errors import ConfigError
from zephon.io.mapped import MappedFile
from zephon.io.zstd_frames import DamageError, Frame

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # behind a first byte 0x50 to 0x5f

_FEED = 1 << 16
_LARGEST_WINDOW = 1 << 31  # what `zstd --long=31` writes


class Decoder(ABC):
    """A place in a compressed file, from which it is decoded.

    Attributes
    ----------
    at : int
        Byte of the file that is read next.
    unit_start : int
        Where in the file the present member or frame begins.
    at_unit_start : bool
        Whether nothing of that has been decoded yet.
    memory : int
        About how many bytes the decoder takes.
    """

    at: int
    unit_start: int
    at_unit_start: bool
    memory: int

    @abstractmethod
    def read(self, limit: int) -> bytes:
        """Up to ``limit`` bytes of text; none at the end. Raises :class:`DamageError`."""

    def fork(self) -> Decoder | None:
        """Another decoder at the same place, where the codec can do that."""
        return None


class GzipDecoder(Decoder):
    """Decoding of gzip from the member on that begins at ``start``."""

    memory = 48 << 10

    def __init__(self, file: MappedFile, start: int = 0) -> None:
        self._file = file
        self._zlib = _fastest_zlib()
        self._member: Any = None
        self.at = self.unit_start = start
        self.at_unit_start = True

    def read(self, limit: int) -> bytes:
        """Up to ``limit`` bytes of text, of one member."""
        while True:
            if self._member is None and not self._open_member():
                return b""
            feed = self._file.slice(self.at, min(self.at + _FEED, self._file.size))
            try:
                text: bytes = self._member.decompress(feed, limit)
            except self._zlib.error as error:
                reason = str(error).rpartition(": ")[2]
                raise DamageError(
                    f"is damaged gzip ({reason}) in the member that begins at byte "
                    f"{self.unit_start}. Fetch or write the file anew",
                    self.at,
                ) from None
            used = len(feed) - len(self._member.unconsumed_tail) - len(self._member.unused_data)
            self.at += used
            self.at_unit_start = False
            if self._member.eof:
                self._member = None
                self.unit_start, self.at_unit_start = self.at, True
            elif not text and not used:
                raise DamageError(
                    f"is truncated gzip: the member that begins at byte {self.unit_start} has no "
                    "end. Fetch or write the file anew",
                    self._file.size,
                )
            if text:
                return text

    def fork(self) -> GzipDecoder:
        """Another decoder at the same place: a copy of the window and tables."""
        other = GzipDecoder(self._file, self.at)
        other.unit_start, other.at_unit_start = self.unit_start, self.at_unit_start
        other._member = None if self._member is None else self._member.copy()
        return other

    def _open_member(self) -> bool:
        """Whether another member begins here."""
        if self.at >= self._file.size:
            return False
        head = self._file.slice(self.at, self.at + 2)
        if head != GZIP_MAGIC[: len(head)]:
            if not self._file.data[self.at :].any():  # zeros pad tapes and blocks; gzip skips them
                self.at = self.unit_start = self._file.size
                return False
            raise DamageError(
                f"has {self._file.size - self.at} bytes behind its last gzip member that are no "
                f"gzip (they begin with {self._file.slice(self.at, self.at + 8)!r}). Cut them off "
                "or write the file anew",
                self.at,
            )
        self._member = self._zlib.decompressobj(31)
        return True


class ZstdDecoder(Decoder):
    """Decoding of zstandard from frame number ``first`` on."""

    def __init__(self, file: MappedFile, frames: list[Frame], first: int = 0) -> None:
        self._file = file
        self._frames = frames
        self._next = first
        self._zstd = import_zstandard()
        self._reader: Any = None
        self.memory = 1 << 20
        self.at_unit_start = True
        self.at = self.unit_start = frames[first].start if first < len(frames) else file.size

    def read(self, limit: int) -> bytes:
        """Up to ``limit`` bytes of text, of one frame."""
        while True:
            if self._reader is None:
                if self._next >= len(self._frames):
                    return b""
                frame = self._frames[self._next]
                decompressor = self._zstd.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
                source = self._file.data[frame.start : frame.end]
                self._reader = decompressor.stream_reader(source, closefd=False)
                self.memory = (1 << 18) + frame.window
            frame = self._frames[self._next]
            try:
                text: bytes = self._reader.read(limit)
            except self._zstd.ZstdError as error:
                raise DamageError(
                    f"is damaged zstandard ({error}) in the frame that begins at byte "
                    f"{frame.start}. Fetch or write the file anew",
                    frame.start,
                ) from None
            self.at_unit_start = False
            if text:
                return text
            # Only a read that gives nothing has seen the checksum.
            self._reader = None
            self._next += 1
            after = self._frames[self._next].start if self._next < len(self._frames) else frame.end
            self.at = self.unit_start = after
            self.at_unit_start = True


def codec_of(head: bytes) -> str | None:
    """``"gzip"`` or ``"zstd"`` by the first bytes of a file; None for anything else."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    skippable = head[1:4] == _SKIPPABLE and head[:1] and head[0] & 0xF0 == 0x50
    return "zstd" if head.startswith(ZSTD_MAGIC) or skippable else None


def import_zstandard() -> Any:
    """The package zstandard, or an error that names the extra."""
    try:
        import zstandard
    except ImportError as error:
        raise ConfigError(
            "reading zstandard files needs the package zstandard: install zephon with its extra "
            "'zstd' (pip install './zephon[zstd]') or zstandard itself"
        ) from error
    return zstandard


def _fastest_zlib() -> Any:
    """zlib-ng if it is there: the same bytes in about two thirds of the time."""
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return zlib
    return zlib_ng
