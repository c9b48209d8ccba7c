from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import cursor_bytes, token_hash
from zephon._native.cursors import encode_cursors, hash_tokens
from zephon.cursor import DocumentCursor, Dropped, LaneCursor

KINDS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8"]
COUNTS = st.integers(0, 2**63 - 1)


@given(
    st.lists(st.integers(-128, 127), max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.data(),
)
def test_the_hash_depends_on_the_ids_alone_and_not_on_types_or_cuts(
    ids: list[int], cuts: list[int], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        ids, kinds = [abs(i) % 128 for i in ids], KINDS
    else:
        kinds = ["i1", "i2", "i4", "i8"]
    bounds = [0, *sorted(cuts), len(ids)]
    parts = [
        np.array(ids[a:b], data.draw(st.sampled_from(kinds))) for a, b in itertools.pairwise(bounds)
    ]
    assert hash_tokens(parts) == token_hash.token_hash(i for part in parts for i in part.tolist())


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=20), st.data())
def test_another_id_another_order_or_another_number_gives_another_hash(
    ids: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(ids) - 1))
    before = hash_tokens([np.array(ids)])
    changed = [*ids[:at], ids[at] + 1, *ids[at + 1 :]]
    assert hash_tokens([np.array(changed)]) != before
    assert hash_tokens([np.array([*ids, 0])]) != before
    if ids != ids[::-1]:
        assert hash_tokens([np.array(ids[::-1])]) != before


def test_what_holds_no_token_ids_is_refused() -> None:
    for part, told in (
        ("text", "must be an array of integers, got str"),
        (np.zeros(3), r"parts\[1\] must be a 1-D array of int8 to int64 .* of format 'd'"),
        (np.zeros((2, 2), np.int32), "got 2 axes"),
        (np.zeros(2, np.uint64), "format 'L'"),
        (np.zeros(2, ">i4"), "format '>i'"),
    ):
        with pytest.raises(TypeError, match=told):
            hash_tokens([np.zeros(1, np.int32), part])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"parts\[0\] must be contiguous"):
        hash_tokens([np.zeros(4, np.int32)[::2]])
    with pytest.raises(ValueError, match="aligned to its 4 byte items"):
        hash_tokens([np.zeros(9, np.uint8)[1:].view(np.int32)])


@given(
    st.lists(
        st.builds(
            LaneCursor,
            st.builds(
                DocumentCursor, COUNTS, COUNTS, st.builds(Dropped, COUNTS, COUNTS, COUNTS, COUNTS)
            ),
            COUNTS,
            COUNTS,
            COUNTS,
            st.one_of(
                st.binary(min_size=8, max_size=8),
                st.lists(st.integers(0, 99)).map(lambda ids: (np.array(ids, np.int64),)),
            ),
        ),
        max_size=5,
    )
)
def test_cursors_become_the_bytes_of_the_oracle(cursors: list[LaneCursor]) -> None:
    assert encode_cursors(cursors) == cursor_bytes.encode_cursors(cursors)


@pytest.mark.parametrize("value", [-1, 2**63])
def test_a_count_that_is_none_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=f"a count in a cursor is {value}, expected 0 to"):
        encode_cursors([LaneCursor(DocumentCursor(value))])
