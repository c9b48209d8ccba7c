import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, default_collate

from oracles import blending as oracle
from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron import BlendedDataset, GPTDataset, IndexedDataset, Split


@pytest.fixture
def member(write_pair, config):
    def make(name, documents, samples=None, split=Split.train, cls=GPTDataset, **changes):
        prefix = write_pair(name, documents)
        low_level = IndexedDataset(prefix)
        return cls(low_level, prefix, np.arange(len(low_level)), samples, split, config(**changes))

    return make


@pytest.fixture
def members(member):
    """Three datasets of 10, 5 and 3 samples of 4 tokens, told apart by their tokens."""
    return [
        member(name, [[base + at for at in range(4 * samples + 1)]])
        for name, base, samples in (("a", 1000, 10), ("b", 2000, 5), ("c", 3000, 3))
    ]


def lists(item):
    return {name: value.tolist() for name, value in item.items()}


def test_a_weighted_blend_draws_as_the_oracle_does(members, config):
    blend = BlendedDataset(members, [2.0, 1.0, 1.0], 12, config())
    ids, samples = oracle.weighted([0.5, 0.25, 0.25], 12)
    assert blend.dataset_index.tolist() == ids
    assert blend.dataset_sample_index.tolist() == samples
    assert blend.dataset_index.dtype == np.int16
    assert len(blend) == 12
    assert blend.weights == [0.5, 0.25, 0.25]


def test_a_blend_without_size_draws_every_sample_once(members, config):
    blend = BlendedDataset(members, [10, 5, 3], None, config())
    ids, samples = oracle.exhaustive([10, 5, 3])
    assert blend.dataset_index.tolist() == ids
    assert blend.dataset_sample_index.tolist() == samples
    assert sorted(zip(ids, samples, strict=True)) == [
        (dataset, sample) for dataset, size in enumerate((10, 5, 3)) for sample in range(size)
    ]


def test_items_are_those_of_the_members(members, config):
    blend = BlendedDataset(members, [10, 5, 3], None, config())
    batch = blend.__getitems__(list(range(18)))
    for at, item in enumerate(batch):
        dataset, sample = blend.dataset_index[at], blend.dataset_sample_index[at]
        assert next(iter(item)) == "dataset_id"
        assert lists(item) == {"dataset_id": dataset, **lists(members[dataset][sample])}
        assert lists(item) == lists(blend[at])


def test_whole_floats_are_counts_too(members, config):
    assert len(BlendedDataset(members, [10.0, 5.0, 3.0], None, config())) == 18


def test_padding_has_no_loss(members, config):
    blend = BlendedDataset(members, [10, 5, 3], None, config())
    first, last = blend[0], blend[17]
    assert blend[None]["tokens"].tolist() == first["tokens"].tolist()
    assert blend[-1]["tokens"].tolist() == last["tokens"].tolist()
    for item in (blend[None], blend[-1], *blend.__getitems__([None, -18])):
        assert not item["loss_mask"].any()
    assert first["loss_mask"].all()
    for idx in (18, -19):
        with pytest.raises(IndexError, match=f"sample {idx} is out of range: .*18 samples of 3"):
            blend[idx]


@pytest.mark.parametrize(
    ("weights", "size"), [([0.2, 0.2, 0.6], 18), ([0.001, 0.001, 0.998], 5), ([10, 5, 4], None)]
)
def test_more_samples_than_a_member_has_is_an_error_with_the_way_out(
    members, config, weights, size
):
    with pytest.raises(
        IndexError, match=r"takes \d+ samples of .*c, which has 3: .*mid_level_dataset_surplus"
    ):
        BlendedDataset(members, weights, size, config())


@pytest.mark.parametrize(
    ("weights", "size", "error", "message"),
    [
        ([1, 2], 5, ConfigError, "a blend of 3 datasets has 2 weights"),
        ([1, 1, 1.0], 5, ConfigTypeError, "weights must be all int or all float"),
        (["1", "1", "1"], 5, ConfigTypeError, "weights must be all int or all float"),
        ([0.5, 0.0, 0.5], 5, ConfigError, "weight of .*b in the train split is 0.0"),
        ([0.5, -0.1, 0.5], 5, ConfigError, "weight of .*b in the train split is -0.1"),
        ([0.5, 0.5, float("nan")], 5, ConfigError, "weight of .*c in the train split is nan"),
        ([0.5, 0.5, float("inf")], 5, ConfigError, "weight of .*c in the train split is inf"),
        ([1.0, 0.5, 1.0], None, ConfigError, "numbers of samples; that of .*b is 0.5"),
        ([1, 1, 1], 0, ConfigError, "size must be at least 1, got 0"),
    ],
)
def test_weights_that_make_no_blend_are_refused(members, config, weights, size, error, message):
    with pytest.raises(error, match=message):
        BlendedDataset(members, weights, size, config())


