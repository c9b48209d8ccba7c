from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oracles import packing as oracle
from oracles import wrap as plain_wrap
from oracles.packed import CAPS, wrap
from oracles.packing import Piece

STREAMS = st.lists(st.integers(0, 9) | st.sampled_from([0, 0, 1, 40]), max_size=20)


def tokens(rows: list[list[Piece]]) -> list[tuple[int, int]]:
    return [(p.document, p.offset + i) for row in rows for p in row for i in range(p.length)]


@given(lengths=STREAMS, row_length=st.integers(1, 12), cap=CAPS, rows=st.integers(0, 30),
       data=st.data())  # fmt: skip
def test_streams_are_cut_where_the_oracle_cuts_them(
    lengths: list[int], row_length: int, cap: int, rows: int, data: st.DataObject
) -> None:
    skip = data.draw(st.integers(0, lengths[0])) if lengths else 0
    done = wrap(lengths, row_length, cap, rows=rows, skip=skip)
    assert done == oracle.wrap(lengths, row_length, cap, rows=rows, skip=skip)
    for row in done.rows:
        assert sum(p.length for p in row) == row_length or len(row) == cap
        assert sum(p.length for p in row) <= row_length


@given(lengths=STREAMS, row_length=st.integers(1, 12))
def test_uncapped_rows_one_after_another_are_the_documents_one_after_another(
    lengths: list[int], row_length: int
) -> None:
    done = wrap(lengths, row_length, 0, rows=sum(lengths) + 1, skip=0)
    stream = [(i, place) for i, length in enumerate(lengths) for place in range(length)]
    assert tokens(done.rows) == stream[: len(stream) // row_length * row_length]
    assert done.rows == [plain_wrap.segments(row) for row in plain_wrap.rows(lengths, row_length)]


@given(lengths=STREAMS, row_length=st.integers(1, 12), cap=CAPS, step=st.integers(1, 4))
def test_going_on_where_a_call_ended_gives_the_rows_of_one_call(
    lengths: list[int], row_length: int, cap: int, step: int
) -> None:
    # At least one token in a row, or a document without any in a row of its own.
    most = sum(lengths) + len(lengths) + 1
    whole = wrap(lengths, row_length, cap, rows=most, skip=0)
    rows: list[list[Piece]] = []
    document = token = 0
    while True:
        part = wrap(lengths[document:], row_length, cap, rows=step, skip=token)
        rows += [[p._replace(document=p.document + document) for p in row] for row in part.rows]
        document, token = document + part.documents, part.tokens
        if len(part.rows) < step:
            break
    assert (rows, document, token) == whole


def test_rows_of_a_stream_are_pinned() -> None:
    lengths = [5, 0, 3, 12, 0, 0, 2, 1]
    assert wrap(lengths, 4, 0, rows=9, skip=2) == oracle.Wrapped(
        rows=[
            [(0, 2, 3), (2, 0, 1)],
            [(2, 1, 2), (3, 0, 2)],
            [(3, 2, 4)],
            [(3, 6, 4)],
            [(3, 10, 2), (6, 0, 2)],
        ],
        documents=7,
        tokens=0,
    )
    capped = wrap(lengths, 4, 1, rows=4, skip=2)
    assert capped == oracle.Wrapped([[(0, 2, 3)], [(2, 0, 3)], [(3, 0, 4)], [(3, 4, 4)]], 3, 8)


def test_the_end_is_just_behind_the_last_token_taken() -> None:
    def end(lengths: list[int], rows: int, skip: int = 0, cap: int = 0) -> tuple[int, int, int]:
        done = wrap(lengths, 4, cap, rows=rows, skip=skip)
        return len(done.rows), done.documents, done.tokens

    assert end([4, 0, 0, 4], 1) == (1, 1, 0)  # the empty documents are not passed
    assert end([4, 0, 0], 9) == (1, 1, 0)
    assert end([0, 0, 4], 1) == (1, 3, 0)
    assert end([0, 0, 3], 9) == (0, 0, 0)  # no row, so nothing was taken
    assert end([9], 9, skip=3) == (1, 0, 7)
    assert end([9], 9, skip=9) == (0, 0, 9)
    assert end([9, 4], 9, skip=9) == (1, 2, 0)
    assert end([4, 4], 0) == (0, 0, 0)
    assert end([1, 0, 1], 9, cap=1) == (2, 3, 0)
    assert end([], 9) == (0, 0, 0)


def test_positions_far_into_a_long_document_are_exact() -> None:
    done = wrap([2**62 - 5, 5], 2**31 - 1, 0, rows=1, skip=2**62 - 10)
    assert done == oracle.Wrapped([], 0, 2**62 - 10)
    done = wrap([2**62 - 5, 5], 4, 0, rows=2, skip=2**62 - 10)
    assert done.rows == [[(0, 2**62 - 10, 4)], [(0, 2**62 - 6, 1), (1, 0, 3)]]
