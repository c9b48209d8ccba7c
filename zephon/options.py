"""Options of a pipeline, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zephon.errors import ConfigError, ConfigTypeError


@dataclass(frozen=True, kw_only=True)
class PrefetchOptions:
    """How far and with how many threads a pipeline works ahead of its consumer.

    They decide when something is computed, never what comes out.

    Attributes
    ----------
    buffer_size : int
        Documents that are read and tokenized ahead; 0 works in the thread that
        asks for a batch, and starts no thread at all.
    parallelism : int or None
        Threads that read and tokenize; as many as the process may use processors,
        4 at most, if None.
    """

    buffer_size: int = 1024
    parallelism: int | None = None

    def __post_init__(self) -> None:
        check_int("buffer_size", self.buffer_size, 0, 2**31)
        if self.parallelism is not None:
            check_int("parallelism", self.parallelism, 1, 1024)


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of the stream as a whole.

    Attributes
    ----------
    canonical_replicas : int or None
        Lanes that the run is divided into, fixed for the run: the number of
        data-parallel ranks may become any divisor of it.
        None: as many as there are data-parallel ranks.
    dp_degree, dp_group_id : int
        Number of data-parallel ranks and which of them this is: it delivers every
        ``dp_degree``-th lane-batch. Tensor-, pipeline- and context-parallel peers
        of one data-parallel rank give the same number and get the same batches.
    vocab_size : int or None
        Ids that the model has; every token id must be below. The tokenizer's
        vocabulary is the bound if None.
    tail : {"drop", "pad"} or None
        What becomes of the last row of a lane if it is not full. None: ``wrap``
        without a cap drops it, other packing pads it. What is dropped is counted.
    end : {"agree", "filler"}
        How a finite pass ends where lanes have different numbers of batches: before
        the first round that not every lane fills, or when no lane has a batch left,
        with batches of padding for the others.
    """

    canonical_replicas: int | None = None
    dp_degree: int = 1
    dp_group_id: int = 0
    vocab_size: int | None = None
    tail: Literal["drop", "pad"] | None = None
    end: Literal["agree", "filler"] = "agree"

    def __post_init__(self) -> None:
        check_int("dp_degree", self.dp_degree, 1, 2**16)
        check_int("dp_group_id", self.dp_group_id, 0, self.dp_degree - 1)
        if self.canonical_replicas is not None:
            check_int("canonical_replicas", self.canonical_replicas, 1, 2**16)
            if self.canonical_replicas % self.dp_degree:
                raise ConfigError(
                    f"canonical_replicas is {self.canonical_replicas}, which dp_degree "
                    f"{self.dp_degree} does not divide: lanes are dealt to ranks evenly. Legal "
                    f"dp_degree: {', '.join(map(str, divisors(self.canonical_replicas)))}"
                )
        if self.tail not in (None, "drop", "pad"):
            raise ConfigError(f"tail is {self.tail!r}, expected 'drop', 'pad' or None")
        if self.end not in ("agree", "filler"):
            raise ConfigError(f"end is {self.end!r}, expected 'agree' or 'filler'")
        if self.vocab_size is not None:
            check_int("vocab_size", self.vocab_size, 1, 2**31)

    @property
    def lanes(self) -> int:
        """Number of lanes of the run."""
        return self.dp_degree if self.canonical_replicas is None else self.canonical_replicas


def divisors(number: int) -> list[int]:
    """Its divisors, ascending."""
    return [n for n in range(1, number + 1) if number % n == 0]


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raise unless ``value`` is an int (no bool) from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigTypeError(f"{name} is {value!r}, expected an int")
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}, expected {low} to {high}")
