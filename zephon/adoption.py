"""Continuing a state: with the sources and shares that it was saved with, or with others.

A changed mixture takes effect for all lanes behind the same draw, at the end of a chunk: up to
there every lane draws as before. Nothing that was drawn is drawn again, and the present mixture
goes on with each source where the former one leaves it.

Sources of a run that was changed keep the order that they came in, since the schedule of a mixture
depends on it; new ones come behind them. One that was taken out stays as long as some lane has
draws of it ahead, which then give documents without tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zephon._state_differences import Difference, verify
from zephon._state_format import StreamState
from zephon.checkpoint import SourceData, source_states, stream_shape
from zephon.cursor import Dropped, LaneCursor
from zephon.description import Description
from zephon.errors import StateError
from zephon.io.gone import gone_dataset
from zephon.runtime.lane import Lane
from zephon.runtime.metrics import Metrics
from zephon.runtime.position import Position
from zephon.work.base import Draws, LaneOrder, WorkSource
from zephon.work.history import History, Stretch
from zephon.work.lengths import SourceLengths
from zephon.work.mixture import effective_chunk_size

logger = logging.getLogger(__name__)

_AHEAD = 2**40
"""More draws than any lane has open: stands for a former mixture whose end is not known yet."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a pipeline goes on with."""

    work: WorkSource
    """With the weights of the state, and former mixtures if there were any."""

    data: tuple[SourceData, ...]
    """Of its sources."""

    position: Position
    """Behind the last batch delivered."""


def resume(
    saved: StreamState,
    description: Description,
    work: WorkSource,
    data: tuple[SourceData, ...],
    lengths: Callable[[], Sequence[SourceLengths]],
) -> Resumed:
    """Continue ``saved`` with ``work``.

    Parameters
    ----------
    saved : StreamState
        Of all lanes.
    description : Description
        What the pipeline's calls have said; ``on_change`` says what may differ.
    work : WorkSource
        As it was given to the pipeline.
    data : tuple of SourceData
        Of its sources.
    lengths : callable
        Finds the lengths of its documents, if weights have to be found anew.

    Raises
    ------
    StateError
        The state is of another stream (all that differs and is not allowed is listed), or the
        change cannot be made at this position.
    """
    found = _compare(saved, description, work, data)
    for one in found:
        logger.info("the state is continued with a change (saved, now): %s", one.text)
    position = Position(saved.delivered, saved.cursors, saved.passes)
    if all(one.kind == "content" for one in found):
        weights = {source.name: source.weight for source in saved.sources}
        work = work.resumed(tuple(weights[dataset.name] for dataset in work.datasets))
        if saved.history is not None:
            work, data = _behind(saved, saved.history, work, data)
        return Resumed(work, data, position)
    if work.requires_token_priming:
        work = work.primed(lengths())
    if all(_at_start(cursor) for cursor in saved.cursors):
        return Resumed(work, data, position)
    return _change(saved, description, work, data)


def _compare(
    saved: StreamState, description: Description, work: WorkSource, data: tuple[SourceData, ...]
) -> tuple[Difference, ...]:
    current = source_states(work, data)
    if work.finds_weights:
        # Its own weights are of no account: they are, or would be, found anew.
        weights = {source.name: source.weight for source in saved.sources}
        current = tuple(replace(s, weight=weights.get(s.name) or s.weight) for s in current)
    if saved.history is not None:
        # Whatever order they are given in, they keep that of the run.
        places = {source.name: place for place, source in enumerate(saved.sources)}
        current = tuple(sorted(current, key=lambda s: places.get(s.name, len(places))))
    shape = stream_shape(description, work)
    return verify(saved, shape, current, description.options.changes)


def _at_start(cursor: LaneCursor) -> bool:
    return cursor.documents.draw == 0 and not cursor.is_open


