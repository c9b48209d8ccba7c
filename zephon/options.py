"""Options of a pipeline, validated once."""

from __future__ import annotations

from dataclasses import dataclass

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
    canonical_replicas : int
        Lanes that the run is divided into, fixed for the run: the number of
        data-parallel ranks may become any divisor of it.
    vocab_size : int or None
        Ids that the model has; every token id must be below. The tokenizer's
        vocabulary is the bound if None.
    """

    canonical_replicas: int = 1
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        check_int("canonical_replicas", self.canonical_replicas, 1, 2**16)
        if self.vocab_size is not None:
            check_int("vocab_size", self.vocab_size, 1, 2**31)


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raise unless ``value`` is an int (no bool) from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigTypeError(f"{name} is {value!r}, expected an int")
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}, expected {low} to {high}")
