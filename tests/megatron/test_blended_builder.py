import logging

import pytest

from zephon.errors import ConfigError, DataError
from zephon.megatron import (
    BlendedDataset,
    BlendedMegatronDatasetBuilder,
    GPTDataset,
    get_blend_from_list,
)


@pytest.fixture
def prefixes(write_pair):
    """Datasets of 40, 20 and 12 documents of 4 tokens."""
    return [
        write_pair(name, [[base, base, base, base]] * count)
        for name, base, count in (("a", 1, 40), ("b", 2, 20), ("c", 3, 12))
    ]


@pytest.fixture
def build(config):
    def make(sizes, is_built_on_rank=lambda: True, cls=GPTDataset, **options):
        options.setdefault("split", None if "blend_per_split" in options else "50,25,25")
        return BlendedMegatronDatasetBuilder(
            cls, sizes, is_built_on_rank, config(**options)
        ).build()

    return make


def lengths(datasets):
    return [None if dataset is None else len(dataset) for dataset in datasets]


def test_one_prefix_without_weights_is_a_plain_dataset_per_split(build, prefixes):
    datasets = build([None] * 3, blend=(prefixes[:1], None))
    assert [type(dataset) for dataset in datasets] == [GPTDataset] * 3
    assert [dataset.indices.tolist() for dataset in datasets] == [
        list(range(20)), list(range(20, 30)), list(range(30, 40)),
    ]  # fmt: skip


def test_an_empty_split_has_no_dataset(build, prefixes):
    assert lengths(build([None] * 3, blend=(prefixes[:1], None), split="1,0,0")) == [39, None, None]


def test_weights_blend_every_split_to_its_size(build, prefixes):
    datasets = build([100, 10, 5], blend=(prefixes, [0.5, 0.25, 0.25]))
    assert lengths(datasets) == [100, 11, 7]  # each dataset's part is rounded up
    train = datasets[0]
    assert isinstance(train, BlendedDataset)
    assert [member.num_samples for member in train.datasets] == [51, 26, 26]
    assert [(train.dataset_index == at).sum() for at in range(3)] == [50, 25, 25]


def test_a_surplus_builds_more_than_is_taken(build, prefixes):
    train, *_ = build([100, 10, 5], blend=(prefixes, [2, 1, 1]), mid_level_dataset_surplus=0.5)
    assert [member.num_samples for member in train.datasets] == [75, 38, 38]


def test_weights_need_a_size_for_each_split_that_there_is(build, prefixes):
    blend = (prefixes, [0.5, 0.25, 0.25])
    with pytest.raises(ConfigError, match="the valid split needs a size, got None"):
        build([100, None, 5], blend=blend)
    assert lengths(build([100, None, None], blend=blend, split="1")) == [100, None, None]


def test_without_weights_every_dataset_is_taken_once(build, prefixes):
    datasets = build([None] * 3, blend=(prefixes, None))
    assert lengths(datasets) == [19 + 9 + 5, 9 + 4 + 2, 9 + 4 + 2]
    assert datasets[0].weights == [19, 9, 5]


def test_without_weights_a_size_is_a_limit(build, prefixes):
    assert lengths(build([20, 100, 0], blend=(prefixes, None))) == [20, 15, None]


def test_a_weight_of_0_leaves_a_dataset_out_and_says_so(build, prefixes, caplog):
    with caplog.at_level(logging.INFO, "zephon.megatron"):
        train, *_ = build([30, 3, 3], blend=(prefixes, [1, 0, 1]))
    assert [member.dataset_path for member in train.datasets] == [prefixes[0], prefixes[2]]
    assert f"{prefixes[1]} has weight 0: it is left out" in caplog.text


def test_without_weights_a_dataset_without_a_sample_is_left_out_with_a_warning(
    build, prefixes, write_pair, caplog
):
    tiny = write_pair("tiny", [[1], [2], [3, 4]])
    datasets = build([None] * 3, blend=([tiny, *prefixes], None))
    assert [len(dataset.datasets) for dataset in datasets] == [3, 3, 3]
    assert f"{tiny} has no sample in the train split" in caplog.text


