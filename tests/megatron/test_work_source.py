from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.io import Dataset
from zephon.megatron import (
    BlendedMegatronDatasetBuilder,
    GPTDataset,
    GPTDatasetConfig,
    IndexedDataset,
    IndexedDatasetBuilder,
    MegatronPretrainingSampler,
    MegatronWorkSource,
    Split,
)
from zephon.types import SampleBatch

GPT = Path(__file__).parent.parent / "data" / "gpt"
LENGTH = 16


def config(**more):
    given = {"random_seed": 1234, "sequence_length": LENGTH, **more}
    return GPTDatasetConfig(**given)


def blend(size=300, **more):
    """Train split of a weighted blend of the recorded corpora."""
    prefixes = [str(GPT / name) for name in "ABC"]
    options = {"split": "90,8,2", "mid_level_dataset_surplus": 0.5, **more}
    made = config(blend=(prefixes, [0.5, 0.2, 0.3]), **options)
    return BlendedMegatronDatasetBuilder(GPTDataset, [size, 0, 0], lambda: True, made).build()[0]


def single(prefix=GPT / "A", samples=200, split=Split.train, **more):
    low = IndexedDataset(prefix)
    return GPTDataset(low, str(prefix), np.arange(len(low)), samples, split, config(**more))


def tokens_of(rows):
    """Each row with its padding, ``[B, row_length]``."""
    out = np.zeros((len(rows), rows.row_length), np.int64)
    for row in range(len(rows)):
        segments = range(rows.splits[row], rows.splits[row + 1])
        filled = np.concatenate([rows.tokens(segment) for segment in segments])
        out[row, : len(filled)] = filled
    return out


