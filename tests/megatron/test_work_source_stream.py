"""A Megatron blend behind a pipeline and the loader."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import zephon
from zephon import state as state_format
from zephon.errors import ConfigError, StateError
from zephon.loader import ZephonDataLoader
from zephon.megatron import (
    BlendedMegatronDatasetBuilder,
    GPTDataset,
    GPTDatasetConfig,
    MegatronPretrainingSampler,
    MegatronWorkSource,
)

GPT = Path(__file__).parent.parent / "data" / "gpt"


@pytest.fixture(scope="module")
def blend():
    config = GPTDatasetConfig(
        random_seed=1234,
        sequence_length=16,
        split="90,8,2",
        mid_level_dataset_surplus=0.5,
        blend=([str(GPT / name) for name in "ABC"], [0.5, 0.2, 0.3]),
    )
    return BlendedMegatronDatasetBuilder(GPTDataset, [300, 0, 0], lambda: True, config).build()[0]


def pipeline(blend, *, size=3, lanes=4, ahead=0, **source):
    stream = zephon.Pipeline(MegatronWorkSource(blend, **source)).batch(size).prefetch(ahead)
    return stream.options(canonical_replicas=lanes)


@pytest.mark.parametrize("ahead", [0, 64])
def test_the_loader_delivers_megatrons_samples_in_megatrons_order(blend, ahead):
    sampler = MegatronPretrainingSampler(len(blend), 3, 0, 1)
    with ZephonDataLoader(pipeline(blend, lanes=1, ahead=ahead)) as loader:
        batches = list(loader)
    assert len(batches) == len(blend) // 3
    for samples, batch in zip(sampler, batches, strict=True):
        items = [blend[int(sample)] for sample in samples]
        assert batch["input_ids"].tolist() == [item["tokens"].tolist() for item in items]
        assert batch["labels"].tolist() == [item["labels"].tolist() for item in items]


@pytest.mark.parametrize("lanes", [1, 4])
def test_it_goes_on_anywhere(blend, lanes):
    def take(stream, count):
        found = [
            b.to_training(dtype=np.int64)["input_ids"].tolist() for b in islice(iter(stream), count)
        ]
        stream.close()
        return found

    expected = take(pipeline(blend, lanes=lanes), 24)
    for stop in range(0, 24, 5):
        first = pipeline(blend, lanes=lanes, ahead=64)
        found = take(first, stop)
        second = pipeline(blend, lanes=lanes)
        second.restore(first.checkpoint())
        assert found + take(second, 24 - stop) == expected


def test_the_state_is_one_number_and_says_what_it_depends_on(blend):
    stream = pipeline(blend)
    for _ in islice(iter(stream), 5):
        pass
    stream.close()
    state = stream.checkpoint()["state"]
    assert [c.documents.draw for c in state_format.decode(state).cursors] == [6, 3, 3, 3]
    with pytest.raises(StateError, match=r"microbatch_size \(3, 2\)"):
        pipeline(blend, size=2).restore(state)
    with pytest.raises(StateError, match=r"work.consumed_samples \(0, 9\)"):
        pipeline(blend, consumed_samples=9).restore(state)


def test_rows_that_are_ready_are_not_packed_again(blend):
    stream = zephon.Pipeline(MegatronWorkSource(blend))
    with pytest.raises(ConfigError, match="MegatronWorkSource gives rows of 17 tokens ready made"):
        stream.pack_flat(9)
    with pytest.raises(ConfigError, match=r"tokenize\(...\) does not apply"):
        stream.tokenize("x", field="text")
