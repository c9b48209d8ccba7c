"""The work source: its checks, its policies, its options."""

import json
import logging
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from zephon.errors import ConfigError, ConfigTypeError, LifecycleError
from zephon.work import MixtureSpec, StaticMixtureWorkSource, WorkSource


class FakeDataset:
    """What a work source asks of a dataset."""

    def __init__(self, name, counts, bytes_per_document=1000):
        self.name = name
        self._counts = np.array(counts, dtype=np.int64)
        self._bytes = self._counts * bytes_per_document

    def counts(self):
        return self._counts

    def total(self):
        return int(self._counts.sum())

    def raw_bytes(self):
        return self._bytes

    def units(self):
        return None


WEB = FakeDataset("web", [40, 30, 30])
BOOKS = FakeDataset("books", [25, 25])
MIX = {"web": 3, "books": 1}


def source(datasets=(WEB, BOOKS), mixture=None, **options):
    return StaticMixtureWorkSource(datasets, mixture or MIX, **options)


def run(work, lanes=1, most=2000):
    """(name, row, pass) of the draws of all lanes."""
    found = []
    for lane in range(lanes):
        draws = work.lane(lane, lanes).draws(0, most)
        for which, row, turn in zip(draws.sources, draws.rows, draws.passes, strict=True):
            found.append((work.datasets[which].name, int(row), int(turn)))
    return found


def once(*datasets):
    return sorted((d.name, row, 0) for d in datasets for row in range(d.total()))


def test_it_is_a_work_source_with_exact_shares():
    work = source()
    assert isinstance(work, WorkSource)
    assert work.datasets == (WEB, BOOKS)
    assert work.weights == (3 * 2**30, 2**30)
    assert work.shares() == {"web": 0.75, "books": 0.25}
    assert work.mixture == MixtureSpec(MIX)
    third = source(mixture={"web": 1, "books": 2})
    assert Fraction(third.shares()["web"]) == Fraction(third.weights[0], 2**32)


def test_every_shuffle_mode_draws_every_document_once():
    for block in (None, 1, 7, "auto", "global"):
        for by_shard in (True, False):
            for within in (True, False):
                work = source(
                    exhausted_policy="redistribute",
                    shuffle_shards=by_shard,
                    shuffle_within_shard=within,
                    shuffle_block_size=block,
                )
                assert sorted(run(work, lanes=3)) == once(WEB, BOOKS)


def test_the_default_is_one_pass_of_the_dataset_that_takes_longest():
    work = source()  # books: 50 documents at 1/4 take 200 draws, web 133
    taken = Counter(name for name, _, _ in run(work, lanes=8))
    assert taken == {"web": 150, "books": 50}
    assert sorted(run(source([WEB], {"web": 1}), lanes=8)) == once(WEB)


def test_one_lane_or_many_draw_the_same_documents():
    for policy in (None, "stop", "redistribute"):
        runs = [Counter(run(source(exhausted_policy=policy), lanes)) for lanes in (1, 2, 5)]
        if policy != "stop":  # which ends on whole rounds of the lanes
            assert runs[0] == runs[1] == runs[2]
        assert all(sum(r.values()) in range(125, 206) for r in runs)


def test_repeat_has_no_end_and_another_order_in_each_pass():
    work = source(exhausted_policy="repeat", shuffle_within_shard=True)
    assert work.lane(0, 2).length() is None
    found = run(work, most=800)
    for turn in (0, 1, 2):
        assert sorted(r for n, r, t in found if (n, t) == ("books", turn)) == list(range(50))
    first, second = ([r for n, r, t in found if (n, t) == ("web", turn)] for turn in (0, 1))
    assert first != second
    same = source(exhausted_policy="repeat", shuffle_within_shard=True, reshuffle_on_repeat=False)
    kept = run(same, most=800)
    first, second = ([r for n, r, t in kept if (n, t) == ("web", turn)] for turn in (0, 1))
    assert first == second


def test_lanes_draw_the_same_source_at_the_same_place_of_their_chunks():
    """What docs/order.md warns of: the stagger moves the counts at the ends of chunks alone."""
    work = source(chunk_size=1024, exhausted_policy="repeat")
    first, *others = (work.lane(lane, 8).draws(0, 4096).sources for lane in range(8))
    for lane in others:
        assert np.mean(lane == first) > 0.99