def test_with_weights_a_dataset_without_a_token_is_an_error_that_names_it(
    build, prefixes, write_pair
):
    tiny = write_pair("tiny", [[1]])
    with pytest.raises(DataError, match=r"tiny.idx: .* the train split has 0 of its 1 sequences"):
        build([10, 10, 10], blend=([tiny, *prefixes], [1, 1, 1, 1]))


def test_no_dataset_with_a_sample_is_an_error_that_names_them_all(build, write_pair):
    tiny = [write_pair(name, [[1]]) for name in ("x", "y")]
    with pytest.raises(DataError, match=r"none of the datasets .* train split: .*x, .*y"):
        build([None] * 3, blend=(tiny, None))


def test_a_blend_for_each_split(build, prefixes):
    datasets = build(
        [40, 5, None],
        blend_per_split=[(prefixes[:2], [1.0, 3.0]), (prefixes[2:], None), None],
    )
    assert lengths(datasets) == [40, 11, None]
    train, valid, _ = datasets
    assert [member.indices.size for member in train.datasets] == [40, 20]
    assert type(valid) is GPTDataset
    assert valid.index_split.name == "valid"


def test_a_blend_for_each_split_without_weights(build, prefixes):
    datasets = build([None, 20, None], blend_per_split=[None, (prefixes, None), (prefixes, None)])
    assert lengths(datasets) == [None, 20, 39 + 19 + 11]


def test_one_weighted_prefix_for_a_split_is_a_plain_dataset(build, prefixes):
    train, *_ = build([30, None, None], blend_per_split=[(prefixes[:1], [1.0]), None, None])
    assert type(train) is GPTDataset


def test_a_rank_that_needs_no_data_builds_nothing(build, prefixes):
    assert build([1, 1, 1], lambda: False, blend=(["missing"], None)) == [None] * 3


def test_threads_change_nothing_but_time(build, prefixes):
    blend = (prefixes * 3, [1.0] * 9)
    one = build([90, 9, 9], blend=blend)
    four = build([90, 9, 9], blend=blend, num_dataset_builder_threads=4)
    for a, b in zip(one, four, strict=True):
        assert a.dataset_index.tolist() == b.dataset_index.tolist()
        assert [m.dataset_path for m in a.datasets] == [m.dataset_path for m in b.datasets]


def test_splits_share_one_open_dataset(build, prefixes):
    train, valid, _ = build([None] * 3, blend=(prefixes[:1], None))
    assert train.dataset is valid.dataset


def test_a_subclass_is_built_by_its_own_rules(build, prefixes):
    class Mine(GPTDataset):
        @staticmethod
        def numel_low_level_dataset(low_level_dataset):
            return 8

    train, *_ = build([None] * 3, cls=Mine, blend=(prefixes[:1], None))
    assert type(train) is Mine
    assert train.indices.tolist() == [0, 1, 2, 3]
    assert train.unique_identifiers["class"] == "Mine"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1, 2], "sizes must have 3 entries, for train, valid and test"),
        ([1, -2, 3], "valid has the negative size -2"),
    ],
)
def test_sizes_are_checked(build, prefixes, sizes, message):
    with pytest.raises(ConfigError, match=message):
        build(sizes, blend=(prefixes, None))


def test_a_config_without_a_blend_is_refused(build):
    with pytest.raises(ConfigError, match="names nothing to build from"):
        build([1, 1, 1])


def test_a_missing_prefix_is_named(build):
    with pytest.raises(DataError, match=r"nowhere.idx"):
        build([1, 1, 1], blend=(["nowhere"], None))


def test_a_blend_list_goes_in_as_it_is_parsed(build, prefixes):
    blend = get_blend_from_list(["1", prefixes[0], "3", prefixes[1]])
    train, *_ = build([40, 4, 4], blend=blend)
    assert train.weights == [0.25, 0.75]


def test_no_rank_has_to_go_first():
    assert BlendedMegatronDatasetBuilder.builds_on_all_ranks
    assert GPTDataset.builds_on_all_ranks
