"""The stages of a pipeline that make tokens of text and of conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from zephon.errors import ConfigError, ConfigTypeError
from zephon.operator_stages import COMMON, OperatorStages
from zephon.ops.chat import ChatOptions, ChatTokenizer, LossScope, SpanSource
from zephon.ops.engines import EngineName
from zephon.ops.tokenize import (
    MissingFieldMode,
    SpecialTokensMode,
    TextTokenizer,
    TokenizeOptions,
)

if TYPE_CHECKING:
    import os

_NO_EFFECT = {
    "add_attention_mask": "batches derive masks from the lengths of documents",
    "padding": "rows are padded, documents are not",
    "return_tensors": "to_training(dtype=...) says what batches are made of",
    "use_fast": "there is one kind of tokenizer",
    "preserve_upstream_payload": "what else a record has stays with its document",
}
"""Options of other loaders that change nothing, and why."""


class TokenizeStages(OperatorStages):
    """Calls that tokenize; documents of tokens pass them as they are."""

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
        split_long_samples: bool = False,
        split_special_tokens: bool = True,
        engine: EngineName = "tokenizers",
        placement: str = "auto",
        parallelism: int | None = None,
        **unknown: Any,
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
            Tokens of a document at most, special tokens included, with ``truncation``
            or ``split_long_samples``.
        truncation : bool
            Whether longer documents lose their end.
        split_long_samples : bool
            Whether longer documents become several, as by :meth:`split_long_samples`.
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
            There are at least so many threads.

        Raises
        ------
        DataError
            The file is missing or not a tokenizer.
        ConfigError
            An option is out of range, or a special token is not known.
        """
        known = (*TokenizeOptions.__dataclass_fields__, *_NO_EFFECT, *COMMON)
        self._before_tokens("tokenize", parallelism, placement, unknown, known)
        if padding:
            raise ConfigError(
                f"padding is {padding!r}, expected False: documents are not padded, rows are, by "
                "pack_flat(...)"
            )
        if not isinstance(split_long_samples, bool):
            raise ConfigTypeError(
                f"split_long_samples is {split_long_samples!r}, expected True or False"
            )
        if split_long_samples and (max_length is None or truncation):
            raise ConfigError(
                "split_long_samples=True cuts documents into parts of max_length tokens: it needs "
                "max_length=, and excludes truncation=True"
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
        if max_length is not None and not (truncation or split_long_samples):
            self._accept("tokenize", f"max_length={max_length}: neither cut nor split")
        for name, value, usual in (
            ("add_attention_mask", add_attention_mask, True),
            ("return_tensors", return_tensors, None),
            ("use_fast", use_fast, True),
            ("preserve_upstream_payload", preserve_upstream_payload, False),
        ):
            if value != usual:
                self._accept("tokenize", f"{name}={value!r}: {_NO_EFFECT[name]}")
        return self.split_long_samples(max_length) if split_long_samples and max_length else self

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
        **unknown: Any,
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
        preserve_upstream_payload, placement
            Accepted for callers of other loaders; they change nothing here.
        parallelism : int, optional
            There are at least so many threads.
        """
        known = (*ChatOptions.__dataclass_fields__, "loss_on_last_turn_only", *COMMON)
        known = (*known, "preserve_upstream_payload")
        self._before_tokens("tokenize_chat", parallelism, placement, unknown, known)
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
        if preserve_upstream_payload:
            text = _NO_EFFECT["preserve_upstream_payload"]
            self._accept("tokenize_chat", f"preserve_upstream_payload=True: {text}")
        return self

    def _before_tokens(
        self,
        call: str,
        parallelism: int | None,
        placement: object,
        unknown: Mapping[str, Any],
        known: tuple[str, ...],
    ) -> None:
        self._refuse_ready_rows(call)
        self._change(call, self._said.tokenizer, before=("pack_flat", "shuffle", "batch"))
        self._check_common(call, parallelism, placement, unknown, known)
        if parallelism is not None:
            threads = max(parallelism, self._said.fetch_threads or 1)
            self._said = replace(self._said, fetch_threads=threads)


def _one_tokenizer(call: str, tokenizer: Any, tokenizer_id: Any) -> Any:
    if (tokenizer is None) == (tokenizer_id is None):
        raise ConfigError(f"give {call}(...) either a tokenizer or a tokenizer_id: both name one")
    return tokenizer_id if tokenizer is None else tokenizer
