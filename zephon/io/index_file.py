"""Indices in files: arrays with what they are of, and a checksum.

Written whole and renamed, so that any process may make one at any time and none
ever reads half of one. Nothing is written unless the user named a place.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.io.options import CACHE_VARIABLE, options_in_force

_MAGIC = b"ZPHINDX1"
_DIGEST = 16
_BESIDE = ".zephon-index"

logger = logging.getLogger(__name__)

Arrays = dict[str, NDArray[np.int64]]


def place_of(data: Path) -> Path | None:
    """Where the index of the file ``data`` is kept; None if nowhere."""
    cache = options_in_force().cache
    if cache.index_beside_data:
        return data.with_name(data.name + _BESIDE)
    if (folder := cache.folder) is None:
        return None
    name = hashlib.blake2b(os.fsencode(os.path.abspath(data)), digest_size=16).hexdigest()
    return folder / "indices" / f"{name}{_BESIDE}"


def load(data: Path, identity: Mapping[str, Any]) -> Arrays | None:
    """The stored index of ``data`` in the state ``identity``, mapped; None if there is none."""
    if (place := place_of(data)) is None:
        return None
    try:
        raw = np.memmap(place, dtype=np.uint8, mode="r")
    except (OSError, ValueError):  # not there, or empty
        return None
    header = _header(raw)
    if header is None:
        logger.warning("%s is damaged or no index; it is made anew", place)
        return None
    if header["of"] != dict(identity):
        logger.info("%s is the index of an earlier state of %s; it is made anew", place, data)
        return None
    arrays: Arrays = {}
    for name, (start, count) in header["arrays"].items():
        arrays[name] = np.asarray(raw[start : start + 8 * count]).view(np.int64)
    return arrays


def save(
    data: Path, identity: Mapping[str, Any], arrays: Arrays, seconds: float | None = None
) -> None:
    """Keep the index of ``data`` where the user said; a line in the log if it was slow to make."""
    place = place_of(data)
    if place is None:
        if seconds is not None:
            logger.info(
                "the index of %s took %.1f s and is in memory only: with a cache folder "
                "(io_options= or %s) it is made once",
                data,
                seconds,
                CACHE_VARIABLE,
            )
        return
    start = 0
    table = {}
    for name, array in arrays.items():
        table[name] = [start, len(array)]
        start += array.nbytes
    head = _pack_header({"of": dict(identity), "arrays": table})
    digest = hashlib.blake2b(head, digest_size=_DIGEST)
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).data)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".zephon-")
        try:
            with open(handle, "wb") as file:
                file.write(head)
                for array in arrays.values():
                    file.write(np.ascontiguousarray(array).data)
                file.write(digest.digest())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, place)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        logger.warning("the index of %s cannot be kept in %s: %s", data, place, error.strerror)


def _pack_header(content: Mapping[str, Any]) -> bytes:
    """Magic, length and JSON, padded so that the arrays behind are aligned."""
    text = json.dumps(content).encode()
    text += b" " * (-(len(_MAGIC) + 8 + len(text)) % 64)
    return _MAGIC + len(text).to_bytes(8, "little") + text


def _header(raw: NDArray[np.uint8]) -> dict[str, Any] | None:
    """What the file says of itself, with places counted from its begin; None if it is damaged."""
    prefix = len(_MAGIC) + 8
    if len(raw) < prefix + _DIGEST or raw[: len(_MAGIC)].tobytes() != _MAGIC:
        return None
    if (
        hashlib.blake2b(raw[:-_DIGEST].data, digest_size=_DIGEST).digest()
        != raw[-_DIGEST:].tobytes()
    ):
        return None
    length = int.from_bytes(raw[len(_MAGIC) : prefix].tobytes(), "little")
    content: dict[str, Any] = json.loads(raw[prefix : prefix + length].tobytes())
    content["arrays"] = {
        name: (prefix + length + start, count) for name, (start, count) in content["arrays"].items()
    }
    return content


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
