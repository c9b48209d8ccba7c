"""What the calls of a pipeline have said, checked together, and the stream that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from zephon.errors import ConfigError
from zephon.ops.chain import Chain
from zephon.ops.identity import with_python
from zephon.ops.operator import Operator
from zephon.ops.pack_options import PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.ops.tokenize import DocumentTokenizer
from zephon.options import PrefetchOptions, StreamOptions
from zephon.runtime.batches import BatchFunction, BatchFunctions
from zephon.runtime.exchange import Agreement, open_exchange
from zephon.runtime.lane import LanePlan
from zephon.runtime.metrics import Metrics
from zephon.runtime.position import Share
from zephon.runtime.stream import StreamPlan, alone
from zephon.runtime.worker_meeting import WorkerAgreement
from zephon.work.base import WorkSource

NOT_TOKENIZED = (
    "dataset {!r} is text, but the pipeline has no tokenize(...): call tokenize(<folder of a "
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
    operators: tuple[Operator, ...] = ()
    """Before tokenizing; all of them if nothing tokenizes."""
    token_operators: tuple[Operator, ...] = ()
    batch_functions: tuple[BatchFunction, ...] = ()
    fetch_threads: int | None = None
    accepted: tuple[tuple[str, str], ...] = ()
    """Calls with options that change nothing, and what there is to say of them."""
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

    def compatibility(self, work: WorkSource) -> list[tuple[str, str]]:
        """Calls with options that are accepted for their callers' sake, and what they do here."""
        found = list(self.accepted)
        found += [(type(work).__name__, text) for text in work.accepted]
        if self.options.io_options is not None:
            found += [("options", text) for text in self.options.io_options.accepted()]
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
        if self.tokenizer is not None or self.operators:  # which may make tokens of text
            return []
        return [dataset.name for dataset in work.datasets if dataset.gives_text]

    def chain(self, work: WorkSource) -> Chain:
        """The operators on the documents of ``work``."""
        return Chain(before=self.operators, after=self.token_operators).bound(work)

    def shaping(self) -> dict[str, Any]:
        """What operators decide of what comes out, as JSON values; nothing if there are none."""
        chain = Chain(before=self.operators, after=self.token_operators)
        found: dict[str, Any] = {}
        if chain:
            found["operators"] = chain.shaping(tokenizes=self.tokenizer is not None)
        if self.batch_functions:
            found["on_batches"] = BatchFunctions(self.batch_functions).shaping()
        return with_python(found)

    def reading(self) -> PrefetchOptions:
        """How far and with how many threads or processes documents are read ahead."""
        if self.options.runner == "inline":
            return replace(self.prefetch, buffer_size=0)
        if self.fetch_threads is None:
            return self.prefetch
        asked = max(self.fetch_threads, self.prefetch.parallelism or 1)
        return replace(self.prefetch, parallelism=asked)

    def require_ready(self, work: WorkSource) -> None:
        """ConfigError if a stage that iterating ``work`` takes was not called."""
        if self.pack is None:
            raise ConfigError(
                "the pipeline is not complete: call pack_flat(...) before iterating it. With batch("
                "...) behind it batches come out, without it the records of single rows"
            )
        if text := self.untokenized(work):
            raise ConfigError(NOT_TOKENIZED.format(text[0]))

    def stream_plan(
        self,
        work: WorkSource,
        metrics: Metrics,
        agreement: Callable[[], WorkerAgreement] | None = None,
        rounds: int | None = None,
    ) -> StreamPlan:
        """What iterating ``work`` runs, if it is ready; ConfigError for what cannot work.

        ``rounds`` are those of a pass whose end is known.
        """
        options = self.options
        finite = work.lane(0, options.lanes).length() is not None
        agree: Callable[[bool], bool] = alone
        about = None
        if finite and options.dp_degree > 1 and rounds is None:
            if agreement is None:
                agree = Agreement(open_exchange(options, "end"))
            else:
                agree = of_worker = agreement()
                about = of_worker.about
        return StreamPlan(
            lane=LanePlan(
                work=work,
                tokenizer=self.tokenizer,
                pack=self.packing(),
                shuffle=self.shuffle,
                microbatch_size=self.microbatch_size or 1,
                drop_last=self.drop_last,
                pad_tail=self.pads_tail(),
                lanes=options.lanes,
                vocab_size=self.vocabulary(),
                prefetch=self.reading(),
                chain=self.chain(work),
                runner=options.runner or "threads",
                metrics=metrics,
                on_batches=BatchFunctions(self.batch_functions, work.seed),
            ),
            share=Share(options.dp_group_id, options.dp_degree),
            end=options.end,
            agree=agree,
            about=about,
            rounds=rounds,
        )
