"""What the calls of a pipeline have said, checked together, and the stream that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zephon.errors import ConfigError
from zephon.ops.pack import PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.ops.tokenize import DocumentTokenizer
from zephon.options import PrefetchOptions, StreamOptions
from zephon.runtime.exchange import Agreement, open_exchange
from zephon.runtime.lane import LanePlan
from zephon.runtime.position import Share
from zephon.runtime.stream import StreamPlan, alone
from zephon.work.base import WorkSource

NOT_TOKENIZED = (
    "dataset {!r} is JSONL, but the pipeline has no tokenize(...): call tokenize(<folder of a "
    "tokenizer>, field=<name of the text field>) before pack_flat(...)"
)


@dataclass(frozen=True, kw_only=True)
class Description:
    """The stages of a pipeline and their options; what was not called is None."""

    tokenizer: DocumentTokenizer | None = None
    pack: PackOptions | None = None
    shuffle: ShuffleOptions | None = None
    microbatch_size: int | None = None
    drop_last: bool = True
    prefetch: PrefetchOptions = field(default_factory=PrefetchOptions)
    options: StreamOptions = field(default_factory=StreamOptions)

    def __post_init__(self) -> None:
        bound = self.vocabulary()
        if bound and self.pack is not None and self.pack.pad_token_id >= bound:
            raise ConfigError(
                f"pad_token_id is {self.pack.pad_token_id}, outside the vocabulary of {bound} ids"
            )

    def vocabulary(self) -> int:
        """The bound for token ids, 0 if nothing tells."""
        given, tokenizer = self.options.vocab_size, self.tokenizer
        if given is None:
            return 0 if tokenizer is None else tokenizer.vocab_size
        if tokenizer is not None and given < tokenizer.vocab_size:
            raise ConfigError(
                f"vocab_size is {given}, but the tokenizer makes ids up to "
                f"{tokenizer.vocab_size - 1}: it needs at least {tokenizer.vocab_size}"
            )
        return given

    def packing(self) -> PackOptions:
        """How documents are packed; ConfigError if that was not said."""
        if self.pack is None:
            raise ConfigError("the pipeline is not complete: call pack_flat(...) before this")
        return self.pack

    def pads_tail(self) -> bool:
        """Whether the last row of a lane is padded rather than dropped."""
        tail = self.options.tail
        return self.packing().pads_tail if tail is None else tail == "pad"

    def compatibility(self) -> list[tuple[str, str]]:
        """Calls with options that are accepted for their callers' sake, and what they do here."""
        found = []
        if self.pack is not None and self.pack.num_bins is not None:
            window = self.pack.shaping()["window"]
            text = (
                f"num_bins={self.pack.num_bins}: no rows are kept open; {self.pack.algorithm} "
                f"packs windows of {window} documents"
            )
            found.append(("pack_flat", text))
        return found

    def untokenized(self, work: WorkSource) -> list[str]:
        """Names of datasets of text that nothing tokenizes."""
        if self.tokenizer is not None:
            return []
        return [dataset.name for dataset in work.datasets if dataset.format == "jsonl"]

    def require_ready(self, work: WorkSource) -> None:
        """ConfigError if a stage that iterating ``work`` takes was not called."""
        if self.pack is None or self.microbatch_size is None:
            missing = "pack_flat(...)" if self.pack is None else "batch(...)"
            raise ConfigError(f"the pipeline is not complete: call {missing} before iterating it")
        if text := self.untokenized(work):
            raise ConfigError(NOT_TOKENIZED.format(text[0]))

    def stream_plan(self, work: WorkSource) -> StreamPlan:
        """What iterating ``work`` runs, if it is ready; ConfigError for what cannot work."""
        assert self.microbatch_size is not None
        options = self.options
        finite = work.lane(0, options.lanes).length() is not None
        agree: Callable[[bool], bool] = alone
        if finite and options.dp_degree > 1:
            agree = Agreement(open_exchange(options, "end"))
        return StreamPlan(
            lane=LanePlan(
                work=work,
                tokenizer=self.tokenizer,
                pack=self.packing(),
                shuffle=self.shuffle,
                microbatch_size=self.microbatch_size,
                drop_last=self.drop_last,
                pad_tail=self.pads_tail(),
                lanes=options.lanes,
                vocab_size=self.vocabulary(),
                prefetch=self.prefetch,
            ),
            share=Share(options.dp_group_id, options.dp_degree),
            end=options.end,
            agree=agree,
        )
