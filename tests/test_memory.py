from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zephon
from zephon.errors import ConfigError, ConfigTypeError
from zephon.loader import convert_text_batch
from zephon.types import SampleBatch, TensorPool

SHAPE = (4, 9)

HOLD: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda tensor: tensor,
    "a view": lambda tensor: tensor[1:, 2:],
    "a transposed view of a view": lambda tensor: tensor[2:].t(),
    "another dtype": lambda tensor: tensor.view(torch.uint8),
    "an array": lambda tensor: tensor.numpy(),
    "a view of an array": lambda tensor: tensor.numpy()[1:, ::2],
    "an array of a view": lambda tensor: tensor[3].numpy(),
    "a DLPack capsule": torch.utils.dlpack.to_dlpack,
    "an array through DLPack": np.from_dlpack,
    "a tensor through DLPack": torch.from_dlpack,
    "its storage": lambda tensor: tensor.untyped_storage(),
    "a detached alias": lambda tensor: tensor.detach(),
    "a memoryview": lambda tensor: memoryview(tensor.numpy()),
    "a tensor of an array": lambda tensor: torch.from_numpy(tensor.numpy()),
    "a graph": lambda tensor: tensor * torch.ones(9, requires_grad=True),
}


@pytest.mark.parametrize("kind", HOLD)
def test_memory_is_not_given_again_while_anything_refers_to_it(kind: str) -> None:
    pool = TensorPool()
    dtype = torch.float32 if kind == "a graph" else torch.int64
    tensor = pool.empty(SHAPE, dtype)
    address = tensor.data_ptr()
    held = HOLD[kind](tensor)
    del tensor
    gc.collect()
    others = [pool.empty(SHAPE, dtype) for _ in range(3)]
    assert address not in [other.data_ptr() for other in others]
    del held
    gc.collect()
    assert pool.empty(SHAPE, dtype).data_ptr() == address


def test_memory_is_aligned_and_of_the_shape_and_type_asked_for() -> None:
    pool = TensorPool()
    dtypes = (torch.int32, torch.int64, torch.bool, torch.float32)
    made = [pool.empty((3, n), dtype) for n in (1, 2, 5, 64) for dtype in dtypes]
    assert all(tensor.data_ptr() % 64 == 0 and tensor.is_contiguous() for tensor in made)
    assert [tensor.dtype for tensor in made] == [*dtypes] * 4
    assert [tensor.shape[1] for tensor in made[::4]] == [1, 2, 5, 64]
    assert pool.empty((0, 7), torch.int64).shape == (0, 7)
    assert repr(pool) == "TensorPool(16 blocks in use, 1 free)"


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_tensors_that_are_kept_keep_their_values(steps: list[tuple[int, bool]]) -> None:
    pool = TensorPool(most=2)
    kept: dict[int, tuple[Any, int]] = {}
    for number, (place, view) in enumerate(steps):
        tensor = pool.empty(SHAPE, torch.int64)
        tensor.fill_(number)
        kept[place] = (tensor[1:].numpy() if view else tensor), number
        del tensor
        for value, expected in kept.values():
            assert (value == expected).all()
    assert sum(map(len, pool._free.values())) <= 2


def test_threads_that_share_a_pool_get_memory_of_their_own() -> None:
    pool = TensorPool()
    wrong = []

    def work(number: int) -> None:
        for _ in range(300):
            tensor = pool.empty(SHAPE, torch.int64)
            tensor.fill_(number)
            if not (tensor == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def batches(memory_dataset: Callable[..., zephon.Dataset], count: int) -> list[SampleBatch]:
    work = zephon.StaticMixtureWorkSource(
        [memory_dataset("a", [5, 9, 3, 30])], {"a": 1}, exhausted_policy="repeat"
    )
    stream = zephon.Pipeline(work).pack_flat(9).batch(2).prefetch(0)
    found = list(islice(stream, count))
    stream.close()
    return found


def test_batches_of_a_pool_are_those_of_fresh_memory(
    memory_dataset: Callable[..., zephon.Dataset],
) -> None:
    pool = TensorPool()
    asked: dict[str, Any] = {"return_labels": True, "return_padding_mask": True}
    for batch in batches(memory_dataset, 12):
        fresh, pooled = batch.to_training(**asked), batch.to_training(pool=pool, **asked)
        assert fresh.keys() == pooled.keys()
        for name, value in fresh.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, pooled[name])
                assert value.dtype == pooled[name].dtype
        text, again = convert_text_batch(batch), convert_text_batch(batch, pool=pool)
        assert all(torch.equal(text[name], again[name]) for name in text)  # type: ignore[literal-required]
    made = len(pool._watched) + sum(map(len, pool._free.values()))
    assert made <= 24  # of the memory of three batches, not of twelve


def test_a_batch_in_a_list_is_never_written_to_again(
    memory_dataset: Callable[..., zephon.Dataset],
) -> None:
    pool = TensorPool()
    made = batches(memory_dataset, 20)
    kept = [convert_text_batch(batch, pool=pool)["labels"] for batch in made]
    for batch, labels in zip(made, kept, strict=True):
        assert torch.equal(labels, convert_text_batch(batch)["labels"])


def test_where_memory_comes_from_is_checked(
    memory_dataset: Callable[..., zephon.Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    [batch] = batches(memory_dataset, 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for convert in (convert_text_batch, SampleBatch.to_training):
        call: Any = convert
        with pytest.raises(ConfigError, match="pins memory for copies to a CUDA device, and torch"):
            call(batch, pin_memory=True)
        with pytest.raises(ConfigError, match="pool and pin_memory are two ways"):
            call(batch, pin_memory=True, pool=TensorPool())
        with pytest.raises(ConfigTypeError, match="pool is 3, expected a TensorPool or None"):
            call(batch, pool=3)
        with pytest.raises(ConfigTypeError, match="pin_memory is 1, expected True or False"):
            call(batch, pin_memory=1)
    with pytest.raises(ConfigError, match="pool and pin_memory are about tensors"):
        batch.to_training(dtype=np.int64, pool=TensorPool())
    with pytest.raises(ConfigError, match="most is 0, expected 1 to"):
        TensorPool(0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_pinned_memory_is_pinned(memory_dataset: Callable[..., zephon.Dataset]) -> None:
    [batch] = batches(memory_dataset, 1)
    assert convert_text_batch(batch, pin_memory=True)["labels"].is_pinned()
    assert batch.to_training(pin_memory=True)["input_ids"].is_pinned()
