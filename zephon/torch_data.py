"""Pipelines as datasets of ``torch.utils.data`` and nodes of ``torchdata``.

This module imports torch. It is reached through :meth:`zephon.Pipeline.to_torch_dataset` and
:meth:`zephon.Pipeline.to_torch_node`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch.utils.data import IterableDataset, get_worker_info

from zephon import state as state_format
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.options import StreamOptions, divisors
from zephon.runtime.worker_meeting import MeetingExchange, WorkerAgreement
from zephon.types import SampleBatch, SampleRecord

logger = logging.getLogger(__name__)

MOST_WORKERS = 128
"""Workers of a DataLoader that can share the lanes of a finite pass."""

Convert = Callable[[SampleBatch], Any]


class Batches(Protocol):
    """What is asked of a pipeline here."""

    @property
    def stream_options(self) -> StreamOptions:
        """What its ``options`` has set."""
        ...

    def __iter__(self) -> Iterator[SampleBatch]: ...

    def close(self) -> None:
        """Stop iterating; the position stays."""

    def local_state(self) -> bytes:
        """What this rank knows of the position."""
        ...

    def checkpoint(self) -> dict[str, Any]:
        """The position behind the last batch delivered."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from a state."""

    def forget_iteration(self) -> None:
        """Be a copy that nobody iterates."""

    def options_of_worker(
        self, options: StreamOptions, agree: Callable[[], WorkerAgreement]
    ) -> None:
        """Deliver the share of one worker of a DataLoader."""


class PipelineDataset(IterableDataset[Any]):
    """The batches of a pipeline, for a ``DataLoader`` with ``batch_size=None``.

    In the process that made it, iterating it is iterating the pipeline. In the workers of a
    DataLoader the lanes are dealt out: worker ``w`` of ``W`` makes the lane-batches of every
    ``W``-th lane, so all workers together make what one process makes, and the DataLoader
    hands it on in the same order. Lanes that ``W`` does not divide keep some workers idle.
    Fresh workers begin where the pipeline of the main process stands, each time.

    Parameters
    ----------
    pipeline : Pipeline
        Not being iterated.
    convert : callable, optional
        From a SampleBatch to what is delivered, such as
        :func:`zephon.loader.convert_text_batch`; called in the worker. Without it a
        SampleBatch is delivered, from a worker one of plain records.
    """

    def __init__(self, pipeline: Batches, convert: Convert | None = None) -> None:
        if convert is not None and not callable(convert):
            raise ConfigTypeError(f"convert is {convert!r}, expected a function of a SampleBatch")
        self._pipeline = pipeline
        self._convert = convert
        self._meeting = _shared_table(MOST_WORKERS)
        self._mine: Batches | None = None  # of this worker

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            self._pipeline.close()
            return self._batches(self._pipeline, self._convert or _itself)
        mine = self._of_worker(info.id, info.num_workers)
        if mine is None:
            return iter(())
        mine.close()
        return self._batches(mine, self._convert or _detached)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mine": None}

    def _batches(self, pipeline: Batches, convert: Convert) -> Iterator[Any]:
        for batch in pipeline:
            yield convert(batch)

    def _of_worker(self, index: int, workers: int) -> Batches | None:
        """The pipeline of worker ``index``; None if there is no lane for it."""
        options = self._pipeline.stream_options
        own = options.lanes // options.dp_degree  # lanes of this rank
        busy = max(n for n in divisors(own) if n <= workers)
        if busy < workers and index == 0:
            logger.warning(
                "%d of the %d workers of the DataLoader have nothing to do: they share %d lanes, "
                "each worker as many. Make options(canonical_replicas=...) a multiple of the "
                "ranks times the workers",
                workers - busy,
                workers,
                own,
            )
        if index >= busy:
            return None
        if self._mine is None:
            self._mine = share_of(self._pipeline, index, busy, self._meeting)
        return self._mine


