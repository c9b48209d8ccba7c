"""What the stages of a stream are doing: how much, how long, and what they wait for.

Counted by block of documents and by batch, never by document, so it is always on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """One stage since the stream began.

    Attributes
    ----------
    name : str
        ``"read"``, an operator such as ``"map_transform(module.function)"``, ``"tokenize"``,
        ``"pack"`` or ``"batch"``.
    items : int
        What went in: documents; rows that came out of ``"pack"``, batches of ``"batch"``.
    working_seconds : float
        Time spent in it, summed over threads and processes.
    waiting_seconds : float
        Time that it waited: ``"pack"`` for documents, ``"batch"``, which is the consumer's
        side, for a batch, an operator for its turn.
    queue_depth : int
        What lies ready for it at this moment: blocks of documents for ``"pack"``, batches
        for ``"batch"``.
    """

    name: str
    items: int
    working_seconds: float
    waiting_seconds: float
    queue_depth: int


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """All stages, in the order of a document's way."""

    stages: tuple[StageSummary, ...] = ()

    def stage(self, name: str) -> StageSummary:
        """The stage of that name; KeyError if there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(f"no stage {name!r}; there are: {', '.join(s.name for s in self.stages)}")

    def __str__(self) -> str:
        width = max([len("stage"), *(len(s.name) for s in self.stages)])
        lines = [f"{'stage':<{width}}      items    working s    waiting s  queue"]
        lines += [
            f"{s.name:<{width}} {s.items:>10,} {s.working_seconds:>12.3f} "
            f"{s.waiting_seconds:>12.3f} {s.queue_depth:>6}"
            for s in self.stages
        ]
        return "\n".join(lines)


@dataclass(slots=True)
class _Counters:
    order: int
    items: int = 0
    working: float = 0.0
    waiting: float = 0.0
    depths: list[Callable[[], int]] = field(default_factory=list)


READ, PACK, BATCH = 0, 2**30, 2**30 + 1
"""Places of the stages that every stream has; operators stand between."""

Counted = dict[str, tuple[int, int, float, float]]
"""By stage: its place, items, working and waiting seconds; to carry them to another process."""


class Metrics:
    """Counters that any thread adds to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[str, _Counters] = {}

    def __reduce__(self) -> tuple[type[Metrics], tuple[()]]:
        return Metrics, ()  # another process counts for itself

    def add(
        self, name: str, order: int, *, items: int = 0, working: float = 0.0, waiting: float = 0.0
    ) -> None:
        """Add to a stage, whose place among the others is ``order``."""
        with self._lock:
            stage = self._stages.get(name)
            if stage is None:
                stage = self._stages[name] = _Counters(order)
            stage.items += items
            stage.working += working
            stage.waiting += waiting

    @contextmanager
    def working(self, name: str, order: int, items: int) -> Iterator[None]:
        """Count the time until it is left as work of a stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, order, items=items, working=time.perf_counter() - begin)

    def waited(self, name: str) -> float:
        """Seconds that a stage has waited up to now."""
        stage = self._stages.get(name)
        return 0.0 if stage is None else stage.waiting

    def watch(self, name: str, order: int, depth: Callable[[], int]) -> None:
        """Let ``depth`` tell what lies ready for a stage, besides what others tell."""
        with self._lock:
            self._stages.setdefault(name, _Counters(order)).depths.append(depth)

    def take(self) -> Counted:
        """What was counted since the last time, to be added elsewhere."""
        with self._lock:
            stages, self._stages = self._stages, {}
        return {n: (s.order, s.items, s.working, s.waiting) for n, s in stages.items()}

    def merge(self, counted: Counted) -> None:
        """Add what another process has counted."""
        for name, (order, items, working, waiting) in counted.items():
            self.add(name, order, items=items, working=working, waiting=waiting)

    def summary(self) -> PipelineSummary:
        """What was counted up to now."""
        with self._lock:
            stages = sorted(self._stages.items(), key=lambda stage: stage[1].order)
            return PipelineSummary(
                tuple(
                    StageSummary(
                        name=name,
                        items=one.items,
                        working_seconds=one.working,
                        waiting_seconds=one.waiting,
                        queue_depth=sum(depth() for depth in one.depths),
                    )
                    for name, one in stages
                )
            )
