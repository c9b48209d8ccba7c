"""Every rank gives some bytes and receives those of all: three ways.

Through a ``torch.distributed`` process group, through a shared directory, or
through a ``torch.distributed`` store, for processes that have no group. All
wait at most a stated time and name the ranks that did not come. Nothing that is
received is unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zephon.errors import ConfigError, LifecycleError
from zephon.options import StreamOptions

if TYPE_CHECKING:
    import torch

DEFAULT_TIMEOUT = 300.0
"""Seconds that ranks wait for each other."""

_UNKNOWN = -1  # a rank that nobody can name


class MissingRanksError(LifecycleError):
    """Ranks that did not come to an exchange in time."""

    def __init__(self, ranks: list[int], size: int, timeout: float) -> None:
        self.ranks = ranks
        told = f"ranks {', '.join(map(str, ranks))}" if ranks else "some ranks (rank 0 names them)"
        super().__init__(
            f"{told} of {size} did not take part within {timeout:g} s: every rank must save its "
            "state behind the same step. Has one of them failed, or is it at another step?"
        )


class StoppedError(Exception):
    """Waiting was given up because nobody wants the answer."""


class Exchange(ABC):
    """A place where ``size`` ranks meet, again and again.

    Attributes
    ----------
    rank, size : int
        Which of how many this one is.
    """

    rank: int
    size: int

    stopped: Callable[[], bool] = staticmethod(lambda: False)
    """Asked while waiting: whether nobody wants the answer any more."""

    def all_true(self, value: bool) -> bool:
        """Whether ``value`` holds on all ranks."""
        return all(part == b"\1" for part in self.exchange(bytes([value])))

    def _await(self, missing: Callable[[], list[int]], timeout: float) -> None:
        """Wait until no rank is missing."""
        end = time.monotonic() + timeout
        while ranks := missing():
            if self.stopped():
                raise StoppedError
            if time.monotonic() > end:
                raise MissingRanksError([rank for rank in ranks if rank >= 0], self.size, timeout)
            time.sleep(0.001)

    @abstractmethod
    def exchange(self, payload: bytes) -> list[bytes]:
        """Give ``payload``, receive what all ranks gave, in their order.

        Raises
        ------
        MissingRanksError
            Not all came in time.
        """


class GroupExchange(Exchange):
    """Through a process group that carries CPU tensors.

    Parameters
    ----------
    group : ProcessGroup, optional
        The default group if not given. If it cannot carry CPU tensors, a gloo
        group of the same ranks is made, so all of them must come here.
    timeout : float
        Seconds to wait.
    separate : bool
        Make a group in any case, for a thread of its own: collectives of two
        threads in one group would mix.
    """

    def __init__(
        self,
        group: torch.distributed.ProcessGroup | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        separate: bool = False,
    ) -> None:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise LifecycleError(
                "torch.distributed is not initialised: call init_process_group first, or name an "
                "aggregate_dir or aggregate_store that all ranks share"
            )
        self._timeout = timeout
        self._group: Any = group
        if separate or not _carries_cpu_tensors(group):
            ranks = None if group is None else dist.get_process_group_ranks(group)
            self._group = dist.new_group(ranks, backend="gloo")
        self.rank, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)

    def exchange(self, payload: bytes) -> list[bytes]:
        """Lengths first, then all payloads padded to the longest."""
        import torch
        import torch.distributed as dist

        self._meet()
        lengths = torch.zeros(self.size, dtype=torch.int64)
        dist.all_gather_into_tensor(
            lengths, torch.tensor([len(payload)], dtype=torch.int64), group=self._group
        )
        longest = max(int(lengths.max()), 1)
        mine = torch.zeros(longest, dtype=torch.uint8)
        mine.numpy()[: len(payload)] = np.frombuffer(payload, dtype=np.uint8)
        table = torch.empty(self.size * longest, dtype=torch.uint8)
        dist.all_gather_into_tensor(table, mine, group=self._group)
        rows = table.numpy().reshape(self.size, longest)
        return [rows[i, :n].tobytes() for i, n in enumerate(lengths.tolist())]

    def all_true(self, value: bool) -> bool:
        """Whether ``value`` holds on all ranks, in one small reduction."""
        import torch
        import torch.distributed as dist

        flag = torch.tensor([int(value)], dtype=torch.uint8)
        work = dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=self._group, async_op=True)
        assert work is not None
        self._await(lambda: [] if work.is_completed() else [_UNKNOWN], self._timeout)
        work.wait()
        return bool(flag.item())

    def _meet(self) -> None:
        """Wait for all ranks; the collectives themselves would not name who is missing."""
        import torch.distributed as dist

        wait = timedelta(seconds=self._timeout)
        try:
            dist.monitored_barrier(self._group, timeout=wait, wait_all_ranks=True)
        except RuntimeError as error:
            raise MissingRanksError(_ranks_in(str(error)), self.size, self._timeout) from error


class DirectoryExchange(Exchange):
    """Through files in a directory that all ranks share.

    Each round has files of its own, written under another name and renamed, so
    that nobody reads half of one. A rank removes its file of a round when all
    have come to the next one.

    Parameters
    ----------
    directory : path
        Made if it is not there.
    rank, size : int
        Which of how many ranks this one is.
    run_id : str
        Names the run: runs that share the directory do not meet. A run that is
        started again needs another one.
    timeout : float
        Seconds to wait.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        rank: int,
        size: int,
        run_id: str,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        _check_rank(rank, size)
        self.rank, self.size = rank, size
        self._directory = Path(directory)
        self._prefix = f"zephon-{_digest(run_id)}"
        self._timeout = timeout
        self._round = 0

    def exchange(self, payload: bytes) -> list[bytes]:
        """Write one file, read all."""
        self._directory.mkdir(parents=True, exist_ok=True)
        here = self._file(self._round, self.rank)
        partial = here.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(payload)
        os.replace(partial, here)
        found = self._collect()
        if self._round:
            self._file(self._round - 1, self.rank).unlink(missing_ok=True)
        self._round += 1
        return found

    def _collect(self) -> list[bytes]:
        found: dict[int, bytes] = {}

        def missing() -> list[int]:
            for rank in set(range(self.size)) - found.keys():
                with contextlib.suppress(FileNotFoundError):
                    found[rank] = self._file(self._round, rank).read_bytes()
            return sorted(set(range(self.size)) - found.keys())

        self._await(missing, self._timeout)
        return [found[rank] for rank in range(self.size)]

    def _file(self, number: int, rank: int) -> Path:
        return self._directory / f"{self._prefix}-{number}-{rank}"


