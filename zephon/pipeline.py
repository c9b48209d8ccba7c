"""A pipeline: stages over a work source, iterating them, and saving where they stand."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zephon import checks
from zephon import state as state_format
from zephon.adoption import resume
from zephon.checkpoint import SourceData, read_state, source_data, write_state
from zephon.cursor import Dropped
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, ZephonError
from zephon.estimate import estimate_steps, known_rounds
from zephon.explain import explain
from zephon.ops.pack_options import PackOptions
from zephon.options import StreamOptions, check_int
from zephon.runtime.documents import DocumentReader
from zephon.runtime.exchange import Exchange, MissingRanksError, open_exchange
from zephon.runtime.lengths import document_lengths
from zephon.runtime.metrics import BATCH, Metrics, PipelineSummary
from zephon.runtime.position import Position
from zephon.runtime.stream import Stream
from zephon.runtime.worker_meeting import WorkerAgreement
from zephon.stages import Stages
from zephon.validation import ValidationReport
from zephon.work.base import WorkSource
from zephon.work.lengths import SourceLengths

if TYPE_CHECKING:
    from zephon.torch_data import PipelineDataset
    from zephon.types import SampleBatch, SampleRecord

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

    Attributes
    ----------
    ws : WorkSource
        The same; with weights that are shares of tokens, from the first batch,
        checkpoint or restore on a copy that knows them.

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
        self._asked = work_source
        super().__init__()
        if work_source.row_length is not None:  # rows ready made: nothing else is packed
            self._said = replace(self._said, pack=PackOptions(max_length=work_source.row_length))
        self._stream: Stream | None = None
        self._left: deque[Stream] = deque()  # iterations that were dropped; their threads may run
        self._position: Position | None = None
        self._ended: tuple[Position | None, Dropped] = None, Dropped()  # where a pass ended
        self._data: tuple[SourceData, ...] | None = None  # of the sources of ws
        self._asked_data: tuple[SourceData, ...] | None = None
        self._lengths: tuple[SourceLengths, ...] | None = None
        self._exchange: Exchange | None = None
        self._metrics = Metrics()
        self._agree: Callable[[], WorkerAgreement] | None = None
        self._rounds: tuple[int, int] | None = None  # a pass, and its rounds if they are known

    def __iter__(self) -> Iterator[Any]:
        """Batches (:class:`zephon.SampleBatch`); without :meth:`batch` the record of each row.

        From where the pipeline stands. Waits for the threads of an iteration that was
        left early.
        """
        if self._stream is not None:
            raise LifecycleError(
                "the pipeline is being iterated already: close() it, or build another one"
            )
        self._wait_for_left()
        self._ended = None, Dropped()
        self._said.require_ready(self.ws)
        self._find_weights()
        self._metrics = Metrics()
        position = self._here()
        rounds = self._known_rounds(position)
        plan = self._said.stream_plan(self.ws, self._metrics, self._agree, rounds)
        self._source_data()  # what a state needs is at hand before the first batch
        self._stream = Stream(plan, position)
        self._position = position
        batches = _Iteration(self, self._stream)
        return batches if self._said.microbatch_size is not None else _Records(batches)

    def close(self) -> None:
        """Stop iterating: threads end, the position stays. May be called at any time.

        Afterwards nothing reads the sources' files, also if the iteration was left
        early and its iterator is gone.
        """
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        self._wait_for_left()

    def checkpoint(self) -> dict[str, Any]:
        """The position behind the last batch delivered.

        Asks no thread anything; works before the first batch, while iterating and
        after :meth:`close`. Before the first batch it finds weights that are shares
        of tokens, which reads documents. Behind the end of a finite pass it is the
        beginning of the next one. With several data-parallel ranks all of them (all
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
        self._find_weights()
        return write_state(self._here(), self._said, self.ws, self._source_data())

    def restore(self, ckpt: Mapping[str, Any] | bytes) -> None:
        """Continue from what :meth:`checkpoint` returned, or from its bytes.

        Nothing is read until the pipeline is iterated. The micro-batch size and
        everything about prefetching may differ from when the state was saved; sources
        and their shares too with ``options(on_change="adopt")``, which may read the
        documents of windows that were begun.

        Raises
        ------
        StateError
            Damaged or foreign bytes, or a state of another stream; the message
            lists all that differs.
        LifecycleError
            The pipeline is being iterated.
        """
        self._refuse_while_iterating("restore")
        saved = read_state(ckpt)
        if self._asked_data is None:
            self._asked_data = source_data(self._asked)
        resumed = resume(saved, self._said, self._asked, self._asked_data, self._asked_lengths)
        self.ws, self._data, self._position = resumed.work, resumed.data, resumed.position
        self._lengths = self._rounds = None

    def explain(self, steps: int | None = None) -> str:
        """What this pipeline will do: stages, exact shares, lanes, the plan of its passes.

        Reads no document, unless weights are shares of tokens or ``steps`` are
        given and the lengths of documents are not known: then some are read, as
        :class:`zephon.work.TokenEstimation` says.

        Parameters
        ----------
        steps : int, optional
            Say also how many passes over each source so many steps of the trainer
            take on average, each of one batch on every data-parallel rank.
        """
        if steps is not None:
            check_int("steps", steps, 1, 2**62)
            self._said.require_ready(self.ws)
            self._document_lengths()
        if self._said.pack is not None and not self._said.untokenized(self.ws):
            self._find_weights()
        return explain(self._said, self.ws, self._lengths, steps)

    def validate(self, *, strict: bool = False) -> ValidationReport:
        """Look for everything that can be wrong before the first batch.

        Reads the first record of each shard (of 1,000 shards of a dataset at most),
        documents at both ends of each source of tokens, and as many more as the
        lengths of documents take, see :class:`zephon.work.TokenEstimation`.

        Parameters
        ----------
        strict : bool
            Raise ValidationError if there is an error, rather than return it.
        """
        found, lengths = [], None
        if self._said.pack is not None and not self._said.untokenized(self.ws):
            try:
                lengths = self._document_lengths()
                if all(one.mean for one in lengths):  # or else a check tells
                    self._find_weights()
            except ZephonError as error:
                found.append(checks.failure(error))
        subject = checks.Subject(self._said, self.ws, lengths, self.estimate_steps)
        report = ValidationReport((*found, *checks.run_checks(subject)))
        if strict:
            report.raise_if_failed()
        return report

    def preflight_tokenizers(self, *, strict: bool = True) -> ValidationReport:
        """Use the tokenizer, which :meth:`tokenize` has loaded, on a line of text.

        Parameters
        ----------
        strict : bool
            Raise ValidationError if it fails, rather than return it.
        """
        report = ValidationReport(tuple(checks.tokenizer_issues(self._said.tokenizer)))
        if strict:
            report.raise_if_failed()
        return report

    def estimate_steps(self) -> tuple[int, int] | None:
        """Least and most batches that a pass gives this rank; None if it has no end.

        The two are equal where the length of every document is known (``.bin/.idx``,
        tokens in memory, datasets of few documents) and the pass has at most 8
        million of them: its rows are then counted by packing it without reading it.
        Else they are bounds, four standard errors wide, from a sample of lengths.
        Counts from the beginning of the pass, wherever the stream stands in it.
        """
        self._said.require_ready(self.ws)
        self._find_weights()
        return estimate_steps(self._said, self.ws, self._document_lengths(), self.passes)

    @property
    def position(self) -> Position | None:
        """Where the stream stands; None before it is iterated or restored."""
        return self._position

    @position.setter
    def position(self, position: Position | None) -> None:
        self._position = position

    @property
    def passes(self) -> int:
        """Finite passes that were finished."""
        return self._here().passes

    def dropped(self) -> Dropped:
        """What was left out of the rows delivered so far in this pass, by reason.

        Behind the end of a finite pass that of the pass that has ended, on this rank, until
        the next one is begun.
        """
        position, dropped = self._ended
        if position is not None and position is self._position:
            return dropped
        total = Dropped()
        for cursor in self._here().cursors:
            total += cursor.documents.dropped
        return total

    def metrics_snapshot(self) -> PipelineSummary:
        """What each stage has done and waited for since the pipeline was last iterated.

        Asks no thread anything, and may be called while iterating. A stage that ``"pack"``
        waits for while it works all the time is what to widen: by its ``parallelism``, by
        :meth:`prefetch`, or by ``options(runner="process")``.
        """
        return self._metrics.summary()

    def to_torch_dataset(
        self, stateful: bool = True, *, convert: Callable[[SampleBatch], Any] | None = None
    ) -> PipelineDataset:
        """This pipeline as a ``torch.utils.data.IterableDataset`` of batches.

        For a DataLoader with ``batch_size=None``. Its workers share the lanes, so that they
        make together what one process makes: ``options(canonical_replicas=...)`` should be a
        multiple of the ranks times the workers. A pipeline has threads of its own, so workers
        help where functions hold the interpreter, as ``options(runner="process")`` does.

        Parameters
        ----------
        stateful : bool
            With ``state_dict`` and ``load_state_dict``, as ``torchdata``'s
            StatefulDataLoader wants them.
        convert : callable, optional
            From a SampleBatch to what is delivered; called in the workers. To start them by
            spawning, it and all functions of the pipeline have to be picklable.
        """
        from zephon.torch_data import PipelineDataset, StatefulPipelineDataset

        self._refuse_while_iterating("to_torch_dataset")
        return (StatefulPipelineDataset if stateful else PipelineDataset)(self, convert)

    def to_torch_node(self, *, convert: Callable[[SampleBatch], Any] | None = None) -> Any:
        """This pipeline as a ``torchdata.nodes.BaseNode`` of batches, with its state.

        Parameters
        ----------
        convert : callable, optional
            From a SampleBatch to what is delivered.

        Raises
        ------
        ConfigError
            torchdata is not installed.
        """
        from zephon.torch_data import torch_node

        self._refuse_while_iterating("to_torch_node")
        return torch_node(self, convert)

    @property
    def stream_options(self) -> StreamOptions:
        """What :meth:`options` has set."""
        return self._said.options

    def forget_iteration(self) -> None:
        """Be a copy that nobody iterates, of a pipeline that another process may iterate."""
        self._stream, self._exchange, self._metrics = None, None, Metrics()
        self._left = deque()

    def options_of_worker(
        self, options: StreamOptions, agree: Callable[[], WorkerAgreement]
    ) -> None:
        """Deliver the share of one worker of a DataLoader, which agrees on ends with others."""
        self._said, self._agree = replace(self._said, options=options), agree

    def _gather(self) -> bytes:
        local: bytes | Exception
        try:
            local = self.local_state()
        except Exception as error:  # the other ranks are waiting to hear of it
            local = error
        if self._exchange is None:
            self._exchange = open_exchange(self._said.options, "state")
        try:
            return state_format.gather(local, self._exchange)
        except MissingRanksError:
            self._exchange = None  # whoever tries again meets anew
            raise

    def _here(self) -> Position:
        return self._position or Position.start(self._said.options.lanes)

    def _finish_pass(self, dropped: Dropped) -> None:
        """The next pass begins here."""
        here = self._here()
        self._position = Position.start(len(here.cursors), here.passes + 1)
        self._ended = self._position, dropped
        logger.info("pass %d has ended; the state is the beginning of the next", here.passes + 1)

    def _find_weights(self) -> None:
        """Weights that are shares of tokens follow from the lengths of documents."""
        if self.ws.requires_token_priming:
            estimation = self.ws.token_estimation
            counted = estimation is not None and estimation.measure is not None
            # What the user's function says decides about weights alone.
            lengths = self._asked_lengths() if counted else self._document_lengths()
            self.ws = self.ws.primed(lengths)

    def _known_rounds(self, position: Position) -> int | None:
        """Rounds of the lanes in this pass, if it shall end where its lengths say.

        Once for a pass: a rank does not follow the positions of other ranks' lanes.
        """
        finite = self.ws.lane(0, self._said.options.lanes).length() is not None
        if self._said.options.end != "known" or not finite:
            return None
        if self._rounds is None or self._rounds[0] != position.passes:
            lengths = () if self.ws.row_length is not None else self._document_lengths()
            rounds = known_rounds(self._said, self.ws, lengths, position)
            self._rounds = position.passes, rounds
        return self._rounds[1]

    def _document_lengths(self) -> tuple[SourceLengths, ...]:
        if self._lengths is None:
            self._lengths = self._lengths_of(self.ws)
        return self._lengths

    def _asked_lengths(self) -> tuple[SourceLengths, ...]:
        """Those that weights follow from."""
        estimation = self._asked.token_estimation
        return self._lengths_of(self._asked, None if estimation is None else estimation.measure)

    def _lengths_of(
        self, work: WorkSource, measure: Callable[[Any], int] | None = None
    ) -> tuple[SourceLengths, ...]:
        said = self._said
        reader = DocumentReader(work.datasets, said.tokenizer, said.chain(work))
        return document_lengths(work, reader, said.packing(), said.reading(), measure)

    def _source_data(self) -> tuple[SourceData, ...]:
        if self._data is None:
            self._data = self._asked_data = source_data(self._asked)
        return self._data

    def _source_names(self) -> list[str]:
        return [dataset.name for dataset in self._asked.datasets]

    def _refuse_ready_rows(self, call: str) -> None:
        if self.ws.row_length is not None:
            raise ConfigError(
                f"{call}(...) does not apply: {type(self.ws).__name__} gives rows of "
                f"{self.ws.row_length} tokens ready made; call batch(...)"
            )

    def _refuse_while_iterating(self, call: str) -> None:
        if self._stream is not None:
            raise LifecycleError(
                f"{call}(...) while the pipeline is being iterated: close() it first"
            )

    def _wait_for_left(self) -> None:
        while self._left:
            try:
                left = self._left.popleft()
            except IndexError:  # another thread closes as well
                return
            left.close()

    def _reopen(self, message: str) -> None:
        if self._position is not None:
            raise LifecycleError(message)
        self.ws, self._lengths, self._data = self._asked, None, self._asked_data
        self._rounds = None


class _Records(Iterator["SampleRecord"]):
    """The rows of batches of one row."""

    def __init__(self, batches: Iterator[SampleBatch]) -> None:
        self._batches = batches

    def __next__(self) -> SampleRecord:
        return next(self._batches).records[0]


class _Iteration(Iterator["SampleBatch"]):
    """One iteration of a pipeline; leaving it early closes the stream."""

    def __init__(self, pipeline: Pipeline, stream: Stream) -> None:
        self._pipeline = pipeline
        self._stream = stream

    def __next__(self) -> SampleBatch:
        if self._pipeline._stream is not self._stream:
            raise StopIteration  # the pipeline was closed, or is iterated anew
        begin = time.perf_counter()
        try:
            batch, position = next(self._stream)
        except StopIteration:
            ended = self._pipeline._stream is self._stream  # and was not closed meanwhile
            self._pipeline.close()
            if ended:
                self._pipeline._finish_pass(self._stream.dropped or Dropped())
            raise
        except BaseException:
            self._pipeline.close()
            raise
        self._pipeline.position = position
        waited = time.perf_counter() - begin
        self._pipeline._metrics.add("batch", BATCH, items=1, waiting=waited)
        return batch

    def __del__(self) -> None:
        # Any thread may run this, also one of the stream's own: only signal, wait for nothing.
        if self._pipeline._stream is self._stream:
            self._pipeline._stream = None
            self._pipeline._left.append(self._stream)  # for close(), which waits
            self._stream.abandon()
