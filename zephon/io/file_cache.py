"""Copies of files in a folder that processes share, the least recently used ones removed.

``objects/KEY`` is a folder with one shard's files, made under another name and renamed
when it is whole: what has its name is complete. Who reads it holds a shared lock on its
``entry.json``, which the kernel releases with the process, so nothing that is being read is
removed and nothing has to be cleaned up after a crash. ``locks/KEY`` keeps two processes
from fetching the same.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zephon.errors import DataError

_ENTRY = "entry.json"
_UNFINISHED = "unfinished-"
_ROOM = "room"  # no key: those are digests
_PATIENCE = 60.0  # seconds that a reader waits for others to finish before it exceeds the limit
_PAUSE = 0.02

logger = logging.getLogger(__name__)


class NoRoomError(Exception):
    """What is in use leaves no room."""


class Lease:
    """The files of one key, which stay until :meth:`close`.

    Attributes
    ----------
    folder : Path
        Where they are.
    identity : int
        Another number for the same key means that they were removed and made again.
    """

    def __init__(self, folder: Path, handle: int) -> None:
        self.folder, self.identity = folder, os.fstat(handle).st_ino
        self._handle = handle

    def close(self) -> None:
        """They may be removed."""
        os.close(self._handle)


class FileCache:
    """The cache in ``root``, of ``limit`` bytes at most (None: any number).

    Files are removed only while nobody reads them. If those leave no room for another one
    for a minute, it is fetched beyond the limit, with a warning.
    """

    def __init__(self, root: Path, limit: int | None, slack: int) -> None:
        self.root, self.limit, self._slack = root, limit, slack
        self._objects = root / "objects"
        self._locks = root / "locks"

    def lease(
        self, key: str, size: int, fill: Callable[[Path], None], *, exceed: bool = True
    ) -> Lease:
        """The files of ``key``, made if they are not there.

        Parameters
        ----------
        key : str
            A name for exactly these bytes, fit for a file.
        size : int
            What they take.
        fill : callable
            Writes the files into a folder that it is given.
        exceed : bool
            Whether the limit may be exceeded; :class:`NoRoomError` otherwise.
        """
        try:
            while (found := self._locked(key)) is None:
                self._objects.mkdir(parents=True, exist_ok=True)
                self._locks.mkdir(exist_ok=True)
                self._fill(key, size, fill, exceed)
        except OSError as error:
            raise DataError(
                f"the cache folder cannot be used: {error.strerror}", file=self.root
            ) from error
        return found

    def has(self, key: str, identity: int) -> bool:
        """Whether the files that had ``identity`` are still there."""
        try:
            return os.stat(self._objects / key / _ENTRY).st_ino == identity
        except FileNotFoundError:
            return False

    def _locked(self, key: str) -> Lease | None:
        folder = self._objects / key
        try:
            handle = os.open(folder / _ENTRY, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        fcntl.flock(handle, fcntl.LOCK_SH)
        lease = Lease(folder, handle)
        if not self.has(key, lease.identity):  # removed before it was locked
            lease.close()
            return None
        now = time.time_ns()  # the kernel's own clock ticks every few milliseconds
        os.utime(handle, ns=(now, now))
        return lease

    def _fill(self, key: str, size: int, fill: Callable[[Path], None], exceed: bool) -> None:
        lock = os.open(self._locks / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (self._objects / key / _ENTRY).exists():
                return  # another process was first
            folder, entry = self._reserve(key, size, exceed)
            try:
                fill(folder)
                os.chmod(folder, 0o755)
                with self._alone():  # who counts what is there sees it under one of its names
                    os.rename(folder, self._objects / key)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            finally:
                os.close(entry)
        finally:
            os.close(lock)

    def _reserve(self, key: str, size: int, exceed: bool) -> tuple[Path, int]:
        """A folder whose ``size`` bytes are counted from now on, and the handle that keeps it."""
        if self.limit is not None and size > self.limit:
            raise DataError(
                f"the cache may hold {self.limit:,} bytes and one shard takes {size:,}: raise "
                "limit_bytes of CacheOptions",
                file=self.root,
            )
        end = time.monotonic() + _PATIENCE
        while True:
            with self._alone():  # two that find the same room would both take it
                used = self._shrink(size)
                if used is None or time.monotonic() > end:
                    if used is not None:
                        self._refuse_or_warn(used, size, exceed)
                    return self._begin(key, size)
            time.sleep(_PAUSE)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        room = os.open(self._locks / _ROOM, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(room, fcntl.LOCK_EX)
            yield
        finally:
            os.close(room)

    def _begin(self, key: str, size: int) -> tuple[Path, int]:
        folder = Path(tempfile.mkdtemp(dir=self._objects, prefix=_UNFINISHED))
        entry = os.open(folder / _ENTRY, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(entry, fcntl.LOCK_SH)  # it is in use while it is made
        os.write(entry, json.dumps({"key": key, "bytes": size}).encode())
        return folder, entry

    def _refuse_or_warn(self, used: int, size: int, exceed: bool) -> None:
        free = shutil.disk_usage(self._objects).free
        if not exceed or free < size:
            raise NoRoomError(f"{size:,} bytes do not fit: {used:,} are in use, {free:,} free")
        logger.warning(
            "the cache %s takes %d bytes, more than its limit of %s: all that could be removed is "
            "being read",
            self.root,
            used + size,
            self.limit,
        )

    def _shrink(self, size: int) -> int | None:
        """None if ``size`` bytes fit now; else the bytes that could not be removed."""
        entries = sorted(self._entries())
        used = sum(length for _, _, length in entries)
        for _, folder, length in entries:
            if self._fits(used, size):
                return None
            if self._remove(folder):
                used -= length
        return None if self._fits(used, size) else used

    def _fits(self, used: int, size: int) -> bool:
        within = self.limit is None or used + size <= self.limit
        return within and shutil.disk_usage(self._objects).free >= size + self._slack

    def _entries(self) -> list[tuple[int, Path, int]]:
        """When each entry was last used, its folder and its bytes; those being made as well."""
        found = []
        for folder in self._objects.iterdir():
            path = folder / _ENTRY
            try:
                found.append((path.stat().st_mtime_ns, folder, _size(path.read_text())))
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed meanwhile, or only just begun
        return found

    def _remove(self, folder: Path) -> bool:
        """Remove an entry that nobody reads; what dead processes left unfinished as well."""
        try:
            with open(folder / _ENTRY) as entry:
                fcntl.flock(entry, fcntl.LOCK_EX | fcntl.LOCK_NB)
                gone = folder.with_name(f"{_UNFINISHED}{os.getpid()}-{time.time_ns()}")
                os.rename(folder, gone)
                shutil.rmtree(gone, ignore_errors=True)
        except (BlockingIOError, FileNotFoundError):
            return False
        return True


def _size(entry: str) -> int:
    try:
        return int(json.loads(entry)["bytes"])
    except (ValueError, KeyError, TypeError):
        return 0  # cut short by a crash
