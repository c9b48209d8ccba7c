import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zephon.megatron import (
    MegatronPretrainingRandomSampler,
    MegatronPretrainingSampler,
    create_megatron_sampler,
)

BOTH = [MegatronPretrainingSampler, MegatronPretrainingRandomSampler]


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_samples": 0}, "total_samples must be at least 1, got 0"),
        ({"micro_batch_size": 0}, "micro_batch_size must be at least 1, got 0"),
        ({"data_parallel_size": 0}, "data_parallel_size must be at least 1, got 0"),
        ({"data_parallel_rank": 2}, r"from 0 to data_parallel_size - 1 = 1, got 2"),
        ({"data_parallel_rank": -1}, r"from 0 to data_parallel_size - 1 = 1, got -1"),
        ({"global_batch_size": 9}, r"multiple of .* = 4, got 9"),
        ({"global_batch_size": 0}, r"multiple of .* = 4, got 0"),
        ({"pad_samples_to_global_batch_size": True}, "needs global_batch_size"),
        ({"consumed_samples": -4}, "consumed_samples must not be negative, got -4"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(cls, changes, message):
    good = {
        "total_samples": 20,
        "micro_batch_size": 2,
        "data_parallel_rank": 0,
        "data_parallel_size": 2,
    }
    with pytest.raises(RuntimeError, match=message):
        cls(**{**good, **changes})


def ranks(cls, total, micro, size, **options):
    return [cls(total, micro, rank, size, **options) for rank in range(size)]


@given(
    total=st.integers(1, 60),
    micro=st.integers(1, 4),
    size=st.integers(1, 4),
    drop_last=st.booleans(),
    consumed=st.integers(0, 59),
)
def test_sequential_ranks_share_each_run_of_samples(total, micro, size, drop_last, consumed):
    consumed = min(consumed, total - 1)
    samplers = ranks(
        MegatronPretrainingSampler,
        total,
        micro,
        size,
        drop_last=drop_last,
        consumed_samples=consumed,
    )
    steps = list(zip(*samplers, strict=True))
    found = [sample for step in steps for part in step for sample in part]
    whole = (total - consumed) // (micro * size) * micro * size
    assert found == list(range(consumed, consumed + whole if drop_last else total))
    assert all(len(part) == micro for step in steps[:-1] for part in step)


@given(
    total=st.integers(1, 60),
    micro=st.integers(1, 3),
    size=st.integers(1, 3),
    times=st.integers(1, 3),
)
def test_padding_fills_the_last_global_batch_with_negative_ids(total, micro, size, times):
    step = micro * size * times
    samplers = ranks(
        MegatronPretrainingSampler,
        total,
        micro,
        size,
        drop_last=False,
        global_batch_size=step,
        pad_samples_to_global_batch_size=True,
    )
    found = [part for parts in zip(*samplers, strict=True) for part in parts]
    flat = [sample for part in found for sample in part]
    padding = -total % step
    assert flat == [*range(total), *range(-1, -padding - 1, -1)]
    assert all(len(part) == micro for part in found)
    assert all(len(list(sampler)) == len(sampler) for sampler in samplers)


def test_a_last_slice_may_be_shorter_or_empty():
    samplers = ranks(MegatronPretrainingSampler, 9, 2, 2, drop_last=False)
    assert [list(sampler) for sampler in samplers] == [
        [[0, 1], [4, 5], [8]],
        [[2, 3], [6, 7], []],
    ]


def test_nothing_left_to_consume_is_an_error():
    with pytest.raises(RuntimeError, match="no samples left to consume: 8 of 8 are"):
        MegatronPretrainingSampler(8, 1, 0, 1, consumed_samples=8)


def test_length_counts_micro_batches():
    def length(**options):
        return len(MegatronPretrainingSampler(21, 2, 0, 2, **options))

    assert length() == 6  # as in NeMo AutoModel, the dropped one counts
    assert length(drop_last=False) == 6
    assert length(global_batch_size=8) == 4
    assert length(global_batch_size=8, drop_last=False) == 6
    assert length(global_batch_size=8, consumed_samples=8) == 2


@given(
    total=st.integers(1, 60),
    micro=st.integers(1, 4),
    size=st.integers(1, 4),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 2),
)
def test_random_ranks_take_their_own_part_in_the_order_of_the_epoch(
    total, micro, size, seed, epoch
):
    stride = micro * size
    if total < stride:
        return
    active = total // stride * stride
    bucket = active // size
    order = torch.randperm(bucket, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    for rank, sampler in enumerate(
        ranks(
            MegatronPretrainingRandomSampler,
            total,
            micro,
            size,
            seed=seed,
            consumed_samples=epoch * active,
        )
    ):
        assert len(sampler) == bucket // micro
        batches = list(sampler)
        assert all(len(batch) == micro for batch in batches)
        assert [s for batch in batches for s in batch] == [rank * bucket + s for s in order]
        assert sampler.consumed_samples == (epoch + 1) * active


def test_a_random_sampler_goes_on_where_it_stopped():
    whole = list(MegatronPretrainingRandomSampler(21, 2, 1, 2, seed=3))
    first = MegatronPretrainingRandomSampler(21, 2, 1, 2, seed=3)
    taken = list(itertools.islice(first, 2))
    rest = MegatronPretrainingRandomSampler(
        21, 2, 1, 2, seed=3, consumed_samples=first.consumed_samples
    )
    assert len(rest) == 3
    assert taken + list(rest) == whole
    assert list(rest) != whole  # the next epoch


def test_a_random_length_counts_whole_global_batches():
    assert len(MegatronPretrainingRandomSampler(21, 2, 0, 2, global_batch_size=8)) == 4
    assert len(MegatronPretrainingRandomSampler(3, 1, 0, 1, drop_last=False)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_last": False}, "needs drop_last=True unless .* is 1, got 4"),
        (
            {"global_batch_size": 4, "pad_samples_to_global_batch_size": True},
            "no last batch to pad",
        ),
        ({"total_samples": 3}, "total_samples is 3, fewer than the 4 of one micro-batch"),
        ({"consumed_samples": 3}, "consumed_samples must be a multiple of .* = 4, got 3"),
    ],
)
def test_what_a_random_sampler_cannot_do_is_refused(options, message):
    with pytest.raises(RuntimeError, match=message):
        MegatronPretrainingRandomSampler(
            **{
                "total_samples": 21,
                "micro_batch_size": 2,
                "data_parallel_rank": 0,
                "data_parallel_size": 2,
                **options,
            }
        )


def test_the_factory_makes_both_kinds_and_no_other():
    single = create_megatron_sampler(20, 2, 8, rank=1, world_size=2)
    assert isinstance(single, MegatronPretrainingSampler)
    assert next(iter(single)) == [2, 3]
    assert len(single) == 4
    cyclic = create_megatron_sampler(20, 2, 8, "cyclic", rank=1, world_size=2)
    assert isinstance(cyclic, MegatronPretrainingRandomSampler)
    assert (len(cyclic), cyclic.seed, cyclic.global_batch_size) == (5, 0, None)
    with pytest.raises(ValueError, match="must be 'single' or 'cyclic', got 'batch'"):
        create_megatron_sampler(20, 2, 8, "batch")
    with pytest.raises(RuntimeError, match="needs global_batch_size"):
        create_megatron_sampler(20, 2, 8, "cyclic", pad_samples_to_global_batch_size=True)