class StoreExchange(Exchange):
    """Through a store of ``torch.distributed``, such as a TCPStore or FileStore.

    Parameters
    ----------
    store : torch.distributed.Store
        Shared by all ranks.
    rank, size, run_id, timeout
        As of :class:`DirectoryExchange`.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        run_id: str,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        _check_rank(rank, size)
        self.rank, self.size = rank, size
        self._store = store
        self._prefix = f"zephon/{_digest(run_id)}"
        self._timeout = timeout
        self._round = 0

    def exchange(self, payload: bytes) -> list[bytes]:
        """Set one key, wait for all."""
        keys = [f"{self._prefix}/{self._round}/{rank}" for rank in range(self.size)]
        self._store.set(keys[self.rank], payload.hex())  # stores carry text safely
        self._await(
            lambda: [rank for rank, key in enumerate(keys) if not self._store.check([key])],
            self._timeout,
        )
        found = [bytes.fromhex(self._store.get(key).decode()) for key in keys]
        if self._round:
            self._store.delete_key(f"{self._prefix}/{self._round - 1}/{self.rank}")
        self._round += 1
        return found


def _carries_cpu_tensors(group: Any) -> bool:
    import torch.distributed as dist

    backend = str(dist.get_backend_config(group))  # "cpu:gloo,cuda:nccl", or a bare name
    kinds = dict(part.split(":", 1) for part in backend.split(",") if ":" in part)
    return kinds.get("cpu", backend) == "gloo"


def _ranks_in(message: str) -> list[int]:
    """The ranks that a monitored barrier names as missing; only its rank 0 knows them."""
    match = re.search(r"[Rr]anks? ([\d, ]+) failed", message)
    return [int(part) for part in match.group(1).split(",")] if match else []


def _check_rank(rank: int, size: int) -> None:
    if not 0 <= rank < size:
        raise ConfigError(f"rank is {rank}, expected 0 to {size - 1}: there are {size} ranks")


def open_exchange(options: StreamOptions, purpose: str) -> Exchange:
    """The exchange that a pipeline's options name; ``purpose`` keeps two of a run apart."""
    rank, size = options.ranks
    wait = options.aggregate_timeout
    run = f"{options.run_id}/{purpose}"
    if options.aggregate_dir is not None:
        return DirectoryExchange(options.aggregate_dir, rank, size, run, wait)
    if options.aggregate_store is not None:
        return StoreExchange(options.aggregate_store, rank, size, run, wait)
    exchange = GroupExchange(timeout=wait, separate=purpose != "state")
    if exchange.size != size:
        raise ConfigError(
            f"the process group has {exchange.size} ranks, the pipeline's options say {size}: set "
            "world_size and global_rank to those of the group"
        )
    return exchange


def _digest(run_id: str) -> str:
    return hashlib.blake2b(run_id.encode(), digest_size=8).hexdigest()


class Agreement:
    """What the ranks of a finite pass ask each other, round by round, off the consumer's thread."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.closed = False
        exchange.stopped = lambda: self.closed

    def __call__(self, value: bool) -> bool:
        """Whether ``value`` holds on all ranks; False if nobody wants to know any more."""
        try:
            return self._exchange.all_true(value)
        except StoppedError:
            return False

    def close(self) -> None:
        """Wait no longer: the stream is being closed."""
        self.closed = True
