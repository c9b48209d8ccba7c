"""The description of a stream, and iterating it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zephon import state as state_format
from zephon.cursor import Dropped
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.ops.pack import PackingAlgorithm, PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.ops.tokenize import (
    MissingFieldMode,
    SpecialTokensMode,
    TextTokenizer,
    TokenizeOptions,
)
from zephon.options import PrefetchOptions, StreamOptions, check_int
from zephon.runtime.lane import LanePlan
from zephon.runtime.position import Position, Share
from zephon.runtime.stream import Stream, StreamPlan
from zephon.work.base import WorkSource

if TYPE_CHECKING:
    import os

    import tokenizers

    from zephon.types import SampleBatch

logger = logging.getLogger(__name__)

ORDER_VERSION = 1
"""Raised when a new version would deliver the same configuration in another order."""

_FOREIGN_KEYS = {"replay_cursors", "lane_next_cid", "inflight"}


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What the calls of a pipeline have said so far."""

    tokenizer: TextTokenizer | None = None
    pack: PackOptions | None = None
    shuffle: ShuffleOptions | None = None
    microbatch_size: int | None = None
    drop_last: bool = True
    prefetch: PrefetchOptions = field(default_factory=PrefetchOptions)
    options: StreamOptions = field(default_factory=StreamOptions)