def test_decoding_is_counted_by_what_a_format_decodes_together():
    class Groups(FakeDataset):
        def unit_documents(self):
            return 10

    datasets = [Groups("web", [40, 30, 30]), Groups("books", [25, 25])]
    work = source(datasets, chunk_size=8)
    assert work.decode_factors(1) == (1, 1)
    # 10 documents, of which a chunk takes 6 and 2
    assert work.decode_factors(2) == pytest.approx((10 / 6 + 1 - 1 / 6, 10 / 2 + 1 - 1 / 2))
    shuffled = source(datasets, chunk_size=8, shuffle_block_size=25)
    assert shuffled.decode_factors(2)[1] == pytest.approx(25 / 2 + 1 - 1 / 2)
    assert (
        source(datasets, chunk_size=8, shuffle_block_size=5).decode_factors(2)[0]
        == (work.decode_factors(2)[0])
    )


def test_reshuffling_can_be_chosen_by_dataset():
    work = source(
        exhausted_policy="repeat", reshuffle_on_repeat={"web": False, "books": True},
        shuffle_block_size="global",
    )  # fmt: skip
    found = run(work, most=800)
    for name, kept in (("web", True), ("books", False)):
        first, second = ([r for n, r, t in found if (n, t) == (name, turn)] for turn in (0, 1))
        assert (first == second) is kept


def test_a_limit_of_repeats_counts_passes_in_all():
    work = source(exhausted_policy="repeat", max_repeats=2)
    taken = Counter((name, turn) for name, _, turn in run(work, lanes=2))
    assert taken == {("web", 0): 100, ("web", 1): 100, ("books", 0): 50, ("books", 1): 50}
    partly = source(exhausted_policy="repeat", max_repeats={"books": 1})
    found = run(partly, most=800)
    assert partly.lane(0, 1).length() is None
    assert sorted(d for d in found if d[0] == "books") == once(BOOKS)


def test_a_run_can_stop_after_passes():
    for policy in (None, "repeat"):
        work = source(exhausted_policy=policy, stop_after_passes=3)
        assert Counter(name for name, _, _ in run(work, lanes=4)) == {"web": 450, "books": 150}


def test_a_policy_can_be_given_by_dataset():
    work = source(exhausted_policy={"web": "repeat", "books": "redistribute"})
    found = run(work, lanes=8, most=300)
    assert work.lane(0, 8).length() is None
    assert sorted(d for d in found if d[0] == "books") == once(BOOKS)
    ends = source(exhausted_policy={"web": "stop", "books": "repeat"})
    found = run(ends, lanes=8)
    assert sorted(d for d in found if d[0] == "web") == once(WEB)
    assert sum(name == "books" for name, _, _ in found) == pytest.approx(33, abs=8)


def test_two_documents_and_eight_lanes_work():
    tiny = FakeDataset("tiny", [1, 1])
    for policy in (None, "stop", "redistribute"):
        work = source([tiny], {"tiny": 1}, exhausted_policy=policy)
        assert sorted(run(work, lanes=8)) == once(tiny)
        assert [work.lane(lane, 8).length() for lane in range(8)] == [1, 1] + [0] * 6


def test_another_dataset_moves_nothing_inside_the_old_ones():
    code = FakeDataset("code", [60])
    before = run(source(exhausted_policy="repeat", shuffle_within_shard=True), most=900)
    work = source(
        [code, WEB, BOOKS], {**MIX, "code": 2}, exhausted_policy="repeat", shuffle_within_shard=True
    )
    after = run(work, most=900)
    for name in MIX:
        old, new = ([(r, t) for n, r, t in found if n == name] for found in (before, after))
        shared = min(len(old), len(new))
        assert shared > 100
        assert old[:shared] == new[:shared]


def test_a_seed_changes_the_documents_and_not_the_shares():
    one, other = run(source(seed=1), lanes=2), run(source(seed=2), lanes=2)
    assert one != other
    assert [name for name, _, _ in one] == [name for name, _, _ in other]


