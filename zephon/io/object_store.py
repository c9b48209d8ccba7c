"""Objects behind a URL: asking for them and fetching them, with errors that name the URL."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO, TypeVar

from zephon.errors import ConfigError, DataError, LifecycleError
from zephon.io.options import StoreOptions

PART = 16 << 20
"""Bytes that one request fetches at most."""

_CONNECT_SECONDS = 5.0
_FIRST_PAUSE = 0.2  # seconds before the second try; twice as long before each further one
_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "http", "https")

_Result = TypeVar("_Result")
_first_user: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """One object, in the state in which it was asked for."""

    url: str
    size: int
    etag: str | None


def is_url(path: object) -> bool:
    """Whether ``path`` names an object and not a file."""
    return isinstance(path, str) and path.partition("://")[0] in _SCHEMES and "://" in path


class ObjectStore:
    """Reads objects of one bucket or host.

    A request that fails is tried again ``download_retry`` times. One that is refused
    (no such object, no permission, object changed) is not.
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        scheme, _, rest = url.partition("://")
        self.base = f"{scheme}://{rest.partition('/')[0]}"
        self._tries = options.cache.download_retry + 1
        self._obstore = _import_obstore()
        self._refuse_forked()
        seconds = options.cache.download_timeout
        client: dict[str, Any] = {
            "timeout": timedelta(seconds=seconds),
            "connect_timeout": timedelta(seconds=min(seconds, _CONNECT_SECONDS)),
        }
        settings = dict(options.storage)
        endpoint = str(settings.get("endpoint", os.environ.get("AWS_ENDPOINT_URL", "")))
        if scheme == "http" or endpoint.startswith("http://"):
            client["allow_http"] = True  # who names an http:// address wants it
        given: dict[str, Any] = {"config": settings} if settings else {}
        try:
            self._store = self._obstore.store.from_url(
                self.base,
                client_options=client,
                # Tries are counted here, so that a broken body is one as well.
                retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=seconds)},
                **given,
            )
        except (self._obstore.exceptions.BaseError, ValueError, TypeError) as error:
            raise ConfigError(f"the store of {self.base} cannot be set up: {error}") from error

    def ask(self, url: str) -> RemoteObject | None:
        """Size and state of ``url``, None if there is no such object."""
        key = self._key(url)
        if not key or key.endswith("/"):
            return None
        try:
            found = self._try(url, lambda: self._obstore.head(self._store, key))
        except FileNotFoundError:
            return None
        return RemoteObject(url, int(found["size"]), found.get("e_tag"))

    def list(self, url: str) -> list[RemoteObject]:
        """All objects below the folder ``url``."""

        def collect() -> list[Any]:
            pages = self._obstore.list(self._store, self._key(url).rstrip("/") or None)
            return [found for page in pages for found in page]

        try:
            found = self._try(url, collect)
        except FileNotFoundError:
            return []
        return [
            RemoteObject(f"{self.base}/{one['path']}", int(one["size"]), one.get("e_tag"))
            for one in found
        ]

    def read(self, what: RemoteObject, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end`` of an object, if it is still in that state."""
        if start >= end:
            return b""
        options: dict[str, Any] = {"range": (start, end)}
        if what.etag is not None:
            options["if_match"] = what.etag

        def fetch() -> bytes:
            got = self._obstore.get(self._store, self._key(what.url), options=options)
            state = got.meta
            if state["size"] != what.size or state.get("e_tag") != what.etag:
                raise _changed(what)
            part = bytes(got.bytes())
            if len(part) != end - start:
                raise EOFError(f"{len(part)} of {end - start} bytes came")
            return part

        try:
            return self._try(what.url, fetch)
        except FileNotFoundError:
            raise DataError(
                "was there and is gone: there is no such object", file=what.url
            ) from None

    def fetch(self, what: RemoteObject, into: BinaryIO) -> None:
        """Write the whole object, part by part."""
        for start, end in _parts(what.size):
            into.write(self.read(what, start, end))

    def _key(self, url: str) -> str:
        return url[len(self.base) + 1 :]

    def _try(self, url: str, action: Callable[[], _Result]) -> _Result:
        """Do ``action``, again if it fails by chance; FileNotFoundError if nothing is there."""
        self._refuse_forked()
        refusals = self._obstore.exceptions
        begin = time.monotonic()
        for tried in range(1, self._tries + 1):
            try:
                return action()
            except (refusals.NotFoundError, FileNotFoundError):
                raise FileNotFoundError(url) from None
            except (refusals.PermissionDeniedError, refusals.UnauthenticatedError) as error:
                raise DataError(
                    f"the store refuses access ({_first_line(error)}). Check the credentials "
                    "(AWS_ACCESS_KEY_ID and the like, or storage= of StoreOptions)",
                    file=url,
                ) from None
            except refusals.PreconditionError:
                raise _changed(RemoteObject(url, 0, None)) from None
            except (refusals.BaseError, OSError, EOFError) as error:
                if tried == self._tries:
                    raise DataError(
                        f"cannot be fetched: {_first_line(error)} ({tried} tries in "
                        f"{time.monotonic() - begin:.1f} s)",
                        file=url,
                    ) from None
                time.sleep(_FIRST_PAUSE * 2 ** (tried - 1))
        raise AssertionError("not reached: there is at least one try")

    @staticmethod
    def _refuse_forked() -> None:
        """The client's threads are not there in a child that was forked after its first use."""
        global _first_user
        if _first_user is None:
            _first_user = os.getpid()
        elif _first_user != os.getpid():
            raise LifecycleError(
                "objects cannot be fetched in a process that was forked from one that has fetched "
                "some: start workers with 'spawn' or 'forkserver', or iterate in the main process"
            )


def _parts(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, PART):
        yield start, min(start + PART, size)


def _changed(what: RemoteObject) -> DataError:
    return DataError(
        "was replaced by another object since the dataset was opened. Build the dataset anew",
        file=what.url,
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def _import_obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise ConfigError(
            "reading objects by URL needs the package obstore: install zephon with its extra "
            "'remote' (pip install './zephon[remote]') or obstore itself"
        ) from error
    return obstore
