"""What the columns of a table are to a stream: token ids, what goes along with them, text."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from zephon.aligned import MASK_FIELD
from zephon.errors import DataError
from zephon.records import TOKEN_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The columns of a file by what they are for."""

    tokens: str | None
    """Column of token ids; None if the file gives text."""

    mask: str | None
    """Column ``loss_mask`` beside the token ids."""

    beside: tuple[str, ...]
    """Other columns of lists of numbers: those that are as long as the tokens go along."""

    text: bool
    """Whether it is text without a doubt: no column looks as if it were meant for token ids."""

    names: tuple[str, ...]
    """All columns, in the order of the file."""


def find_roles(schema: pa.Schema, file: str | os.PathLike[str]) -> Roles:
    """The roles of the columns of ``file``.

    Token ids are a list of integers named ``input_ids``, ``tokens``, ``token_ids`` or
    ``ids``, whichever comes first in this order.

    Raises
    ------
    DataError
        A column twice; or neither token ids nor any text, naming what comes closest.
    """
    try:
        names = tuple(schema.names)
    except UnicodeDecodeError as error:
        raise DataError(
            f"has a column whose name is not UTF-8 ({error.reason})", file=file
        ) from None
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"has two columns named {name!r}", file=file)
    tokens, problem = None, ""
    for name in TOKEN_FIELDS:
        kind = logical(schema.field(name).type) if name in names else None
        if kind is None or not is_list(kind):
            continue
        wrong = _not_tokens(logical(kind.value_type))
        if not wrong:
            tokens = name
            break
        problem = problem or f"the column {name!r} is {kind}, but {wrong}"
    if tokens is None:
        if not any(_has_text(schema.field(name).type) for name in names):
            raise DataError(
                problem
                or "has no column of text, and none of token ids (a list of integers named "
                f"{', '.join(TOKEN_FIELDS)}). Its columns: {describe(schema)}",
                file=file,
            )
        return Roles(tokens=None, mask=None, beside=(), names=names, text=not problem)
    lists = [n for n in names if n != tokens and _is_numbers(logical(schema.field(n).type))]
    mask = MASK_FIELD if MASK_FIELD in names else None
    if mask and mask not in lists:
        raise DataError(
            f"the column {mask!r} is {schema.field(mask).type}, expected a list with a number for "
            "each token",
            file=file,
        )
    return Roles(
        tokens=tokens,
        mask=mask,
        beside=tuple(n for n in lists if n != mask),
        names=names,
        text=False,
    )


def describe(schema: pa.Schema) -> str:
    """The columns of ``schema`` and their types, for messages."""
    fields = [f"{field.name} ({field.type})" for field in schema]
    more = f" and {len(fields) - 12} more" if len(fields) > 12 else ""
    return (", ".join(fields[:12]) or "none") + more


def text_path(schema: pa.Schema, field: str) -> tuple[str, ...] | None:
    """Where ``field`` stands: its column, or column and fields of ``"column.field"``; or None."""
    if field in schema.names:
        return (field,)
    path = tuple(field.split("."))
    kind: pa.DataType = pa.struct(list(schema))
    for name in path:
        if not kinds.is_struct(kind) or (at := kind.get_field_index(name)) < 0:
            return None
        kind = logical(kind.field(at).type)
    return path


def similar_columns(schema: pa.Schema, field: str) -> list[str]:
    """Columns whose names are nearly ``field``."""
    lower = {name.lower(): name for name in schema.names}
    return [lower[name] for name in difflib.get_close_matches(field.lower(), lower, n=3)]


def logical(kind: pa.DataType) -> pa.DataType:
    """What an extension type is stored as; any other type itself."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists of whatever form."""
    return any(
        test(kind)
        for test in (
            kinds.is_list,
            kinds.is_large_list,
            kinds.is_fixed_size_list,
            kinds.is_list_view,
            kinds.is_large_list_view,
        )
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings, or bytes that may be UTF-8, encoded by a dictionary or not."""
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (
            kinds.is_string,
            kinds.is_large_string,
            kinds.is_string_view,
            kinds.is_binary,
            kinds.is_large_binary,
            kinds.is_binary_view,
        )
    )


def _has_text(kind: pa.DataType) -> bool:
    kind = logical(kind)
    if kinds.is_struct(kind):
        return any(_has_text(kind.field(i).type) for i in range(kind.num_fields))
    if is_list(kind):  # of structs: conversations
        value = logical(kind.value_type)
        return bool(kinds.is_struct(value)) and _has_text(value)
    return is_text(kind)


def _not_tokens(value: pa.DataType) -> str:
    """Why values of lists cannot be token ids; empty if they can."""
    if kinds.is_uint64(value):
        return "ids of 64 bits without sign are not read: store them as uint32 or int64"
    if kinds.is_integer(value):
        return ""
    if is_list(value):
        return "lists inside lists are not token ids: store one list for each document"
    return "token ids must be integers"


def _is_numbers(kind: pa.DataType) -> bool:
    if not is_list(kind):
        return False
    value = logical(kind.value_type)
    return bool(kinds.is_integer(value) or kinds.is_floating(value) or kinds.is_boolean(value))
