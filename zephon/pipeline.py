"""A pipeline: stages over a work source, iterating them, and saving where they stand."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from zephon import state as state_format
from zephon.checkpoint import Sources, read_state, source_states, stream_shape, write_state
from zephon.cursor import Dropped
from zephon.errors import ConfigTypeError, LifecycleError
from zephon.runtime.exchange import Exchange, open_exchange
from zephon.runtime.position import Position
from zephon.runtime.stream import Stream
from zephon.stages import Stages
from zephon.work.base import WorkSource

if TYPE_CHECKING:
    from zephon.types import SampleBatch

logger = logging.getLogger(__name__)


class Pipeline(Stages):
    """Documents of a work source, tokenized, packed and batched.

    Each call adds to the description and returns the pipeline. Building one
    reads no document and starts no thread; iterating does. A pipeline has one
    position: iterating it again goes on behind the last batch delivered.

    Parameters
    ----------
    work_source : WorkSource
        Which documents, in which order.

    Examples
    --------
    >>> pipeline = Pipeline(work).tokenize("tokenizer", field="text")
    >>> pipeline = pipeline.pack_flat(2049).batch(8)
    >>> for batch in pipeline:
    ...     tensors = batch.to_training(return_labels=True)
    """

    def __init__(self, work_source: WorkSource) -> None:
        if not isinstance(work_source, WorkSource):
            raise ConfigTypeError(
                f"work_source is a {type(work_source).__name__}, expected a WorkSource such as "
                "StaticMixtureWorkSource"
            )
        self.ws = work_source
        super().__init__()
        self._stream: Stream | None = None
        self._position: Position | None = None
        self._sources: Sources | None = None
        self._exchange: Exchange | None = None

    def __iter__(self) -> Iterator[SampleBatch]:
        if self._stream is not None:
            raise LifecycleError(
                "the pipeline is being iterated already: close() it, or build another one"
            )
        plan = self._said.stream_plan(self.ws)
        self._source_states()  # what a state needs is at hand before the first batch
        position = self._position or Position.start(plan.lane.lanes)
        self._stream = Stream(plan, position)
        self._position = position
        return _Iteration(self, self._stream)

    def close(self) -> None:
        """Stop iterating: threads end, the position stays. May be called at any time."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def checkpoint(self) -> dict[str, Any]:
        """The position behind the last batch delivered.

        Asks no thread anything; works before the first batch, while iterating and
        after :meth:`close`. Behind the end of a finite pass it is the beginning of
        the next one. With several data-parallel ranks all of them (all
        ``world_size`` ranks, if that is set) call this behind the same step, and
        receive the same.

        Returns
        -------
        dict
            ``version`` int, ``state`` bytes (see :mod:`zephon.state`) and
            ``lane_emitted``, batches delivered by lane.

        Raises
        ------
        StateError
            A rank failed or stands behind another step; raised on all ranks.
        MissingRanksError
            Ranks did not come within ``aggregate_timeout``.
        """
        options = self._said.options
        state = self.local_state() if options.ranks[1] == 1 else self._gather()
        delivered, lanes = self._here().delivered, options.lanes
        emitted = {lane: -(-(delivered - lane) // lanes) for lane in range(lanes)}
        return {"version": state_format.VERSION, "state": state, "lane_emitted": emitted}

    def local_state(self) -> bytes:
        """What this rank knows of the position; the whole state if it is the only one.

        Takes no part in any communication and asks no thread anything.
        :func:`zephon.state.merge` makes the state of the run from those of all ranks.
        """
        return write_state(self._here(), self._said, self.ws, self._source_states())

    def restore(self, state: Mapping[str, Any] | bytes) -> None:
        """Continue from what :meth:`checkpoint` returned, or from its bytes.

        Nothing is read until the pipeline is iterated. The micro-batch size and
        everything about prefetching may differ from when the state was saved.

        Raises
        ------
        StateError
            Damaged or foreign bytes, or a state of another stream; the message
            lists all that differs.
        LifecycleError
            The pipeline is being iterated.
        """
        self._refuse_while_iterating("restore")
        saved = read_state(state)
        state_format.verify(saved, stream_shape(self._said, self.ws), self._source_states())
        self._position = Position(saved.delivered, saved.cursors, saved.passes)

    @property
    def passes(self) -> int:
        """Finite passes that were finished."""
        return self._here().passes

    def dropped(self) -> Dropped:
        """What was left out of the rows delivered so far in this pass, by reason."""
        total = Dropped()
        for cursor in self._here().cursors:
            total += cursor.documents.dropped
        return total

    def _gather(self) -> bytes:
        local: bytes | Exception
        try:
            local = self.local_state()
        except Exception as error:  # the other ranks are waiting to hear of it
            local = error
        if self._exchange is None:
            self._exchange = open_exchange(self._said.options, "state")
        return state_format.gather(local, self._exchange)

    def _here(self) -> Position:
        return self._position or Position.start(self._said.options.lanes)

    def _deliver(self, position: Position) -> None:
        self._position = position

    def _finish_pass(self) -> None:
        """The next pass begins here."""
        here = self._here()
        self._position = Position.start(len(here.cursors), here.passes + 1)
        logger.info("pass %d has ended; the state is the beginning of the next", here.passes + 1)

    def _source_states(self) -> Sources:
        if self._sources is None:
            self._sources = source_states(self.ws)
        return self._sources

    def _refuse_while_iterating(self, call: str) -> None:
        if self._stream is not None:
            raise LifecycleError(
                f"{call}(...) while the pipeline is being iterated: close() it first"
            )

    def _refuse_with_position(self, message: str) -> None:
        if self._position is not None:
            raise LifecycleError(message)


class _Iteration(Iterator["SampleBatch"]):
    """One iteration of a pipeline; leaving it early closes the stream."""

    def __init__(self, pipeline: Pipeline, stream: Stream) -> None:
        self._pipeline = pipeline
        self._stream = stream

    def __next__(self) -> SampleBatch:
        if self._pipeline._stream is not self._stream:
            raise StopIteration  # the pipeline was closed, or is iterated anew
        try:
            batch, position = next(self._stream)
        except StopIteration:
            self._pipeline.close()
            self._pipeline._finish_pass()
            raise
        except BaseException:
            self._pipeline.close()
            raise
        self._pipeline._deliver(position)
        return batch

    def __del__(self) -> None:
        if self._pipeline._stream is self._stream:
            self._pipeline.close()
