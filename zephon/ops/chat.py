"""From conversations to token ids, with a loss mask on what the assistant says."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import MASK_FIELD
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.ops.chat_template import PLAIN, ChatTemplate, Rendered, Span
from zephon.ops.engines import ReferenceEngine
from zephon.ops.tokenize import (
    DocumentTokenizer,
    Encoded,
    Places,
    absent,
    check_field,
    identity_of,
    plain_copy,
    vocabulary_of,
)
from zephon.ops.tokenizer_files import load_tokenizer
from zephon.options import check_int

SpanSource = Literal["auto", "generation_tags", "prefix_diff"]
LossScope = Literal["all_assistant", "last_span", "after_last_user"]

_SPAN_SOURCES = ("auto", "generation_tags", "prefix_diff")
_LOSS_SCOPES = ("all_assistant", "last_span", "after_last_user")

ASSISTANT, USER = "assistant", "user"


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """How conversations become token ids.

    Attributes
    ----------
    field : str
        Field of a record with the messages: mappings with ``role`` and ``content``.
    max_length : int or None
        Tokens of a conversation at most; longer ones lose their end.
    chat_template : str, PathLike or None
        A Jinja template, or a file that holds one; None: the tokenizer's own.
    apply_chat_template : bool
        False: contents end to end, with EOS behind what an assistant says.
    span_source : {"auto", "generation_tags", "prefix_diff"}
        How assistant turns are found in the text: between ``{% generation %}`` tags of
        the template, or as what each of them adds to the conversation before it, with
        its generation prompt. ``auto``: by tags if the template has them.
    loss_scope : {"all_assistant", "last_span", "after_last_user"}
        Which assistant turns are learned.
    eos_token : str or None
        What ``eos_token`` is in the template, if not what the tokenizer names.
    chat_template_kwargs : mapping
        Further variables of the template.
    tools_field, enable_thinking_field : str
        Fields of a record that are given to the template as ``tools`` and
        ``enable_thinking``, where they are not missing or null.
    mask_field_out : str
        Name of the mask. Only as ``loss_mask`` does it mask labels; under another
        name it is a field beside the tokens.
    """

    field: str = "messages"
    max_length: int | None = None
    chat_template: str | os.PathLike[str] | None = None
    apply_chat_template: bool = True
    span_source: SpanSource = "auto"
    loss_scope: LossScope = "all_assistant"
    eos_token: str | None = None
    chat_template_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tools_field: str = "tools"
    enable_thinking_field: str = "enable_thinking"
    mask_field_out: str = MASK_FIELD

    def __post_init__(self) -> None:
        for name in ("field", "tools_field", "enable_thinking_field", "mask_field_out"):
            check_field(name, getattr(self, name))
        for name, value, known in (
            ("span_source", self.span_source, _SPAN_SOURCES),
            ("loss_scope", self.loss_scope, _LOSS_SCOPES),
        ):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}, expected one of {', '.join(known)}")
        if self.max_length is not None:
            check_int("max_length", self.max_length, 1, 2**31)
        if not isinstance(self.apply_chat_template, bool):
            raise ConfigTypeError(
                f"apply_chat_template is {self.apply_chat_template!r}, expected True or False"
            )
        if not isinstance(self.chat_template_kwargs, Mapping):
            raise ConfigTypeError(
                f"chat_template_kwargs is a {type(self.chat_template_kwargs).__name__}, expected "
                "a mapping from names to values"
            )
        if not (self.eos_token is None or isinstance(self.eos_token, str)):
            raise ConfigTypeError(f"eos_token is {self.eos_token!r}, expected a str")
        if not self.apply_chat_template and self.chat_template is not None:
            raise ConfigError("chat_template is given, but apply_chat_template=False: choose one")


class ChatTokenizer(DocumentTokenizer):
    """A tokenizer that renders conversations before it encodes them.

    Text of a message that spells a special token stays text. Where there is such
    text, the pieces between control tokens are encoded one by one.

    Parameters
    ----------
    tokenizer : str, PathLike, tokenizers.Tokenizer or a fast tokenizer of transformers
        As for :class:`zephon.ops.tokenize.TextTokenizer`.
    options : ChatOptions
        What to do with records.
    """

    call = "tokenize_chat"
    options: ChatOptions

    def __init__(self, tokenizer: Any, options: ChatOptions) -> None:
        self.options = options
        self._loaded = loaded = load_tokenizer(tokenizer)
        definition = loaded.tokenizer.to_str()
        self._text_only = _without_processor(plain_copy(definition, loaded.tokenizer, True))
        self._tokenizer = _without_processor(plain_copy(definition, loaded.tokenizer, False))
        self.engine = ReferenceEngine(self._tokenizer).name
        self.vocab_size = vocabulary_of(self._tokenizer)
        self._added = {
            token.content: (number, token)
            for number, token in self._tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        names = dict(loaded.names)
        if options.eos_token is not None:
            self._require_known(options.eos_token)
            names["eos_token"] = options.eos_token
        source = _source(options, loaded.chat_template)
        if not options.apply_chat_template and "eos_token" not in names:
            raise ConfigError(
                "apply_chat_template=False puts EOS behind each answer, but the tokenizer names no "
                "EOS token: pass eos_token="
            )
        self._template = ChatTemplate(source, names, list(self._added))
        self._by_tags = options.span_source == "generation_tags" or (
            options.span_source == "auto" and self._template.tags_generations
        )
        if self._by_tags and not self._template.tags_generations:
            raise ConfigError(
                "span_source='generation_tags' needs a template with {% generation %} tags, and "
                "this one has none: use span_source='prefix_diff', or add the tags"
            )
        policy = [definition, source, names, repr(_policy(options))]
        self.identity = identity_of(policy)

    def probe(self, text: str) -> Mapping[str, Any]:
        """A conversation of one question and one answer."""
        turns = [{"role": role, "content": text} for role in (USER, ASSISTANT)]
        return {self.options.field: turns}

    def encode_documents(self, records: Sequence[Mapping[str, Any]], place: Places) -> Encoded:
        """Token ids of conversations end to end, and which of them the assistant says."""
        rendered: list[tuple[Rendered, list[Span]]] = []
        for i, record in enumerate(records):
            try:
                rendered.append(self._render(record))
            except DataError as error:
                raise DataError(error.message, **place(i).as_kwargs()) from error
        whole = [one for one, _ in rendered if not one.quoted]
        encodings = iter(self._encode_batch([one.text for one in whole]))
        parts, masks = [], []
        for one, spans in rendered:
            ids, begin, end = self._encode_quoted(one) if one.quoted else next(encodings)
            mask = np.zeros(len(ids), dtype=np.uint8)
            for span in spans:
                mask |= ((end > span.begin) & (begin < span.end) & (end > begin)).view(np.uint8)
            parts.append(ids[: self.options.max_length])
            masks.append(mask[: self.options.max_length])
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        tokens = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
        mask = np.concatenate(masks) if masks else np.empty(0, dtype=np.uint8)
        if self.options.mask_field_out == MASK_FIELD:
            return Encoded(tokens, lengths, mask)
        return Encoded(tokens, lengths, None, {self.options.mask_field_out: mask})

    def _encode_batch(self, texts: list[str]) -> list[tuple[NDArray[Any], ...]]:
        found = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [_arrays(encoding, 0) for encoding in found]

    def _encode_quoted(self, one: Rendered) -> tuple[NDArray[Any], ...]:
        """A text in which some strings of special tokens are no control tokens."""
        parts: list[tuple[NDArray[Any], ...]] = []
        last = 0
        assert self._template.specials is not None
        for found in self._template.specials.finditer(one.text):
            if found.start() in one.quoted:
                continue
            number, token = self._added[found[0]]
            begin, end = found.span()
            if token.lstrip:
                begin = last + len(one.text[last:begin].rstrip())
            if token.rstrip:
                end += len(one.text[end:]) - len(one.text[end:].lstrip())
            parts.append(self._piece(one.text, last, begin))
            parts.append((np.array([number], np.int32), np.array([begin]), np.array([end])))
            last = end
        parts.append(self._piece(one.text, last, len(one.text)))
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def _piece(self, text: str, begin: int, end: int) -> tuple[NDArray[Any], ...]:
        encoding = self._text_only.encode(text[begin:end], add_special_tokens=False)
        return _arrays(encoding, begin)

    def _render(self, record: Mapping[str, Any]) -> tuple[Rendered, list[Span]]:
        messages = self._messages(record)
        variables = dict(self.options.chat_template_kwargs)
        for name, key in (
            ("tools", self.options.tools_field),
            ("enable_thinking", self.options.enable_thinking_field),
        ):
            if record.get(key) is not None:
                variables[name] = record[key]
        whole = self._template.render(messages, **variables)
        roles = [message["role"] for message in messages]
        chosen = _chosen(roles, self.options.loss_scope)
        if self._by_tags:
            return whole, _tagged(whole, roles, chosen)
        return whole, [self._difference(messages, i, whole.text, variables) for i in chosen]

    def _difference(
        self, messages: list[Any], turn: int, whole: str, variables: Mapping[str, Any]
    ) -> Span:
        """What assistant turn number ``turn`` adds to the conversation."""
        before = self._template.render(messages[:turn], add_generation_prompt=True, **variables)
        after = self._template.render(messages[: turn + 1], **variables)
        if not (after.text.startswith(before.text) and whole.startswith(after.text)):
            raise DataError(
                f"the chat template writes the turns before number {turn + 1} otherwise when later "
                "ones follow, so what that turn adds cannot be told: put {% generation %} tags "
                "into the template, or use loss_scope='last_span'"
            )
        return Span(len(before.text), len(after.text))

    def _messages(self, record: Mapping[str, Any]) -> list[Any]:
        field = self.options.field
        if record.get(field) is None:
            raise DataError(f"{absent(field, record)}. Name the right field with field=")
        messages = record[field]
        if isinstance(messages, np.ndarray):
            messages = messages.tolist()
        if not isinstance(messages, (list, tuple)):
            raise DataError(
                f"the field {field!r} holds {type(messages).__name__} {messages!r:.40}, expected a "
                "list of messages with role and content"
            )
        for i, message in enumerate(messages):
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise DataError(
                    f"message {i + 1} of the field {field!r} is {message!r:.60}, expected a "
                    "mapping with a role and a content"
                )
        if not messages:
            raise DataError(f"the field {field!r} holds no message")
        return list(messages)

    def _require_known(self, token: str) -> None:
        if self._tokenizer.token_to_id(token) is None:
            raise ConfigError(f"eos_token is {token!r}, which is no token of this tokenizer")


def _chosen(roles: Sequence[str], scope: str) -> list[int]:
    """Numbers of the turns that are learned."""
    turns = [i for i, role in enumerate(roles) if role == ASSISTANT]
    if scope == "last_span":
        return turns[-1:]
    if scope == "after_last_user":
        last = max((i for i, role in enumerate(roles) if role == USER), default=-1)
        return [i for i in turns if i > last]
    return turns


def _tagged(whole: Rendered, roles: Sequence[str], chosen: list[int]) -> list[Span]:
    turns = [i for i, role in enumerate(roles) if role == ASSISTANT]
    if chosen == turns:
        return list(whole.generated)
    if len(whole.generated) != len(turns):
        raise DataError(
            f"the chat template tags {len(whole.generated)} generations for {len(turns)} assistant "
            "turns, so which of them are meant cannot be told: use loss_scope='all_assistant'"
        )
    return [whole.generated[turns.index(i)] for i in chosen]


def _arrays(encoding: Any, shift: int) -> tuple[NDArray[Any], ...]:
    """Ids, and where in the text each token begins and ends."""
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) + shift
    return np.array(encoding.ids, dtype=np.int32), offsets[:, 0], offsets[:, 1]


def _without_processor(tokenizer: Any) -> Any:
    """Special tokens are the template's, and offsets are wanted as they are."""
    from tokenizers import processors

    tokenizer.post_processor = processors.Sequence([])
    return tokenizer


def _policy(options: ChatOptions) -> list[Any]:
    return [
        options.field,
        options.max_length,
        options.span_source,
        options.loss_scope,
        sorted(options.chat_template_kwargs.items()),
        options.tools_field,
        options.enable_thinking_field,
        options.mask_field_out,
    ]


def _source(options: ChatOptions, own: str | None) -> str:
    """The text of the template."""
    if not options.apply_chat_template:
        return PLAIN
    given = options.chat_template
    if given is None:
        if own is None:
            raise ConfigError(
                "the tokenizer comes with no chat template: pass chat_template=, a Jinja template "
                "or a file that holds one, or apply_chat_template=False"
            )
        return own
    if isinstance(given, str) and ("{{" in given or "{%" in given):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigTypeError(
            f"chat_template is a {type(given).__name__}, expected a Jinja template or its file"
        )
    path = Path(given)
    if not path.is_file():
        raise DataError("there is no such file with a chat template", file=path)
    return path.read_text(encoding="utf-8")
