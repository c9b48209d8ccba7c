"""The description of a stream, and iterating it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zephon import state as state_format
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.ops.pack import PackingAlgorithm, PackOptions
from zephon.ops.tokenize import (
    MissingFieldMode,
    SpecialTokensMode,
    TextTokenizer,
    TokenizeOptions,
)
from zephon.options import PrefetchOptions, StreamOptions, check_int
from zephon.runtime.stream import Position, Stream, StreamPlan
from zephon.work.base import WorkSource

if TYPE_CHECKING:
    import os

    import tokenizers

    from zephon.types import SampleBatch

ORDER_VERSION = 1
"""Raised when a new version would deliver the same configuration in another order."""

_FOREIGN_KEYS = {"replay_cursors", "lane_next_cid", "inflight"}


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What the calls of a pipeline have said so far."""

    tokenizer: TextTokenizer | None = None
    pack: PackOptions | None = None
    microbatch_size: int | None = None
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
        self._change("tokenize", self._said.tokenizer, before=("pack_flat", "batch"))
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

    def pack_flat(self, max_length: int, *, algorithm: PackingAlgorithm = "wrap") -> Pipeline:
        """Pack documents into rows of ``max_length`` tokens.

        Pack to one more than the model's input length: inputs are a row without
        its last token, labels a row without its first.
        """
        self._change("pack_flat", self._said.pack, before=("batch",))
        options = PackOptions(max_length=max_length, algorithm=algorithm)
        self._said = replace(self._said, pack=options)
        return self

    def batch(self, microbatch_size: int) -> Pipeline:
        """Group ``microbatch_size`` rows into a batch. The size may change when resuming."""
        self._change("batch", self._said.microbatch_size, before=())
        if self._said.pack is None:
            raise ConfigError("batch(...) needs rows: call pack_flat(...) before it")
        check_int("microbatch_size", microbatch_size, 1, 2**20)
        self._said = replace(self._said, microbatch_size=microbatch_size)
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
        if self._position is not None and "canonical_replicas" in hints:
            raise LifecycleError(
                "canonical_replicas is fixed for a run, and this pipeline has a position already"
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
        position = self._position or Position.start(plan.lanes)
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
        after :meth:`close`.

        Returns
        -------
        dict
            ``version`` int, ``state`` bytes (see :mod:`zephon.state`) and
            ``lane_emitted``, batches delivered by lane.
        """
        lanes = self._said.options.canonical_replicas
        position = self._position or Position.start(lanes)
        data = state_format.encode(
            state_format.StreamState(
                self._shape(), self._source_states(), position.delivered, position.cursors
            )
        )
        emitted = {lane: -(-(position.delivered - lane) // lanes) for lane in range(lanes)}
        return {"version": state_format.VERSION, "state": data, "lane_emitted": emitted}

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
        state_format.verify(saved, self._shape(), self._source_states())
        self._position = Position(saved.delivered, saved.cursors)

    def _deliver(self, position: Position) -> None:
        self._position = position

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
        if self.ws.lane(0, said.options.canonical_replicas).length() is not None:
            raise ConfigError(
                "the work source ends, and this version of Pipeline iterates endless ones only: "
                "give it exhausted_policy='repeat' and stop after the steps you want"
            )
        return StreamPlan(
            work=self.ws,
            tokenizer=said.tokenizer,
            pack=said.pack,
            microbatch_size=said.microbatch_size,
            lanes=said.options.canonical_replicas,
            vocab_size=_vocab_size(said),
            prefetch=said.prefetch,
        )

    def _say(self, said: _Description) -> None:
        _vocab_size(said)  # refuses a vocabulary that does not fit the tokenizer
        self._said = said

    def _shape(self) -> dict[str, Any]:
        """Everything besides the sources that decides what is delivered."""
        said = self._said
        if said.pack is None:
            raise ConfigError("the pipeline is not complete: call pack_flat(...) before this")
        return {
            "order": ORDER_VERSION,
            "work": self.ws.options(),
            "tokenizer": None if said.tokenizer is None else said.tokenizer.identity,
            "pack": {"max_length": said.pack.max_length, "algorithm": said.pack.algorithm},
            "canonical_replicas": said.options.canonical_replicas,
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
        later = {"pack_flat": self._said.pack, "batch": self._said.microbatch_size}
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
