"""States of a pipeline: what identifies its stream, and a position in it as bytes and back.

Continuing one is in :mod:`zephon.adoption`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from zephon import _state_format as state_format
from zephon._state_differences import ENGINE
from zephon.description import Description
from zephon.errors import ConfigTypeError, StateError
from zephon.runtime.position import Position
from zephon.work.base import WorkSource

ORDER_VERSION = 1
"""Raised when a new version would deliver the same configuration in another order."""

_FOREIGN_KEYS = {"replay_cursors", "lane_next_cid", "inflight"}

Sources = tuple[state_format.SourceState, ...]


def stream_shape(description: Description, work: WorkSource) -> dict[str, Any]:
    """Everything besides the sources that decides what is delivered, as JSON values."""
    tokenizer, shuffle = description.tokenizer, description.shuffle
    # Rows that come ready made may be dealt out by micro-batches.
    dealt = {} if work.row_length is None else {"microbatch_size": description.microbatch_size}
    return {
        **dealt,
        "order": ORDER_VERSION,
        "work": work.options(),
        "tokenizer": None if tokenizer is None else tokenizer.identity,
        "pack": {**description.packing().shaping(), "pad_tail": description.pads_tail()},
        "shuffle": None if shuffle is None else shuffle.shaping(),
        "canonical_replicas": description.options.lanes,
        **description.shaping(),
        # For people: engines compute the same ids, so it is not compared.
        **({} if tokenizer is None else {ENGINE: tokenizer.engine}),
    }


class SourceData(NamedTuple):
    """What a state says of a source besides its name and weight."""

    digest: bytes
    size: dict[str, Any]


def source_data(work: WorkSource) -> tuple[SourceData, ...]:
    """Digest and sizes of each source; looks at all files, so it is done once."""
    return tuple(
        SourceData(
            dataset.digest()[:8],
            {
                "format": dataset.format,
                "documents": dataset.total(),
                "shards": dataset.shard_count(),
                "bytes": int(dataset.raw_bytes().sum()),
            },
        )
        for dataset in work.datasets
    )


def source_states(work: WorkSource, data: tuple[SourceData, ...]) -> Sources:
    """Which data the sources are, and their weights."""
    return tuple(
        state_format.SourceState(dataset.name, known.digest, weight, known.size)
        for dataset, known, weight in zip(work.datasets, data, work.weights, strict=True)
    )


def write_state(
    position: Position, description: Description, work: WorkSource, data: tuple[SourceData, ...]
) -> bytes:
    """What this rank knows of ``position``: all of it if there is one rank."""
    options = description.options
    return state_format.encode(
        state_format.StreamState(
            stream_shape(description, work),
            source_states(work, data),
            position.delivered,
            tuple(position.cursors),
            position.passes,
            None if options.dp_degree == 1 else (options.dp_group_id, options.dp_degree),
            work.history,
        )
    )


def read_state(state: Mapping[str, Any] | bytes) -> state_format.StreamState:
    """The whole state that a checkpoint, or its bytes, holds."""
    saved = state_format.decode(_state_bytes(state))
    if saved.part is not None:
        raise StateError(
            f"this is the part of rank {saved.part[0]} of {saved.part[1]} only: join the parts "
            "of all ranks with zephon.state.merge(...)"
        )
    return saved


def _state_bytes(state: Mapping[str, Any] | bytes) -> bytes:
    if isinstance(state, (bytes, bytearray, memoryview)):
        return bytes(state)
    if not isinstance(state, Mapping):
        raise ConfigTypeError(
            f"Expected a state as bytes or as checkpoint() returns it, got {type(state).__name__}"
        )
    if "state" in state and isinstance(state["state"], (bytes, bytearray, memoryview)):
        return bytes(state["state"])
    if _FOREIGN_KEYS & set(state):
        raise StateError(
            "this is a checkpoint of the registry's package named zephon, which this one cannot "
            "continue: finish the pass there, or start a new run"
        )
    raise StateError(
        f"Expected 'state' bytes in the checkpoint, found the keys {', '.join(map(str, state))}"
    )
