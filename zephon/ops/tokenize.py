"""From text to token ids, with Hugging Face ``tokenizers``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError, DataError

SpecialTokensMode = Literal["bos_eos", "bos", "eos", "none"]
MissingFieldMode = Literal["error", "empty"]

_SPECIAL_TOKENS = ("bos_eos", "bos", "eos", "none")
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
    special_tokens : {"bos_eos", "bos", "eos", "none"}
        What is put around each document.
    bos_token_id, eos_token_id : int or None
        Their ids, if they are not those that the tokenizer's folder names.
    """

    field: str
    missing_field: MissingFieldMode = "error"
    special_tokens: SpecialTokensMode = "bos_eos"
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.field, str):
            raise ConfigTypeError(f"field is {self.field!r}, expected the name of a text field")
        if not self.field:
            raise ConfigError("field is empty, expected the name of a text field")
        for name, value, known in (
            ("missing_field", self.missing_field, _MISSING_FIELD),
            ("special_tokens", self.special_tokens, _SPECIAL_TOKENS),
        ):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}, expected one of {', '.join(known)}")


class TextTokenizer:
    """A tokenizer with its policy for special tokens.

    Text that contains the string of a special token stays text: nothing in the
    data can put a control token into the stream.

    Parameters
    ----------
    tokenizer : str, PathLike or tokenizers.Tokenizer
        A ``tokenizer.json``, a folder that holds one, or the object itself.
    options : TokenizeOptions
        What to do with records.

    Attributes
    ----------
    vocab_size : int
        One more than the greatest id that can come out.
    identity : str
        Hexadecimal digest of everything that decides what comes out.
    """

    def __init__(self, tokenizer: Any, options: TokenizeOptions) -> None:
        self.options = options
        self._tokenizer, folder = _load(tokenizer)
        definition = self._tokenizer.to_str()
        # The caller's object is not changed: this one is a copy of it.
        self._tokenizer = type(self._tokenizer).from_str(definition)
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        ids = self._tokenizer.get_vocab(with_added_tokens=True).values()
        self.vocab_size = max(ids, default=-1) + 1
        names = _special_token_names(folder)
        mode = options.special_tokens
        self._before = self._special("bos", options.bos_token_id, names) if "bos" in mode else []
        self._after = self._special("eos", options.eos_token_id, names) if "eos" in mode else []
        policy = [definition, options.field, options.missing_field, self._before, self._after]
        self.identity = hashlib.blake2b(
            json.dumps(policy, sort_keys=True).encode(), digest_size=16
        ).hexdigest()

    @property
    def start_ids(self) -> tuple[int, ...]:
        """What is put before each document."""
        return tuple(self._before)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """What is put behind each document."""
        return tuple(self._after)

    def encode(
        self, records: Sequence[Mapping[str, Any]], place: Any
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
        try:
            encodings = self._encode([texts[i] for i in full])
        except Exception:  # the library raises bare Exception and does not say for which text
            for i in full:
                self._encode_one(texts[i], i, place)
            raise
        lengths = np.zeros(len(records), dtype=np.int64)
        pieces: list[int] = []
        for i, encoding in zip(full, encodings, strict=True):
            ids = encoding.ids
            pieces += self._before
            pieces += ids
            pieces += self._after
            lengths[i] = len(self._before) + len(ids) + len(self._after)
        return np.array(pieces, dtype=np.int32), lengths

    def _encode(self, texts: list[str]) -> list[Any]:
        return list(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))

    def _encode_one(self, text: str, index: int, place: Any) -> None:
        try:
            self._encode([text])
        except Exception as error:
            raise DataError(
                f"the tokenizer fails on this text ({error})", **place(index).as_kwargs()
            ) from error

    def _text(self, record: Mapping[str, Any], index: int, place: Any) -> str:
        field = self.options.field
        text = record.get(field)
        if text is None:
            if self.options.missing_field == "empty":
                return ""
            what = "is null" if field in record else f"is missing; keys: {', '.join(record)}"
            raise DataError(
                f"the field {field!r} {what}. Name the right field with field=, or pass "
                "missing_field='empty' to leave such records out",
                **place(index).as_kwargs(),
            )
        if not isinstance(text, str):
            raise DataError(
                f"the field {field!r} holds {type(text).__name__} {text!r:.40}, expected a string",
                **place(index).as_kwargs(),
            )
        return text

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


def _load(tokenizer: Any) -> tuple[Any, Path | None]:
    try:
        import tokenizers
    except ImportError as error:
        raise ConfigError(
            "tokenizing needs the package tokenizers: install zephon with its extra 'tokenizers' "
            "(pip install './zephon[tokenizers]') or tokenizers itself"
        ) from error
    if isinstance(tokenizer, tokenizers.Tokenizer):
        return tokenizer, None
    if not isinstance(tokenizer, (str, os.PathLike)):
        raise ConfigTypeError(
            f"tokenizer is a {type(tokenizer).__name__}, expected a path to tokenizer.json or its "
            "folder, or a tokenizers.Tokenizer"
        )
    path = Path(tokenizer)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(
            "there is no tokenizer here: expected a tokenizer.json or a folder that holds one. "
            "Tokenizers are read from disk only, never downloaded",
            file=file,
        )
    try:
        return tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8")), file.parent
    except Exception as error:  # the library raises bare Exception for what it cannot parse
        raise DataError(
            f"is not a tokenizer file of the tokenizers library ({error}). Save one with "
            "Tokenizer.save or save_pretrained",
            file=file,
        ) from error


def _special_token_names(folder: Path | None) -> dict[str, str]:
    """Strings of the BOS and EOS tokens, as the files beside a tokenizer name them."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        path = None if folder is None else folder / file
        if path is None or not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"is not valid JSON ({error})", file=path) from error
        if not isinstance(content, dict):
            raise DataError("holds no JSON object, expected one of token names", file=path)
        for key in ("bos_token", "eos_token"):
            value = content.get(key)
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                names[key] = value
    return names
