"""From text to token ids."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.io.shard import Place
from zephon.ops.engines import ENGINES, Engine, EngineName, Flat, make_engine
from zephon.ops.tokenizer_files import LoadedTokenizer, load_tokenizer
from zephon.options import check_int

SpecialTokensMode = Literal["bos_eos", "bos", "eos", "none", "tokenizer_default"]
MissingFieldMode = Literal["error", "empty"]

_SPECIAL_TOKENS = ("bos_eos", "bos", "eos", "none", "tokenizer_default")
_MISSING_FIELD = ("error", "empty")


@dataclass(frozen=True, kw_only=True)
class TokenizeOptions:
    """How text becomes token ids.

    Attributes
    ----------
    field : str
        Field of a record that holds the text.
    missing_field : {"error", "empty"}
        What a record without the field, or with null there, is: an error, or a
        document without tokens, which is left out and counted.
    special_tokens : {"bos_eos", "bos", "eos", "none", "tokenizer_default"}
        What is put around each document; the last is what the tokenizer's own
        template puts there.
    bos_token_id, eos_token_id : int or None
        Their ids, if they are not those that the tokenizer's folder names.
    max_length : int or None
        Tokens that a document has at most, special tokens included, if ``truncation``.
    truncation : bool
        Whether longer documents lose their end.
    split_special_tokens : bool
        Whether text that spells a special token stays text. Nothing in the data can
        then put a control token into the stream.
    engine : {"tokenizers", "fastokens"}
        What computes the ids, see :mod:`zephon.ops.engines`. They are the same.
    """

    field: str
    missing_field: MissingFieldMode = "error"
    special_tokens: SpecialTokensMode = "bos_eos"
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    max_length: int | None = None
    truncation: bool = False
    split_special_tokens: bool = True
    engine: EngineName = "tokenizers"

    def __post_init__(self) -> None:
        check_field("field", self.field)
        for name, value, known in (
            ("missing_field", self.missing_field, _MISSING_FIELD),
            ("special_tokens", self.special_tokens, _SPECIAL_TOKENS),
            ("engine", self.engine, ENGINES),
        ):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}, expected one of {', '.join(known)}")
        if self.max_length is not None:
            check_int("max_length", self.max_length, 1, 2**31)
        for name, flag in (
            ("truncation", self.truncation),
            ("split_special_tokens", self.split_special_tokens),
        ):
            if not isinstance(flag, bool):
                raise ConfigTypeError(f"{name} is {flag!r}, expected True or False")
        if self.truncation and self.max_length is None:
            raise ConfigError("truncation=True needs max_length=, the tokens to keep")


def check_field(argument: str, value: object) -> None:
    """ConfigTypeError or ConfigError unless ``value`` can name a field of a record."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{argument} is {value!r}, expected the name of a text field")
    if not value:
        raise ConfigError(f"{argument} is empty, expected the name of a text field")


class Encoded(NamedTuple):
    """Documents as tokens, end to end.

    Attributes
    ----------
    tokens : int32 ``[T]``
    lengths : int64 ``[n]``
        Tokens of each document, 0 for one that is left out.
    loss_mask : uint8 ``[T]`` or None
        0 where a token is not to be learned; None: all are.
    fields : mapping or None
        Further arrays ``[T]`` that go along with the tokens, by name.
    """

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int64]
    loss_mask: NDArray[np.uint8] | None = None
    fields: Mapping[str, NDArray[Any]] | None = None


Places = Callable[[int], Place]
"""From the position of a record to where it stands, for errors."""


class DocumentTokenizer(ABC):
    """From records to tokens; a function of each record, for any thread.

    Attributes
    ----------
    vocab_size : int
        One more than the greatest id that can come out.
    identity : str
        Hexadecimal digest of everything that decides what comes out.
    engine : str
        Package and version that compute the ids.
    call : str
        Which call of a pipeline makes it.
    options : object
        What to do with records, for :meth:`zephon.Pipeline.explain`.
    """

    call: str
    vocab_size: int
    identity: str
    engine: str
    options: Any

    _loaded: LoadedTokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        # Engines and compiled templates stay where they are: another process makes its own.
        return type(self), (self._loaded, self.options)

    @property
    def start_ids(self) -> tuple[int, ...]:
        """What is put before each document."""
        return ()

    @property
    def end_ids(self) -> tuple[int, ...]:
        """What is put behind each document."""
        return ()

    @abstractmethod
    def encode_documents(self, records: Sequence[Mapping[str, Any]], place: Places) -> Encoded:
        """Token ids of ``records`` end to end, and which are to be learned.

        Raises
        ------
        DataError
            A record has no text, or none that can be encoded.
        """

    @abstractmethod
    def probe(self, text: str) -> Mapping[str, Any]:
        """A record that holds ``text``, to try the tokenizer on."""


