"""Shards behind URLs: fetched into the cache when they are read, and again if they were removed."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import Documents
from zephon.errors import ConfigError, DataError
from zephon.io.file_cache import FileCache, Lease, NoRoomError
from zephon.io.object_store import ObjectStore, RemoteObject
from zephon.io.options import CACHE_VARIABLE, StoreOptions, in_force
from zephon.io.shard import Format, Place, Shard
from zephon.io.unit_cache import ProcessLock

_LAYOUT = 1  # raised when what is kept of a shard changes its meaning
_SWEEP_SECONDS = 1.0

_CACHES: dict[tuple[Any, ...], FileCache] = {}
_SHARDS: weakref.WeakSet[RemoteShard] = weakref.WeakSet()
_swept = 0.0


def _drop_removed_copies() -> None:
    """Once a second: give back the disk space of copies that another process removed."""
    global _swept
    now = time.monotonic()
    if now - _swept > _SWEEP_SECONDS:
        _swept = now
        for shard in list(_SHARDS):
            shard.drop_removed()


def file_cache(options: StoreOptions) -> FileCache | None:
    """The cache of the folder that ``options`` name; None if they name none."""
    cache = options.cache
    if cache.folder is None:
        return None
    key = (cache.folder, cache.limit_bytes, cache.min_slack_bytes)
    return _CACHES.setdefault(key, FileCache(*key))


class RemoteShard(Shard):
    """One object, or the two of a pair, read through a copy in the cache.

    What is asked of a shard before it is read is kept beside the copy, so that opening
    a dataset again fetches nothing.
    """

    def __init__(
        self,
        fmt: Format,
        objects: Sequence[RemoteObject],
        store: ObjectStore,
        options: StoreOptions,
        text_field: str | None = None,
    ) -> None:
        cache = file_cache(options)
        if cache is None:
            raise ConfigError(
                f"{objects[0].url} is fetched into a cache: name a folder for it with "
                f"io_options=CacheOptions(root=...) or {CACHE_VARIABLE}"
            )
        self._format, self._objects, self._store = fmt, tuple(objects), store
        self._options, self._cache = options, cache
        self._text_field = text_field
        self.url = objects[0].url
        state = json.dumps([_LAYOUT, fmt.name, *([o.url, o.size, o.etag] for o in objects)])
        self._key = hashlib.blake2b(state.encode(), digest_size=16).hexdigest()
        self._lock = ProcessLock()
        self._inner: Shard | None = None
        self._identity = -1
        self._users = 0
        _SHARDS.add(self)
        facts = self._facts()
        self._count, self._unit = int(facts["documents"]), int(facts["unit"])
        self.nbytes, self._digest = int(facts["bytes"]), bytes.fromhex(facts["digest"])
        self.gives_text = bool(facts["text"])

    def __len__(self) -> int:
        return self._count

    def read(self, rows: NDArray[np.int64]) -> Documents:
        """Documents ``rows``; fetches the object if its copy is not there."""
        with self._open() as shard:
            return shard.read(rows)

    def check(self) -> None:
        """The copy, if there is one, is whole."""
        with self._lock:
            inner, identity = self._inner, self._identity
        if inner is not None and self._cache.has(self._key, identity):
            with self._told():
                inner.check()

    def token_lengths(self) -> NDArray[np.int64] | None:
        """As the format has them."""
        with self._open() as shard:
            return shard.token_lengths()

    @property
    def unit_documents(self) -> int:
        """As the format has it."""
        return self._unit

    def units(self) -> NDArray[np.int64] | None:
        """As the format has them."""
        with self._open() as shard:
            return shard.units()

    def decode(self, rows: NDArray[np.int64]) -> None:
        """Fetch the object, and have it decoded, for a :meth:`read` that comes soon."""
        with self._open() as shard:
            shard.decode(rows)

    def as_text(self, field: str) -> Shard:
        """The same object, read for a pipeline that tokenizes ``field``."""
        with self._open() as shard:
            if shard.as_text(field) is shard:
                return self
        return RemoteShard(self._format, self._objects, self._store, self._options, field)

    def fields(self, row: int) -> Mapping[str, Any]:
        """As the format has them."""
        with self._open() as shard:
            return shard.fields(row)

    def place(self, row: int) -> Place:
        """The URL, and the record as the format counts it."""
        with self._open() as shard:
            place = shard.place(row)
        return Place(self._url_of(place.file), place.record, place.byte_offset)

    def digest(self) -> bytes:
        """As the format has it, so that it is the same for a copy on a disk."""
        return self._digest

    def use(self, options: StoreOptions) -> None:
        """Fetch by ``options`` from now on, into their folder if they name one."""
        store, cache = ObjectStore(self.url, options), file_cache(options)
        with self._lock:
            self._options, self._store = options, store
            self._cache = cache or self._cache

    def drop_removed(self) -> None:
        """Close a copy that was removed: it takes its place on the disk until then."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._users and not self._cache.has(self._key, self._identity):
                    self._inner = None
            finally:
                self._lock.release()

    @contextmanager
    def _open(self) -> Iterator[Shard]:
        _drop_removed_copies()
        lease = self._lease()
        try:
            with self._told():
                with self._lock:
                    if self._inner is None or lease.identity != self._identity:
                        self._inner = self._open_copy(lease.folder / _name(self.url))
                        self._identity = lease.identity
                    shard = self._inner
                    self._users += 1
                try:
                    yield shard
                finally:
                    with self._lock:
                        self._users -= 1
        finally:
            lease.close()

    def _open_copy(self, path: Path) -> Shard:
        with in_force(self._options):
            shard = self._format.open(path)
        return shard if self._text_field is None else shard.as_text(self._text_field)

    def _lease(self) -> Lease:
        size = sum(one.size for one in self._objects)
        try:
            return self._cache.lease(self._key, size, self._fill)
        except NoRoomError as error:
            raise DataError(
                f"cannot be fetched into {self._cache.root}: {error}", file=self.url
            ) from None

    def _fill(self, folder: Path) -> None:
        for one in self._objects:
            with open(folder / _name(one.url), "wb") as file:
                self._store.fetch(one, file)
                file.flush()
                os.fsync(file.fileno())
            # The key stands for the content. A copy that is fetched again is no newer than its
            # index, which counts what a file was last changed at as part of what it is of.
            os.utime(file.name, ns=(0, 0))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors inside name the URL and not the copy."""
        try:
            yield
        except DataError as error:
            raise DataError(
                error.message,
                file=self._url_of(error.file or self.url),
                record=error.record,
                byte_offset=error.byte_offset,
            ) from error

    def _url_of(self, file: str) -> str:
        name = os.path.basename(file)
        return next((one.url for one in self._objects if _name(one.url) == name), self.url)

    def _facts(self) -> dict[str, Any]:
        """What is known of the shard without its bytes."""
        path = self._cache.root / "facts" / f"{self._key}.json"
        try:
            kept: dict[str, Any] = json.loads(path.read_text())
            if kept.keys() >= {"documents", "unit", "bytes", "digest", "text"}:
                return kept
        except (OSError, ValueError):
            pass  # not there, or cut short: found out again
        with self._open() as shard:
            facts = {
                "url": self.url,
                "documents": len(shard),
                "unit": shard.unit_documents,
                "bytes": shard.nbytes,
                "digest": shard.digest().hex(),
                "text": shard.gives_text,
            }
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with open(handle, "w") as file:
            json.dump(facts, file)
        os.replace(temporary, path)
        return facts


def matching(url: str, found: Sequence[RemoteObject]) -> list[RemoteObject]:
    """The objects that the pattern ``url`` names; ``**`` stands for any number of folders.

    Hidden ones are meant only by a pattern with a dot, as with files.
    """
    wanted = url.split("/")
    return [one for one in found if _matches(one.url.split("/"), wanted)]


def _matches(parts: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        hidden = next((i for i, part in enumerate(parts) if part.startswith(".")), len(parts))
        return any(_matches(parts[i:], wanted[1:]) for i in range(hidden + 1))
    return (
        bool(parts)
        and parts[0].startswith(".") <= wanted[0].startswith(".")
        and fnmatch.fnmatchcase(parts[0], wanted[0])
        and _matches(parts[1:], wanted[1:])
    )


def _name(url: str) -> str:
    return url.rpartition("/")[2]
