from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

import zephon
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.loader import ZephonDataLoader, convert_text_batch
from zephon.types import SampleBatch, SampleMeta, SampleRecord

MakeDataset = Callable[..., zephon.Dataset]


@pytest.fixture
def make(memory_dataset: MakeDataset) -> Callable[..., zephon.Pipeline]:
    def pipeline(lanes: int = 2) -> zephon.Pipeline:
        datasets = [
            memory_dataset("a", [5, 9, 2, 31]),
            memory_dataset("b", [7, 7, 7], base=10**6),
        ]
        source = zephon.StaticMixtureWorkSource(
            datasets, {"a": 0.5, "b": 0.5}, chunk_size=8, exhausted_policy="repeat"
        )
        return zephon.Pipeline(source).pack_flat(9).batch(2).options(canonical_replicas=lanes)

    return pipeline


def record(tokens: list[int], **payload: Any) -> SampleRecord:
    meta = SampleMeta(sample_id=(0, 0, 0), lane_id=0, chunk_id=0)
    return SampleRecord(meta, {"input_ids": np.array(tokens), **payload})


def equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name])
        if isinstance(one[name], torch.Tensor)
        else one[name] == other[name]
        for name in one
    )


# --- convert_text_batch ---------------------------------------------------------------------


def test_the_worked_example_of_two_documents_in_a_row() -> None:
    b, e = 1, 2
    batch = SampleBatch([record([b, 7, 7, e, b, 8, 8, e], positions=[0, 1, 2, 3, 0, 1, 2, 3])])
    out = convert_text_batch(batch)
    assert out["input_ids"].tolist() == [[b, 7, 7, e, b, 8, 8]]
    assert out["labels"].tolist() == [[7, 7, e, b, 8, 8, e]]
    assert out["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1, 2]]
    assert out["padding_mask"].tolist() == [[False] * 7]
    masked = convert_text_batch(batch, mask_segment_starts=True)
    assert masked["labels"].tolist() == [[7, 7, e, -100, 8, 8, e]]
    joined = convert_text_batch(batch, allow_cross_document_attention=True)
    assert joined["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert joined["labels"].tolist() == out["labels"].tolist()
    for name in ("input_ids", "labels", "position_ids"):
        assert out[name].dtype == torch.int64  # type: ignore[literal-required]
    assert out["padding_mask"].dtype == torch.bool


def test_arguments_are_accepted_by_place_as_by_name() -> None:
    batch = SampleBatch([record([1, 2, 3, 4], positions=[0, 1, 0, 1])])
    placed = convert_text_batch(batch, None, -1, True, False, "batched", 6, 0)
    named = convert_text_batch(
        sample_batch=batch,
        packing_contract=None,
        ignore_index=-1,
        mask_segment_starts=True,
        allow_cross_document_attention=False,
        output_format="batched",
        pad_to_length=6,
        pad_token_id=0,
    )
    assert equal(placed, named)
    assert placed["labels"].tolist() == [[2, -1, 4, -1, -1]]


def test_rows_that_were_not_packed_are_padded_on_the_right() -> None:
    batch = SampleBatch([record([5, 6, 7]), record([8, 9])])
    out = convert_text_batch(batch, pad_to_length=5, pad_token_id=6)
    assert out["input_ids"].tolist() == [[5, 6, 7, 6], [8, 9, 6, 6]]
    assert out["labels"].tolist() == [[6, 7, -100, -100], [9, -100, -100, -100]]
    assert out["padding_mask"].tolist() == [[False] * 3 + [True], [False] * 2 + [True] * 2]
    assert out["position_ids"].tolist() == [[0, 1, 2, 0], [0, 1, 0, 1]]


def test_thd_output_has_lengths_of_documents() -> None:
    batch = SampleBatch([record([1, 2, 3, 4, 5, 6, 7], positions=[0, 1, 2, 0, 1, 2, 3])])
    out = convert_text_batch(batch, output_format="thd")
    assert out["seq_lens"].tolist() == [[3, 3]]
    assert out["seq_lens_padded"].tolist() == [[3, 3]]
    assert out["qkv_format"] == "thd"


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([], {}, "the batch has no rows"),
        ([record([1])], {}, "rows have 1 token"),
        ([record([1, 2]), record([1])], {}, "payloads have different lengths"),
        ([record([1, 2, 3])], {"pad_to_length": 2, "pad_token_id": 0}, "payload 0 has 3 tokens"),
        ([record([1, 2])], {"pad_to_length": 4}, "pad_to_length needs pad_token_id"),
        (
            [record([1, 2], positions=[1, 2])],
            {},
            "positions of payload 0 begins with 1, expected 0",
        ),
        ([record([1, 2], positions=[0])], {}, r"positions of payload 0 has shape \(1,\)"),
        ([record([1, 2, 3], positions=[0, 2, 3])], {}, "holds 2 at index 1, expected 1"),
        ([record([1, 2], positions=[0, 1]), record([1, 2])], {}, "payload 1 has no 'positions'"),
        (
            [record([1, 2], loss_mask=[1])],
            {},
            r"payload 0: the field 'loss_mask' has 1 values for 2 tokens",
        ),
        ([record([1, 2])], {"output_format": "flat"}, "flat"),
    ],
)
def test_input_that_cannot_become_a_batch_is_refused(
    records: list[SampleRecord], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        convert_text_batch(SampleBatch(records), **options)


def test_payloads_without_tokens_are_refused() -> None:
    meta = SampleMeta(sample_id=(0, 0, 0), lane_id=0, chunk_id=0)
    with pytest.raises(
        ConfigError, match="payload 0: has no token field: looked for .* found text"
    ):
        convert_text_batch(SampleBatch([SampleRecord(meta, {"text": "a"})]))


def test_a_loss_mask_in_the_payload_masks_targets() -> None:
    out = convert_text_batch(SampleBatch([record([1, 2, 3, 4], loss_mask=[0, 0, 1, 1])]))
    assert out["labels"].tolist() == [[-100, 3, 4]]


def test_records_of_a_pipeline_give_the_same_batch_as_its_rows(
    make: Callable[..., zephon.Pipeline],
) -> None:
    stream = make()
    for batch in islice(iter(stream), 6):
        assert equal(
            convert_text_batch(batch, mask_segment_starts=False),
            convert_text_batch(SampleBatch(batch.records)),
        )
        assert SampleBatch(batch.records).token_counts() == batch.token_counts()
        assert SampleBatch(batch.records).document_counts() == batch.document_counts()
        assert SampleBatch(batch.records).ids == batch.ids
    stream.close()


# --- ZephonDataLoader: the lifecycle, row by row ---------------------------------------------


def test_a_fresh_loader_has_an_empty_state_and_touches_nothing(
    make: Callable[..., zephon.Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make()
    for name in ("__iter__", "checkpoint", "restore"):
        monkeypatch.setattr(
            zephon.Pipeline, name, lambda *_: pytest.fail("the pipeline was touched")
        )
    loader = ZephonDataLoader(pipeline)
    assert loader.state_dict() == {"zephon": b""}
    loader.load_state_dict({"zephon": b""})
    loader.close()
    loader.close()


def test_a_restored_loader_returns_the_restored_bytes_and_may_be_restored_again(
    make: Callable[..., zephon.Pipeline],
) -> None:
    states = []
    with ZephonDataLoader(make()) as loader:
        for _ in range(3):
            next(loader)
            states.append(loader.state_dict())
        expected = [next(loader) for _ in range(3)]
    fresh = ZephonDataLoader(make())
    fresh.load_state_dict(states[0])
    assert fresh.state_dict() == states[0]
    with pytest.raises(LifecycleError, match="an empty state for a loader that was restored"):
        fresh.load_state_dict({"zephon": b""})
    fresh.load_state_dict(states[2])
    assert fresh.state_dict() == states[2]
    with fresh:
        assert all(equal(batch, next(fresh)) for batch in expected)


def test_an_iterating_loader_refuses_to_load(make: Callable[..., zephon.Pipeline]) -> None:
    with ZephonDataLoader(make()) as loader:
        next(loader)
        for state in ({"zephon": b""}, loader.state_dict()):
            with pytest.raises(LifecycleError, match="after iteration has begun"):
                loader.load_state_dict(state)


def test_a_closed_loader_keeps_its_state_and_gives_no_more_batches(
    make: Callable[..., zephon.Pipeline],
) -> None:
    loader = ZephonDataLoader(make())
    next(loader)
    before = loader.state_dict()
    loader.close()
    loader.close()
    assert loader.state_dict() == before
    with pytest.raises(LifecycleError, match="closed before its end"):
        next(loader)
    with pytest.raises(LifecycleError, match="after iteration has begun"):
        loader.load_state_dict(before)


def test_iteration_begins_even_if_the_first_batch_fails(
    make: Callable[..., zephon.Pipeline],
) -> None:
    def broken(batch: SampleBatch) -> Any:
        raise OSError("no")

    loader = ZephonDataLoader(make(), broken)
    with pytest.raises(OSError, match="no"):
        next(loader)
    with pytest.raises(LifecycleError, match="after iteration has begun"):
        loader.load_state_dict({"zephon": b""})
    with pytest.raises(LifecycleError, match="closed before its end"):
        next(loader)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_batch_that_was_not_handed_out_is_not_counted_as_delivered(
    make: Callable[..., zephon.Pipeline], error: type[BaseException]
) -> None:
    calls = 0

    def convert(batch: SampleBatch) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise error
        return convert_text_batch(batch)

    with ZephonDataLoader(make()) as loader:
        expected = [next(loader) for _ in range(6)]
    failing = ZephonDataLoader(make(), convert)
    found = [next(failing) for _ in range(3)]
    with pytest.raises(error):
        next(failing)
    rest = ZephonDataLoader(make())
    rest.load_state_dict(failing.state_dict())
    with rest:
        found += [next(rest) for _ in range(3)]
    assert all(equal(one, other) for one, other in zip(found, expected, strict=True))


def test_an_exhausted_loader_stays_exhausted(make: Callable[..., zephon.Pipeline]) -> None:
    loader = ZephonDataLoader(make())
    next(loader)
    state = loader.state_dict()
    loader._iterator = iter([])  # a stream that ends here
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(loader)
    assert loader.state_dict() == state
    loader.close()


def test_there_is_no_length_and_the_loader_is_its_own_iterator(
    make: Callable[..., zephon.Pipeline],
) -> None:
    loader = ZephonDataLoader(make())
    assert iter(loader) is loader
    assert loader.use_distributed_checkpointing
    with pytest.raises(TypeError):
        len(loader)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, r"Expected 'zephon' bytes in the state, found the keys \(there are none"),
        ({"other": b""}, "found the keys other"),
        ({"zephon": "text"}, "Expected 'zephon' bytes in the state, got str"),
        ({"zephon": b"junk and more junk"}, "are not a zephon state"),
    ],
)
def test_states_that_are_none_are_refused(
    make: Callable[..., zephon.Pipeline], state: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ZephonDataLoader(make()).load_state_dict(state)


def test_a_state_of_another_pipeline_is_refused(make: Callable[..., zephon.Pipeline]) -> None:
    with ZephonDataLoader(make()) as loader:
        next(loader)
        state = loader.state_dict()
    with pytest.raises(StateError, match=r"canonical_replicas \(2, 4\)"):
        ZephonDataLoader(make(lanes=4)).load_state_dict(state)


def test_the_state_passes_through_torch_save_without_pickle(
    make: Callable[..., zephon.Pipeline], tmp_path: Any
) -> None:
    with ZephonDataLoader(make()) as loader:
        next(loader)
        torch.save(loader.state_dict(), tmp_path / "state.pt")
        following = next(loader)
    fresh = ZephonDataLoader(make())
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    with fresh:
        assert equal(next(fresh), following)


def test_delivered_tokens_are_counted_by_dataset_and_logged_on_request(
    make: Callable[..., zephon.Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    with ZephonDataLoader(make()) as loader:
        assert loader.component_tokens == {"a": 0, "b": 0}
        for _ in range(10):
            next(loader)
        counts = loader.component_tokens
        assert sum(counts.values()) == 10 * 2 * 9
        assert min(counts.values()) > 0
        with caplog.at_level(logging.INFO, "zephon.loader"):
            loader.log_mixture()
    assert "a: 50.000% of documents asked for" in caplog.text


def test_resuming_says_where(
    make: Callable[..., zephon.Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    with ZephonDataLoader(make()) as loader:
        next(loader)
        state = loader.state_dict()
    with caplog.at_level(logging.INFO, "zephon.loader"):
        ZephonDataLoader(make()).load_state_dict(state)
    assert "resumed behind lane-batch 1" in caplog.text


def test_what_cannot_convert_is_refused(make: Callable[..., zephon.Pipeline]) -> None:
    with pytest.raises(ConfigTypeError, match="pipeline is a list, expected a zephon.Pipeline"):
        ZephonDataLoader([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ConfigTypeError, match="convert_batch is a str, expected a callable"):
        ZephonDataLoader(make(), "convert")  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [None, 5, "zephon", [1]])
def test_a_state_dict_is_a_mapping(state: Any) -> None:
    data = zephon.Dataset.from_dict("c", {0: zephon.InMemoryShard([{"tokens": [1, 2, 3]}])})
    source = zephon.StaticMixtureWorkSource([data], {"c": 1.0}, exhausted_policy="repeat")
    loader = ZephonDataLoader(zephon.Pipeline(source).pack_flat(3).batch(1))
    with pytest.raises(ConfigTypeError, match="state_dict is a .*expected what state_dict\\(\\) g"):
        loader.load_state_dict(state)