def test_members_must_go_together(members, member, config):
    class Other(GPTDataset):
        pass

    other = member("other", [[1] * 9], cls=Other)
    valid = member("valid", [[1] * 9], split=Split.valid)
    with pytest.raises(ConfigTypeError, match="must be of one class, got GPT.* and Other"):
        BlendedDataset([members[0], other], [1, 1], 2, config())
    with pytest.raises(ConfigError, match="must be of one split, got .*train.* and .*valid"):
        BlendedDataset([members[0], valid], [1, 1], 2, config())
    with pytest.raises(ConfigError, match="needs at least one dataset"):
        BlendedDataset([], [], 2, config())


def test_one_member_may_be_blended_alone(members, config):
    blend = BlendedDataset(members[:1], [3], 7, config())
    assert blend.dataset_sample_index.tolist() == list(range(7))


def test_a_batch_is_the_collated_items(members, config):
    blend = BlendedDataset(members, [10, 5, 3], None, config())
    batch, collated = blend.batch(range(9)), default_collate(blend.__getitems__(range(9)))
    assert list(batch) == list(collated)
    for name, tensor in collated.items():
        assert batch[name].dtype == tensor.dtype
        assert torch.equal(batch[name], tensor)


@pytest.mark.parametrize("cached", [True, False])
def test_a_pickle_reads_the_same(members, config, tmp_path, cached):
    blend = BlendedDataset(
        members, [10, 5, 3], None, config(path_to_cache=tmp_path if cached else None)
    )
    twin = pickle.loads(pickle.dumps(blend))
    assert [lists(item) for item in twin.__getitems__(range(18))] == [
        lists(item) for item in blend.__getitems__(range(18))
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_data_loader_collates_it(members, config, workers):
    blend = BlendedDataset(members, [10, 5, 3], None, config())
    loader = DataLoader(blend, batch_size=5, num_workers=workers)
    ids = [int(i) for batch in loader for i in batch["dataset_id"]]
    assert ids == blend.dataset_index.tolist()


def test_a_cache_is_used_again_and_damage_to_it_is_rebuilt(members, config, tmp_path, caplog):
    options = config(path_to_cache=tmp_path)
    fresh = BlendedDataset(members, [10, 5, 3], None, options).dataset_sample_index.tolist()
    (path,) = tmp_path.glob("*-BlendedDataset-train-dataset_sample_index.npy")
    (checksum,) = tmp_path.glob("*-BlendedDataset-train-checksum.json")
    good = path.read_bytes()
    assert BlendedDataset(members, [10, 5, 3], None, options).dataset_sample_index.tolist() == fresh
    assert caplog.text == ""
    for keep_checksum in (True, False):
        damaged = bytearray(good)
        damaged[-16] ^= 1
        path.write_bytes(damaged)
        if not keep_checksum:
            checksum.unlink()
        again = BlendedDataset(members, [10, 5, 3], None, options)
        assert again.dataset_sample_index.tolist() == fresh
        assert "is rebuilt: " in caplog.text
        caplog.clear()
        assert path.read_bytes() == good


@pytest.mark.parametrize(
    ("ids", "samples", "reason"),
    [
        (np.array([0, 1, 2, 0], np.int32), np.zeros(4, np.int64), "its arrays are int32 and int64"),
        (np.array([0, 1, 2], np.int16), np.zeros(3, np.int64), "not that of the blend"),
        (np.array([0, 1, 3, 0], np.int16), np.zeros(4, np.int64), "datasets that are not there"),
        (np.array([2, 2, 2, 2], np.int16), np.arange(4), "it takes 4 samples of GPTDataset"),
        (np.array([0, 1, 2, 0], np.int16), np.zeros(4, np.int64), "are not in order"),
    ],
)
def test_a_stored_blend_that_does_not_fit_is_not_used(members, config, ids, samples, reason):
    blend = BlendedDataset(members, [1.0, 1.0, 1.0], 4, config())
    found = blend._misfit({"dataset_index": ids, "dataset_sample_index": samples}, False)
    assert reason in found
