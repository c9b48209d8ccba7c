"""Options of other runtimes that ``options`` and ``pack_flat`` take for their callers' sake.

They say how processes, queues, buffers and open rows are arranged there. None of them can change
what comes out here, so they are checked, noted for ``Pipeline.explain`` and left at that; values
that ask for another stream are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.pack_options import WINDOW_ROWS, WRAPPING, PackingAlgorithm
from zephon.options import check_int

_FLAG, _NUMBER, _TEXT, _ANY = (bool,), (int, float), (str,), (object,)


@dataclass(frozen=True, slots=True)
class _Hint:
    """What an option may be, and what is to be said of it."""

    kinds: tuple[type, ...]
    text: str
    choices: tuple[str, ...] = ()


_PREFETCH = "prefetch(...) says how far a pipeline works ahead"
_WORKERS = "runner=, prefetch(...) and parallelism= say what works where"
_NO_PROCESSES = "nothing is sent between stages"
_METRICS = "metrics_snapshot() has what each stage did, at any time"
_STATE = "a state is a few hundred bytes and holds nothing in flight"

HINTS = {
    "deterministic": _Hint(_FLAG, "every stream is deterministic"),
    "mtp_mode": _Hint(_FLAG, "the stream is made in threads, or where runner= says"),
    "mtp_buffer": _Hint(_NUMBER, _PREFETCH),
    "mtp_buffer_bytes": _Hint(_NUMBER, _PREFETCH),
    "mtp_prefetch": _Hint(_NUMBER, _PREFETCH),
    "mtp_auto_checkpoint": _Hint(_FLAG, "checkpoint() asks no thread anything"),
    "mp_context": _Hint(_ANY, "processes are started as runner='process' needs it"),
    "per_stage_runner": _Hint((Mapping,), _WORKERS),
    "worker_allocation": _Hint(
        _TEXT, _WORKERS, ("fit_to_ops", "per_stage_fixed", "global", "autotune")
    ),
    "max_workers": _Hint(_NUMBER, _WORKERS),
    "max_worker_retries": _Hint(_NUMBER, "a process that dies is an error that names its document"),
    "prefetch_batches": _Hint(_NUMBER, _PREFETCH),
    "default_stage_prefetch": _Hint(_NUMBER, _PREFETCH),
    "per_stage_prefetch": _Hint((Mapping,), _PREFETCH),
    "op_queue_capacity": _Hint(_NUMBER, _PREFETCH),
    "ipc_transport": _Hint(_TEXT, _NO_PROCESSES, ("socketpair", "pipe")),
    "ipc_buffer_bytes": _Hint(_NUMBER, _NO_PROCESSES),
    "shm_enabled": _Hint(_FLAG, _NO_PROCESSES),
    "shm_coalesce": _Hint(_FLAG, _NO_PROCESSES),
    "shm_min_item_bytes": _Hint(_NUMBER, _NO_PROCESSES),
    "shm_min_new_allocation_bytes": _Hint(_NUMBER, _NO_PROCESSES),
    "shm_min_forward_bytes": _Hint(_NUMBER, _NO_PROCESSES),
    "shm_compact_above_ratio": _Hint(_NUMBER, _NO_PROCESSES),
    "shm_compact_min_savings_bytes": _Hint(_NUMBER, _NO_PROCESSES),
    "shm_max_coalesced_bytes": _Hint(_NUMBER, _NO_PROCESSES),
    "allow_latency_flush_in_deterministic": _Hint(_FLAG, "nothing is flushed by the clock"),
    "flush_every_k_chunks": _Hint(_NUMBER, "windows of a fixed size take the place of flushes"),
    "shutdown_mode": _Hint(
        _TEXT,
        "close() waits for what is being computed, and for nothing else",
        ("graceful", "hard"),
    ),
    "auto_validation": _Hint(
        _TEXT,
        "calls check their options at once; validate() looks at data",
        ("strict", "warn", "off"),
    ),
    "aggregate_serializer": _Hint(_TEXT, _STATE),
    "aggregate_compressor": _Hint(_TEXT, _STATE),
    "execution_tracking": _Hint(_ANY, _METRICS),
    "metrics_sink_config": _Hint(_ANY, _METRICS),
}
"""By name, besides those that have a meaning or are refused; see :func:`take_hints`."""

NAMES = (*HINTS, "aggregate_timeout_s", "mapping_strategy", "mixture_config")
"""Of all that :func:`take_hints` knows."""


def take_hints(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options that mean something here, and what there is to say of the others.

    Raises
    ------
    ConfigError
        One asks for a stream that this package does not make.
    """
    kept = dict(given)
    told = []
    if "aggregate_timeout_s" in kept:
        if "aggregate_timeout" in kept:
            raise ConfigError("aggregate_timeout_s is another name of aggregate_timeout: give one")
        kept["aggregate_timeout"] = kept.pop("aggregate_timeout_s")
    if kept.pop("mixture_config", None) is not None:
        raise ConfigError(
            "mixture_config orders the draws of a chunk in another way: here their order follows "
            "from the shares alone, leave it out"
        )
    strategy = kept.pop("mapping_strategy", None)
    if strategy == "interleaved":
        told.append("mapping_strategy='interleaved': ranks take lanes in turn in any case")
    elif strategy is not None:
        raise ConfigError(
            f"mapping_strategy is {strategy!r}: ranks take lanes in turn ('interleaved'), so that "
            "their number can change without changing the sequence of batches"
        )
    for name in [name for name in kept if name in HINTS]:
        value, hint = kept.pop(name), HINTS[name]
        wrong_flag = isinstance(value, bool) and hint.kinds == _NUMBER
        if value is not None and (wrong_flag or not isinstance(value, hint.kinds)):
            kinds = " or ".join(kind.__name__ for kind in hint.kinds)
            raise ConfigTypeError(f"{name} is {value!r}, expected {kinds}")
        if hint.choices and value is not None and value not in hint.choices:
            raise ConfigError(f"{name} is {value!r}, expected one of {', '.join(hint.choices)}")
        told.append(f"{name}={value!r}: {hint.text}")
    return kept, told


