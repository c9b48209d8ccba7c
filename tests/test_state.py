from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon import _state_format as codec
from zephon import state
from zephon.cursor import DocumentCursor, Dropped, LaneCursor, check_tokens
from zephon.errors import ConfigTypeError, StateError
from zephon.runtime.exchange import Exchange
from zephon.work.history import History, Stretch

BADFILES = Path(__file__).parent / "data" / "badfiles"
SIZE = {"format": "memory", "documents": 10, "shards": 1, "bytes": 800}

COUNTS = st.integers(0, 2**40)
CURSORS = st.builds(
    lambda documents, rows, window, shuffled, check: LaneCursor(
        documents, rows, window, shuffled, check if documents.token or rows or shuffled else b""
    ),
    st.builds(
        DocumentCursor,
        st.integers(0, 2**62),
        COUNTS,
        st.builds(Dropped, COUNTS, COUNTS, COUNTS, COUNTS),
    ),
    COUNTS,
    COUNTS,
    COUNTS,
    st.binary(min_size=8, max_size=8),
)


def cursor(draw: int, token: int = 0, check: bytes = b"") -> LaneCursor:
    return LaneCursor(DocumentCursor(draw, token, Dropped(1, 2, 30)), _evidence=check)


def sample(lanes: int = 2) -> state.StreamState:
    return state.StreamState(
        {"work": {"seed": 7, "chunk_size": 16384}, "canonical_replicas": lanes},
        (
            state.SourceState("a", b"12345678", 3 * 2**30, SIZE),
            state.SourceState("b", b"abcdefgh", 2**30, SIZE),
        ),
        5,
        (cursor(3, 17, b"checksum"),) + (cursor(4),) * (lanes - 1),
    )


def key(value: state.StreamState) -> tuple[Any, ...]:
    """Everything in a state, checks included."""
    return value, [cursor.check for cursor in value.cursors]


WEIGHTS = st.tuples(st.integers(0, 2**32), st.integers(1, 2**32))
STRETCHES = st.builds(
    lambda chunk_size, chunks, weights: Stretch(
        draws=chunks * chunk_size, chunk_size=chunk_size, weights=weights
    ),
    st.integers(1, 2**24),
    st.integers(1, 2**20),
    WEIGHTS,
)
HISTORIES = st.none() | st.builds(
    lambda begin, base, stretches: History(begin=begin, base=base, stretches=tuple(stretches)),
    COUNTS,
    st.tuples(COUNTS, COUNTS),
    st.lists(STRETCHES, max_size=3),
)


@given(st.lists(CURSORS, min_size=1, max_size=20), st.integers(0, 2**62), COUNTS, HISTORIES)
def test_a_state_survives_its_bytes_and_has_only_one_encoding(
    cursors: list[LaneCursor], delivered: int, passes: int, history: History | None
) -> None:
    before = replace(
        sample(len(cursors)),
        cursors=tuple(cursors),
        delivered=delivered,
        passes=passes,
        history=history,
    )
    data = state.encode(before)
    assert key(state.decode(data)) == key(before)
    assert state.encode(state.decode(data)) == data


def test_flipping_any_bit_is_noticed() -> None:
    data = state.encode(sample())
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateError):
            state.decode(bytes(damaged))


def test_cutting_anywhere_or_adding_a_byte_is_noticed() -> None:
    data = state.encode(sample())
    for length in range(len(data)):
        with pytest.raises(StateError):
            state.decode(data[:length])
    with pytest.raises(StateError, match="was cut or something was added"):
        state.decode(data + b"\0")


def test_the_size_does_not_depend_on_the_position_and_keeps_to_its_budget() -> None:
    lanes = 512
    far = LaneCursor(
        DocumentCursor(2**46, 2**31, Dropped(2**32, 2**32, 2**40, 2**31)),
        2**20,
        2**32,
        2**20,
        b"checksum",
    )
    value = replace(sample(lanes), cursors=(far,) * lanes, delivered=2**60)
    names = len(codec.to_json([{"name": s.name, **s.size} for s in value.sources]))
    assert len(state.encode(value)) - names <= 64 * lanes + 24 * 2 + 2048


def test_an_empty_state_says_so() -> None:
    with pytest.raises(StateError, match=r"the state is empty \(0 bytes\)"):
        state.decode((BADFILES / "st_01_empty.state").read_bytes())


def test_a_pickle_is_recognised_and_never_loaded() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return pytest.fail, ("unpickled",)

    for data in ((BADFILES / "st_02_pickle.state").read_bytes(), pickle.dumps(Bomb())):
        with pytest.raises(StateError, match="a pickle, which is never loaded"):
            state.decode(data)