def items_of(dataset, samples):
    """The same from the dataset: its tokens, then the label of the last."""
    items = [dataset[int(sample)] for sample in samples]
    return np.array([[*item["tokens"].tolist(), int(item["labels"][-1])] for item in items])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_lane_batches_are_dealt_as_megatron_deals_samples_to_ranks(ranks):
    dataset, lanes, size = blend(), 4, 3
    source = MegatronWorkSource(dataset)
    opened = [source.lane_rows(lane, lanes, size) for lane in range(lanes)]
    for rank in range(ranks):
        sampler = MegatronPretrainingSampler(len(dataset), size, rank, ranks)
        delivered = 0
        for step, samples in enumerate(sampler):
            number = step * ranks + rank  # lane-batch of the run
            rows = opened[number % lanes].take(number // lanes * size, size)
            assert np.array_equal(tokens_of(rows), items_of(dataset, samples))
            delivered += len(rows)
        assert delivered == len(dataset) // (size * ranks) * size


@given(
    total=st.integers(1, 400),
    consumed=st.integers(0, 50),
    lanes=st.integers(1, 9),
    size=st.integers(1, 9),
)
def test_lanes_together_have_every_sample_once_in_order(total, consumed, lanes, size):
    source = object.__new__(MegatronWorkSource)  # the dealing needs no data
    source._total, source.consumed_samples = total + consumed, consumed
    opened = [source.lane_rows(lane, lanes, size) for lane in range(lanes)]
    dealt = []
    for number in range(-(-total // size)):
        dealt += opened[number % lanes].samples(number // lanes * size, size).tolist()
    assert dealt == list(range(consumed, consumed + total))
    assert sum(lane.length() for lane in opened) == total
    assert all(len(lane.samples(lane.length(), 5)) == 0 for lane in opened)


def test_stretches_of_any_size_give_the_same_rows():
    lane = MegatronWorkSource(blend(1200)).lane_rows(1, 2, 4)
    whole = tokens_of(lane.take(0, lane.length()))
    last = lane.length() - 1
    lane = MegatronWorkSource(blend(1200)).lane_rows(1, 2, 4)
    for first, count in [(0, 1), (3, 2), (250, 20), (7, 20), (0, 300), (9, 1), (last, 9)]:
        assert np.array_equal(tokens_of(lane.take(first, count)), whole[first : first + count])


@pytest.mark.parametrize(
    ("split", "more"),
    [
        (Split.train, {}),
        (Split.train, {"add_extra_token_to_sequence": False}),
        (Split.valid, {"drop_last_partial_validation_sequence": False}),
        (Split.train, {"flavour": "megatron", "sequence_length": 2}),
        (Split.train, {"sequence_length": 300}),
    ],
)
def test_rows_are_the_items_of_the_dataset(split, more):
    dataset = single(split=split, samples=None, **more)
    source = MegatronWorkSource(dataset)
    rows = source.lane_rows(0, 1, 1).take(0, len(dataset))
    assert rows.row_length == dataset.config.sequence_length + 1
    assert np.array_equal(tokens_of(rows), items_of(dataset, range(len(dataset))))


def test_training_tensors_have_the_labels_of_the_dataset():
    dataset = single(split=Split.valid, samples=None, drop_last_partial_validation_sequence=False)
    source = MegatronWorkSource(dataset)
    rows = source.lane_rows(0, 1, 4).take(0, len(dataset))
    batch = SampleBatch.from_rows(rows, datasets=source.datasets, lane=0, number=0)
    tensors = batch.to_training(return_labels=True)
    items = [dataset[i] for i in range(len(dataset))]
    short = 0
    for row, item in enumerate(items):
        learned = item["loss_mask"] > 0
        short += int(not learned.all())
        assert tensors["labels"][row][learned].tolist() == item["labels"][learned].tolist()
        assert (tensors["labels"][row][~learned] == -100).all()
        assert tensors["input_ids"][row].tolist() == item["tokens"].tolist()
    assert short == 1


def test_automodel_flavour_ends_with_the_samples_that_were_asked_for():
    dataset = single(flavour="automodel")
    source = MegatronWorkSource(dataset)
    assert len(source) == 200 < len(dataset.shuffle_index)


@pytest.fixture
def several(tmp_path):
    """Documents of several sequences, some of them empty."""
    rng = np.random.default_rng(0)
    prefix = tmp_path / "several"
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    token = 0
    for _ in range(40):
        lengths = rng.integers(0, 9, rng.integers(0, 5)).tolist()
        builder.add_document(np.arange(token, token + sum(lengths)), lengths)
        token += sum(lengths)
    builder.finalize(f"{prefix}.idx")
    return prefix


def test_segments_name_the_document_and_the_place_in_it(several):
    dataset = single(several, samples=60)
    source = MegatronWorkSource(dataset)
    rows = source.lane_rows(0, 1, 1).take(0, len(dataset))
    (documents,) = source.datasets
    whole = documents.read(np.arange(documents.total()))
    for segment in range(len(rows.length)):
        document, offset = int(rows.row[segment]), int(rows.offset[segment])
        there = whole.tokens(document)[offset : offset + int(rows.length[segment])]
        assert np.array_equal(rows.tokens(segment), there)
    assert rows.length.min() >= 1
    assert (rows.offset > 0).any()
    assert np.array_equal(tokens_of(rows), items_of(dataset, range(len(dataset))))


def test_segments_of_a_blend_name_their_dataset():
    dataset = blend()
    source = MegatronWorkSource(dataset)
    rows = source.lane_rows(0, 1, 1).take(0, 100)
    first = rows.source[rows.splits[:-1]]
    assert first.tolist() == dataset.dataset_index[:100].tolist()
    assert [d.name for d in source.datasets] == [str(GPT / name) for name in "ABC"]
    assert all(isinstance(d, Dataset) for d in source.datasets)


def test_draws_are_the_documents_that_samples_begin_in():
    lane = MegatronWorkSource(blend()).lane(1, 3)
    draws = lane.draws(5, 10)
    rows = lane.take(5, 10)
    assert draws.first == 5
    assert draws.rows.tolist() == rows.row[rows.splits[:-1]].tolist()
    assert draws.sources.tolist() == rows.source[rows.splits[:-1]].tolist()
    assert len(lane.draws(lane.length(), 3)) == 0


def test_weights_are_the_shares_of_the_samples():
    source = MegatronWorkSource(blend())
    counts = np.bincount(blend().dataset_index)
    assert sum(source.weights) == 2**32
    assert np.allclose(np.array(source.weights) / 2**32, counts / counts.sum(), atol=1e-9)


def test_run_goes_on_where_megatron_had_stopped():
    dataset = blend()
    rest = MegatronWorkSource(dataset, consumed_samples=30)
    rows = rest.lane_rows(0, 1, 5).take(0, 5)
    assert len(rest) == len(dataset) - 30
    assert np.array_equal(tokens_of(rows), items_of(dataset, range(30, 35)))


def test_fingerprint_changes_with_the_order_and_not_with_the_path(several):
    moved = several.with_name("moved")
    for suffix in (".bin", ".idx"):
        moved.with_suffix(suffix).write_bytes(several.with_suffix(suffix).read_bytes())
    here = MegatronWorkSource(single(several)).options()
    assert MegatronWorkSource(single(moved)).options() == here
    assert MegatronWorkSource(single(several, random_seed=1)).options() != here
    assert MegatronWorkSource(single(several), consumed_samples=1).options() != here
    assert MegatronWorkSource(blend()).options() != MegatronWorkSource(blend(301)).options()


def test_path_that_comes_twice_has_two_names(several):
    blended = GPTDatasetConfig(
        random_seed=1,
        sequence_length=LENGTH,
        blend=([str(several)] * 2, [1.0, 2.0]),
        split="1,0,0",
        mid_level_dataset_surplus=0.5,
    )
    build = BlendedMegatronDatasetBuilder(GPTDataset, [20, 0, 0], lambda: True, blended).build
    source = MegatronWorkSource(build()[0])
    assert [d.name for d in source.datasets] == [str(several), f"{several} (2)"]


def test_what_cannot_be_a_source_is_refused():
    with pytest.raises(ConfigTypeError, match="dataset is a list, expected a GPTDataset or Blend"):
        MegatronWorkSource([1, 2])
    dataset = single()
    with pytest.raises(
        ConfigError, match=r"consumed_samples is \d+, but GPTDataset.* none is left"
    ):
        MegatronWorkSource(dataset, consumed_samples=len(dataset))
    with pytest.raises(ConfigError, match="eod_mask_loss masks by the value of tokens"):
        MegatronWorkSource(single(eod_mask_loss=True, tokenizer=SimpleNamespace(eod=0)))
    source = MegatronWorkSource(dataset)
    with pytest.raises(ConfigError, match="lane is 2, expected 0 to 1"):
        source.lane_rows(2, 2, 1)
    with pytest.raises(ConfigError, match="microbatch_size is 0"):
        source.lane_rows(0, 2, 0)
    lane = source.lane_rows(0, 2, 1)
    with pytest.raises(ConfigError, match=rf"sample {lane.length()} of lane 0 is past its end"):
        lane.take(lane.length(), 1)
    for first, count in [(-1, 4), (0, 0)]:
        with pytest.raises(ConfigError, match=f"first is {first} and count {count}, expected"):
            lane.take(first, count)


def test_index_that_does_not_fit_its_sequences_is_refused():
    for name, value in [("document_index", 10**6), ("document_index", -1), ("sample_index", 10**6)]:
        dataset = single()
        array = getattr(dataset, name).copy()
        array[:] = value
        dataset._index = dataset._index.__class__(**{**dataset._index.arrays(), name: array})
        with pytest.raises(DataError, match=r"sample 0 of GPTDataset.*damaged or of other files"):
            MegatronWorkSource(dataset).rows(np.arange(3))