def test_lanes_of_thousands_of_datasets_keep_their_shares():
    datasets = [FakeDataset(f"s{i}", [50]) for i in range(4096)]
    weights = {d.name: 1 + i % 7 for i, d in enumerate(datasets)}
    work = StaticMixtureWorkSource(datasets, weights, exhausted_policy="repeat", chunk_size=1)
    size = work.chunk_size
    assert size == -(-(2**32) // min(work.weights))
    draws = work.lane(5, 64).draws(3 * size, size)
    shares = np.array([*work.shares().values()])
    taken = np.bincount(draws.sources, minlength=4096)
    assert np.abs(taken - shares * size).max() < 2


def test_a_copy_draws_the_same():
    work = source(shuffle_block_size=7, seed=5)
    assert run(pickle.loads(pickle.dumps(work)), lanes=3) == run(work, lanes=3)


def test_options_are_what_shapes_the_stream_with_its_effective_values():
    work = source(seed=7, chunk_size=2, shuffle_block_size="auto")
    options = work.options()
    assert json.loads(json.dumps(options)) == options
    assert options == {
        "work_source": "static_mixture",
        "seed": 7,
        "chunk_size": 4,
        "shuffle_shards": True,
        "shuffle_within_shard": False,
        "shuffle_block_size": 8389,
        "reshuffle_on_repeat": True,
        "exhausted_policy": "repeat",
        "max_repeats": None,
        "stop_after_passes": 1,
    }
    options["seed"] = 8
    assert work.options()["seed"] == 7


def test_options_given_by_dataset_are_listed_by_dataset_where_they_differ():
    books = FakeDataset("books", [25, 25], bytes_per_document=2000)
    work = source(
        [WEB, books],
        shuffle_block_size="auto",
        exhausted_policy={"web": "repeat", "books": "stop"},
        max_repeats={"web": 2},
        reshuffle_on_repeat={"web": True, "books": True},
    )
    options = work.options()
    assert options["shuffle_block_size"] == {"web": 8389, "books": 4194}
    assert options["exhausted_policy"] == {"web": "repeat", "books": "stop"}
    assert options["max_repeats"] == {"web": 2, "books": None}
    assert options["reshuffle_on_repeat"] is True
    assert options["stop_after_passes"] is None


def test_nothing_can_be_changed_after_construction():
    work = source()
    with pytest.raises(LifecycleError, match="weights cannot be changed: the order depends on it"):
        work.weights = (1, 2)


def test_shuffled_blocks_say_once_that_shards_are_not_shuffled(caplog):
    caplog.set_level(logging.INFO, logger="zephon.work")
    source()
    source(shuffle_block_size=5, shuffle_shards=False)
    assert caplog.messages == []
    source(shuffle_block_size=5).lane(0, 1)
    assert len(caplog.messages) == 1
    assert "have no effect with shuffle_block_size=5" in caplog.messages[0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"datasets": WEB}, ConfigTypeError, r"datasets is a \w+, expected a list of Dataset"),
        ({"datasets": None}, ConfigTypeError, "datasets is a NoneType, expected a list of Dataset"),
        ({"datasets": ["web"]}, ConfigTypeError, r"datasets\[0\] is a str, expected a Dataset"),
        ({"datasets": []}, ConfigError, "datasets has 0 elements, expected 1 to 65536"),
        ({"datasets": [WEB, WEB]}, ConfigError, "two datasets are named 'web'"),
        ({"datasets": [WEB]}, ConfigError, r"weights \{'books': 1.0\} belong to no dataset"),
        ({"mixture": {"web": 1}}, ConfigError, "no weight for 'books'"),
        ({"mixture": {"web": 1, "books": 0}}, ConfigError, "weight of 'books' is 0"),
        ({"mixture": {"web": 1, "books": 1e-9}}, ConfigError, "share of 'books' is 9.31e-10"),
        (
            {"datasets": [WEB, FakeDataset("books", [0])]},
            ConfigError,
            "dataset 'books' has no documents",
        ),
        ({"chunk_size": 0}, ConfigError, "chunk_size is 0, expected 1 to 16777216"),
        ({"chunk_size": "big"}, ConfigTypeError, "chunk_size must be an int, not str"),
        ({"chunk_size": 1.5}, ConfigTypeError, "chunk_size must be an int, not float"),
        ({"seed": -1}, ConfigError, "seed is -1"),
        ({"shuffle_shards": 1}, ConfigTypeError, "shuffle_shards is 1, expected True or False"),
        ({"shuffle_within_shard": None}, ConfigTypeError, "shuffle_within_shard is None"),
        ({"shuffle_block_size": 0}, ConfigError, "dataset 'web': shuffle_block_size is 0"),
        (
            {"reshuffle_on_repeat": "no"},
            ConfigTypeError,
            "reshuffle_on_repeat of 'web' is 'no', expected True or False",
        ),
        (
            {"reshuffle_on_repeat": {"web": True}},
            ConfigError,
            "reshuffle_on_repeat has no value for dataset 'books'",
        ),
        (
            {"exhausted_policy": "loop"},
            ConfigError,
            "exhausted_policy of 'web' is 'loop', expected 'stop', 'repeat', 'redistribute', or",
        ),
        (
            {"exhausted_policy": {"web": "stop"}},
            ConfigError,
            "exhausted_policy has no value for dataset 'books'",
        ),
        (
            {"exhausted_policy": {**dict.fromkeys(MIX, "stop"), "code": "stop"}},
            ConfigError,
            "exhausted_policy names 'code', which is no dataset",
        ),
        (
            {"exhausted_policy": "stop", "max_repeats": 2},
            ConfigError,
            "max_repeats is 2, but no dataset has the policy repeat",
        ),
        (
            {"exhausted_policy": {"web": "stop", "books": "repeat"}, "max_repeats": {"web": 2}},
            ConfigError,
            "max_repeats of 'web' is 2, but its policy is stop",
        ),
        ({"max_repeats": 2}, ConfigError, "give one of them"),
        (
            {"exhausted_policy": "repeat", "max_repeats": 2, "stop_after_passes": 1},
            ConfigError,
            "max_repeats of 'web' lets it leave, stop_after_passes lets it repeat",
        ),
        (
            {"exhausted_policy": "repeat", "max_repeats": 0},
            ConfigError,
            r"max_repeats of 'web' is 0, expected 1 to 2\*\*40",
        ),
        (
            {"exhausted_policy": "repeat", "max_repeats": {"code": 1}},
            ConfigError,
            "max_repeats names 'code'",
        ),
        ({"stop_after_passes": 0}, ConfigError, "stop_after_passes is 0"),
        ({"stop_after_passes": True}, ConfigTypeError, "stop_after_passes is True"),
        (
            {"exhausted_policy": "stop", "stop_after_passes": 1},
            ConfigError,
            "stop_after_passes is 1 with exhausted_policy 'stop'",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        source(**options)


def test_a_plan_that_is_too_long_is_refused_when_a_lane_is_asked_for():
    work = source(exhausted_policy="repeat", max_repeats=2**38)
    with pytest.raises(ConfigError, match="dataset 'web' would give 27487790694400 documents"):
        work.lane(0, 1)
    with pytest.raises(ConfigError, match="lane is 1, expected 0 to 0"):
        work.lane(1, 1)


def test_a_single_shard_in_file_order_is_told_with_the_way_out(caplog):
    with caplog.at_level(logging.WARNING, "zephon.work.static_mixture"):
        source([FakeDataset("one", [10])], {"one": 1})
    assert "come in file order in every pass, whatever the seed" in caplog.text
    assert "shuffle_block_size='auto' shuffles documents" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "zephon.work.static_mixture"):
        source([FakeDataset("one", [10])], {"one": 1}, shuffle_shards=False)
        source([FakeDataset("one", [10])], {"one": 1}, shuffle_within_shard=True)
        source([FakeDataset("one", [10])], {"one": 1}, shuffle_block_size=4)
    assert caplog.text == ""


