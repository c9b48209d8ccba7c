from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from zephon._native.packing import (
    best_fit_wrap_room,
    pack_best_fit_wrap,
    pack_decreasing,
    pack_wrap,
)

UNWRITTEN = -77


def new(size: int) -> NDArray[np.int64]:
    return np.full(size, UNWRITTEN, np.int64)


def call(function: Callable[..., Any], **more: Any) -> Any:
    """Documents of 3, 2 and 4 tokens into rows of 5, with just the room that is needed."""
    arguments: dict[str, Any] = {"length": np.array([3, 2, 4]), "row_length": 5}
    if function is pack_decreasing:
        arguments |= {"best_fit": True, "document": new(3), "splits": new(4)}
    elif function is best_fit_wrap_room:
        arguments = {"total": 9, "documents": 3, "row_length": 5}
    else:
        arguments |= {"document": new(4), "offset": new(4), "seg_length": new(4)}
        arguments |= {"splits": new(3)}
    if function is pack_wrap:
        arguments |= {"rows": 1, "skip": 0, "splits": new(2)}
    return function(**{**arguments, **more})


WINDOWED = (pack_decreasing, pack_best_fit_wrap)
CUTTING = (pack_best_fit_wrap, pack_wrap)
ALL = (*WINDOWED, pack_wrap)


def test_just_the_stated_room_suffices() -> None:
    assert call(pack_decreasing) == 2
    assert call(pack_best_fit_wrap) == (2, 4)
    assert call(pack_wrap) == (1, 2, 2, 0)


@pytest.mark.parametrize(
    ("functions", "name", "value", "message"),
    [
        ((*WINDOWED, best_fit_wrap_room), "row_length", 0,
         r"row_length must lie in \[1, 16777216\], got 0"),
        ((*WINDOWED, best_fit_wrap_room), "row_length", 2**24 + 1,
         r"row_length must lie in \[1, 16777216\], got 16777217"),
        ((pack_wrap,), "row_length", 2**31,
         r"row_length must lie in \[1, 2147483647\], got 2147483648"),
        ((*ALL, best_fit_wrap_room), "max_segments", -1,
         r"max_segments must lie in \[0, 2147483647\], got -1"),
        (WINDOWED, "length", np.empty(2**26 + 1, np.int64),
         "length must hold at most 67108864 documents, got 67108865"),
        ((pack_decreasing,), "length", np.array([3, 6, 4]),
         "length must be 1 to row_length = 5, got 6 at index 1"),
        ((pack_decreasing,), "length", np.array([3, 2, 0]),
         "length must be 1 to row_length = 5, got 0 at index 2"),
        ((pack_best_fit_wrap,), "length", np.array([3, 0, 4]),
         "length must be at least 1, got 0 at index 1"),
        ((pack_wrap,), "length", np.array([3, -1, 4]),
         "length must be at least 0, got -1 at index 1"),
        (CUTTING, "length", np.array([2**62 - 1, 1, 1]),
         "length must sum to at most 4611686018427387904, got more at index 2"),
        (CUTTING, "length", np.array([3, 2**63 - 1, 4]),
         "length must sum to at most 4611686018427387904, got more at index 1"),
        ((pack_best_fit_wrap,), "length", np.array([2**61]),
         "document needs room for 461168601842738791, has 4"),
        ((pack_decreasing,), "document", new(2), "document needs room for 3, has 2"),
        ((pack_decreasing,), "splits", new(3), "splits needs room for 4, has 3"),
        (CUTTING, "document", new(3), "document needs room for 4, has 3"),
        (CUTTING, "offset", new(3), "offset needs room for 4, has 3"),
        (CUTTING, "seg_length", new(3), "seg_length needs room for 4, has 3"),
        ((pack_best_fit_wrap,), "splits", new(2), "splits needs room for 3, has 2"),
        ((pack_wrap,), "splits", new(1), "splits needs room for 2, has 1"),
        ((pack_wrap,), "rows", -1, r"rows must lie in \[0, 4611686018427387904\], got -1"),
        ((pack_wrap,), "rows", 2**62, "document needs room for 4611686018427387907, has 4"),
        ((pack_wrap,), "skip", 4, r"skip must lie in \[0, 3\], got 4"),
        ((pack_wrap,), "skip", -1, r"skip must lie in \[0, 3\], got -1"),
        ((best_fit_wrap_room,), "total", 2**62 + 1,
         r"total must lie in \[0, 4611686018427387904\], got 4611686018427387905"),
        ((best_fit_wrap_room,), "documents", 10, r"documents must lie in \[0, 9\], got 10"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_by_name(
    functions: tuple[Callable[..., Any], ...], name: str, value: Any, message: str
) -> None:
    for function in functions:
        with pytest.raises(ValueError, match=message):
            call(function, **{name: value})


def test_without_documents_there_is_nothing_to_skip() -> None:
    with pytest.raises(ValueError, match=r"skip must lie in \[0, 0\], got 1"):
        call(pack_wrap, length=new(0), skip=1)


@pytest.mark.parametrize(
    ("functions", "name", "value", "error", "message"),
    [
        (ALL, "length", [3, 2, 4], TypeError, "a bytes-like object is required, not 'list'"),
        (ALL, "length", None, TypeError, "'length' must not be None"),
        (ALL, "length", np.array([3, 2, 4], np.int32), ValueError, "Buffer dtype mismatch"),
        (ALL, "length", np.ones((3, 2), np.int64), ValueError, "wrong number of dimensions"),
        (ALL, "length", np.ones(6, np.int64)[::2], ValueError, "not C-contiguous"),
        (ALL, "document", np.broadcast_to(np.int64(1), 1), ValueError, "read-only"),
        (CUTTING, "offset", None, TypeError, "'offset' must not be None"),
        (ALL, "row_length", 5.0, TypeError, "row_length must be an integer, got 5.0"),
        (ALL, "max_segments", True, TypeError, "max_segments must be an integer, got True"),
        ((pack_wrap,), "rows", None, TypeError, "rows must be an integer, got None"),
        ((pack_wrap,), "skip", "0", TypeError, "skip must be an integer, got '0'"),
        ((best_fit_wrap_room,), "total", 9.0, TypeError, "total must be an integer, got 9.0"),
    ],
)
def test_a_wrong_type_is_refused(
    functions: tuple[Callable[..., Any], ...],
    name: str,
    value: Any,
    error: type[Exception],
    message: str,
) -> None:
    for function in functions:
        with pytest.raises(error, match=message):
            call(function, **{name: value})


def test_a_refused_call_writes_nothing() -> None:
    document = new(4)
    with pytest.raises(ValueError, match="offset needs room"):
        call(pack_best_fit_wrap, document=document, offset=new(3))
    assert (document == UNWRITTEN).all()