class Pipeline:
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
        self._said = _Description()
        self._stream: Stream | None = None
        self._position: Position | None = None
        self._sources: tuple[state_format.SourceState, ...] | None = None

    def tokenize(
        self,
        tokenizer: tokenizers.Tokenizer | str | os.PathLike[str] | None = None,
        tokenizer_id: str | os.PathLike[str] | None = None,
        *,
        field: str,
        missing_field: MissingFieldMode = "error",
        special_tokens: SpecialTokensMode = "bos_eos",
        bos_token_id: int | None = None,
        eos_token_id: int | None = None,
    ) -> Pipeline:
        """Turn the text of records into token ids; documents of tokens pass as they are.

        Parameters
        ----------
        tokenizer : tokenizers.Tokenizer, str or PathLike
            The object, a ``tokenizer.json`` or a folder that holds one.
        tokenizer_id : str or PathLike
            Other name of the same, for a path.
        field : str
            Field of a record that holds the text.
        missing_field : {"error", "empty"}
            What a record without text is: an error, or left out and counted.
        special_tokens : {"bos_eos", "bos", "eos", "none"}
            What is put around each document.
        bos_token_id, eos_token_id : int, optional
            Their ids; else as the files beside the tokenizer name them.

        Raises
        ------
        DataError
            The file is missing or not a tokenizer.
        ConfigError
            An option is out of range, or a special token is not known.
        """
        self._change("tokenize", self._said.tokenizer, before=("pack_flat", "shuffle", "batch"))
        if (tokenizer is None) == (tokenizer_id is None):
            raise ConfigError(
                "give tokenize(...) either a tokenizer or a tokenizer_id: both name one"
            )
        options = TokenizeOptions(
            field=field,
            missing_field=missing_field,
            special_tokens=special_tokens,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
        )
        made = TextTokenizer(tokenizer_id if tokenizer is None else tokenizer, options)
        self._say(replace(self._said, tokenizer=made))
        return self

    def pack_flat(
        self,
        max_length: int,
        *,
        algorithm: PackingAlgorithm = "wrap",
        num_bins: int | None = None,
        max_sequences_per_bin: int | None = None,
        pad_token_id: int | None = None,
        drop_oversized: bool | None = None,
    ) -> Pipeline:
        """Pack documents into rows of ``max_length`` tokens.

        Pack to one more than the model's input length: inputs are a row without
        its last token, labels a row without its first.

        Parameters
        ----------
        max_length : int
            Tokens per row.
        algorithm : {"wrap", "first_fit", "best_fit", "best_fit_wrap"}
            See :mod:`zephon.ops.pack`.
        num_bins : int, optional
            For ``first_fit`` and ``best_fit``: choose among at least so many documents.
        max_sequences_per_bin : int, optional
            Documents that a row holds at most.
        pad_token_id : int, optional
            What padding is filled with; 0 if not given. It is masked by place,
            never by value.
        drop_oversized : bool, optional
            Whether documents longer than a row are left out and counted. If not
            given, ``first_fit`` and ``best_fit`` do so and the others cut them;
            False with the former splits them into parts of a row.
        """
        self._change("pack_flat", self._said.pack, before=("shuffle", "batch"))
        options = PackOptions(
            max_length=max_length,
            algorithm=algorithm,
            num_bins=num_bins,
            max_sequences_per_bin=max_sequences_per_bin,
            pad_token_id=0 if pad_token_id is None else pad_token_id,
            drop_oversized=drop_oversized,
        )
        self._say(replace(self._said, pack=options))
        return self

    def shuffle(self, buffer_size: int = 256, *, seed: int = 0) -> Pipeline:
        """Shuffle rows after packing, every ``buffer_size`` rows of a lane for themselves.

        Documents are shuffled already; this parts rows of the same document.
        Restoring packs up to ``buffer_size`` rows of each lane again.
        """
        self._change("shuffle", self._said.shuffle, before=("batch",))
        if self._said.pack is None:
            raise ConfigError("shuffle(...) needs rows: call pack_flat(...) before it")
        self._say(replace(self._said, shuffle=ShuffleOptions(buffer_size=buffer_size, seed=seed)))
        return self

    def batch(self, microbatch_size: int, *, drop_last: bool = True) -> Pipeline:
        """Group ``microbatch_size`` rows into a batch. The size may change when resuming.

        ``drop_last`` leaves out, and counts, the rows at the end of a finite pass
        that fill no batch; else the last batch of a lane may be smaller.
        """
        self._change("batch", self._said.microbatch_size, before=())
        if self._said.pack is None:
            raise ConfigError("batch(...) needs rows: call pack_flat(...) before it")
        check_int("microbatch_size", microbatch_size, 1, 2**20)
        if not isinstance(drop_last, bool):
            raise ConfigTypeError(f"drop_last is {drop_last!r}, expected True or False")
        self._say(replace(self._said, microbatch_size=microbatch_size, drop_last=drop_last))
        return self

    def prefetch(self, buffer_size: int = 1024, parallelism: int | None = None) -> Pipeline:
        """Read and tokenize up to ``buffer_size`` documents ahead; 0 starts no thread.

        Changes when things are computed, never what comes out.
        """
        self._refuse_while_iterating("prefetch")
        options = PrefetchOptions(buffer_size=buffer_size, parallelism=parallelism)
        self._said = replace(self._said, prefetch=options)
        return self

    def options(self, **hints: Any) -> Pipeline:
        """Set options of the stream; see :class:`zephon.options.StreamOptions`.

        Repeated calls add up.
        """
        self._refuse_while_iterating("options")
        known = StreamOptions.__dataclass_fields__
        for name in hints:
            if name not in known:
                raise ConfigTypeError(
                    f"options(...) has no option {name!r}; it has: {', '.join(known)}"
                )
        fixed = {"canonical_replicas", "dp_degree", "dp_group_id"} & set(hints)
        if self._position is not None and fixed:
            raise LifecycleError(
                f"{min(fixed)} cannot change now: this pipeline has a position already"
            )
        self._say(replace(self._said, options=replace(self._said.options, **hints)))
        return self

    def __iter__(self) -> Iterator[SampleBatch]:
        if self._stream is not None:
            raise LifecycleError(
                "the pipeline is being iterated already: close() it, or build another one"
            )
        plan = self._plan()
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
        the next one.

        Returns
        -------
        dict
            ``version`` int, ``state`` bytes (see :mod:`zephon.state`) and
            ``lane_emitted``, batches delivered by lane.

        Raises
        ------
        LifecycleError
            This is one of several data-parallel ranks, which knows its own lanes
            only: merge what :meth:`local_state` returns on all of them.
        """
        options = self._said.options
        if options.dp_degree > 1:
            raise LifecycleError(
                f"this pipeline is rank {options.dp_group_id} of {options.dp_degree} and knows its "
                "own lanes only: take local_state() on every rank and join them with "
                "zephon.state.merge(...)"
            )
        position, lanes = self._here(), options.lanes
        emitted = {lane: -(-(position.delivered - lane) // lanes) for lane in range(lanes)}
        return {
            "version": state_format.VERSION,
            "state": self.local_state(),
            "lane_emitted": emitted,
        }

    def local_state(self) -> bytes:
        """What this rank knows of the position; the whole state if it is the only one.

        Takes no part in any communication and asks no thread anything.
        :func:`zephon.state.merge` makes the state of the run from those of all ranks.
        """
        options = self._said.options
        position = self._here()
        part = None if options.dp_degree == 1 else (options.dp_group_id, options.dp_degree)
        return state_format.encode(
            state_format.StreamState(
                self._shape(),
                self._source_states(),
                position.delivered,
                position.cursors,
                position.passes,
                part,
            )
        )

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
        saved = state_format.decode(_state_bytes(state))
        if saved.part is not None:
            raise StateError(
                f"this is the part of rank {saved.part[0]} of {saved.part[1]} only: join the parts "
                "of all ranks with zephon.state.merge(...)"
            )
        state_format.verify(saved, self._shape(), self._source_states())
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

    def _here(self) -> Position:
        return self._position or Position.start(self._said.options.lanes)

    def _deliver(self, position: Position) -> None:
        self._position = position

    def _finish_pass(self) -> None:
        """The next pass begins here."""
        here = self._here()
        self._position = Position.start(len(here.cursors), here.passes + 1)
        logger.info("pass %d has ended; the state is the beginning of the next", here.passes + 1)

    def _plan(self) -> StreamPlan:
        said = self._said
        if said.pack is None or said.microbatch_size is None:
            missing = "pack_flat(...)" if said.pack is None else "batch(...)"
            raise ConfigError(f"the pipeline is not complete: call {missing} before iterating it")
        if said.tokenizer is None:
            text = [dataset.name for dataset in self.ws.datasets if dataset.format == "jsonl"]
            if text:
                raise ConfigError(
                    f"dataset {text[0]!r} is JSONL, but the pipeline has no tokenize(...)"
                )
        options = said.options
        if options.dp_degree > 1 and self.ws.lane(0, options.lanes).length() is not None:
            raise ConfigError(
                "a pass that ends needs the data-parallel ranks to agree on its end, which this "
                "version does in one process only: use exhausted_policy='repeat'"
            )
        return StreamPlan(
            lane=LanePlan(
                work=self.ws,
                tokenizer=said.tokenizer,
                pack=said.pack,
                shuffle=said.shuffle,
                microbatch_size=said.microbatch_size,
                drop_last=said.drop_last,
                pad_tail=said.pack.pads_tail if options.tail is None else options.tail == "pad",
                lanes=options.lanes,
                vocab_size=_vocab_size(said),
                prefetch=said.prefetch,
            ),
            share=Share(options.dp_group_id, options.dp_degree),
            end=options.end,
            agree=bool,
        )

    def _say(self, said: _Description) -> None:
        _vocab_size(said)  # refuses a vocabulary that does not fit the tokenizer
        self._said = said

    def _shape(self) -> dict[str, Any]:
        """Everything besides the sources that decides what is delivered."""
        said = self._said
        if said.pack is None:
            raise ConfigError("the pipeline is not complete: call pack_flat(...) before this")
        tail = said.pack.pads_tail if said.options.tail is None else said.options.tail == "pad"
        return {
            "order": ORDER_VERSION,
            "work": self.ws.options(),
            "tokenizer": None if said.tokenizer is None else said.tokenizer.identity,
            "pack": {**said.pack.shaping(), "pad_tail": tail},
            "shuffle": None if said.shuffle is None else said.shuffle.shaping(),
            "canonical_replicas": said.options.lanes,
        }

    def _source_states(self) -> tuple[state_format.SourceState, ...]:
        if self._sources is None:
            self._sources = tuple(
                state_format.SourceState(
                    dataset.name,
                    dataset.digest()[:8],
                    weight,
                    {
                        "format": dataset.format,
                        "documents": dataset.total(),
                        "shards": dataset.shard_count(),
                        "bytes": int(dataset.raw_bytes().sum()),
                    },
                )
                for dataset, weight in zip(self.ws.datasets, self.ws.weights, strict=True)
            )
        return self._sources

    def _change(self, call: str, present: object, *, before: tuple[str, ...]) -> None:
        self._refuse_while_iterating(call)
        if self._position is not None:
            raise LifecycleError(
                f"{call}(...) would change the stream, and this pipeline has a position in it "
                "already: build a new one"
            )
        if present is not None:
            raise ConfigError(f"{call}(...) was called already")
        later = {
            "pack_flat": self._said.pack,
            "shuffle": self._said.shuffle,
            "batch": self._said.microbatch_size,
        }
        for name in before:
            if later[name] is not None:
                raise ConfigError(f"{call}(...) belongs before {name}(...)")

    def _refuse_while_iterating(self, call: str) -> None:
        if self._stream is not None:
            raise LifecycleError(
                f"{call}(...) while the pipeline is being iterated: close() it first"
            )


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


def _vocab_size(said: _Description) -> int:
    """The bound for token ids, 0 if nothing tells."""
    bound = _vocabulary(said)
    if bound and said.pack is not None and said.pack.pad_token_id >= bound:
        raise ConfigError(
            f"pad_token_id is {said.pack.pad_token_id}, outside the vocabulary of {bound} ids"
        )
    return bound


def _vocabulary(said: _Description) -> int:
    given, tokenizer = said.options.vocab_size, said.tokenizer
    if given is None:
        return 0 if tokenizer is None else tokenizer.vocab_size
    if tokenizer is not None and given < tokenizer.vocab_size:
        raise ConfigError(
            f"vocab_size is {given}, but the tokenizer makes ids up to "
            f"{tokenizer.vocab_size - 1}: it needs at least {tokenizer.vocab_size}"
        )
    return given


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
