from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import places as oracle
from zephon._native.places import TokenPlaces

SHARDS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=5)
SOURCES = st.lists(st.lists(SHARDS, min_size=1, max_size=4), min_size=1, max_size=4)


def build(sources: list[list[list[tuple[int, int]]]], tokens: int = 100) -> TokenPlaces:
    return TokenPlaces(
        [
            (
                np.array([start for start, _ in shard], np.int64),
                np.array([length for _, length in shard], np.int64),
                np.zeros(tokens, np.uint16),
                False,
            )
            for shard in shards
        ]
        for shards in sources
    )


def find(places: TokenPlaces, sources: list[int], rows: list[int]) -> list[tuple[int, int, int]]:
    buffer = np.empty(len(rows), np.int32)
    start, length = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    places.find(np.array(sources, np.int32), np.array(rows, np.int64), buffer, start, length)
    return list(zip(buffer.tolist(), start.tolist(), length.tolist(), strict=True))


@given(SOURCES, st.data())
def test_documents_are_found_where_the_oracle_finds_them(
    sources: list[list[list[tuple[int, int]]]], data: st.DataObject
) -> None:
    every = [(i, row) for i, shards in enumerate(sources) for row in range(sum(map(len, shards)))]
    asked = data.draw(st.lists(st.sampled_from(every), max_size=60)) if every else []
    found = find(build(sources), [i for i, _ in asked], [row for _, row in asked])
    assert found == [oracle.find(sources, i, row) for i, row in asked]


def test_what_is_not_there_is_named() -> None:
    places = build([[[(0, 5)], []], [[(1, 2), (3, 4)]]])
    good = [0] * 20
    with pytest.raises(ValueError, match=r"sources\[20\] is 2, expected 0 to 1"):
        find(places, [*good, 2], [*good, 0])
    with pytest.raises(ValueError, match=r"sources\[0\] is -1, expected 0 to 1"):
        find(places, [-1], [0])
    with pytest.raises(ValueError, match=r"rows\[20\] is 1, which source 0 does not have"):
        find(places, [*good, 0, 1], [*good, 1, 0])
    with pytest.raises(ValueError, match=r"rows\[0\] is -1, which source 1 does not have"):
        find(places, [1], [-1])


@pytest.mark.parametrize("place", [(-1, 1), (0, -1), (101, 0), (90, 11), (2**62, 2**62)])
def test_a_document_outside_its_buffer_is_refused(place: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="document 1 of source 0 does not lie inside its buffer"):
        find(build([[[(0, 100), place]]]), [0, 0], [0, 1])


def test_arguments_that_do_not_fit_together_are_refused() -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="there are no sources"):
        TokenPlaces([])
    with pytest.raises(ValueError, match="source 1 has no shards"):
        TokenPlaces([[(one, one, one, False)], []])
    with pytest.raises(ValueError, match="start has 1 elements, length has 2"):
        TokenPlaces([[(one, np.zeros(2, np.int64), one, False)]])
    with pytest.raises(ValueError, match="source 0: tokens must be a contiguous 1-D array"):
        TokenPlaces([[(one, one, np.zeros(4)[::2], False)]])
    places = TokenPlaces([[(one, one, one, False)]])
    with pytest.raises(ValueError, match="buffer has 2 elements, rows has 1"):
        places.find(np.zeros(1, np.int32), one, np.zeros(2, np.int32), one.copy(), one.copy())


def test_documents_in_mapped_files_are_asked_for_in_runs(tmp_path: Path) -> None:
    page = 4096
    (tmp_path / "tokens").write_bytes(bytes(64 * page))
    tokens = np.memmap(tmp_path / "tokens", np.uint16, "r")
    start = np.array([0, 2 * page, 2 * page + 10, 20 * page], np.int64)
    length = np.array([10, 10, 0, 2 * page], np.int64)
    buffer = np.zeros(4, np.int32)
    for mapped, gap, runs in (
        (True, 0, 3),
        (True, 5 * page, 2),
        (True, 99 * page, 1),
        (False, 0, 0),
    ):
        places = TokenPlaces([[(start, length, tokens, mapped)]])
        found = places.read_ahead(buffer, start, length, gap=gap, skip_resident=False)
        assert found == (runs, runs)
    tokens.max()
    places = TokenPlaces([[(start, length, tokens, True)]])
    assert places.read_ahead(buffer, start, length, gap=0, skip_resident=True) == (0, 0)
    with pytest.raises(ValueError, match=r"buffer\[1\] is 1, expected 0 to 0"):
        places.read_ahead(
            np.array([0, 1], np.int32), start[:2], length[:2], gap=0, skip_resident=True
        )
    with pytest.raises(ValueError, match="document 3 does not lie inside its buffer"):
        places.read_ahead(buffer, start, 64 * length, gap=0, skip_resident=True)
    with pytest.raises(ValueError, match="gap is -1"):
        places.read_ahead(buffer, start, length, gap=-1, skip_resident=True)
    with pytest.raises(ValueError, match="length has 3 elements, buffer has 4"):
        places.read_ahead(buffer, start, length[:3], gap=0, skip_resident=True)
