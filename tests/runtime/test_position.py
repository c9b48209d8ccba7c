from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.cursor import CursorLater, DocumentCursor, LaneCursor
from zephon.runtime import position as position_module
from zephon.runtime.position import Cursors, Position, Share


@given(st.integers(1, 40), st.integers(1, 7), st.lists(st.integers(0, 39), max_size=30))
def test_cursors_are_a_tuple_in_which_one_can_be_changed(
    lanes: int, block: int, moved: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(position_module, "_BLOCK", block)
        expected = [LaneCursor()] * lanes
        cursors = Cursors(expected)
        for number, lane in enumerate(moved):
            before = tuple(cursors)
            changed = cursors.replaced(lane % lanes, LaneCursor(DocumentCursor(number + 1)))
            expected[lane % lanes] = LaneCursor(DocumentCursor(number + 1))
            assert tuple(cursors) == before
            cursors = changed
        assert len(cursors) == lanes
        assert cursors == tuple(expected)
        assert hash(cursors) == hash(tuple(expected))
        assert [cursors[lane] for lane in range(lanes)] == expected
        assert cursors[-1] == expected[-1]
        assert cursors[1:3] == tuple(expected[1:3])
        with pytest.raises(IndexError):
            cursors[lanes]
        assert cursors != 3


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 20))
def test_each_rank_moves_its_own_lanes_alone(rounds: int, degree: int, start: int) -> None:
    lanes = 2 * degree
    for rank in range(degree):
        position = Position(start, (LaneCursor(),) * lanes)
        for step in range(rounds):
            position = position.after(LaneCursor(DocumentCursor(step + 1)), Share(rank, degree))
        assert position.delivered == start + rounds * degree
        mine = {(start + rank + step * degree) % lanes for step in range(rounds)}
        moved = {lane for lane, cursor in enumerate(position.cursors) if cursor != LaneCursor()}
        assert moved == mine


def test_a_cursor_that_is_made_later_is_made_once_when_somebody_looks() -> None:
    class Counting:
        made = 0

        def cursor(self, rows: int) -> LaneCursor:
            self.made += 1
            return LaneCursor(DocumentCursor(rows))

    rows, other = Counting(), Counting()
    position = Position(0, (LaneCursor(),) * 3).after(CursorLater(rows, 7), Share())
    later = position.after(CursorLater(other, 9), Share())
    assert (rows.made, other.made) == (0, 0)
    assert later.cursors[1] == LaneCursor(DocumentCursor(9))
    assert (rows.made, other.made) == (0, 1)
    for _ in range(2):
        assert tuple(position.cursors) == (LaneCursor(DocumentCursor(7)), *[LaneCursor()] * 2)
    assert pickle.loads(pickle.dumps(later)) == later
    assert (rows.made, other.made) == (1, 1)
