"""The stages of a pipeline: the calls that describe a stream."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from zephon.description import Description
from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.pack import PackingAlgorithm, PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.options import PrefetchOptions, StreamOptions, check_int, refuse_unknown
from zephon.tokenize_stages import TokenizeStages

if TYPE_CHECKING:
    from zephon.work.base import WorkSource


class Stages(TokenizeStages):
    """What a pipeline is described by, call by call.

    Every call checks its options, and those that go together, at once. Nothing is
    read but the tokenizer's file.
    """

    ws: WorkSource

    def __init__(self) -> None:
        self._said = Description()

    def pack_flat(
        self,
        max_length: int,
        *,
        algorithm: PackingAlgorithm = "wrap",
        num_bins: int | None = None,
        max_sequences_per_bin: int | None = None,
        pad_token_id: int | None = None,
        drop_oversized: bool | None = None,
    ) -> Self:
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
        self._refuse_ready_rows("pack_flat")
        self._change("pack_flat", self._said.pack, before=("shuffle", "batch"))
        options = PackOptions(
            max_length=max_length,
            algorithm=algorithm,
            num_bins=num_bins,
            max_sequences_per_bin=max_sequences_per_bin,
            pad_token_id=0 if pad_token_id is None else pad_token_id,
            drop_oversized=drop_oversized,
        )
        self._said = replace(self._said, pack=options)
        return self

    def shuffle(self, buffer_size: int = 256, *, seed: int = 0) -> Self:
        """Shuffle rows after packing, every ``buffer_size`` rows of a lane for themselves.

        The order of documents is the work source's; this parts rows that were cut of the
        same document or packed together.
        Restoring packs up to ``buffer_size`` rows of each lane again.
        """
        self._change("shuffle", self._said.shuffle, before=("batch",))
        if self._said.pack is None:
            raise ConfigError("shuffle(...) needs rows: call pack_flat(...) before it")
        self._said = replace(self._said, shuffle=ShuffleOptions(buffer_size=buffer_size, seed=seed))
        return self

    def batch(self, microbatch_size: int, *, drop_last: bool = True) -> Self:
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
        self._said = replace(self._said, microbatch_size=microbatch_size, drop_last=drop_last)
        return self

    def prefetch(self, buffer_size: int = 1024, parallelism: int | None = None) -> Self:
        """Read and tokenize up to ``buffer_size`` documents ahead; 0 starts no thread.

        Changes when things are computed, never what comes out.
        """
        self._refuse_while_iterating("prefetch")
        options = PrefetchOptions(buffer_size=buffer_size, parallelism=parallelism)
        self._said = replace(self._said, prefetch=options)
        return self

    def options(self, **hints: Any) -> Self:
        """Set options of the stream; see :class:`zephon.options.StreamOptions`.

        Repeated calls add up.
        """
        self._refuse_while_iterating("options")
        refuse_unknown("options", hints, StreamOptions.__dataclass_fields__)
        fixed = {"canonical_replicas", "dp_degree", "dp_group_id"} & set(hints)
        if fixed:
            self._reopen(f"{min(fixed)} cannot change now: this pipeline has a position already")
        self._said = replace(self._said, options=replace(self._said.options, **hints))
        if hints.get("io_options") is not None:
            for dataset in self.ws.datasets:
                dataset.use(self._said.options.io_options)
        return self

    def _change(self, call: str, present: object, *, before: tuple[str, ...]) -> None:
        self._refuse_while_iterating(call)
        self._reopen(
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

    @abstractmethod
    def _reopen(self, message: str) -> None:
        """LifecycleError with ``message`` if there is a position in the stream.

        Else what was found out about the stream so far is forgotten.
        """
