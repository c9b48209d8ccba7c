"""Ranks of a process group meet in a group of their own that carries CPU tensors."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zephon.errors import LifecycleError
from zephon.runtime.meeting import (
    DEFAULT_TIMEOUT,
    Exchange,
    MissingRanksError,
    StoppedError,
    too_late,
)

if TYPE_CHECKING:
    import torch.distributed as dist

_SLOT = 8192
"""Bytes that each rank gives in the first collective: most payloads fit, then it is the only one.
The same everywhere, whatever a rank has to say, so that the sizes of a collective always agree."""

_SLICE = 0.02
"""Seconds to wait before looking whether anybody still wants the answer."""

_LOOK = 0.25
"""Seconds between looks at the store: does a rank call the roll?"""

_ROLL = 2.0
"""Seconds that ranks have to answer it."""

_made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_making = threading.Lock()


class GroupExchange(Exchange):
    """Through a gloo group of the same ranks, made here: all of them must come.

    A group of its own, since the default one may carry no CPU tensors (NCCL), and
    since collectives of two threads in one group would mix. Making it asks the
    group's store and runs no collective in the group itself.

    The ranks wait in the collective. If one fails, or time is up, the first to see
    that calls the roll in the group's store; who does not answer is named on all.

    Parameters
    ----------
    group : ProcessGroup, optional
        The default group if not given.
    timeout : float
        Seconds to wait.

    Raises
    ------
    LifecycleError
        torch.distributed is not initialised.
    MissingRanksError
        Not all ranks came in time.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise LifecycleError(
                "torch.distributed is not initialised: call init_process_group first, or name an "
                "aggregate_dir or aggregate_store that all ranks share"
            )
        around: Any = dist.group.WORLD if group is None else group
        self.rank, self.size = dist.get_rank(around), dist.get_world_size(around)
        self._timeout = timeout
        self._failed: MissingRanksError | None = None
        self._waits = False  # a collective whose end nobody wanted to see
        self._process = os.getpid()
        with _making:  # torch numbers new groups, and so do we
            _made[around] = number = _made.get(around, 0) + 1
            prefix = f"zephon/{around.group_name}/{number}"
            store = around.get_group_store()
            self._store = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]
            self._group = self._make(dist.get_process_group_ranks(around))

    def exchange(self, payload: bytes) -> list[bytes]:
        """One collective, and a second one if a payload is longer than most."""
        room = _SLOT - 8
        head = len(payload).to_bytes(8, "little") + payload[:room]
        table = self._all_gather(head, _SLOT)
        lengths = [int.from_bytes(row[:8].tobytes(), "little") for row in table]
        given = [row[8 : 8 + length].tobytes() for row, length in zip(table, lengths, strict=True)]
        if max(lengths) > room:
            rest = self._all_gather(payload[room:], max(lengths) - room)
            given = [
                begun + row[: max(length - room, 0)].tobytes()
                for begun, row, length in zip(given, rest, lengths, strict=True)
            ]
        return given

    def all_true(self, value: bool) -> bool:
        """Whether ``value`` holds on all ranks, in one small reduction."""
        import torch
        import torch.distributed as dist

        flag = torch.tensor([int(value)], dtype=torch.uint8)
        self._run(
            lambda: dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=self._group, async_op=True)
        )
        return bool(flag.item())

    def close(self) -> None:
        """Close the group's connections, unless a collective still waits in it."""
        import torch.distributed as dist

        usable = self._group is not None and self._failed is None and not self._waits
        if usable and self._process == os.getpid():
            # The trainer may have destroyed all groups before.
            with contextlib.suppress(ValueError, AssertionError, RuntimeError):
                dist.destroy_process_group(self._group)
            self._group = None  # it was closed by the last reference only

    def _make(self, ranks: list[int]) -> Any:
        import torch.distributed as dist

        # new_group would wait for those who do not come without naming them.
        try:
            self._store.set(f"come/{self.rank}", "1")
            missing = self._absent("come", self._timeout)
            if missing or self._store.check(["verdict"]):  # or this rank is the one that was late
                self._failed = self._judge("late", missing)
            else:
                wait = timedelta(seconds=self._timeout)
                return dist.new_group(ranks, backend="gloo", timeout=wait)
        except RuntimeError as error:
            raise _lost([], self.size) from error
        raise self._failed

    def _all_gather(self, mine: bytes, width: int) -> NDArray[np.uint8]:
        import torch
        import torch.distributed as dist

        row = torch.zeros(width, dtype=torch.uint8)
        row.numpy()[: len(mine)] = np.frombuffer(mine, dtype=np.uint8)
        table = torch.empty(self.size, width, dtype=torch.uint8)
        rows = list(table.unbind())
        self._run(lambda: dist.all_gather(rows, row, group=self._group, async_op=True))
        return table.numpy()

    def _run(self, collective: Callable[[], dist.Work | None]) -> None:
        """Run a collective; one rank's failure, or time that is up, ends it on all ranks."""
        if self._failed is not None:
            raise self._failed
        end = time.monotonic() + self._timeout
        look = time.monotonic() + _LOOK
        try:
            work = collective()
        except RuntimeError as raised:
            self._failed = self._call_roll(late=False)
            raise self._failed from raised
        assert work is not None  # this rank belongs to the group
        while True:
            done, error = _waited(work, _SLICE)
            if done and error is None:
                return
            if self.stopped():
                self._waits = True
                raise StoppedError
            now = time.monotonic()
            if done or now > end or (now > look and self._is_called()):
                self._failed = self._call_roll(late=now > end)
                raise self._failed from error
            if now > look:
                look = now + _LOOK

    def _is_called(self) -> bool:
        try:
            return self._store.check(["call"])
        except RuntimeError:
            return True  # who serves the store has gone

    def _call_roll(self, late: bool) -> MissingRanksError:
        """See who is still here."""
        try:
            reason = self._store.compare_set("call", "", "late" if late else "lost").decode()
            if self._store.check(["verdict"]):
                return self._judge(reason, [])
            self._store.set(f"here/{self.rank}", "1")
            return self._judge(reason, self._absent("here", _ROLL))
        except RuntimeError:  # who serves the store has gone
            return _lost([], self.size)

    def _judge(self, reason: str, missing: list[int]) -> MissingRanksError:
        """What the first rank found, for all, also for one that comes afterwards."""
        found = json.dumps({"reason": reason, "missing": missing})
        verdict = json.loads(self._store.compare_set("verdict", "", found))
        if verdict["reason"] == "late":
            return too_late(verdict["missing"], self.size, self._timeout)
        return _lost(verdict["missing"], self.size)

    def _absent(self, kind: str, timeout: float) -> list[int]:
        """The ranks that have not set their key of this kind in time."""
        keys = [f"{kind}/{rank}" for rank in range(self.size)]
        everyone = list(range(self.size))
        if not self._await(lambda: [] if self._store.check(keys) else everyone, timeout):
            return []
        return [rank for rank, key in enumerate(keys) if not self._store.check([key])]


def _waited(work: dist.Work, seconds: float) -> tuple[bool, RuntimeError | None]:
    """Whether a collective has ended within so many seconds, and with which error."""
    for _ in range(2):
        try:
            work.wait(timedelta(seconds=seconds))
        except RuntimeError as error:
            if not work.is_completed():
                return False, None
            found = error  # or it came to its end just after the wait did: ask again
        else:
            return True, None
    return True, found


def _lost(ranks: list[int], size: int) -> MissingRanksError:
    return MissingRanksError(
        ranks,
        size,
        "went away while the ranks waited for each other, and nothing was exchanged: look for "
        "their errors, and start the run again from its last checkpoint",
    )