class UnitDataset(FakeDataset):
    """Decodes ``unit`` of its million documents together."""

    def __init__(self, name, unit):
        super().__init__(name, [10**6])
        self.unit = unit

    def unit_documents(self):
        return self.unit


def test_an_automatic_chunk_takes_whole_units_of_what_is_decoded_together():
    def make(units, weights, **more):
        datasets = [UnitDataset(name, unit) for name, unit in units.items()]
        work = source(datasets, weights, chunk_size="auto", **more)
        assert work.options()["chunk_size"] == work.chunk_size  # in effect, as a state has it
        return work

    assert make({"a": 1, "b": 1}, {"a": 1, "b": 3}).chunk_size == 16384
    assert make({"a": 5000, "b": 1}, {"a": 1, "b": 3}).chunk_size == 4 * 5000 * 4
    assert make({"a": 5000, "b": 60_000}, {"a": 1, "b": 3}).chunk_size == 4 * 60_000 * 4 // 3
    assert make({"a": 10**6, "b": 1}, {"a": 1, "b": 999}).chunk_size == 2**24
    assert make({"a": 3}, {"a": 1}, shuffle_block_size=50_000).chunk_size == 4 * 50_000
    work = make({"a": 5000, "b": 1}, {"a": 1, "b": 3})
    assert work.decode_factors(8) == (pytest.approx(1.25, abs=1e-3), 1.0)
