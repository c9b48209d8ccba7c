"""Keys and the seekable permutation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import permutation as oracle
from oracles.units import source_key
from zephon.errors import ConfigError, ConfigTypeError
from zephon.work.order import derive_key, permute, permute_inverse

keys = st.integers(0, 2**64 - 1)

# (n, key 1) at positions k * n // 8.
GOLDEN = {
    256: [52, 93, 47, 109, 213, 218, 195, 131],
    257: [156, 34, 239, 97, 165, 130, 101, 71],
    1000: [108, 870, 25, 485, 239, 652, 999, 672],
    2**40: [
        286141866706,
        362410014744,
        538086010540,
        389147972990,
        108889024084,
        358563968858,
        984270935701,
        954004025048,
    ],
    2**62: [
        1727338695444105660,
        1650176588807094906,
        1273680253771290800,
        4570610601849815463,
        2052410825865205419,
        2608174273054762508,
        420323607075219365,
        1527437115024758948,
    ],
}


@pytest.mark.parametrize("n", GOLDEN)
def test_the_permutation_never_changes(n):
    positions = np.array([k * n // 8 for k in range(8)])
    assert permute(n, 1, positions).tolist() == GOLDEN[n]


@given(
    st.one_of(st.integers(1, 300), st.integers(1, 2**41), st.integers(1, 2**62)), keys, st.data()
)
def test_the_kernel_agrees_with_its_twin_and_the_inverse_leads_back(n, key, data):
    positions = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20)))
    values = permute(n, key, positions)
    assert values.tolist() == [oracle.permute(n, key, int(x)) for x in positions]
    assert (permute_inverse(n, key, values) == positions).all()


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 258, 1000, 65536, 2**20 + 1])
@pytest.mark.parametrize("key", [0, 1, 2**64 - 1])
def test_every_value_comes_once(n, key):
    everywhere = np.arange(n)
    values = permute(n, key, everywhere)
    assert (np.sort(values) == everywhere).all()
    assert (permute_inverse(n, key, values) == everywhere).all()


@given(st.integers(257, 2**62))
def test_the_halves_cover_the_domain_with_less_than_one_row_to_spare(n):
    high, low = oracle.halves(n)
    assert 0 <= high * low - n < high
    assert (high - 1) ** 2 < n <= high**2


@pytest.mark.parametrize("n", [300, 1000, 1026, 50_021])
def test_walks_are_as_rare_as_the_spare_values(n):
    trials = min(n, 3000)
    walks = sum(oracle.once(x, n, key) >= n for key in range(3) for x in range(trials))
    mean = 3 * trials / np.sqrt(n)
    assert walks <= mean + 5 * np.sqrt(mean)


def test_all_orders_of_four_are_equally_likely():
    orders, counts = np.unique(
        [permute(4, derive_key(seed, "test"), np.arange(4)) for seed in range(4800)],
        axis=0,
        return_counts=True,
    )
    assert len(orders) == 24
    chi_square = ((counts - 200) ** 2 / 200).sum()
    assert chi_square < 23 + 5 * np.sqrt(2 * 23)


def test_neighbours_are_scattered():
    n = 50_021
    values = permute(n, derive_key(0, "test"), np.arange(n))
    bins = np.histogram2d(values[:-1], values[1:], bins=16)[0]
    expected = (n - 1) / 256
    z = (((bins - expected) ** 2 / expected).sum() - 255) / np.sqrt(2 * 255)
    assert abs(z) < 5


def test_another_seed_purpose_name_or_number_is_another_key():
    different = {
        derive_key(0, "unit", "web", 0),
        derive_key(1, "unit", "web", 0),
        derive_key(0, "row", "web", 0),
        derive_key(0, "unit", "books", 0),
        derive_key(0, "unit", "web", 1),
        derive_key(0, "unit", "web"),
        derive_key(0, "unit", "", 0),
    }
    assert len(different) == 7


def test_keys_never_change():
    assert derive_key(0, "unit", "web") == source_key(0, "unit", "web") == 0x9A35FB4C16960E30
    assert derive_key(1, "row", "") == 0x06BA05E007E9306C


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ConfigError, r"seed is -1, expected 0 to 2\*\*64 - 1"),
        (2**64, ConfigError, "seed is 18446744073709551616"),
        ("0", ConfigTypeError, "seed must be an int, not str"),
        (True, ConfigTypeError, "seed must be an int, not bool"),
    ],
)
def test_a_seed_that_is_none_is_refused(seed, error, message):
    with pytest.raises(error, match=message):
        derive_key(seed, "unit")


@pytest.mark.parametrize("purpose", ["", "ninechars"])
def test_a_purpose_of_a_wrong_length_is_refused(purpose):
    with pytest.raises(ConfigError, match=f"purpose is '{purpose}', expected 1 to 8"):
        derive_key(0, purpose)
