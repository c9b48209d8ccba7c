"""The stages of a pipeline: the calls that describe a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from zephon.description import Description
from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.chat import ChatOptions, ChatTokenizer, LossScope, SpanSource
from zephon.ops.engines import EngineName
from zephon.ops.pack import PackingAlgorithm, PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.ops.tokenize import (
    MissingFieldMode,
    SpecialTokensMode,
    TextTokenizer,
    TokenizeOptions,
)
from zephon.options import PrefetchOptions, StreamOptions, check_int

if TYPE_CHECKING:
    import os


class Stages(ABC):
    """What a pipeline is described by, call by call.

    Every call checks its options, and those that go together, at once. Nothing is
    read but the tokenizer's file.
    """

    def __init__(self) -> None:
        self._said = Description()

    def tokenize(
        self,
        tokenizer: Any = None,
        tokenizer_id: str | os.PathLike[str] | None = None,
        *,
        field: str,
        missing_field: MissingFieldMode = "error",
        add_attention_mask: bool = True,
        max_length: int | None = None,
        padding: bool = False,
        truncation: bool = False,
        return_tensors: str | None = None,
        use_fast: bool | None = True,
        preserve_upstream_payload: bool = False,
        special_tokens: SpecialTokensMode = "bos_eos",
        bos_token_id: int | None = None,
        eos_token_id: int | None = None,
        split_special_tokens: bool = True,
        engine: EngineName = "tokenizers",
        placement: str = "auto",
        parallelism: int | None = None,
    ) -> Self:
        """Turn the text of records into token ids; documents of tokens pass as they are.

        Parameters
        ----------
        tokenizer : tokenizers.Tokenizer, a fast tokenizer of transformers, str or PathLike
            The object, a ``tokenizer.json`` or a folder that holds one.
        tokenizer_id : str or PathLike
            Other name of the same, for a path.
        field : str
            Field of a record that holds the text.
        missing_field : {"error", "empty"}
            What a record without text is: an error, or left out and counted.
        max_length : int, optional
            Tokens of a document at most, special tokens included, with ``truncation``.
        truncation : bool
            Whether longer documents lose their end.
        special_tokens : {"bos_eos", "bos", "eos", "none", "tokenizer_default"}
            What is put around each document; the last: what the tokenizer's own
            post-processor puts there.
        bos_token_id, eos_token_id : int, optional
            Their ids; else as the files beside the tokenizer name them.
        split_special_tokens : bool
            Whether text that spells a special token stays text. False lets the data
            put control tokens into the stream.
        engine : {"tokenizers", "fastokens"}
            What computes the ids. The second is many times faster; it is compared with
            the first when it is made and on the first documents, and refused if any id
            differs. It does not change the stream.
        padding : bool
            Only False: rows are padded when they are packed.
        add_attention_mask, return_tensors, use_fast, preserve_upstream_payload, placement
            Accepted for callers of other loaders; they change nothing here.
        parallelism : int, optional
            The same; threads are set by :meth:`prefetch`.

        Raises
        ------
        DataError
            The file is missing or not a tokenizer.
        ConfigError
            An option is out of range, or a special token is not known.
        """
        self._before_tokens("tokenize")
        if padding:
            raise ConfigError(
                f"padding is {padding!r}, expected False: documents are not padded, rows are, by "
                "pack_flat(...)"
            )
        options = TokenizeOptions(
            field=field,
            missing_field=missing_field,
            special_tokens=special_tokens,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            max_length=max_length,
            truncation=truncation,
            split_special_tokens=split_special_tokens,
            engine=engine,
        )
        made = TextTokenizer(_one_tokenizer("tokenize", tokenizer, tokenizer_id), options)
        self._said = replace(self._said, tokenizer=made)
        return self

    def tokenize_chat(
        self,
        tokenizer: Any = None,
        tokenizer_id: str | os.PathLike[str] | None = None,
        *,
        eos_token: str | None = None,
        field: str = "messages",
        max_length: int | None = None,
        chat_template: str | os.PathLike[str] | None = None,
        apply_chat_template: bool = True,
        span_source: SpanSource = "auto",
        loss_scope: LossScope | None = None,
        loss_on_last_turn_only: bool | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        tools_field: str = "tools",
        enable_thinking_field: str = "enable_thinking",
        mask_field_out: str = "loss_mask",
        preserve_upstream_payload: bool = False,
        placement: str = "auto",
        parallelism: int | None = None,
    ) -> Self:
        """Turn conversations into token ids, with a loss mask on what the assistant says.

        A conversation is a list of messages with ``role`` and ``content``, rendered with
        the tokenizer's chat template; what else a message has the template may use. Text
        of a message that spells a special token stays text.

        Parameters
        ----------
        tokenizer, tokenizer_id
            As for :meth:`tokenize`.
        eos_token : str, optional
            What ``eos_token`` is in the template, if not what the tokenizer names.
        field : str
            Field of a record that holds the messages.
        max_length : int, optional
            Tokens of a conversation at most; longer ones lose their end.
        chat_template : str or PathLike, optional
            A Jinja template, or a file that holds one; else the tokenizer's own.
        apply_chat_template : bool
            False: contents end to end, with EOS behind what an assistant says.
        span_source : {"auto", "generation_tags", "prefix_diff"}
            How assistant turns are found in the text: between ``{% generation %}`` tags,
            or as what each adds to the conversation before it.
        loss_scope : {"all_assistant", "last_span", "after_last_user"}
            Which assistant turns are learned; all if not given.
        loss_on_last_turn_only : bool, optional
            Other name of ``loss_scope="last_span"``.
        chat_template_kwargs : mapping, optional
            Further variables of the template.
        tools_field, enable_thinking_field : str
            Fields of a record that the template gets as ``tools`` and ``enable_thinking``.
        mask_field_out : str
            Name of the mask; under another name it does not mask labels but is a field
            beside the tokens.
        preserve_upstream_payload, placement, parallelism
            Accepted for callers of other loaders; they change nothing here.
        """
        self._before_tokens("tokenize_chat")
        if loss_on_last_turn_only is not None and loss_scope is not None:
            raise ConfigError(
                "give either loss_scope or loss_on_last_turn_only: both say which turns are learned"
            )
        if loss_on_last_turn_only:
            loss_scope = "last_span"
        options = ChatOptions(
            field=field,
            max_length=max_length,
            chat_template=chat_template,
            apply_chat_template=apply_chat_template,
            span_source=span_source,
            loss_scope="all_assistant" if loss_scope is None else loss_scope,
            eos_token=eos_token,
            chat_template_kwargs={} if chat_template_kwargs is None else chat_template_kwargs,
            tools_field=tools_field,
            enable_thinking_field=enable_thinking_field,
            mask_field_out=mask_field_out,
        )
        made = ChatTokenizer(_one_tokenizer("tokenize_chat", tokenizer, tokenizer_id), options)
        self._said = replace(self._said, tokenizer=made)
        return self

    def _before_tokens(self, call: str) -> None:
        self._refuse_ready_rows(call)
        self._change(call, self._said.tokenizer, before=("pack_flat", "shuffle", "batch"))

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
        known = StreamOptions.__dataclass_fields__
        for name in hints:
            if name not in known:
                raise ConfigTypeError(
                    f"options(...) has no option {name!r}; it has: {', '.join(known)}"
                )
        fixed = {"canonical_replicas", "dp_degree", "dp_group_id"} & set(hints)
        if fixed:
            self._reopen(f"{min(fixed)} cannot change now: this pipeline has a position already")
        self._said = replace(self._said, options=replace(self._said.options, **hints))
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
    def _refuse_ready_rows(self, call: str) -> None:
        """ConfigError if the work source gives rows ready made."""

    @abstractmethod
    def _refuse_while_iterating(self, call: str) -> None:
        """LifecycleError if the stream is running."""

    @abstractmethod
    def _reopen(self, message: str) -> None:
        """LifecycleError with ``message`` if there is a position in the stream.

        Else what was found out about the stream so far is forgotten.
        """


def _one_tokenizer(call: str, tokenizer: Any, tokenizer_id: Any) -> Any:
    if (tokenizer is None) == (tokenizer_id is None):
        raise ConfigError(f"give {call}(...) either a tokenizer or a tokenizer_id: both name one")
    return tokenizer_id if tokenizer is None else tokenizer
