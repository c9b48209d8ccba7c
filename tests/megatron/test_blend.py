import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron import get_blend_from_list

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "splits.json").read_text())
DIFFERS = {'["1", "a", "x", "b"]'}


@pytest.mark.parametrize("blend", sorted(set(RECORDED["get_blend_from_list"]) - DIFFERS))
def test_recorded_blend_lists_give_the_recorded_result(blend):
    expected = RECORDED["get_blend_from_list"][blend]
    result = get_blend_from_list(json.loads(blend))
    assert result == (None if expected is None else tuple(expected))


@pytest.mark.parametrize(
    ("blend", "prefixes", "weights"),
    [
        (["30", "a", "70", "b"], ["a", "b"], [30.0, 70.0]),
        ([" 30 ", " a ", "7e1", "b"], ["a", "b"], [30.0, 70.0]),
        (["1_000", "a", "0", "b"], ["a", "b"], [1000.0, 0.0]),
        ([30, "a", True, "b"], ["a", "b"], [30.0, 1.0]),
        ([np.float32(0.5), "a", np.int64(2), "b"], ["a", "b"], [0.5, 2.0]),
        (["2024", "path"], ["path"], [2024.0]),
        (["0x10", "a"], ["0x10", "a"], None),
        (["", ""], ["", ""], None),
        (["p", "30"], ["p", "30"], None),
        (("30", Path("c/d")), ["c/d"], [30.0]),
        ([Path("1"), "2"], ["1", "2"], None),
        (iter(["a", "b"]), ["a", "b"], None),
    ],
)
def test_numbers_at_even_positions_are_weights(blend, prefixes, weights):
    assert get_blend_from_list(blend) == (prefixes, weights)


@pytest.mark.parametrize("blend", [["1", "a", "2"], ["30"]])
def test_odd_list_with_a_number_at_every_even_position_warns(blend):
    with pytest.warns(UserWarning, match=r"all taken as path prefixes.*prefix missing"):
        assert get_blend_from_list(blend) == (blend, None)


def test_odd_list_of_prefixes_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert get_blend_from_list(["1", "a", "b"]) == (["1", "a", "b"], None)


@pytest.mark.parametrize(
    ("blend", "pair"),
    [
        (["1", "a", "x", "b"], "entries 2 and 3 are 'x', 'b'"),
        (["a", "b", "30", "c"], "entries 2 and 3 are '30', 'c'"),
        (["1", "a", "2", "b", "0x3", "c", "d", "e"], "entries 4 and 5 are '0x3', 'c'"),
    ],
)
def test_mixed_list_is_refused_with_the_first_offending_pair(blend, pair):
    with pytest.raises(ConfigError, match=pair):
        get_blend_from_list(blend)


@pytest.mark.parametrize("weight", ["nan", "inf", "-infinity", "-5", -0.1, 10**400, float("nan")])
def test_weight_that_is_not_finite_and_at_least_zero_is_refused(weight):
    with pytest.raises(ConfigError, match=r"blend\[2\] is the weight .* of 'b'; a weight must be"):
        get_blend_from_list([1, "a", weight, "b"])


def test_empty_list_is_refused():
    with pytest.raises(ConfigError, match="blend is empty"):
        get_blend_from_list([])


@pytest.mark.parametrize(
    ("blend", "message"),
    [
        ([None, "a"], r"blend\[0\] must be a string, a number or a path, got None"),
        ([b"1", "a"], r"blend\[0\] must be a string"),
        (["30", 5], r"blend\[1\] must be a path prefix, got the number 5"),
        ([5, "a", "b"], r"blend\[0\] must be a path prefix, got the number 5"),
        ("ab", r"got 'ab': write \['ab'\]"),
    ],
)
def test_entry_of_the_wrong_type_is_named(blend, message):
    with pytest.raises(ConfigTypeError, match=message):
        get_blend_from_list(blend)
