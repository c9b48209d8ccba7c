"""Shares as asked for, and as integers."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import mixture as oracle
from zephon.errors import ConfigError, ConfigTypeError
from zephon.work import MixtureSpec
from zephon.work.mixture import check_rarest, effective_chunk_size, integer_weights

weights = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=12)


@given(weights, st.sampled_from([2**32, 1000, 12]))
def test_integer_weights_agree_with_their_twin(floats, total):
    assert list(integer_weights(floats, total)) == oracle.largest_remainder(floats, total)


@given(st.lists(st.floats(min_value=5e-324, max_value=1e308), min_size=1, max_size=12))
def test_integer_weights_sum_up_and_none_is_zero(floats):
    integers = integer_weights(floats)
    assert sum(integers) == 2**32
    assert min(integers) >= 1


def test_integer_weights_never_change():
    assert integer_weights([0.1, 0.2, 0.7]) == (429496730, 858993459, 3006477107)
    assert integer_weights([1, 1, 1]) == (1431655766, 1431655765, 1431655765)


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (0, ConfigError, "weight of 'web' is 0, expected positive and finite; leave a source"),
        (-0.5, ConfigError, "weight of 'web' is -0.5, expected positive and finite$"),
        (math.nan, ConfigError, "weight of 'web' is nan, expected positive and finite"),
        (math.inf, ConfigError, "weight of 'web' is inf, expected positive and finite"),
        (10**400, ConfigError, "weight of 'web' is 1000.*, too large for a float"),
        ("1", ConfigTypeError, "weight of 'web' is '1', expected a number"),
        (None, ConfigTypeError, "weight of 'web' is None, expected a number"),
        (True, ConfigTypeError, "weight of 'web' is True, expected a number"),
    ],
)
def test_a_weight_that_is_none_is_refused_by_name(weight, error, message):
    with pytest.raises(error, match=message):
        MixtureSpec({"books": 1, "web": weight})


def test_a_mixture_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="weights is empty"):
        MixtureSpec({})
    with pytest.raises(ConfigTypeError, match=r"weights must be a mapping .* not list"):
        MixtureSpec([("web", 1)])
    with pytest.raises(ConfigTypeError, match="weights names a source 3"):
        MixtureSpec({3: 1})


def test_a_mixture_is_for_exactly_its_sources():
    spec = MixtureSpec({"web": 3, "books": 1})
    spec.validate_for(["books", "web"])
    with pytest.raises(ConfigError, match="no weight for 'code'; weights has 'web', 'books'"):
        spec.validate_for(["web", "books", "code"])
    with pytest.raises(ConfigError, match=r"weights \{'books': 1.0\} belong to no dataset"):
        spec.validate_for(["web"])
    many = MixtureSpec({f"s{i}": 1 for i in range(20)})
    with pytest.raises(ConfigError, match="'s7' and 12 more"):
        many.validate_for(["other"])


def test_normalized_weights_come_in_the_order_asked_for():
    spec = MixtureSpec({"web": 3, "books": 1})
    assert list(spec.normalized_for(["books", "web"]).items()) == [("books", 0.25), ("web", 0.75)]
    assert MixtureSpec({"a": 1e308, "b": 1e308}).normalized_for("ab") == {"a": 0.5, "b": 0.5}
    with pytest.raises(ConfigError, match="no weight for 'code'"):
        spec.normalized_for(["code"])


def test_a_mixture_cannot_be_changed_from_outside():
    given_weights = {"web": 3.0}
    spec = MixtureSpec(given_weights)
    given_weights["web"] = 5.0
    assert spec.weights["web"] == 3.0
    with pytest.raises(TypeError):
        spec.weights["web"] = 1.0
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(MixtureSpec({"web": 3})) == hash(spec)


def test_a_share_too_small_to_keep_is_refused_by_name():
    check_rarest(["web", "rare"], [2**32 - 2**10, 2**10])
    with pytest.raises(ConfigError, match=r"share of 'rare' is 2.38e-07, the smallest .* 2.38e-07"):
        check_rarest(["web", "rare"], [2**32 - 2**10 + 1, 2**10 - 1])


@pytest.mark.parametrize(
    ("chunk_size", "integers", "effective"),
    [(16, [1, 2, 5], 16), (4, [1, 2, 5], 8), (1, [3, 7], 4), (1, [5], 1), (1, [0, 5], 1)],
)
def test_a_chunk_has_room_for_the_rarest_source(chunk_size, integers, effective):
    assert effective_chunk_size(chunk_size, integers) == effective
