"""Ranks without a process group meet through a shared directory or a store.

Both are a table of bytes under names, which may still hold what an earlier start
of the run left there. So the ranks first agree on a session: each writes a new
random word, reads those of all, and writes the digest of what it has read. When
all digests are equal, all have read the same words, among them each rank's own
new one, which nothing left over can contain. The digest names all that follows.
No clock of one machine is ever compared with another's.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from zephon.errors import LifecycleError
from zephon.runtime.meeting import DEFAULT_TIMEOUT, Exchange, check_rank, too_late

T = TypeVar("T")


class KeyedExchange(Exchange):
    """Each round has entries of its own; a rank removes its one when all came to the next.

    Parameters
    ----------
    rank, size : int
        Which of how many ranks this one is.
    run_id : str
        Names the run: runs that share the table at the same time do not meet.
    timeout : float
        Seconds to wait.
    """

    def __init__(self, rank: int, size: int, run_id: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        check_rank(rank, size)
        self.rank, self.size = rank, size
        self._prefix = f"zephon-{_digest(run_id.encode())}"
        self._timeout = timeout
        self._session: str | None = None
        self._round = 0

    def exchange(self, payload: bytes) -> list[bytes]:
        """Write one entry, read all."""
        if self._session is None:
            self._session = self._join()
            self._forget_others(self._session)
        self._put(self._name(self._session, self._round, self.rank), payload)
        found: dict[int, bytes] = {}

        def missing() -> list[int]:
            for rank in range(self.size):
                if rank not in found:
                    entry = self._get(self._name(self._session, self._round, rank))
                    if entry is not None:
                        found[rank] = entry
            return [rank for rank in range(self.size) if rank not in found]

        self._wait_for(missing)
        if self._round:
            self._delete(self._name(self._session, self._round - 1, self.rank))
        self._round += 1
        return [found[rank] for rank in range(self.size)]

    def _join(self) -> str:
        """A name that exactly the ranks now here have agreed on."""
        self._put(self._name("join", self.rank), os.urandom(8).hex().encode())
        told = read = ""

        def missing() -> list[int]:
            nonlocal told, read
            words = [self._get(self._name("join", rank)) for rank in range(self.size)]
            read = _digest(b"|".join(word or b"" for word in words))
            if read != told:
                self._put(self._name("agree", self.rank), read.encode())
                told = read
            theirs = [self._get(self._name("agree", rank)) for rank in range(self.size)]
            return [rank for rank, digest in enumerate(theirs) if digest != read.encode()]

        self._wait_for(missing)
        return read

    def _wait_for(self, missing: Callable[[], list[int]]) -> None:
        if ranks := self._await(missing, self._timeout):
            raise too_late(ranks, self.size, self._timeout)

    def _name(self, *parts: object) -> str:
        return "-".join(map(str, (self._prefix, *parts)))

    @abstractmethod
    def _put(self, name: str, value: bytes) -> None:
        """Write an entry, so that nobody reads half of it."""

    @abstractmethod
    def _get(self, name: str) -> bytes | None:
        """The entry, None if there is none."""

    @abstractmethod
    def _delete(self, name: str) -> None:
        """Remove an entry."""

    def _forget_others(self, session: str) -> None:
        """Remove what this rank left in other sessions of the run, where that can be listed."""


class DirectoryExchange(KeyedExchange):
    """Through files in a directory that all ranks share.

    Parameters
    ----------
    directory : path
        Made if it is not there.
    rank, size, run_id, timeout
        As of :class:`KeyedExchange`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        rank: int,
        size: int,
        run_id: str,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        super().__init__(rank, size, run_id, timeout)
        self._directory = Path(directory)

    def _put(self, name: str, value: bytes) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        partial = self._directory / f"{name}.partial"
        partial.write_bytes(value)
        os.replace(partial, self._directory / name)

    def _get(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def _delete(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)

    def _forget_others(self, session: str) -> None:
        kept = tuple(self._name(kind, "") for kind in ("join", "agree", session))
        for ending in (f"-{self.rank}", f"-{self.rank}.partial"):
            for file in self._directory.glob(f"{self._prefix}-*{ending}"):
                if not file.name.startswith(kept) or file.suffix:
                    file.unlink(missing_ok=True)


class StoreExchange(KeyedExchange):
    """Through a store of ``torch.distributed``, such as a TCPStore or FileStore.

    Parameters
    ----------
    store : torch.distributed.Store
        Shared by all ranks.
    rank, size, run_id, timeout
        As of :class:`KeyedExchange`.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        run_id: str,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        super().__init__(rank, size, run_id, timeout)
        self._store = store

    def _put(self, name: str, value: bytes) -> None:
        self._ask(lambda: self._store.set(name, value.hex()))  # stores carry text safely

    def _get(self, name: str) -> bytes | None:
        def read() -> str | None:
            return self._store.get(name).decode() if self._store.check([name]) else None

        text = self._ask(read)
        return None if text is None else bytes.fromhex(text)

    def _delete(self, name: str) -> None:
        with contextlib.suppress(LifecycleError):  # it only would have been tidy
            self._ask(lambda: self._store.delete_key(name))

    def _ask(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RuntimeError as error:  # what torch raises for a lost connection, too
            raise LifecycleError(
                f"the aggregate_store does not answer ({_first_line(error)}): has the process that "
                "serves it ended? Start the run again from its last checkpoint"
            ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=8).hexdigest()
