import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron import (
    Split,
    convert_split_vector_to_split_matrix,
    get_size_per_split_per_dataset,
    parse_and_normalize_split,
)
from zephon.megatron.splits import split_bounds

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "splits.json").read_text())
# What the reference reads as something else, or as NaN, is refused here.
MISREAD = {
    "-1,2,3": "has '-' in it",
    "abc": "has 'a' in it",
    "1e2,5,5": "has 'e' in it",
    "": "gives nothing to any split",
    "80,10,5,5": "has 4 numbers; there are 3 splits",
}


@pytest.mark.parametrize("text", list(RECORDED["parse_split_and_matrix"]))
def test_recorded_split_strings_give_the_recorded_matrix_or_are_refused(text):
    recorded = RECORDED["parse_split_and_matrix"][text]
    if text in MISREAD:
        with pytest.raises(ConfigError, match=MISREAD[text]) as caught:
            parse_and_normalize_split(text)
        assert repr(text) in str(caught.value)
        return
    vector, matrix = recorded
    assert parse_and_normalize_split(text) == vector
    found = convert_split_vector_to_split_matrix(vector)
    assert [interval and list(interval) for interval in found] == matrix
    assert json.dumps(found) == json.dumps(matrix)  # an int 0 at the start, as in a description


@pytest.mark.parametrize("text", ["0", "0,0,0", "1.2.3,1,1", ".", "1,+1,1", "nan", "1,inf,1"])
def test_what_is_no_split_is_refused_by_name(text):
    with pytest.raises(ConfigError, match="split") as caught:
        parse_and_normalize_split(text)
    assert repr(text) in str(caught.value)


def test_a_split_is_a_string():
    with pytest.raises(ConfigTypeError, match="must be a string such as '99,1,0', got .99, 1, 0."):
        parse_and_normalize_split([99, 1, 0])


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=3).filter(any),
    st.sampled_from([",", " ", "/", ", "]),
    st.integers(0, 10**6),
)
def test_splits_cover_a_dataset_once(numbers, separator, sequences):
    matrix = convert_split_vector_to_split_matrix(
        parse_and_normalize_split(separator.join(map(str, numbers)))
    )
    end = 0
    for interval in matrix:
        if interval is not None:
            begin, stop = split_bounds(interval, sequences)
            assert begin == end
            assert stop >= begin
            end = stop
    assert abs(end - sequences) <= sequences * 1e-12


def test_two_vectors_give_what_their_splits_have_in_common():
    assert convert_split_vector_to_split_matrix([0.5, 0.5, 0.0], [0.8, 0.0, 0.2]) == [
        (0, 0.5),
        None,
        None,
    ]
    assert convert_split_vector_to_split_matrix([0.9, 0.1, 0.0], [0.8, 0.2, 0.0]) == [
        (0, 0.8),
        (0.9, 1.0),
        None,
    ]


@pytest.mark.parametrize("text", list(RECORDED["size_per_split"]))
def test_recorded_sizes_per_split_and_dataset_are_the_same(text):
    weights, targets, surplus = json.loads(text)
    found = get_size_per_split_per_dataset(weights, targets, surplus=surplus)
    assert found == RECORDED["size_per_split"][text]


def test_bounds_round_half_to_even():
    assert split_bounds((0, 0.5), 5) == (0, 2)
    assert split_bounds((0, 0.5), 7) == (0, 4)
    assert math.isclose(0.95, 0.9500000000000001)
    assert split_bounds((0.9, 0.9500000000000001), 20) == (18, 19)


def test_splits_are_numbered_as_megatron_numbers_them():
    assert [(split.name, split.value) for split in Split] == [
        ("train", 0),
        ("valid", 1),
        ("test", 2),
    ]
