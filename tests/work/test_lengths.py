"""Lengths of documents: known ones, samples, and the weights that follow from them."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.work import TokenEstimation
from zephon.work.lengths import SourceLengths, measure_lengths
from zephon.work.mixture import WEIGHT_TOTAL, token_weights


class Documents:
    """Sources of given lengths, some of which are known and some have to be read."""

    def __init__(self, lengths, known=(), decoded=()):
        self.lengths = [np.array(some, dtype=np.int64) for some in lengths]
        self.decoded = decoded
        self.free = known
        self.read = [[] for _ in lengths]

    def known(self, source):
        return self.lengths[source] if source in self.free else None

    def decodes(self, source):
        return source in self.decoded

    def count(self, source, rows):
        self.read[source] += rows.tolist()
        return self.lengths[source][rows]


def measure(documents, *, seed=0, samples=1000, names=None, each=map, shards=None, **more):
    totals = [len(some) for some in documents.lengths]
    names = names or [f"s{i}" for i in range(len(totals))]
    estimation = TokenEstimation(**{"calibration_samples": samples, **more})
    counts = shards or [np.array([total]) for total in totals]
    return measure_lengths(names, totals, documents, estimation, counts, seed=seed, each=each)


def lognormal(count, cv, seed=0):
    sigma = math.sqrt(math.log(1 + cv * cv))
    drawn = np.random.default_rng(seed).lognormal(6, sigma, count)
    return np.maximum(drawn.astype(np.int64), 1)


def of(name, lengths, documents=None):
    array = np.array(lengths, dtype=np.int64)
    return SourceLengths(name=name, documents=documents or len(lengths), lengths=array)


def test_known_lengths_are_exact_and_read_nothing():
    documents = Documents([lognormal(5000, 1.5)], known=[0])
    [found] = measure(documents)
    assert found.exact
    assert found.relative_error == 0
    assert found.mean == documents.lengths[0].sum() / 5000
    assert documents.read == [[]]


def test_a_source_of_no_more_documents_than_the_sample_is_read_whole_and_exact():
    documents = Documents([lognormal(300, 1.5)])
    [found] = measure(documents, samples=300)
    assert found.exact
    assert sorted(documents.read[0]) == list(range(300))


def test_sampling_stops_at_one_percent_or_at_the_budget():
    even, wild = lognormal(50_000, 0.1), lognormal(50_000, 1.5)
    documents = Documents([even, wild])
    few, many = measure(documents, samples=2048)
    assert len(few.lengths) == 256
    assert 0 < few.relative_error <= 0.01
    assert len(many.lengths) == 2048
    assert not many.exact
    # cv / sqrt(m), with a sample's cv
    assert many.relative_error == pytest.approx(1.5 / math.sqrt(2048), rel=0.3)
    for read in documents.read:
        assert len(set(read)) == len(read)


def test_the_sample_is_spread_over_the_source():
    documents = Documents([np.arange(1, 40_001)])
    [found] = measure(documents, samples=2000)
    assert abs(found.mean / 20_000 - 1) < 4 * found.relative_error


def test_what_is_found_depends_on_seed_and_name_and_not_on_threads_or_other_sources():
    lengths = [lognormal(9000, 1.0, seed) for seed in range(5)]
    alone = measure(Documents(lengths))
    with ThreadPoolExecutor(3) as pool:
        together = measure(Documents(lengths), each=pool.map)
    for one, other in zip(alone, together, strict=True):
        assert one.lengths.tolist() == other.lengths.tolist()
    [moved] = measure(Documents(lengths[3:4]), names=["s3"])
    assert moved.lengths.tolist() == alone[3].lengths.tolist()
    [renamed] = measure(Documents(lengths[3:4]), names=["t"])
    [reseeded] = measure(Documents(lengths[3:4]), names=["s3"], seed=1)
    assert renamed.lengths.tolist() != moved.lengths.tolist() != reseeded.lengths.tolist()


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.lists(st.integers(1, 10**6), min_size=1, max_size=9)),
        min_size=1,
        max_size=6,
    )
)
def test_weights_times_mean_lengths_are_in_the_ratio_of_the_shares(sources):
    shares = [share for share, _ in sources]
    lengths = [of(f"s{i}", some) for i, (_, some) in enumerate(sources)]
    weights = token_weights(shares, lengths)
    assert sum(weights) == WEIGHT_TOTAL
    tokens = [weight * one.mean for weight, one in zip(weights, lengths, strict=True)]
    means = [one.mean for one in lengths]
    for share, mean, part in zip(shares, means, tokens, strict=True):
        off = abs(part - share / sum(shares) * sum(tokens))
        assert off <= mean + sum(means)  # a weight is rounded to an integer


def test_documents_without_tokens_are_refused_by_the_name_of_their_source():
    with pytest.raises(DataError, match="dataset 'b': 2 of its 9 documents were counted and give"):
        token_weights([1, 1], [of("a", [3]), of("b", [0, 0], documents=9)])


def test_a_sample_without_tokens_has_no_error_that_would_end_it():
    documents = Documents([np.zeros(5000)])
    [found] = measure(documents, samples=600)
    assert len(found.lengths) == 600
    assert found.relative_error == math.inf


def test_options_of_the_estimation_are_checked():
    assert TokenEstimation().calibration_samples == 2048
    with pytest.raises(ConfigError, match="calibration_samples is 1, expected 2 to"):
        TokenEstimation(calibration_samples=1)
    with pytest.raises(ConfigTypeError, match="calibration_samples is 2.0, expected an int"):
        TokenEstimation(calibration_samples=2.0)


def test_runs_of_neighbours_are_read_where_documents_are_decoded_together():
    documents = Documents([lognormal(100_000, 3)], decoded=[0])
    (found,) = measure(documents, samples=2048)
    assert len(found.lengths) == 2048
    read = documents.read[0]
    assert len(set(read)) == 2048
    assert len({row // 64 for row in read}) <= 33
    assert found.lengths.tolist() == documents.lengths[0][read].tolist()


def test_runs_of_neighbours_are_drawn_fairly():
    lengths = np.concatenate([np.full(9000, 100), np.full(1000, 900)])
    means = [
        measure(Documents([lengths], decoded=[0]), samples=2000, seed=seed)[0].mean
        for seed in range(40)
    ]
    assert np.mean(means) == pytest.approx(180, rel=0.15)


@given(st.integers(3, 500), st.integers(2, 200), st.integers(0, 9))
def test_runs_give_different_documents_and_never_more_than_asked_for(count, samples, seed):
    documents = Documents([range(1, count + 1)], decoded=[0])
    (found,) = measure(documents, samples=samples, seed=seed)
    assert len(found.lengths) <= max(samples, min(count, samples))
    assert len(set(documents.read[0])) == len(documents.read[0]) == len(found.lengths)
    if count <= samples:
        assert found.exact


def test_a_limit_of_shards_bounds_what_is_opened_and_depends_on_seed_and_name():
    counts = np.array([0, 500, 700, 0, 300, 900])
    ends = np.cumsum(counts)
    chosen = set()
    for seed in range(12):
        documents = Documents([lognormal(2400, 1.5)])
        [found] = measure(documents, seed=seed, shards=[counts], calibration_shards_max=2)
        seen = set(np.searchsorted(ends, documents.read[0], side="right").tolist())
        assert len(seen) == 2
        assert len(set(documents.read[0])) == len(documents.read[0]) == len(found.lengths)
        assert not found.exact
        chosen |= seen
    assert chosen == {1, 2, 4, 5}


def test_a_few_shards_of_few_documents_are_read_whole_and_are_no_exact_mean():
    documents = Documents([lognormal(30, 1.5)])
    [found] = measure(documents, shards=[np.array([10, 10, 10])], calibration_shards_max=1)
    assert sorted(documents.read[0]) in [list(range(i, i + 10)) for i in (0, 10, 20)]
    assert not found.exact


def test_sampling_goes_on_until_enough_shards_were_seen():
    lengths = np.full(20_000, 7)  # of one length, so that the first step would be enough
    counts = np.full(2000, 10)
    [few] = measure(Documents([lengths]), shards=[counts])
    [many] = measure(Documents([lengths]), shards=[counts], calibration_shards_min=600)
    assert len(few.lengths) == 256
    assert 600 <= len(many.lengths) < 1000
