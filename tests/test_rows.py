from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zephon.rows import Rows, RowTokens


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.booleans(), st.data())
def test_a_part_of_rows_has_every_field_that_selecting_them_gives(
    counts: list[int], more: bool, data: st.DataObject
) -> None:
    total = sum(counts)
    number = np.arange(total, dtype=np.int64)
    rows = Rows(
        buffers=(np.arange(99, dtype=np.uint16), np.arange(100, 150)),
        buffer=(number % 2).astype(np.int32),
        start=3 * number,
        length=1 + number % 3,
        offset=number + 5,
        source=number + 6,
        row=number + 7,
        splits=np.cumsum([0, *counts]),
        row_length=13,
        pad_token_id=2,
        vocab_size=200,
        last=number % 2 == 0 if more else None,
        aligned=(None, None) if more else (),
        lineage=number + 8 if more else None,
    )
    first = data.draw(st.integers(0, len(counts) - 1))
    stop = data.draw(st.integers(first + 1, len(counts)))
    part, chosen = rows.part(first, stop), rows.select(slice(first, stop))
    for field in fields(Rows):
        one, other = getattr(part, field.name), getattr(chosen, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
        else:
            assert one is other or one == other
    assert len(part) == stop - first
    count = data.draw(st.integers(1, len(counts) - first))
    times = (len(counts) - first) // count
    several = rows.parts(first, count, times)
    assert [len(one) for one in several] == [count] * times
    for number, one in enumerate(several):
        alone = rows.part(first + number * count, first + (number + 1) * count)
        assert one.start.tolist() == alone.start.tolist()
        assert one.splits.tolist() == alone.splits.tolist()
    for row in range(len(part)):
        segments = range(*part.splits[row : row + 2].tolist())
        expected = [part.tokens(segment).tolist() for segment in segments]
        assert [tokens.tolist() for tokens in RowTokens(part, row)] == expected
