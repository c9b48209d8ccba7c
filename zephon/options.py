"""Options of a pipeline, validated once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from zephon.errors import ConfigError, ConfigTypeError

Runner = Literal["inline", "threads", "process"]
RUNNERS = ("inline", "threads", "process")
CHANGES = ("added", "removed", "order", "weights", "content")
"""Kinds of difference that a restored state may have, if ``on_change`` says so."""

_ON_CHANGE = {"refuse": frozenset[str](), "adopt": frozenset(CHANGES) - {"content"}}


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

    @property
    def threads(self) -> int:
        """Threads that read and tokenize."""
        return self.parallelism or min(4, len(os.sched_getaffinity(0)))


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
    world_size, global_rank : int or None
        Ranks that save the state together and which of them this is: all that call
        :meth:`zephon.Pipeline.checkpoint`, model-parallel peers included. The
        data-parallel ones if None.
    aggregate_dir : str, PathLike or None
        A directory that all ranks share, for ranks without a process group.
    aggregate_store : torch.distributed.Store or None
        A store that all ranks share, likewise.
    run_id : str or None
        Names the run in ``aggregate_dir`` or ``aggregate_store``; another one for
        each start of it.
    aggregate_timeout : float
        Seconds that ranks wait for each other.
    end : {"agree", "filler", "known"}
        How a finite pass ends where lanes have different numbers of batches: before
        the first round that not every lane fills, or when no lane has a batch left,
        with batches of padding for the others. ``"known"`` ends where ``"agree"`` does, at
        a step that every rank computes for itself before the first batch, so that ranks
        need not meet; the length of every document must be known.
    runner : {"threads", "inline", "process"} or None
        Where documents are read, tokenized and given to functions: in threads that work
        ahead; in the thread that asks for a batch, as with ``prefetch(0)``; or in processes.
        None: in threads. It decides when something is computed, never what comes out.
    io_options : StoreOptions, CacheOptions, mapping, size, folder or None
        How the datasets fetch and keep data from now on, as
        :meth:`zephon.io.StoreOptions.from_any` takes it. What they opened stays open: what
        opening needs is given to :meth:`zephon.Dataset.from_path`.
    on_change : {"refuse", "adopt"} or collection of str
        What a restored state may differ in from this pipeline: nothing; sources that were
        added or taken out, their order and their weights; or the kinds that are listed,
        of ``"added"``, ``"removed"``, ``"order"``, ``"weights"`` and ``"content"`` (the files
        of a source changed, and still hold the same documents in the same order). Whatever
        else shapes the stream may never differ.
    """

    canonical_replicas: int | None = None
    dp_degree: int = 1
    dp_group_id: int = 0
    vocab_size: int | None = None
    tail: Literal["drop", "pad"] | None = None
    world_size: int | None = None
    global_rank: int | None = None
    aggregate_dir: str | os.PathLike[str] | None = None
    aggregate_store: Any = None
    run_id: str | None = None
    aggregate_timeout: float = 300.0
    end: Literal["agree", "filler", "known"] = "agree"
    runner: Runner | None = None
    io_options: Any = None
    on_change: str | Collection[str] = "refuse"

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
        self._check_ranks()
        if self.io_options is not None:
            from zephon.io.options import StoreOptions  # a layer above: only who asks loads it

            object.__setattr__(self, "io_options", StoreOptions.from_any(self.io_options))
        if self.tail not in (None, "drop", "pad"):
            raise ConfigError(f"tail is {self.tail!r}, expected 'drop', 'pad' or None")
        if self.end not in ("agree", "filler", "known"):
            raise ConfigError(f"end is {self.end!r}, expected 'agree', 'filler' or 'known'")
        if self.runner not in (None, *RUNNERS):
            raise ConfigError(f"runner is {self.runner!r}, expected one of {', '.join(RUNNERS)}")
        if isinstance(self.on_change, str):
            if self.on_change not in _ON_CHANGE:
                raise ConfigError(
                    f"on_change is {self.on_change!r}, expected 'refuse', 'adopt' or a collection "
                    f"of {', '.join(map(repr, CHANGES))}"
                )
        elif not isinstance(self.on_change, Collection):
            raise ConfigTypeError(
                f"on_change is {self.on_change!r}, expected 'refuse', 'adopt' or a collection of "
                "str"
            )
        elif unknown := [one for one in self.on_change if one not in CHANGES]:
            raise ConfigError(
                f"on_change lists {unknown[0]!r}, expected some of {', '.join(map(repr, CHANGES))}"
            )
        if self.vocab_size is not None:
            check_int("vocab_size", self.vocab_size, 1, 2**31)

    def _check_ranks(self) -> None:
        size = self.ranks[1]
        check_int("world_size", size, self.dp_degree, 2**20)
        check_int("global_rank", self.ranks[0], 0, size - 1)
        if (self.world_size is None) != (self.global_rank is None):
            raise ConfigError("world_size and global_rank belong together: give both or neither")
        if self.aggregate_dir is not None and self.aggregate_store is not None:
            raise ConfigError("aggregate_dir and aggregate_store are two ways: give one of them")
        if (self.aggregate_dir or self.aggregate_store) is not None and not self.run_id:
            raise ConfigError(
                "aggregate_dir and aggregate_store need a run_id: runs that share them must not "
                "meet. Give each start of the run another one"
            )
        if not self.aggregate_timeout > 0:
            raise ConfigError(
                f"aggregate_timeout is {self.aggregate_timeout}, expected seconds > 0"
            )

    @property
    def ranks(self) -> tuple[int, int]:
        """Which of how many ranks that save the state together this is."""
        rank = self.dp_group_id if self.global_rank is None else self.global_rank
        return rank, self.dp_degree if self.world_size is None else self.world_size

    @property
    def changes(self) -> frozenset[str]:
        """Kinds of difference between a restored state and the pipeline that are adopted."""
        if isinstance(self.on_change, str):
            return _ON_CHANGE[self.on_change]
        return frozenset(self.on_change)

    @property
    def lanes(self) -> int:
        """Number of lanes of the run."""
        return self.dp_degree if self.canonical_replicas is None else self.canonical_replicas


RuntimeOptions = StreamOptions
"""The same, by the name that the registry's package of the same name has for it."""


def refuse_unknown(
    call: str, given: Iterable[str], known: Iterable[str], hints: Iterable[str] = ()
) -> None:
    """Raise ConfigTypeError if an option is not known, with those that look like it.

    ``hints`` are known as well, but not listed.
    """
    known, hints = list(known), list(hints)
    for name in given:
        if name not in known and name not in hints:
            near = get_close_matches(name, known + hints, cutoff=0.5)
            told = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            raise ConfigTypeError(
                f"{call}(...) has no option {name!r}: {told}It has: {', '.join(known)}"
            )


def divisors(number: int) -> list[int]:
    """Its divisors, ascending."""
    return [n for n in range(1, number + 1) if number % n == 0]


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raise unless ``value`` is an int (no bool) from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigTypeError(f"{name} is {value!r}, expected an int")
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}, expected {low} to {high}")
