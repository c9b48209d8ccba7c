"""Text in a compressed file, read by its place in the text.

The text is cut into blocks of 1 MiB. A block is decoded from the nearest place
before it that can be decoded from: the begin of a member or frame; for gzip also
a copy of the decoder, kept every 8 MiB of text as it was passed; or a decoder
that stopped there. So reading in order decodes everything once, and
reading anywhere decodes 9 MiB of gzip, or a zstandard frame, at most.

Blocks and decoders lie in the cache of units, which bounds the memory. What was
forgotten costs time and changes nothing.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zephon.errors import DataError
from zephon.io.decoders import (
    Decoder,
    GzipDecoder,
    ZstdDecoder,
    codec_of,
    import_zstandard,
)
from zephon.io.mapped import MappedFile
from zephon.io.unit_cache import UNITS, ProcessLock
from zephon.io.zstd_frames import DamageError, find_frames

BLOCK = 1 << 20
SPACING = 8 << 20
"""Text between two copies of a gzip decoder, and between two begins of members that are kept."""

_KEEP = 16 << 20  # blocks that are passed on the way are kept that far before the wanted one
_PARKED = 4  # decoders of one file that wait to go on

_SERIAL = itertools.count()


class CompressedText:
    """The text of one gzip or zstandard file.

    Attributes
    ----------
    file : MappedFile
        The compressed bytes.
    size : int
        Bytes of text; known after :meth:`pieces` came to its end, or from :meth:`learn`.
    """

    def __init__(self, path: Path, file: MappedFile | None = None) -> None:
        self.path = path
        self.file = MappedFile(path) if file is None else file
        self.size = 0
        self._codec = codec_of(self.file.data[:4].tobytes())
        # Where in the text and in the file decoding can begin, both [starts], ascending.
        self._starts: list[int] = [0]
        self._offsets: list[int] = [0]
        self._places: list[int] = []  # in the text, of copies and waiting decoders; ascending
        self._waiting: list[int] = []
        self._lock = ProcessLock()
        self._serial = next(_SERIAL)
        if self._codec == "zstd":
            import_zstandard()
            try:
                self._frames = find_frames(self.file.data)
            except DamageError as damage:
                raise self._error(damage) from None
            self._frame_at = {frame.start: i for i, frame in enumerate(self._frames)}

    def pieces(self) -> Iterator[NDArray[np.uint8]]:
        """The whole text in its order, uint8 ``[n]`` each; verifies all checksums.

        Raises
        ------
        DataError
            The file is damaged or cut.
        """
        decoder, at = self._begin(0), 0
        self._starts, self._offsets = [], []
        while True:
            self._note(decoder, at)
            if not (text := self._decode(decoder)):
                break
            at += len(text)
            yield np.frombuffer(text, dtype=np.uint8)
        self.size = at
        if not self._starts:
            self._starts, self._offsets = [0], [0]

    def restarts(self) -> NDArray[np.int64]:
        """Where decoding can begin, in the text and in the file, int64 ``[2, starts]``."""
        return np.array([self._starts, self._offsets], dtype=np.int64)

    def learn(self, size: int, restarts: NDArray[np.int64]) -> None:
        """Take over what :meth:`pieces` found out before."""
        self.size = size
        self._starts, self._offsets = restarts.tolist()

    def longest_unit(self) -> int:
        """The most bytes of text that may have to be decoded to read one block."""
        if self._codec == "gzip":
            return min(self.size, SPACING + BLOCK)
        ends = [*self._starts[1:], self.size]
        return max(end - start for start, end in zip(self._starts, ends, strict=True))

    def slices(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[bytes]:
        """Text from ``starts`` to ``ends`` (int64 ``[n]`` each); ascending is fastest."""
        number, block = -1, b""
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            parts = []
            while start < end:
                if (wanted := start // BLOCK) != number:
                    number, block = wanted, self._block(wanted)
                first = start - number * BLOCK
                part = block[first : min(end - number * BLOCK, BLOCK)]
                if not part:
                    raise self._changed()
                parts.append(part)
                start += len(part)
            yield parts[0] if len(parts) == 1 else b"".join(parts)

    def check_size(self) -> None:
        """Raise if the compressed file has shrunk."""
        self.file.check_size()

    def _block(self, number: int) -> bytes:
        key = (self._serial, number)
        block: bytes | None = UNITS.get(key)
        if block is None:
            with self._lock:
                block = UNITS.get(key)  # another thread may have passed here meanwhile
                if block is None:
                    block = self._decode_block(number)
        return block

    def _decode_block(self, number: int) -> bytes:
        wanted = number * BLOCK
        decoder, at = self._nearest(wanted)
        parts: list[bytes] = []
        base = at  # where the text in `parts` begins
        while True:
            self._note(decoder, at)
            text = self._decode(decoder, BLOCK - at % BLOCK)
            at += len(text)
            parts.append(text)
            if text and at % BLOCK:
                continue
            # At the end of a block, or of the text.
            here = (at - 1) // BLOCK if at else 0
            block = b"".join(parts) if base <= here * BLOCK else b""
            if block and wanted - here * BLOCK <= _KEEP:
                UNITS.put((self._serial, here), block, len(block))
            if here >= number:
                self._wait(decoder, at)
                return block
            if not text:
                raise self._changed()
            parts, base = [], at

    def _decode(self, decoder: Decoder, limit: int = BLOCK) -> bytes:
        try:
            return decoder.read(limit)
        except DamageError as damage:
            raise self._error(damage) from None

    def _begin(self, offset: int) -> Decoder:
        if self._codec == "gzip":
            return GzipDecoder(self.file, offset)
        first = self._frame_at.get(offset, 0 if offset == 0 else None)
        if first is None:
            raise self._changed()
        return ZstdDecoder(self.file, self._frames, first)

    def _nearest(self, wanted: int) -> tuple[Decoder, int]:
        """A decoder at the last known place not behind ``wanted``, and that place."""
        index = bisect_right(self._starts, wanted) - 1
        start = self._starts[index]
        while (last := bisect_right(self._places, wanted)) and self._places[last - 1] > start:
            place = self._places[last - 1]
            key = (self._serial, "at", place)
            if place in self._waiting:
                self._waiting.remove(place)
                self._places.remove(place)
                decoder: Decoder | None = UNITS.pop(key)
            else:
                kept: Decoder | None = UNITS.get(key)
                decoder = None if kept is None else kept.fork()
                if kept is None:
                    self._places.remove(place)
            if decoder is not None:
                return decoder, place
        return self._begin(self._offsets[index]), start

    def _note(self, decoder: Decoder, at: int) -> None:
        """Keep the present place if the last one is far enough before it."""
        index = bisect_right(self._starts, at) - 1
        if decoder.at_unit_start:
            if index < 0 or at >= self._starts[index] + SPACING:
                self._starts.insert(index + 1, at)
                self._offsets.insert(index + 1, decoder.unit_start)
            return
        last = self._starts[index]
        for place in reversed(self._places[: bisect_right(self._places, at)]):
            if place not in self._waiting:
                last = max(last, place)
                break
        if at >= last + SPACING and (copy := decoder.fork()) is not None:
            insort(self._places, at)
            UNITS.put((self._serial, "at", at), copy, copy.memory)

    def _wait(self, decoder: Decoder, at: int) -> None:
        """Let ``decoder`` go on from ``at`` when that is asked for."""
        if at >= self.size or at in self._places:
            return
        insort(self._places, at)
        self._waiting.append(at)
        # One with a huge window (zstd --long) must not drive out the blocks that it makes.
        size = min(decoder.memory, UNITS.limit // 4)
        UNITS.put((self._serial, "at", at), decoder, size)
        if len(self._waiting) > _PARKED:
            gone = self._waiting.pop(0)
            self._places.remove(gone)
            UNITS.pop((self._serial, "at", gone))

    def _error(self, damage: DamageError) -> DataError:
        return DataError(str(damage), file=self.path, byte_offset=damage.byte_offset)

    def _changed(self) -> DataError:
        return DataError(
            "ends before the text that was found in it when it was opened: it was changed while "
            "in use, or its index is of another file. Build the dataset anew",
            file=self.path,
        )