def test_other_bytes_and_other_types_are_refused() -> None:
    with pytest.raises(StateError, match="they begin with b'PK.*an archive, as torch.save writes"):
        state.decode(b"PK\x03\x04 and so on")
    with pytest.raises(StateError, match="are not a zephon state: .* it is something else"):
        state.decode(b"GIF89a and so on")
    with pytest.raises(ConfigTypeError, match="Expected the state as bytes, got str"):
        state.decode("state")  # type: ignore[arg-type]
    with pytest.raises(StateError, match="17 bytes are less than its header needs"):
        state.decode(state.encode(sample())[:17])


def test_a_newer_version_names_both_versions() -> None:
    data = bytearray(state.encode(sample()))
    data[8] = 2
    with pytest.raises(StateError, match="format version 2, this zephon reads version 1"):
        state.decode(bytes(data))


def test_well_formed_bytes_with_malformed_content_are_refused() -> None:
    payload = b"\x01\x02\x01"
    head = codec.MAGIC + state.VERSION.to_bytes(2, "little") + len(payload).to_bytes(6, "little")
    with pytest.raises(StateError, match="the state's content is malformed"):
        state.decode(head + payload + codec._checksum(head + payload))


def forged(**sections: bytes) -> bytes:
    """A state with a checksum that fits, of sections that the encoder would not write."""
    good = dict(codec._sections(codec._payload(state.encode(sample()))))
    good.update({int(tag.removeprefix("s")): content for tag, content in sections.items()})
    payload = b"".join(
        bytes([tag]) + codec._varint(len(content)) + content for tag, content in good.items()
    )
    head = codec.MAGIC + state.VERSION.to_bytes(2, "little") + len(payload).to_bytes(6, "little")
    return head + payload + codec._checksum(head + payload)


@pytest.mark.parametrize(
    "sections",
    [
        {"s1": b"\x02\x05"},
        {"s1": b"\x02\x85\x00\x00"},  # a padded varint
        {"s1": b"\x02" + b"\xff" * 40 + b"\x01\x00"},
        {"s1": b"\x01\x05\x00"},  # fewer lanes than the options say
        {"s2": b"[]"},
        {"s2": b"null"},
        {"s2": b"[" * 100_000},
        {"s2": b'{"canonical_replicas": 2}'},  # not written as JSON is here
        {"s5": b"[1, 2]"},
        {"s5": b'{"a":1}'},
        {"s5": b'[{"name":1},{"name":2}]'},
        {"s5": b'[{"name":"a"},{"name":"b"}]'},
        {"s6": b"\x05\x00"},
        {"s6": b"\x07\x02"},
        {"s6": b"\x00\x03"},
        {"s7": b""},
        {"s7": b"\x00\x00" + bytes(8)},  # one source of two
        {"s7": b"\x00\x00" + bytes(15) + b"\xff"},  # a number of 64 bits
        {"s7": b"\x00\x01" + bytes(16) + b"\x08\x08" + bytes(16)},  # no weights
        {"s7": b"\x00\x01" + bytes(16) + b"\x09\x08" + b"\x01" * 16},  # no whole chunks
        {"s7": b"\x00\x01" + bytes(16) + b"\x00\x08" + b"\x01" * 16},
        {"s7": b"\x00\x00" + bytes(17)},
        {"s8": b""},
    ],
)
def test_forged_content_is_refused_as_every_damage_is(sections: dict[str, bytes]) -> None:
    assert state.decode(forged()) == sample()
    with pytest.raises(StateError, match="the state's content is malformed"):
        state.decode(forged(**sections))


def test_a_refusal_lists_everything_that_differs() -> None:
    saved = sample()
    a, b = saved.sources
    sources = (
        replace(a, weight=2**30, size={**SIZE, "documents": 11}),
        replace(b, digest=b"changed!"),
        state.SourceState("c", b"12345678", 2**30, SIZE),
    )
    options = {"work": {"seed": 8, "chunk_size": 16384}, "canonical_replicas": 4}
    with pytest.raises(StateError) as caught:
        state.verify(saved, options, sources)
    for part in (
        "canonical_replicas (2, 4)",
        "work.seed (7, 8)",
        "share of 'a' (75.0000%, 25.0000%)",
        "'a' documents (10, 11)",
        "content of 'b': same size, but its files have changed",
        "source 'c' is new",
    ):
        assert part in str(caught.value)
    assert "chunk_size" not in str(caught.value)


def test_missing_and_reordered_sources_are_named() -> None:
    saved = sample()
    with pytest.raises(StateError, match="source 'b' is gone"):
        state.verify(saved, saved.options, saved.sources[:1])
    with pytest.raises(StateError, match=r"the order of sources \(a, b; b, a\)"):
        state.verify(saved, saved.options, saved.sources[::-1])


