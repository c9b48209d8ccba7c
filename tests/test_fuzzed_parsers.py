"""Whatever bytes a file holds, reading it gives data or an error of zephon's, and never crashes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zephon
from zephon import _state_format, selftest, state
from zephon.errors import DataError, StateError, ZephonError
from zephon.megatron import IndexedDataset

DATA = Path(__file__).parent / "data"
VALID_STATE = selftest._pipeline("best_fit_wrap").checkpoint()["state"]
SHORT = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# Places, and what is written there: one byte, or eight that are a number at its limits.
EDITS = st.lists(
    st.tuples(
        st.integers(0, 2**16),
        st.one_of(
            st.binary(min_size=1, max_size=1),
            st.sampled_from([0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63)]).map(
                lambda number: number.to_bytes(8, "little", signed=True)
            ),
        ),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: list[tuple[int, bytes]], cut: int) -> bytes:
    out = bytearray(data)
    for place, value in edits:
        at = place % max(len(out), 1)
        out[at : at + len(value)] = value
    return bytes(out[: len(out) - cut])


@SHORT
@given(EDITS, st.integers(0, 40))
def test_a_state_with_anything_in_it_and_a_right_checksum_is_decoded_or_refused(
    edits: list[tuple[int, bytes]], cut: int
) -> None:
    head, tail = _state_format._HEADER, _state_format._CHECKSUM
    payload = edited(VALID_STATE[head:-tail], edits, cut)
    data = VALID_STATE[: head - 6] + len(payload).to_bytes(6, "little") + payload
    data += _state_format._checksum(data)
    try:
        value = state.decode(data)
    except StateError:
        return
    assert state.encode(value) == data
    state.describe(data)


def test_the_checksum_above_is_the_right_one() -> None:
    head, tail = _state_format._HEADER, _state_format._CHECKSUM
    payload = VALID_STATE[head:-tail]
    data = VALID_STATE[: head - 6] + len(payload).to_bytes(6, "little") + payload
    assert data + _state_format._checksum(data) == VALID_STATE


@SHORT
@given(st.binary(max_size=200))
def test_any_bytes_are_no_state(data: bytes) -> None:
    for start in (b"", _state_format.MAGIC, VALID_STATE[: _state_format._HEADER]):
        with pytest.raises(StateError):
            state.decode(start + data)


# Bytes that nothing refers to are a warning.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["dt_i32", "dt_u16", "merged_i32", "empty_i32"])
@SHORT
@given(edits=EDITS, cut=st.integers(0, 40))
def test_an_index_with_anything_in_it_is_read_within_its_files_or_refused(
    name: str, edits: list[tuple[int, bytes]], cut: int, tmp_path: Path
) -> None:
    source = DATA / "indexed" / name
    (tmp_path / "x.idx").write_bytes(edited(source.with_suffix(".idx").read_bytes(), edits, cut))
    tokens = source.with_suffix(".bin").read_bytes()
    (tmp_path / "x.bin").write_bytes(tokens)
    try:
        dataset = IndexedDataset(str(tmp_path / "x"))
        read = [np.asarray(dataset[at]) for at in range(len(dataset))]
    except DataError:
        return
    assert all(one.nbytes <= len(tokens) for one in read)


LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.dictionaries(st.sampled_from(["text", "other"]), st.text(max_size=9)).map(
            lambda value: json.dumps(value).encode()
        ),
    ),
    max_size=8,
)


@SHORT
@given(lines=LINES, between=st.sampled_from([b"\n", b"\r\n", b"\n\n"]), final=st.booleans())
def test_lines_of_anything_are_read_or_refused(
    lines: list[bytes], between: bytes, final: bool, tmp_path: Path
) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(between.join(lines) + between * final)
    try:
        dataset = zephon.Dataset.from_path("x", file)
    except ZephonError:
        return
    for row in range(dataset.total()):
        try:
            dataset.read(np.array([row], np.int64))
        except DataError as error:
            told = str(error)
        else:
            continue
        assert str(file) in told
