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
    """A place in a compressed file, from which it is decoded, unit (member or frame) by unit.

    Attributes
    ----------
    unit_start : int
        Where in the file the present unit begins.
    memory : int
        About how many bytes the decoder takes.
    """

    unit_start: int
    memory: int
    _ended: bool = True  # the unit before; the present one has not been opened
    _ahead: bytes = b""  # a byte of text that was decoded to see whether it is there

    @property
    def at_unit_start(self) -> bool:
        """Whether the next byte of text is the first one of a unit."""
        return self._ended and not self._ahead

    def read(self, limit: int) -> bytes:
        """Up to ``limit`` bytes of text, of one unit; none at the end of the file.

        Raises
        ------
        DamageError
            The file is damaged or cut.
        """
        while True:
            text, self._ahead = self._ahead, b""
            if not text and self._ended and not self._open_unit():
                return b""
            if len(text) < limit and not (text and self._ended):
                text += self._some(limit - len(text))
            if text:
                if len(text) == limit and not self._ended:
                    # Is this the end of the unit? Who keeps places to begin at must know now.
                    self._ahead = self._some(1)
                return text

    @abstractmethod
    def _open_unit(self) -> bool:
        """Make the unit that begins here ready to be decoded; False at the end of the file."""

    @abstractmethod
    def _some(self, limit: int) -> bytes:
        """Up to ``limit`` (at least 1) bytes of the present unit; none if it has ended.

        ``_ended`` becomes false, and true when the unit has ended, with its last bytes or
        later.
        """

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
        self._at = self.unit_start = start

    def _open_unit(self) -> bool:
        if self._at >= self._file.size:
            return False
        head = self._file.slice(self._at, self._at + 2)
        if head != GZIP_MAGIC[: len(head)]:
            if not self._file.data[self._at :].any():  # zeros pad tapes and blocks; gzip skips them
                self._at = self.unit_start = self._file.size
                return False
            raise DamageError(
                f"has {self._file.size - self._at} bytes behind its last gzip member that are no "
                f"gzip (they begin with {self._file.slice(self._at, self._at + 8)!r}). Cut them "
                "off or write the file anew",
                self._at,
            )
        self._member = self._zlib.decompressobj(31)
        return True

    def _some(self, limit: int) -> bytes:
        self._ended = False
        member = self._member
        while True:
            feed = self._file.slice(self._at, min(self._at + _FEED, self._file.size))
            try:
                text: bytes = member.decompress(feed, limit)
            except self._zlib.error as error:
                reason = str(error).rpartition(": ")[2]
                raise DamageError(
                    f"is damaged gzip ({reason}) in the member that begins at byte "
                    f"{self.unit_start}. Fetch or write the file anew",
                    self._at,
                ) from None
            # At the end of a member both of these may hold what follows.
            used = len(feed) - len(member.unused_data if member.eof else member.unconsumed_tail)
            self._at += used
            if member.eof:
                self._member, self.unit_start, self._ended = None, self._at, True
                return text
            if text:
                return text
            if not used:
                raise DamageError(
                    f"is truncated gzip: the member that begins at byte {self.unit_start} has no "
                    "end. Fetch or write the file anew",
                    self._file.size,
                )

    def fork(self) -> GzipDecoder:
        """Another decoder at the same place: a copy of the window and tables."""
        other = GzipDecoder(self._file, self._at)
        other.unit_start, other._ended = self.unit_start, self._ended
        other._member = None if self._member is None else self._member.copy()
        other._ahead = self._ahead
        return other


class ZstdDecoder(Decoder):
    """Decoding of zstandard from frame number ``first`` on."""

    memory = 1 << 20

    def __init__(self, file: MappedFile, frames: list[Frame], first: int = 0) -> None:
        self._file = file
        self._frames = frames
        self._zstd = import_zstandard()
        self._reader: Any = None
        self._go_to(first)

    def _go_to(self, number: int) -> None:
        self._number = number
        ended = number >= len(self._frames)
        self.unit_start = self._file.size if ended else self._frames[number].start
        self._ended = True

    def _open_unit(self) -> bool:
        if self._number >= len(self._frames):
            return False
        frame = self._frames[self._number]
        decompressor = self._zstd.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._reader = decompressor.stream_reader(self._file.data[frame.start : frame.end])
        self.memory = (1 << 18) + frame.window
        return True

    def _some(self, limit: int) -> bytes:
        self._ended = False
        try:
            text: bytes = self._reader.read(limit)
            # Less than asked for is the end, and only a read that gives nothing has seen the
            # checksum behind it.
            ended = len(text) < limit and not self._reader.read(1)
        except self._zstd.ZstdError as error:
            raise DamageError(
                f"is damaged zstandard ({error}) in the frame that begins at byte "
                f"{self.unit_start}. Fetch or write the file anew",
                self.unit_start,
            ) from None
        if ended:
            self._reader = None
            self._go_to(self._number + 1)
        return text


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
