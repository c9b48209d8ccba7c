"""Archives that hold the same bytes whenever and wherever they are written."""

from __future__ import annotations

import base64
import hashlib
import io
import lzma
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

_FIRST = 315532800  # 1980, where the clock of zip begins

Deflate = Callable[[bytes], bytes]
"""From bytes to a raw stream of deflate."""


def deflate(data: bytes) -> bytes:
    """As small as zlib makes it."""
    made = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


def deflate_hard(data: bytes) -> bytes:
    """A twentieth smaller, in a hundred times the time."""
    from zopfli import zlib as zopfli

    made: bytes = zopfli.compress(data)
    return made[2:-4]  # without the header and the sum of the format zlib


class _Compressor:
    """What :mod:`zipfile` gives the bytes of a file to."""

    def __init__(self, deflate: Deflate) -> None:
        self._deflate, self._data = deflate, bytearray()

    def compress(self, data: bytes) -> bytes:
        """Nothing yet."""
        self._data += data
        return b""

    def flush(self) -> bytes:
        """All of it."""
        return self._deflate(bytes(self._data))


def read_wheel(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by name, without its list of them."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith(("/", ".dist-info/RECORD"))
        }


def write_wheel(
    wheel: Path, files: dict[str, bytes], epoch: int, deflate: Deflate = deflate
) -> None:
    """Write ``files`` and the list of them, sorted, all of the time ``epoch``."""
    info = {name.split("/")[0] for name in files if ".dist-info/" in name}
    if len(info) != 1:
        raise ValueError(f"{wheel.name} has {len(info)} folders .dist-info, expected one")
    record = f"{info.pop()}/RECORD"
    # As the format wants it: what describes the wheel comes last.
    order = sorted(files, key=lambda name: (".dist-info/" in name, name))
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}" for name in order]
    listed = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    # The module has no other way to choose how its deflate is made.
    chosen = mock.patch.object(
        zipfile, "_get_compressor", side_effect=lambda *_: _Compressor(deflate)
    )
    with chosen, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in [*order, record]:
            entry = zipfile.ZipInfo(name, time.gmtime(max(epoch, _FIRST))[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the mode below means something
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, listed if name == record else files[name])


def write_tar_xz(file: Path, files: dict[str, bytes], epoch: int) -> None:
    """Write ``files`` sorted, owned by nobody in particular, all of the time ``epoch``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(files[name]), epoch, 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    file.write_bytes(lzma.compress(buffer.getvalue(), preset=2))


def sha256(file: Path) -> str:
    """The digest of a file, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