def test_the_same_stream_is_accepted() -> None:
    saved = sample()
    state.verify(saved, dict(saved.options), saved.sources)


def test_describe_tells_position_sources_and_options() -> None:
    text = state.describe(state.encode(sample(20)))
    assert "delivered: 5 lane-batches over 20 lanes, in pass 1" in text
    assert "a: 75.0000% of documents, 10 documents in 1 shards, 800 bytes, memory" in text
    assert "lane 0: document 3, token 17; left out 1 empty and 2 oversized documents" in text
    window = replace(sample(1), cursors=(LaneCursor(DocumentCursor(8), 5, 2, 7, b"checksum"),))
    assert "document 8, token 0, row 5 of its window, 7 of the shuffle" in state.describe(
        state.encode(window)
    )
    assert "and 4 more lanes" in text
    assert '"seed": 7' in text


def test_the_check_of_a_cursor_depends_on_values_and_not_on_their_type() -> None:
    values = [1, 5, 70]
    checks = {check_tokens((np.array(values, t),)) for t in (np.uint16, np.int32, np.int64)}
    assert len(checks) == 1
    halves = (np.array(values[:1], np.int32), np.array(values[1:], np.uint16))
    assert LaneCursor(DocumentCursor(0, 3), _evidence=halves).check in checks
    assert check_tokens((np.array([1, 5, 71]),)) not in checks


def parts_of(whole: state.StreamState, ranks: int) -> list[bytes]:
    """What each rank would give: its own lanes, and nonsense for the others."""
    return [
        state.encode(
            replace(
                whole,
                cursors=tuple(
                    c if (lane - whole.delivered) % ranks == rank else LaneCursor()
                    for lane, c in enumerate(whole.cursors)
                ),
                part=(rank, ranks),
            )
        )
        for rank in range(ranks)
    ]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_parts_of_all_ranks_make_the_whole_state(ranks: int) -> None:
    whole = replace(sample(4), cursors=tuple(cursor(7 * lane) for lane in range(4)), delivered=9)
    parts = parts_of(whole, ranks)
    assert state.merge(parts) == state.encode(whole)
    assert state.merge([*parts[::-1], parts[0]]) == state.encode(whole)


def test_parts_that_do_not_belong_together_are_refused() -> None:
    whole = sample(4)
    parts = parts_of(whole, 4)
    for wrong in (None, parts[0]):
        with pytest.raises(ConfigTypeError, match=r"parts is a \w+, expected a list of bytes"):
            state.merge(wrong)
    with pytest.raises(StateError, match="no parts of a state to merge"):
        state.merge([])
    with pytest.raises(StateError, match="of 4 ranks these gave no part: 1, 3"):
        state.merge([parts[0], parts[2]])
    with pytest.raises(StateError, match="runs of different sizes, one is of 4 ranks"):
        state.merge([parts[0], parts_of(whole, 2)[1]])
    with pytest.raises(StateError, match="rank 1 stands behind lane-batch 6 .* rank 0 behind 5"):
        state.merge([parts[0], parts_of(replace(whole, delivered=6), 4)[1]])
    with pytest.raises(StateError, match="rank 2 gave two different parts"):
        state.merge([*parts, parts_of(replace(whole, cursors=(cursor(9),) * 4), 4)[2]])
    with pytest.raises(StateError, match="the state is of another stream"):
        state.merge([parts[0], parts_of(replace(whole, options={}), 4)[1]])
    with pytest.raises(StateError, match="whole states of different positions"):
        state.merge([state.encode(whole), state.encode(replace(whole, delivered=6))])


class Together(Exchange):
    """Ranks that meet in one process: what the others give is known."""

    def __init__(self, others: list[bytes]) -> None:
        self.rank, self.size = 0, 1 + len(others)
        self._others = others

    def exchange(self, payload: bytes) -> list[bytes]:
        return [payload, *self._others]


def test_gathering_gives_the_whole_state() -> None:
    whole = sample(4)
    mine, *others = parts_of(whole, 4)
    exchange = Together([b"\0" + part for part in others])
    assert state.gather(mine, exchange) == state.encode(whole)


def test_an_error_on_one_rank_is_raised_on_all_with_its_name() -> None:
    mine, *others = parts_of(sample(2), 2)
    elsewhere = Together([b"\1OSError: disk full"])
    with pytest.raises(StateError, match="because ranks failed. rank 1: OSError: disk full"):
        state.gather(mine, elsewhere)
    here = Together([b"\0" + part for part in others])
    with pytest.raises(StateError, match="rank 0: ValueError: broken") as caught:
        state.gather(ValueError("broken"), here)
    assert isinstance(caught.value.__cause__, ValueError)
