"""Archives that hold the same bytes whenever and wherever they are written."""

from __future__ import annotations

import base64
import hashlib
import io
import lzma
import tarfile
import time
import zipfile
from pathlib import Path

_FIRST = 315532800  # 1980, where the clock of zip begins


def read_wheel(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by name, without its list of them."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith(("/", ".dist-info/RECORD"))
        }


def write_wheel(wheel: Path, files: dict[str, bytes], epoch: int) -> None:
    """Write ``files`` and the list of them, sorted, all of the time ``epoch``."""
    info = {name.split("/")[0] for name in files if ".dist-info/" in name}
    if len(info) != 1:
        raise ValueError(f"{wheel.name} has {len(info)} folders .dist-info, expected one")
    record = f"{info.pop()}/RECORD"
    # As the format wants it: what describes the wheel comes last.
    order = sorted(files, key=lambda name: (".dist-info/" in name, name))
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}" for name in order]
    listed = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
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
