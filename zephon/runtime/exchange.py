"""Every rank gives some bytes and receives those of all: three ways.

Through a ``torch.distributed`` process group, through a shared directory, or
through a ``torch.distributed`` store, for processes that have no group. All
wait at most a stated time and name the ranks that did not come. Nothing that is
received is unpickled.
"""

from __future__ import annotations

import threading
from collections import Counter

from zephon.errors import ConfigError
from zephon.options import StreamOptions
from zephon.runtime.group_exchange import GroupExchange
from zephon.runtime.keyed_exchange import DirectoryExchange, StoreExchange
from zephon.runtime.meeting import Exchange, MissingRanksError, StoppedError

__all__ = [
    "Agreement",
    "DirectoryExchange",
    "Exchange",
    "GroupExchange",
    "MissingRanksError",
    "StoreExchange",
    "open_exchange",
]

_opened: Counter[tuple[object, ...]] = Counter()
_counting = threading.Lock()


def open_exchange(options: StreamOptions, purpose: str) -> Exchange:
    """The exchange that a pipeline's options name; ``purpose`` keeps two of a run apart."""
    rank, size = options.ranks
    wait = options.aggregate_timeout
    # Pipelines that meet at the same time must not meet each other: the ranks of a run make
    # theirs in the same order, so they are told apart by number.
    run = f"{options.run_id}/{purpose}/{_number(options.run_id, purpose, rank)}"
    if options.aggregate_dir is not None:
        return DirectoryExchange(options.aggregate_dir, rank, size, run, wait)
    if options.aggregate_store is not None:
        return StoreExchange(options.aggregate_store, rank, size, run, wait)
    exchange = GroupExchange(timeout=wait)
    if exchange.size != size:
        exchange.close()
        raise ConfigError(
            f"the process group has {exchange.size} ranks, the pipeline's options say {size}: set "
            "world_size and global_rank to those of the group"
        )
    return exchange


def _number(*key: object) -> int:
    with _counting:
        _opened[key] += 1
        return _opened[key]


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

    def stop(self) -> None:
        """Wait no longer: the stream is being closed."""
        self.closed = True

    def close(self) -> None:
        """Give back what was needed to ask; nobody is asking any more."""
        self.stop()
        self._exchange.close()
