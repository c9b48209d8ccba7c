"""What all ways of exchanging bytes between ranks have in common."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from zephon.errors import ConfigError, LifecycleError

DEFAULT_TIMEOUT = 300.0
"""Seconds that ranks wait for each other."""

_LONGEST_SLEEP = 0.02


class MissingRanksError(LifecycleError):
    """Ranks that did not come to an exchange in time, or went away in it.

    Attributes
    ----------
    ranks : list of int
        Which; empty if that cannot be known.
    """

    def __init__(self, ranks: list[int], size: int, what: str) -> None:
        self.ranks = ranks
        told = f"ranks {', '.join(map(str, ranks))}" if ranks else "some ranks"
        super().__init__(f"{told} of {size} {what}")


def too_late(ranks: list[int], size: int, timeout: float) -> MissingRanksError:
    """The error for ranks that others have waited for in vain."""
    return MissingRanksError(
        ranks,
        size,
        f"did not take part within {timeout:g} s: all ranks must save, and end a pass, behind the "
        "same step. Has one of them failed, or is it at another step?",
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

    @abstractmethod
    def exchange(self, payload: bytes) -> list[bytes]:
        """Give ``payload``, receive what all ranks gave, in their order.

        Raises
        ------
        MissingRanksError
            Not all came in time.
        """

    def close(self) -> None:  # noqa: B027 (most have nothing to give back)
        """Give back what the exchange holds; it is not used any more."""

    def _await(self, missing: Callable[[], list[int]], timeout: float) -> list[int]:
        """Wait until no rank is missing; returns those that are when time is up."""
        end, nap = time.monotonic() + timeout, 0.0005
        while ranks := missing():
            if self.stopped():
                raise StoppedError
            if time.monotonic() > end:
                break
            time.sleep(nap)
            nap = min(1.2 * nap, _LONGEST_SLEEP)
        return ranks


def check_rank(rank: int, size: int) -> None:
    """Raise unless there is such a rank."""
    if not 0 <= rank < size:
        raise ConfigError(f"rank is {rank}, expected 0 to {size - 1}: there are {size} ranks")
