"""The boundary of the order kernels: what does not fit is refused by name."""

import numpy as np
import pytest

from zephon._native import order as native


def ints(*values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("function", [native.permute, native.permute_inverse])
@pytest.mark.parametrize(
    ("n", "key", "positions", "room", "error", "message"),
    [
        (0, 1, [], 0, ValueError, "n is 0, expected 1 to 4611686018427387904"),
        (2**62 + 1, 1, [], 0, ValueError, "n is 4611686018427387905"),
        (2**70, 1, [], 0, ValueError, "n is 1180591620717411303424"),
        (1.5, 1, [], 0, TypeError, "n must be an int, not float"),
        (5, -1, [], 0, ValueError, r"key is -1, expected 0 to 2\*\*64 - 1"),
        (5, 2**64, [], 0, ValueError, "key is 18446744073709551616"),
        (5, "1", [], 0, TypeError, "key must be an int, not str"),
        (5, 1, [0, 5], 2, ValueError, r"positions\[1\] is 5, expected 0 to 4"),
        (300, 1, [-1], 1, ValueError, r"positions\[0\] is -1, expected 0 to 299"),
        (5, 1, [0, 1], 3, ValueError, "out has 3 elements, positions has 2"),
    ],
)
def test_permute_refuses(function, n, key, positions, room, error, message):
    with pytest.raises(error, match=message):
        function(n, key, ints(*positions), np.empty(room, np.int64))


def test_permute_works_in_place_and_on_nothing():
    for n in (5, 300, 2**41):
        values = np.arange(5)
        expected = np.empty_like(values)
        native.permute(n, 1, values, expected)
        native.permute(n, 1, values, values)
        assert (values == expected).all()
        native.permute(n, 1, values[:0], values[:0])


def counts(weights=(1, 2, 5), total=8, lane=0, lanes=4, t0=0, t1=16, room=3):
    out = [np.empty(room, np.int64) for _ in range(3)]
    native.chunk_counts(ints(*weights), total, lane, lanes, t0, t1, *out)
    return [array.tolist() for array in out]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"total": 0}, "total is 0, expected 1 to 281474976710656"),
        ({"total": 9}, "weights sum to 8, expected 9"),
        ({"total": 7}, r"weights\[2\] is 5, with 4 of 7 left"),
        ({"weights": (1, -2, 9)}, r"weights\[1\] is -2"),
        ({"weights": ()}, "weights has 0 elements, expected 1 to 65536"),
        ({"lanes": 0}, "lanes is 0, expected 1 to 65536"),
        ({"lane": 4}, "lane is 4, expected 0 to 3"),
        ({"t0": 17}, "t0 is 17, expected 0 to 16"),
        ({"t1": 2**49}, "t1 is 562949953421312, expected 0 to 281474976710656"),
        ({"lanes": 2**16, "t1": 2**47}, "t1 is 140737488355328, expected 0 to 70368744177664"),
        ({"room": 2}, "given has 2 elements, weights has 3"),
    ],
)
def test_chunk_counts_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        counts(**arguments)


def test_counts_at_the_limits_do_not_overflow():
    weights = [2**47, 2**47 - 1, 1]
    t1 = 2**46
    given, taken, first = counts(weights, 2**48, 2**16 - 1, 2**16, t1 - 2**20, t1)
    assert sum(given) == t1 - 2**20
    assert sum(taken) == 2**20
    # Cumulative rounding of the whole, plus the round of the lanes before.
    assert first[0] == 2**61 - 2**19
    assert sum(first) == 2**16 * t1 - 2**20


def sequence(weights=(1, 2, 5), total=8, t0=0, given=(0, 0, 0), taken=(2, 4, 10), room=16, less=0):
    out = np.empty(room, np.uint16)
    scratch = np.empty(native.sequence_scratch(max(len(weights), 1), room) - less, np.uint64)
    native.chunk_sequence(ints(*weights), total, t0, ints(*given), ints(*taken), scratch, out)
    return out.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"total": 9}, "weights sum to 8, expected 9"),
        ({"t0": -1}, "t0 is -1"),
        ({"given": (0, 0)}, "given has 2 elements, weights has 3"),
        ({"given": (0, -1, 0)}, r"given\[1\] is -1"),
        ({"taken": (2, 4)}, "taken has 2 elements, weights has 3"),
        ({"taken": (2, 4, 9)}, "taken leaves 1 of the 16 draws of out empty"),
        ({"taken": (2, 5, 10)}, r"taken\[2\] is 10, with 9 of 16 draws left"),
        ({"taken": (-1, 5, 10)}, r"taken\[0\] is -1"),
        ({"weights": (0, 3, 5)}, r"taken\[0\] is 2"),
        ({"less": 1}, "scratch has 30 words, 31 are needed"),
    ],
)
def test_chunk_sequence_refuses(arguments, message):
    if "less" in arguments:
        words = native.sequence_scratch(3, 16)
        message = f"scratch has {words - 1} words, {words} are needed"
    with pytest.raises(ValueError, match=message):
        sequence(**arguments)