def without_effect(algorithm: PackingAlgorithm, given: Mapping[str, Any]) -> list[str]:
    """What there is to say of options of packers that keep rows open.

    Raises
    ------
    ConfigError
        One asks for other rows than this package makes.
    """
    found = []
    strategy, seed = given["shuffle_strategy"], given["shuffle_seed"]
    if strategy == "length" and algorithm not in WRAPPING:
        found.append("shuffle_strategy='length': the longest document of a window is placed first")
    elif strategy is not None:
        raise ConfigError(
            f"shuffle_strategy is {strategy!r}: documents come in the order of the work source. "
            "shuffle(...) behind pack_flat(...) shuffles rows; shuffle_within_shard and "
            "shuffle_block_size of the work source shuffle documents"
        )
    if seed is not None:
        check_int("shuffle_seed", seed, 0, 2**64 - 1)
        found.append(f"shuffle_seed={seed}: packing draws nothing by chance")
    flush = given["flush_strategy"]
    if flush not in ("fifo", "fullest"):
        raise ConfigError(f"flush_strategy is {flush!r}, expected 'fifo' or 'fullest'")
    if flush != "fifo":
        found.append(f"flush_strategy={flush!r}: no rows are kept open")
    for name in ("candidate_pool_size", "max_candidate_age"):
        value = given[name]
        if value is None:
            continue
        check_int(name, value, 1, 2**31)
        if algorithm != "best_fit_wrap":
            raise ConfigError(
                f"{name} does not apply to {algorithm!r}: it goes with 'best_fit_wrap'"
            )
        found.append(f"{name}={value}: windows of {WINDOW_ROWS} rows are packed as a whole")
    if given["parallelism"] is not None:
        found.append(f"parallelism={given['parallelism']}: packing is one thread's work")
    return found
