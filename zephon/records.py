"""From payloads to rows: token fields, their lengths and their boundaries.

A payload is a mapping or an array of token ids. The tokens of a mapping stand
under a field that is named, or under the first of ``input_ids``, ``tokens``,
``token_ids`` and ``ids``. Payloads that carry positions and no lengths are
converted into segments here, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import MASK_FIELD, ArrayFields, loss_mask_of
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.rows import Rows

TOKEN_FIELDS = ("input_ids", "tokens", "token_ids", "ids")
POSITION_FIELD = "positions"
TEXT_FIELD = "text"


def token_field(payload: Mapping[str, Any], wanted: str = "auto") -> str:
    """Name of the field that holds the tokens; an explicit name never falls back."""
    names = TOKEN_FIELDS if wanted == "auto" else (wanted,)
    for name in names:
        if name in payload:
            return name
    raise DataError(
        f"has no token field: looked for {', '.join(names)}, found {', '.join(payload) or 'none'}"
    )


def as_tokens(value: object, what: str) -> NDArray[np.integer[Any]]:
    """``value`` as a 1-D C-contiguous integer array; never truncates or converts floats."""
    array = np.asarray(value)
    if array.size == 0 and array.dtype.kind == "f" and not isinstance(value, np.ndarray):
        array = array.astype(np.int64)  # an empty list has no type of its own
    if array.ndim != 1:
        raise DataError(f"{what} has {array.ndim} dimensions, expected a 1-D array of token ids")
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise DataError(f"{what} holds {array.dtype} values, expected integer token ids")
    return np.ascontiguousarray(array)


def lengths_from_positions(positions: object, count: int, what: str) -> NDArray[np.int64]:
    """Segment lengths, int64 ``[n]``, of ``count`` tokens whose positions restart at 0.

    Raises
    ------
    ConfigError
        Positions that do not begin at 0, do not count up by one inside a
        segment, or are not as many as the tokens.
    """
    array = np.asarray(positions)
    if array.shape != (count,):
        raise ConfigError(f"{what} has shape {array.shape}, expected ({count},) like the tokens")
    if count == 0:
        return np.empty(0, dtype=np.int64)
    if array[0] != 0:
        raise ConfigError(f"{what} begins with {array[0]}, expected 0")
    starts = np.flatnonzero(array == 0)
    lengths = np.diff(np.append(starts, count))
    expected = np.arange(count) - np.repeat(starts, lengths)
    wrong = np.flatnonzero(array != expected)
    if len(wrong):
        at = int(wrong[0])
        raise ConfigError(
            f"{what} holds {array[at]} at index {at}, expected {expected[at]} (one more than "
            "before it) or 0 (a new segment)"
        )
    return lengths.astype(np.int64)


def as_mappings(payloads: Sequence[Any], tokens_field: str) -> list[Mapping[str, Any]]:
    """Payloads as mappings; arrays of tokens become mappings that hold just them.

    Raises
    ------
    ConfigTypeError
        A payload is neither a mapping nor an array, or some are and some are not.
    """
    kinds = [_kind(payload, i) for i, payload in enumerate(payloads)]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ConfigTypeError(
                f"payload {i} is {kind} and payload 0 is {kinds[0]}: a batch has payloads of one "
                "kind"
            )
    if not kinds or kinds[0] == "a mapping":
        return list(payloads)
    name = TOKEN_FIELDS[0] if tokens_field == "auto" else tokens_field
    return [{name: payload} for payload in payloads]


def is_text(payload: Mapping[str, Any]) -> bool:
    """Whether a payload holds text, and nothing that could be tokens."""
    return isinstance(payload.get(TEXT_FIELD), str) and all(
        isinstance(value, (str, bytes)) or not hasattr(value, "__len__")
        for value in payload.values()
    )


def rows_from_payloads(
    payloads: Sequence[Any],
    *,
    tokens_field: str = "auto",
    padding: Sequence[int] | None = None,
    row_length: int | None = None,
    pad_token_id: int = 0,
    ragged: bool = False,
) -> Rows:
    """One row per payload; tokens are not copied. Buffer ``b`` is all of payload ``b``.

    Parameters
    ----------
    payloads : sequence of mappings or of arrays
        Each with tokens (unshifted) and, if it holds several documents,
        ``positions`` that restart at 0 at each. A ``loss_mask`` is 0 where a
        token is not to be learned.
    padding : sequence of int, optional
        Trailing tokens of each payload that are padding already.
    row_length : int, optional
        Length that all rows get, padded on the right; the payloads' common
        length if not given.
    pad_token_id : int
        What the padding is filled with.
    ragged : bool
        Pad rows to the longest if no ``row_length`` is given, and tell their own lengths,
        rather than refuse payloads of different lengths.

    Raises
    ------
    ConfigError
        A payload has no tokens, they are not integers, it is longer than
        ``row_length``, or lengths differ and none was given.
    """
    records = as_mappings(payloads, tokens_field)
    for field in (POSITION_FIELD, MASK_FIELD):
        having = [field in record for record in records]
        if any(having) and not all(having):
            raise ConfigError(
                f"payload {having.index(False)} has no {field!r} while others have: {field!r} "
                "present in some payloads only; give it to all or to none"
            )
    tokens = [_tokens(record, i, tokens_field) for i, record in enumerate(records)]
    real = [len(t) - (padding[i] if padding else 0) for i, t in enumerate(tokens)]
    for i, count in enumerate(real):
        if not 0 <= count <= len(tokens[i]):
            raise ConfigError(
                f"padding_length of payload {i} is {len(tokens[i]) - count}, expected 0 to "
                f"{len(tokens[i])}, the number of its tokens"
            )
    lengths = [
        _segment_lengths(record, i, len(tokens[i]), real[i]) for i, record in enumerate(records)
    ]
    masks = [_loss_mask(record, i, len(tokens[i])) for i, record in enumerate(records)]
    splits = np.concatenate(([0], np.cumsum([len(x) for x in lengths]))).astype(np.int64)
    length = np.concatenate(lengths) if lengths else np.empty(0, dtype=np.int64)
    owner = np.repeat(np.arange(len(tokens)), np.diff(splits))
    start = np.concatenate([np.cumsum(x) - x for x in lengths]) if lengths else length
    unknown = np.full(len(length), -1, dtype=np.int64)
    row_lengths = None
    if ragged and row_length is None and len({len(t) for t in tokens}) > 1:
        row_lengths = tuple(map(len, tokens))
        row_length = max(row_lengths)
    return Rows(
        buffers=tuple(tokens),
        buffer=owner.astype(np.int32),
        start=start.astype(np.int64),
        length=length,
        offset=np.zeros(len(length), dtype=np.int64),
        source=unknown,
        row=unknown,
        splits=splits,
        row_length=_row_length([len(t) for t in tokens], row_length),
        pad_token_id=pad_token_id,
        aligned=tuple(ArrayFields(loss_mask=mask) for mask in masks)
        if any(mask is not None for mask in masks)
        else (),
        row_lengths=row_lengths,
    )


def payload_field(record: Mapping[str, Any], name: str, index: int, count: int) -> NDArray[Any]:
    """Field ``name`` of payload ``index``, one number for each of its ``count`` tokens.

    Raises
    ------
    ConfigError
        It is not there, or something else.
    """
    if name not in record:
        raise ConfigError(
            f"Extra field {name!r} not found in payload {index}, which has: {', '.join(record)}"
        )
    array = np.asarray(record[name])
    if array.shape != (count,):
        raise ConfigError(
            f"{name} of payload {index} has shape {array.shape}, expected ({count},) like the "
            "tokens"
        )
    if array.dtype.kind not in "biuf" and count:
        raise ConfigTypeError(f"{name} of payload {index} holds {array.dtype}, expected numbers")
    return array


def _kind(payload: object, index: int) -> str:
    if isinstance(payload, Mapping):
        return "a mapping"
    if isinstance(payload, (str, bytes, bytearray, memoryview)) or not hasattr(payload, "__len__"):
        raise ConfigTypeError(
            f"payload {index} is a {type(payload).__name__}: to_training expects dict or "
            "array-like payloads"
        )
    return "an array"


def _tokens(record: Mapping[str, Any], index: int, field: str) -> NDArray[np.integer[Any]]:
    try:
        name = token_field(record, field)
        return as_tokens(record[name], f"its field {name!r}")
    except DataError as error:  # the caller's own payload: no place in a file to name
        raise ConfigError(f"payload {index}: {error.message}") from None


def _segment_lengths(
    payload: Mapping[str, Any], index: int, count: int, real: int
) -> NDArray[np.int64]:
    if POSITION_FIELD not in payload:
        return np.full(1 if real else 0, real, dtype=np.int64)
    what = f"positions of payload {index}"
    positions = np.asarray(payload[POSITION_FIELD])
    if positions.shape != (count,):
        raise ConfigError(
            f"{what} has shape {positions.shape}, expected ({count},) like the tokens"
        )
    return lengths_from_positions(positions[:real], real, what)


def _loss_mask(payload: Mapping[str, Any], index: int, count: int) -> NDArray[np.uint8] | None:
    if payload.get(MASK_FIELD) is None:
        return None
    try:
        return loss_mask_of(payload[MASK_FIELD], count)
    except DataError as error:
        raise ConfigError(f"payload {index}: {error.message}") from None


def _row_length(lengths: list[int], wanted: int | None) -> int:
    if wanted is None:
        if len(set(lengths)) > 1:
            raise ConfigError(
                f"payloads have different lengths ({min(lengths)} to {max(lengths)}): pack them, "
                "or give a length to pad to"
            )
        return lengths[0] if lengths else 0
    for index, length in enumerate(lengths):
        if length > wanted:
            raise ConfigError(
                f"payload {index} has {length} tokens, more than the {wanted} to pad to: split or "
                "truncate it first"
            )
    return wanted
