"""Decompressed copies of text that cannot be read out of order where it is.

A zstandard frame can only be decoded from its begin. One that holds much text is
decompressed once into the cache folder, if the user named one.
"""

from __future__ import annotations

import hashlib
import logging
import weakref
from pathlib import Path

from zephon.io.compressed import CompressedText
from zephon.io.file_cache import NoRoomError
from zephon.io.mapped import MappedFile
from zephon.io.options import CACHE_VARIABLE, options_in_force
from zephon.io.plain import PlainText
from zephon.io.probe import probe_digest
from zephon.io.remote import file_cache

LONG_UNIT = 64 << 20
"""Text of a frame from which a copy is worth its place on the disk."""

_COPY = "text"

logger = logging.getLogger(__name__)


def unpacked(text: CompressedText) -> PlainText | None:
    """The text of a decompressed copy; None where none is needed, or possible."""
    longest = text.longest_unit()
    if longest <= LONG_UNIT:
        return None
    cache = file_cache(options_in_force())
    if cache is None or (cache.limit is not None and text.size > cache.limit):
        why = f"name a cache folder (io_options= or {CACHE_VARIABLE})"
        if cache is not None:
            why = f"raise limit_bytes of CacheOptions above {text.size:,}"
        _warn(text, longest, why)
        return None
    state = f"{text.file.size} {text.file.modified} {probe_digest(text.file.data).hex()}"
    name = f"{text.path.absolute()} {state}"
    key = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()

    def fill(folder: Path) -> None:
        with open(folder / _COPY, "wb") as file:
            for piece in text.pieces():
                file.write(piece.data)

    try:
        lease = cache.lease(key, text.size, fill, exceed=False)
    except NoRoomError as error:
        _warn(text, longest, f"make room in the cache folder {cache.root} ({error})")
        return None
    copy = PlainText(MappedFile(lease.folder / _COPY))
    weakref.finalize(copy, lease.close)  # it is read as long as the shard is there
    return copy


def _warn(text: CompressedText, longest: int, way_out: str) -> None:
    logger.warning(
        "%s holds a zstandard frame of %d MiB of text. Documents out of order cost decoding it "
        "from its begin: %s, or compress in frames of a few MiB (pzstd, or zstd on parts of the "
        "file that are then joined with cat)",
        text.path,
        longest >> 20,
        way_out,
    )