def _change(
    saved: StreamState, description: Description, work: WorkSource, data: tuple[SourceData, ...]
) -> Resumed:
    """Go on with the sources and weights of ``work`` as soon as all lanes can."""
    if description.chain(work).follows_shares:
        raise StateError(
            "ensure_mixture(...) orders documents by the shares of the sources, and those of the "
            "windows that were begun would change with them: give it shares of its own with "
            "mixture=, or go on with the sources and shares that the state was saved with"
        )
    history = saved.history or History(base=(0,) * len(saved.sources))
    weights = tuple(source.weight for source in saved.sources)
    chunk_size = effective_chunk_size(_chunk_size(saved), weights)

    def until(chunks: int) -> History:
        draws = chunks * chunk_size
        return history.then(Stretch(draws=draws, chunk_size=chunk_size, weights=weights))

    former, _ = _behind(saved, until(_AHEAD // chunk_size), work, data)
    cursors = saved.cursors
    present = {dataset.name for dataset in work.datasets}
    gone = {source.name for source in saved.sources if source.weight} - present
    if gone:
        _require_no_window(saved, gone)
        cursors = tuple(
            _past_gone(cursor, lane, saved.lanes, former, gone)
            for lane, cursor in enumerate(cursors)
        )
    fetched = _fetched(cursors, former, description)
    history = until(-(-max(fetched - history.end, 0) // chunk_size))
    work, data = _behind(saved, history, work, data)
    logger.info(
        "the changed mixture begins at draw %d of each lane; the foremost lane has read %d draws",
        history.end,
        fetched,
    )
    return Resumed(work, data, Position(saved.delivered, cursors, saved.passes))


def _chunk_size(saved: StreamState) -> int:
    size = saved.options.get("work", {}).get("chunk_size")
    if not isinstance(size, int):
        raise StateError(
            "the sources or shares of this work source cannot be changed in the middle of a run: "
            "its order is not one of chunks. Build it as it was when the state was saved"
        )
    return size


def _behind(
    saved: StreamState, history: History, work: WorkSource, data: tuple[SourceData, ...]
) -> tuple[WorkSource, tuple[SourceData, ...]]:
    """``work`` behind former mixtures, whose sources are those of ``saved``."""
    history = history.behind(min(c.documents.draw for c in saved.cursors), saved.lanes)
    own = {
        dataset.name: (dataset, known, weight)
        for dataset, known, weight in zip(work.datasets, data, work.weights, strict=True)
    }
    table, places = [], []
    for place, source in enumerate(saved.sources):
        if source.name in own:
            table.append(own.pop(source.name))
            places.append(place)
        elif history.involves(place):
            dataset = gone_dataset(source.name, source.size["documents"])
            table.append((dataset, SourceData(source.digest, source.size), 0))
            places.append(place)
    table += own.values()
    datasets, known, weights = zip(*table, strict=True)
    picked = history.picked([*places, *(None for _ in own)])
    return work.continuing(picked, datasets, weights), known


def _require_no_window(saved: StreamState, gone: set[str]) -> None:
    """Windows that were begun are computed again, from all documents that they had."""
    for lane, cursor in enumerate(saved.cursors):
        if cursor.rows or cursor.shuffled:
            raise StateError(
                f"{_named(gone)} cannot be taken out here: lane {lane} stands in the middle of a "
                "packing or shuffle window, which is packed again from all its documents. Keep it "
                "with a small share (1e-6, say), or save the state where no window is open: with "
                "algorithm='wrap' and without shuffle(...) that is everywhere"
            )


def _past_gone(
    cursor: LaneCursor, lane: int, lanes: int, former: WorkSource, gone: set[str]
) -> LaneCursor:
    """Behind the document that is open, if it is of a source that is gone."""
    documents = cursor.documents
    if not (documents.token or documents.child):
        return cursor
    source = int(former.lane(lane, lanes).draws(documents.draw, 1).sources[0])
    name = former.datasets[source].name
    if name not in gone:
        return cursor
    logger.warning(
        "lane %d: the rest of document %d, behind its token %d, is left out: it is of %r, which "
        "was taken out",
        lane,
        documents.draw,
        documents.token,
        name,
    )
    after = replace(
        documents,
        draw=documents.draw + 1,
        token=0,
        child=0,
        dropped=documents.dropped + Dropped(empty=1),
    )
    return replace(cursor, documents=after, _evidence=b"")


def _fetched(cursors: tuple[LaneCursor, ...], former: WorkSource, description: Description) -> int:
    """First draw that no lane has used: windows that were begun included, in which it is read."""
    last = max(c.documents.draw + (c.documents.token > 0 or c.documents.child > 0) for c in cursors)
    opened = [lane for lane, c in enumerate(cursors) if c.rows or c.shuffled]
    if opened:
        description.require_ready(former)
        watched = _Watched(former)
        plan = replace(description.stream_plan(former, Metrics()).lane, work=watched)
        for lane in opened:
            Lane(plan, lane, 0, cursors[lane], None)  # computes its windows
        last = max(last, watched.end)
    # A window of operators that was begun goes on with the documents that it was begun with.
    unit = description.chain(former).unit
    return -(-last // unit) * unit


class _Watched(WorkSource):
    """A work source that notes how far its lanes are read."""

    def __init__(self, work: WorkSource) -> None:
        self._work = work
        self.datasets, self.weights = work.datasets, work.weights
        self.end = 0

    def lane(self, lane: int, lanes: int, run: int = 0) -> LaneOrder:
        return _WatchedLane(self, self._work.lane(lane, lanes, run))

    def options(self) -> dict[str, object]:
        return self._work.options()


class _WatchedLane(LaneOrder):
    def __init__(self, watch: _Watched, lane: LaneOrder) -> None:
        self._watch = watch
        self._lane = lane

    def draws(self, first: int, count: int) -> Draws:
        self._watch.end = max(self._watch.end, first + count)
        return self._lane.draws(first, count)

    def length(self) -> int | None:
        return self._lane.length()


def _named(names: set[str]) -> str:
    return ", ".join(f"source {name!r}" for name in sorted(names))
