"""The stages of a pipeline: the calls that describe a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from zephon._hints import NAMES, take_hints, without_effect
from zephon.description import Description
from zephon.errors import ConfigError, ConfigTypeError
from zephon.operator_stages import COMMON
from zephon.ops.grouping import DomainGroups, Homogeneity, resolve_groups
from zephon.ops.pack_options import PackingAlgorithm, PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.ops.transform import TokensFrom
from zephon.options import PrefetchOptions, StreamOptions, check_int, refuse_unknown
from zephon.records import TOKEN_FIELDS
from zephon.tokenize_stages import TokenizeStages

if TYPE_CHECKING:
    from zephon.work.base import WorkSource


_OF_PACKING = (
    "tokens_field",
    "emit_positions",
    "shuffle_strategy",
    "shuffle_seed",
    "flush_strategy",
    "candidate_pool_size",
    "max_candidate_age",
    "homogeneity",
)


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
        tokens_field: str = "auto",
        pad_token_id: int | None = None,
        emit_positions: bool = True,
        drop_oversized: bool | None = None,
        min_sequence_length: int = 1,
        shuffle_strategy: Literal["random", "length"] | None = None,
        shuffle_seed: int | None = None,
        flush_strategy: Literal["fifo", "fullest"] = "fifo",
        candidate_pool_size: int | None = None,
        max_candidate_age: int | None = None,
        homogeneity: Homogeneity = "none",
        groups: DomainGroups | Mapping[str, Sequence[str]] | None = None,
        placement: str = "auto",
        parallelism: int | None = None,
        **unknown: Any,
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
        tokens_field : str
            Field of a document that holds its token ids; ``"auto"``: the first that is there
            of ``input_ids``, ``tokens``, ``token_ids`` and ``ids``.
        min_sequence_length : int
            Documents with fewer tokens are left out, and counted as empty.
        homogeneity : {"none", "group", "full"}
            Which documents may share a row: all; those of one of ``groups``; those of one
            dataset. For ``first_fit`` and ``best_fit``.
        groups : DomainGroups or mapping from name of a group to names of datasets, optional
            Every dataset in one of them.
        emit_positions : bool
            Only True: batches have positions.
        shuffle_strategy, shuffle_seed, flush_strategy, candidate_pool_size, max_candidate_age
            Accepted where they change nothing, see docs/compatibility.md.
        placement, parallelism
            Accepted for callers of other loaders: packing is not spread over threads.
        """
        known = (*PackOptions.__dataclass_fields__, *_OF_PACKING, *COMMON)
        self._check_common("pack_flat", parallelism, placement, unknown, known)
        self._refuse_ready_rows("pack_flat")
        self._change("pack_flat", self._said.pack, before=("shuffle", "batch"))
        if not isinstance(tokens_field, str):
            raise ConfigTypeError(f"tokens_field is {tokens_field!r}, expected a str")
        if emit_positions is not True:
            raise ConfigError(
                f"emit_positions is {emit_positions!r}, expected True: rows know where documents "
                "begin in any case. to_training(exclude_fields=('positions',)) leaves them out"
            )
        options = PackOptions(
            max_length=max_length,
            algorithm=algorithm,
            num_bins=num_bins,
            max_sequences_per_bin=max_sequences_per_bin,
            pad_token_id=0 if pad_token_id is None else pad_token_id,
            drop_oversized=drop_oversized,
            min_sequence_length=None if min_sequence_length == 1 else min_sequence_length,
            groups=resolve_groups(homogeneity, groups, self._source_names()),
        )
        accepted = without_effect(
            algorithm,
            {
                "shuffle_strategy": shuffle_strategy,
                "shuffle_seed": shuffle_seed,
                "flush_strategy": flush_strategy,
                "candidate_pool_size": candidate_pool_size,
                "max_candidate_age": max_candidate_age,
                "parallelism": parallelism,
            },
        )
        self._tokens_from(tokens_field)
        self._said = replace(self._said, pack=options)
        for text in accepted:
            self._accept("pack_flat", text)
        return self

    def _tokens_from(self, field: str) -> None:
        """Let tokens be those of a field that is named."""
        if field == "auto":
            return
        formats = {dataset.format for dataset in self.ws.datasets}
        # What is tokenized, or read as tokens, is under this name and no other.
        if field == TOKEN_FIELDS[0] and (self._said.tokenizer or formats == {"megatron"}):
            return
        self._operate(TokensFrom(field))

    def shuffle(
        self,
        buffer_size: int | None = None,
        *,
        seed: int = 0,
        algorithm: Literal["streaming", "block"] = "streaming",
        warmup_growth: float = 1.5,
        placement: str = "auto",
        parallelism: int | None = None,
        **unknown: Any,
    ) -> Self:
        """Shuffle rows after packing, every ``buffer_size`` rows of a lane for themselves.

        The order of documents is the work source's; this parts rows that were cut of the
        same document or packed together.
        Restoring packs up to ``buffer_size`` rows of each lane again.

        Parameters
        ----------
        buffer_size : int, optional
            Rows, 256 if not given.
        seed : int
            Of their order.
        algorithm, warmup_growth, placement, parallelism
            Accepted for callers of other loaders: rows are shuffled in blocks of one size, in
            the thread that packs them.
        """
        known = ("buffer_size", "seed", "algorithm", "warmup_growth", *COMMON)
        self._check_common("shuffle", parallelism, placement, unknown, known)
        if algorithm not in ("streaming", "block"):
            raise ConfigError(
                f"algorithm is {algorithm!r}, expected 'streaming' or 'block': blocks have one "
                "size. A smaller buffer_size gives the first batch sooner"
            )
        if isinstance(warmup_growth, bool) or not isinstance(warmup_growth, (int, float)):
            raise ConfigTypeError(f"warmup_growth is {warmup_growth!r}, expected a number")
        self._change("shuffle", self._said.shuffle, before=("batch",))
        if self._said.pack is None:
            raise ConfigError("shuffle(...) needs rows: call pack_flat(...) before it")
        size = 256 if buffer_size is None else buffer_size
        self._said = replace(self._said, shuffle=ShuffleOptions(buffer_size=size, seed=seed))
        for name, value, usual in (
            ("warmup_growth", warmup_growth, 1.5),
            ("parallelism", parallelism, None),
        ):
            if value != usual:
                self._accept("shuffle", f"{name}={value!r}: blocks of {size} rows are shuffled")
        return self

    def batch(
        self,
        microbatch_size: int,
        *,
        drop_last: bool = True,
        placement: str = "auto",
        **unknown: Any,
    ) -> Self:
        """Group ``microbatch_size`` rows into a batch. The size may change when resuming.

        ``drop_last`` leaves out, and counts, the rows at the end of a finite pass
        that fill no batch; else the last batch of a lane may be smaller.
        """
        known = ("microbatch_size", "drop_last", "placement")
        self._check_common("batch", None, placement, unknown, known)
        self._change("batch", self._said.microbatch_size, before=())
        if self._said.pack is None:
            raise ConfigError("batch(...) needs rows: call pack_flat(...) before it")
        check_int("microbatch_size", microbatch_size, 1, 2**20)
        if not isinstance(drop_last, bool):
            raise ConfigTypeError(f"drop_last is {drop_last!r}, expected True or False")
        self._said = replace(self._said, microbatch_size=microbatch_size, drop_last=drop_last)
        return self

    def prefetch(
        self,
        buffer_size: int = 1024,
        parallelism: int | None = None,
        *,
        placement: str = "local",
        **unknown: Any,
    ) -> Self:
        """Read and tokenize up to ``buffer_size`` documents ahead; 0 starts no thread.

        Changes when things are computed, never what comes out; ``placement`` not even that.
        """
        known = (*PrefetchOptions.__dataclass_fields__, "placement")
        usual = "auto" if placement == "local" else placement
        self._check_common("prefetch", None, usual, unknown, known)
        self._refuse_while_iterating("prefetch")
        options = PrefetchOptions(buffer_size=buffer_size, parallelism=parallelism)
        self._said = replace(self._said, prefetch=options)
        return self

    def options(self, **hints: Any) -> Self:
        """Set options of the stream; see :class:`zephon.options.StreamOptions`.

        Repeated calls add up. Options of other runtimes that cannot change what comes out, such
        as ``deterministic`` and ``mtp_mode``, are accepted and told by :meth:`explain`.
        """
        self._refuse_while_iterating("options")
        refuse_unknown("options", hints, StreamOptions.__dataclass_fields__, NAMES)
        hints, accepted = take_hints(hints)
        fixed = {"canonical_replicas", "dp_degree", "dp_group_id"} & set(hints)
        if fixed:
            self._reopen(f"{min(fixed)} cannot change now: this pipeline has a position already")
        self._said = replace(self._said, options=replace(self._said.options, **hints))
        for text in accepted:
            self._accept("options", text)
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