def test_an_empty_chunk_has_an_empty_sequence():
    assert sequence(taken=(0, 0, 0), room=0) == []


def test_numbering_refuses_sources_beyond_the_counters():
    for call in (
        lambda next_: native.skip_draws(np.array([0, 3], np.uint16), next_),
        lambda next_: native.number_draws(np.array([0, 3], np.uint16), next_, ints(0, 0)),
    ):
        with pytest.raises(ValueError, match="sequence holds source 3, next has 3 elements"):
            call(ints(0, 0, 0))
    with pytest.raises(ValueError, match="ordinals has 1 elements, sequence has 2"):
        native.number_draws(np.array([0, 0], np.uint16), ints(0), ints(0))


@pytest.mark.parametrize(
    ("a", "b", "d", "message"),
    [
        ([1], -1, [1], "b is -1"),
        ([1, -1], 1, [1, 1], r"a\[1\] is -1 and d\[1\] is 1"),
        ([1], 1, [0], r"d\[0\] is 0"),
        ([2**40], 2**23, [1], r"a \* 8388608 / d is above 2\*\*62"),
        ([1], 1, [1, 1], "d has 2 elements, a has 1"),
    ],
)
def test_scale_refuses(a, b, d, message):
    with pytest.raises(ValueError, match=message):
        native.scale(ints(*a), b, ints(*d), np.empty_like(ints(*a)), np.empty_like(ints(*a)))


def test_scale_is_exact_beyond_64_bits():
    quotient, remainder = ints(0), ints(0)
    native.scale(ints(2**62 - 1), 2**62 - 3, ints(2**62 + 7), quotient, remainder)
    assert (quotient[0], remainder[0]) == divmod((2**62 - 1) * (2**62 - 3), 2**62 + 7)


def test_locate_refuses_what_does_not_fit():
    tables = {
        "units": ints(2, 1),
        "begin": ints(0, 3),
        "first_row": ints(0, 2, 5, 0, 4),
        "mode": np.array([7, 0], np.uint8),
        "unit_key": np.zeros(2, np.uint64),
        "row_key": np.zeros(2, np.uint64),
        "prefix": np.empty(10, np.int64),
        "held": ints(-1, -1, -1, -1),
        "visit": ints(0, 1),
        "sources": np.array([0, 1], np.int32),
        "ordinals": ints(0, 0),
        "rows": ints(0, 0),
        "passes": ints(0, 0),
    }
    native.locate(**tables)
    for name, value, message in [
        ("units", ints(2, 2), r"units\[1\] is 2 and begins at 3 of 5 rows"),
        ("begin", ints(0, 2), r"units\[1\] is 1 and begins at 2"),
        ("first_row", ints(0, 2, 5, 0, 0), "source 1 has 0 documents"),
        ("mode", np.array([8, 0], np.uint8), r"mode\[0\] is 8, expected 0 to 7"),
        ("unit_key", np.zeros(1, np.uint64), "unit_key has 1 elements, units has 2"),
        ("prefix", np.empty(9, np.int64), "prefix has 9 elements, first_row, twice, has 10"),
        ("held", ints(-1, -1), "held has 2 elements, units, twice, has 4"),
        ("visit", ints(0, 2), r"visit\[1\] is 2, expected 0 to 1"),
        ("sources", np.array([0, 2], np.int32), r"sources\[1\] is 2, expected 0 to 1"),
        ("ordinals", ints(0, -1), r"ordinals\[1\] is -1, expected 0 or more"),
        ("rows", ints(0), "rows has 1 elements, ordinals has 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            native.locate(**{**tables, name: value})
