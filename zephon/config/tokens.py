"""Special token ids of a tokenizer, and documents that come tokenized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import MASK_FIELD, loss_mask_of
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.options import check_int
from zephon.records import as_tokens, token_field

LABELS_FIELD = "labels"
_IGNORED = -100


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Ids of special tokens that a vocabulary has; none is added to it."""

    bos: int | None
    eos: int | None
    pad: int

    def __post_init__(self) -> None:
        for name in ("bos", "eos", "pad"):
            value = getattr(self, name)
            if value is not None or name == "pad":
                check_int(name, value, 0, 2**31)


def resolve_token_ids(tokenizer: Any) -> TokenIds:
    """The ids that a Hugging Face tokenizer names.

    Parameters
    ----------
    tokenizer : object
        With ``bos_token_id``, ``eos_token_id`` and ``pad_token_id``, each an int or None. Where
        there is no pad token, the end of documents pads: padding is known by its place.

    Raises
    ------
    ConfigError
        It names neither a pad nor an end token.
    """
    ids = {}
    for name in ("bos", "eos", "pad"):
        value = getattr(tokenizer, f"{name}_token_id", None)
        ids[name] = None if value is None else int(value)
    pad = ids["eos"] if ids["pad"] is None else ids["pad"]
    if pad is None:
        raise ConfigError(
            f"{type(tokenizer).__name__} names neither pad_token_id nor eos_token_id: say which "
            "existing id pads rows, with TokenIds(bos=..., eos=..., pad=...)"
        )
    return TokenIds(ids["bos"], ids["eos"], pad)


def validate_pretokenized_document(
    payload: Mapping[str, Any], valid_token_ids: NDArray[np.int64]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.uint8] | None]:
    """Tokens of a document that comes tokenized, and which of them are to be learnt.

    Parameters
    ----------
    payload : mapping
        Tokens under ``input_ids``, ``tokens``, ``token_ids`` or ``ids``; optionally ``loss_mask``
        (0 or 1 for each token) or ``labels`` (not shifted: each is its token, or -100).
    valid_token_ids : int64 ``[V]``
        Ids of the vocabulary, ascending; it may have holes.

    Returns
    -------
    tokens : integer ``[n]``
        Not copied if they are an array.
    supervision : uint8 ``[n]`` or None
        1 for tokens that are to be learnt; None if nothing is said.

    Raises
    ------
    DataError
        There are no tokens, an id is not in the vocabulary, or the supervision does not fit.
    """
    if not isinstance(payload, Mapping):
        raise ConfigTypeError(f"the document is {type(payload).__name__}, expected a mapping")
    field = token_field(payload)
    tokens = as_tokens(payload[field], f"the field {field!r}")
    places = np.searchsorted(valid_token_ids, tokens)
    places[places == len(valid_token_ids)] = 0
    unknown = np.flatnonzero(valid_token_ids[places] != tokens)
    if len(unknown):
        at = int(unknown[0])
        raise DataError(f"token {at} of {field!r} is {int(tokens[at])}, which no vocabulary id is")
    return tokens, _supervision(payload, field, tokens)


def _supervision(
    payload: Mapping[str, Any], field: str, tokens: NDArray[np.integer[Any]]
) -> NDArray[np.uint8] | None:
    mask, labels = payload.get(MASK_FIELD), payload.get(LABELS_FIELD)
    if mask is not None and labels is not None:
        raise DataError(f"has both {MASK_FIELD!r} and {LABELS_FIELD!r}, expected one of them")
    if mask is not None:
        return loss_mask_of(mask, len(tokens))
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.shape != tokens.shape:
        raise DataError(f"{LABELS_FIELD!r} has shape {values.shape}, expected {tokens.shape}")
    learnt: NDArray[np.bool_] = values != _IGNORED
    wrong = np.flatnonzero(learnt & (values != tokens))
    if len(wrong):
        at = int(wrong[0])
        raise DataError(
            f"label {at} is {values[at]}, expected {tokens[at]}, the token of {field!r} itself "
            f"(they are shifted later), or {_IGNORED}"
        )
    return learnt.astype(np.uint8)


def measure_pretokenized_document(payload: Mapping[str, Any]) -> int:
    """Tokens of a document that comes tokenized, those that are not learnt included."""
    field = token_field(payload)
    return len(as_tokens(payload[field], f"the field {field!r}"))


def normalize_pretokenized_document(
    payload: Mapping[str, Any], valid_token_ids: NDArray[np.int64]
) -> dict[str, Any]:
    """A document as packing takes it: ``input_ids``, and ``loss_mask`` if it says what to learn."""
    tokens, supervision = validate_pretokenized_document(payload, valid_token_ids)
    document: dict[str, Any] = {"input_ids": tokens}
    if supervision is not None:
        document[MASK_FIELD] = supervision
    return document


def prepare_text_document_without_packing(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A document that is a row of its own: with ``positions``, int64, from 0 on."""
    count = measure_pretokenized_document(payload)
    return {**payload, "positions": np.arange(count, dtype=np.int64)}