class TextTokenizer(DocumentTokenizer):
    """A tokenizer with its policy for special tokens.

    Parameters
    ----------
    tokenizer : str, PathLike, tokenizers.Tokenizer or a fast tokenizer of transformers
        A ``tokenizer.json``, a folder that holds one, or the object itself, which is
        copied and not changed.
    options : TokenizeOptions
        What to do with records.
    """

    call = "tokenize"
    options: TokenizeOptions

    def __init__(self, tokenizer: Any, options: TokenizeOptions) -> None:
        self.options = options
        self._loaded = loaded = load_tokenizer(tokenizer)
        definition = loaded.tokenizer.to_str()
        self._tokenizer = plain_copy(definition, loaded.tokenizer, options.split_special_tokens)
        self.vocab_size = vocabulary_of(self._tokenizer)
        mode = options.special_tokens
        if mode == "tokenizer_default":
            self._before, self._after = self._own_template()
        else:
            names = loaded.names
            self._before = (
                self._special("bos", options.bos_token_id, names) if "bos" in mode else []
            )
            self._after = self._special("eos", options.eos_token_id, names) if "eos" in mode else []
        self._room = self._room_for_text()
        self._engine: Engine = make_engine(
            options.engine,
            self._tokenizer,
            definition,
            split_special_tokens=options.split_special_tokens,
        )
        self.engine = self._engine.name
        policy: list[Any] = [definition, options.field, options.missing_field]
        policy += [self._before, self._after]
        if options.truncation or not options.split_special_tokens:  # said only if it is not usual
            policy += [self._room, options.split_special_tokens]
        self.identity = identity_of(policy)

    @property
    def start_ids(self) -> tuple[int, ...]:
        """What is put before each document."""
        return tuple(self._before)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """What is put behind each document."""
        return tuple(self._after)

    def probe(self, text: str) -> Mapping[str, Any]:
        """A record with ``text`` in the field."""
        return {self.options.field: text}

    def encode_documents(self, records: Sequence[Mapping[str, Any]], place: Places) -> Encoded:
        """Token ids of ``records``, end to end; all are to be learned."""
        return Encoded(*self.encode(records, place))

    def encode(
        self, records: Sequence[Mapping[str, Any]], place: Places
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Token ids of ``records``, end to end.

        Parameters
        ----------
        records : sequence of mappings
            Documents with their text under the field.
        place : callable
            From the position of a record to where it stands, for errors.

        Returns
        -------
        tokens : int32 ``[T]``
        lengths : int64 ``[n]``
            Tokens of each record with its special tokens; 0 for one without text.
        """
        texts = [self._text(record, i, place) for i, record in enumerate(records)]
        full = [i for i, text in enumerate(texts) if text]
        ids, counts = encode_texts(self._engine, [texts[i] for i in full], lambda i: place(full[i]))
        if self._room is not None and len(counts) and counts.max() > self._room:
            ids, counts = _cut(ids, counts, self._room)
        lengths = np.zeros(len(records), dtype=np.int64)
        lengths[full] = counts + (len(self._before) + len(self._after))
        return _surround(ids, counts, self._before, self._after), lengths

    def _text(self, record: Mapping[str, Any], index: int, place: Places) -> str:
        field = self.options.field
        text = record.get(field)
        if text is None:
            if self.options.missing_field == "empty":
                return ""
            raise DataError(
                f"{absent(field, record)}. Name the right field with field=, or pass "
                "missing_field='empty' to leave such records out",
                **place(index).as_kwargs(),
            )
        if not isinstance(text, str):
            raise DataError(
                f"the field {field!r} holds {type(text).__name__} {text!r:.40}, expected a string",
                **place(index).as_kwargs(),
            )
        return text

    def _room_for_text(self) -> int | None:
        if not self.options.truncation:
            return None
        assert self.options.max_length is not None
        around = len(self._before) + len(self._after)
        if self.options.max_length <= around:
            raise ConfigError(
                f"max_length is {self.options.max_length}, and the special tokens alone are "
                f"{around}: give more, or another special_tokens"
            )
        return self.options.max_length - around

    def _own_template(self) -> tuple[list[int], list[int]]:
        """What the tokenizer's post-processor puts around any text."""
        found = []
        for text in ("a", "b c", "The quick brown fox."):
            bare = self._tokenizer.encode(text, add_special_tokens=False).ids
            ids = self._tokenizer.encode(text, add_special_tokens=True).ids
            starts = [i for i in range(len(ids)) if ids[i : i + len(bare)] == bare]
            if not bare or not starts:
                raise ConfigError(
                    "special_tokens='tokenizer_default' needs a tokenizer that leaves the text's "
                    "tokens together; this one's post-processor changes them: choose "
                    f"{', '.join(_SPECIAL_TOKENS[:-1])}"
                )
            found.append((ids[: starts[0]], ids[starts[0] + len(bare) :]))
        if any(one != found[0] for one in found):
            raise ConfigError(
                "special_tokens='tokenizer_default' needs a tokenizer that puts the same tokens "
                f"around every text; choose {', '.join(_SPECIAL_TOKENS[:-1])}"
            )
        return found[0]

    def _special(self, kind: str, given: int | None, names: Mapping[str, str]) -> list[int]:
        if given is not None:
            if isinstance(given, bool) or not isinstance(given, int):
                raise ConfigTypeError(f"{kind}_token_id is {given!r}, expected an int")
            if not 0 <= given < self.vocab_size:
                raise ConfigError(
                    f"{kind}_token_id is {given}, outside the tokenizer's vocabulary of "
                    f"{self.vocab_size} ids"
                )
            return [given]
        name = names.get(f"{kind}_token")
        found = None if name is None else self._tokenizer.token_to_id(name)
        if found is None:
            told = "names none" if name is None else f"names {name!r}, which it has not"
            raise ConfigError(
                f"special_tokens={self.options.special_tokens!r} needs a {kind.upper()} token, but "
                f"the tokenizer {told}: pass {kind}_token_id=, or another special_tokens "
                f"({', '.join(_SPECIAL_TOKENS)})"
            )
        return [int(found)]


def plain_copy(definition: str, tokenizer: Any, split_special_tokens: bool) -> Any:
    """A copy of a ``tokenizers.Tokenizer`` that pads and cuts nothing."""
    copy = type(tokenizer).from_str(definition)
    copy.encode_special_tokens = split_special_tokens
    copy.no_padding()
    copy.no_truncation()
    return copy


def vocabulary_of(tokenizer: Any) -> int:
    """One more than the greatest id of a ``tokenizers.Tokenizer``."""
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    return max(ids, default=-1) + 1


def identity_of(policy: Sequence[Any]) -> str:
    """Hexadecimal digest of what decides what comes out, as JSON values."""
    told = json.dumps(policy, sort_keys=True).encode()
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def absent(field: str, record: Mapping[str, Any]) -> str:
    """That a record has nothing in a field, for messages."""
    what = "is null" if field in record else f"is missing; keys: {', '.join(record)}"
    return f"the field {field!r} {what}"


def encode_texts(engine: Engine, texts: list[str], place: Places) -> Flat:
    """What ``engine`` makes of ``texts``; an error names the place of the text it is about."""
    try:
        return engine.encode(texts)
    except ConfigError:
        raise
    except Exception:  # the libraries raise bare Exception and do not say for which text
        for i, text in enumerate(texts):
            try:
                engine.encode([text])
            except Exception as error:
                raise DataError(
                    f"the tokenizer fails on this text ({error})", **place(i).as_kwargs()
                ) from error
        raise


def _cut(ids: NDArray[Any], counts: NDArray[np.int64], room: int) -> Flat:
    """The first ``room`` ids of each text."""
    within = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ids[within < room], np.minimum(counts, room)


def _surround(
    ids: NDArray[Any], counts: NDArray[np.int64], before: list[int], after: list[int]
) -> NDArray[np.int32]:
    """Ids of texts end to end, int32 ``[T]``, each between ``before`` and ``after``."""
    whole = counts + (len(before) + len(after))
    tokens = np.empty(int(whole.sum()), dtype=np.int32)
    is_text = np.ones(len(tokens), dtype=bool)
    ends = np.cumsum(whole)
    for i, token in enumerate(before):
        tokens[ends - whole + i] = token
        is_text[ends - whole + i] = False
    for i, token in enumerate(reversed(after)):
        tokens[ends - 1 - i] = token
        is_text[ends - 1 - i] = False
    tokens[is_text] = ids
    return tokens