class StatefulPipelineDataset(PipelineDataset):
    """The same with a state, as ``torchdata.stateful_dataloader`` wants it.

    In the main process the state is that of :meth:`zephon.Pipeline.local_state`. In a worker
    it is the worker's own, and goes back to the same one of as many workers.
    """

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch of this process stands."""
        info = get_worker_info()
        if info is None:
            return {"state": self._pipeline.local_state(), "worker": None}
        mine = self._of_worker(info.id, info.num_workers)
        state = b"" if mine is None else mine.local_state()
        return {"state": state, "worker": (info.id, info.num_workers)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there; StateError if it is of another worker or number of workers."""
        info = get_worker_info()
        here = None if info is None else (info.id, info.num_workers)
        saved = state.get("worker") and tuple(state["worker"])
        if saved != here:
            raise StateError(
                f"the state is of {_worker_name(saved)}, this is {_worker_name(here)}: use as many "
                "workers as when it was saved, or save Pipeline.checkpoint() in a loop without "
                "workers, which goes on anywhere"
            )
        pipeline = self._pipeline
        if info is not None:
            mine = self._of_worker(info.id, info.num_workers)
            if mine is None:
                return
            pipeline = mine
        pipeline.close()
        pipeline.restore(_whole(state["state"], pipeline))


def _worker_name(worker: tuple[int, int] | None) -> str:
    return "no worker of a DataLoader" if worker is None else f"worker {worker[0]} of {worker[1]}"


def _whole(state: bytes, pipeline: Batches) -> bytes:
    """A state that this pipeline alone goes on from, of what is known of its own lanes only."""
    saved = state_format.decode(state)
    options = pipeline.stream_options
    part = None if options.dp_degree == 1 else (options.dp_group_id, options.dp_degree)
    if saved.part != part:
        raise StateError(f"the state is the part {saved.part} of a run, this one is {part}")
    return state_format.encode(replace(saved, part=None))


def _shared_table(workers: int) -> torch.Tensor:
    """What :class:`MeetingExchange` writes to, in memory that follows into workers."""
    table = torch.zeros((workers + 4, workers), dtype=torch.int64)
    table.share_memory_()  # type: ignore[no-untyped-call]
    return table


def _itself(batch: SampleBatch) -> SampleBatch:
    return batch


def _detached(batch: SampleBatch) -> SampleBatch:
    """A batch of plain records, which hold no file and no memory of others."""
    records = []
    for record in batch.records:
        tags = {name: value for name, value in record.meta.tags.items() if name != "documents"}
        records.append(SampleRecord(replace(record.meta, tags=tags), record.payload))
    return SampleBatch(records)


def share_of(pipeline: Batches, index: int, workers: int, meeting: torch.Tensor) -> Batches:
    """A pipeline for the lanes of worker ``index`` of ``workers`` of this rank."""
    made = copy.copy(pipeline)
    made.forget_iteration()
    options = pipeline.stream_options
    if workers == 1 and options.dp_degree == 1:
        return made
    degree = options.dp_degree
    made.options_of_worker(
        replace(
            options,
            canonical_replicas=options.lanes,
            dp_degree=degree * workers,
            dp_group_id=options.dp_group_id + degree * index,
            world_size=None,
            global_rank=None,
        ),
        lambda: _agreement(degree, index, workers, meeting),
    )
    return made


def _agreement(degree: int, index: int, workers: int, meeting: torch.Tensor) -> WorkerAgreement:
    if degree > 1:
        raise LifecycleError(
            "the workers of a DataLoader cannot agree with other ranks on the end of a pass: use "
            "num_workers=0, where the pipeline has threads of its own, or a stream without end "
            "(exhausted_policy='repeat')"
        )
    if workers > MOST_WORKERS:
        raise ConfigError(f"{workers} workers share a finite pass, at most {MOST_WORKERS} can")
    return WorkerAgreement(MeetingExchange(meeting, index, workers))


def torch_node(pipeline: Batches, convert: Convert | None) -> Any:
    """A ``torchdata.nodes.BaseNode`` of the batches of ``pipeline``."""
    try:
        from torchdata.nodes import BaseNode
    except ImportError as error:
        raise ConfigError(
            "to_torch_node() needs torchdata: install it (pip install torchdata), or use "
            "to_torch_dataset()"
        ) from error

    class PipelineNode(BaseNode):  # type: ignore[misc]
        """The batches of a pipeline; its state is that of the pipeline."""

        def __init__(self) -> None:
            super().__init__()
            self._batches: Iterator[SampleBatch] = iter(())

        def reset(self, initial_state: dict[str, Any] | None = None) -> None:
            """Go on from a state, or behind the last batch that was delivered."""
            super().reset(initial_state)
            pipeline.close()
            if initial_state is not None:
                pipeline.restore(initial_state["state"])
            self._batches = iter(pipeline)

        def next(self) -> Any:
            """The next batch."""
            batch = next(self._batches)
            return batch if convert is None else convert(batch)

        def get_state(self) -> dict[str, Any]:
            """Where the next batch stands."""
            return {"state": pipeline.checkpoint()["state"]}

    return PipelineNode()
