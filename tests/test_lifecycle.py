"""The lifecycle of a loader: what each call does in each state, one test for each field."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

import zephon
from zephon import state as state_format
from zephon.errors import LifecycleError
from zephon.loader import ZephonDataLoader

LENGTHS = [5, 9, 2, 31, 8, 8, 12, 3, 3, 7]


class Watched(zephon.Pipeline):
    """A pipeline that notes which of its costly calls were made."""

    def __init__(self, work: zephon.WorkSource) -> None:
        super().__init__(work)
        self.calls: list[str] = []

    def __iter__(self) -> Any:
        self.calls.append("iter")
        return super().__iter__()

    def checkpoint(self) -> dict[str, Any]:
        self.calls.append("checkpoint")
        return super().checkpoint()

    def local_state(self) -> bytes:
        self.calls.append("local_state")
        return super().local_state()


def pipeline(ahead: int = 0) -> Watched:
    rows: list[dict[str, object]] = [
        {"tokens": 100 * i + np.arange(n)} for i, n in enumerate(LENGTHS)
    ]
    dataset = zephon.Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)})
    work = zephon.StaticMixtureWorkSource(
        [dataset], {"a": 1}, exhausted_policy="redistribute", shuffle_shards=False
    )
    made = Watched(work)
    made.pack_flat(9).batch(1).prefetch(ahead)
    return made


def ids(batch: Any) -> list[Any]:
    return list(batch["input_ids"].tolist())


EXPECTED = [ids(batch) for batch in ZephonDataLoader(pipeline())]
"""What a whole pass gives."""


def saved(after: int = 2) -> dict[str, bytes]:
    with ZephonDataLoader(pipeline()) as loader:
        for _ in range(after):
            next(loader)
        return loader.state_dict()


def fresh() -> ZephonDataLoader:
    return ZephonDataLoader(pipeline())


def restored() -> ZephonDataLoader:
    loader = fresh()
    loader.load_state_dict(saved())
    return loader


def iterating() -> ZephonDataLoader:
    loader = ZephonDataLoader(pipeline(ahead=16))
    for _ in range(2):
        next(loader)
    return loader


def exhausted() -> ZephonDataLoader:
    loader = fresh()
    for _ in loader:
        pass
    return loader


def closed() -> ZephonDataLoader:
    loader = iterating()
    loader.close()
    return loader


def calls(loader: ZephonDataLoader) -> list[str]:
    found: list[str] = loader._pipeline.calls  # type: ignore[attr-defined]
    return found


def refuses(loader: ZephonDataLoader, state: dict[str, bytes], message: str) -> None:
    before = loader.state_dict()
    with pytest.raises(LifecycleError, match=message) as caught:
        loader.load_state_dict(state)
    assert isinstance(caught.value, RuntimeError)
    assert loader.state_dict() == before


# --- fresh -----------------------------------------------------------------------------------


def test_fresh_next_opens_the_pipeline_once_and_yields() -> None:
    loader = fresh()
    assert calls(loader) == []
    assert [ids(next(loader)) for _ in range(3)] == EXPECTED[:3]
    assert calls(loader) == ["iter"]


def test_fresh_state_is_empty_bytes_and_builds_nothing() -> None:
    loader = fresh()
    assert loader.state_dict() == {"zephon": b""}
    assert calls(loader) == []


def test_fresh_loading_empty_bytes_does_nothing() -> None:
    loader = fresh()
    loader.load_state_dict({"zephon": b""})
    assert calls(loader) == []
    assert [ids(batch) for batch in loader] == EXPECTED


def test_fresh_loading_a_state_validates_and_keeps_it() -> None:
    loader = fresh()
    state = saved()
    loader.load_state_dict(state)
    assert calls(loader) == []  # nothing in which ranks would meet either
    assert loader.state_dict() == state
    assert [ids(batch) for batch in loader] == EXPECTED[2:]


def test_fresh_closing_is_allowed_any_number_of_times() -> None:
    loader = fresh()
    for _ in range(3):
        loader.close()
    assert calls(loader) == []
    assert loader.state_dict() == {"zephon": b""}


# --- restored, unstarted ---------------------------------------------------------------------


def test_restored_next_goes_on_behind_the_state() -> None:
    loader = restored()
    assert ids(next(loader)) == EXPECTED[2]
    assert calls(loader).count("iter") == 1


def test_restored_state_is_the_restored_bytes_without_work_or_collective() -> None:
    loader = restored()
    state = saved()
    calls(loader).clear()
    for _ in range(3):
        assert loader.state_dict() == state
    assert calls(loader) == []


def test_restored_loading_empty_bytes_is_refused() -> None:
    refuses(restored(), {"zephon": b""}, "an empty state for a loader that was restored")


def test_restored_loading_a_state_replaces_the_one_before() -> None:
    loader = restored()
    loader.load_state_dict(saved(4))
    assert loader.state_dict() == saved(4)
    assert [ids(batch) for batch in loader] == EXPECTED[4:]


def test_restored_closing_keeps_the_restored_bytes() -> None:
    loader = restored()
    loader.close()
    loader.close()
    assert loader.state_dict() == saved()
    with pytest.raises(LifecycleError, match="closed before its end"):
        next(loader)


# --- iterating -------------------------------------------------------------------------------


def test_iterating_next_gives_the_next_batch() -> None:
    with iterating() as loader:
        assert ids(next(loader)) == EXPECTED[2]


def test_iterating_state_is_that_behind_the_last_batch_delivered() -> None:
    with iterating() as loader:
        assert loader.state_dict() == saved()


@pytest.mark.parametrize("state", [{"zephon": b""}, saved()])
def test_iterating_loading_is_refused(state: dict[str, bytes]) -> None:
    with iterating() as loader:
        refuses(loader, state, "after iteration has begun: load into a fresh loader")
        assert ids(next(loader)) == EXPECTED[2]


def test_iterating_closing_releases_the_threads() -> None:
    before = threading.active_count()
    loader = iterating()
    loader.close()
    assert threading.active_count() == before


# --- exhausted -------------------------------------------------------------------------------


def test_exhausted_next_ends_for_ever_and_builds_nothing_anew() -> None:
    loader = exhausted()
    calls(loader).clear()
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(loader)
    assert list(loader) == []  # a second epoch
    assert calls(loader) == []


def test_exhausted_state_is_complete_and_the_beginning_of_the_next_pass() -> None:
    loader = exhausted()
    state = loader.state_dict()
    again = fresh()
    again.load_state_dict(state)
    assert again._pipeline.passes == 1
    assert len([ids(batch) for batch in again]) == len(EXPECTED)


@pytest.mark.parametrize("state", [{"zephon": b""}, saved()])
def test_exhausted_loading_is_refused(state: dict[str, bytes]) -> None:
    refuses(exhausted(), state, "after iteration has begun")


def test_exhausted_closing_changes_nothing() -> None:
    loader = exhausted()
    before = loader.state_dict()
    loader.close()
    assert loader.state_dict() == before
    with pytest.raises(StopIteration):
        next(loader)


# --- closed ----------------------------------------------------------------------------------


def test_closed_next_is_refused() -> None:
    with pytest.raises(LifecycleError, match="the loader was closed before its end"):
        next(closed())


def test_closed_state_is_complete_and_still_there() -> None:
    loader = closed()
    assert loader.state_dict() == saved()
    rest = fresh()
    rest.load_state_dict(loader.state_dict())
    assert [ids(batch) for batch in rest] == EXPECTED[2:]


@pytest.mark.parametrize("state", [{"zephon": b""}, saved()])
def test_closed_loading_is_refused(state: dict[str, bytes]) -> None:
    refuses(closed(), state, "after iteration has begun")


def test_closed_closing_does_nothing() -> None:
    loader = closed()
    before = loader.state_dict()
    loader.close()
    assert loader.state_dict() == before


# --- around the table ------------------------------------------------------------------------


def test_a_recipe_asks_for_the_state_on_all_ranks_before_it_loads() -> None:
    loader = fresh()
    into = {"data": loader.state_dict()}  # what a checkpoint is loaded into
    into["data"].update(saved(3))
    loader.load_state_dict(into["data"])
    assert [ids(batch) for batch in loader] == EXPECTED[3:]


def test_a_training_cap_in_the_loop_leaves_the_state_behind_the_last_step() -> None:
    loader = fresh()
    for step, _ in enumerate(loader, start=1):
        if step == 3:
            break
    state = loader.state_dict()
    loader.close()
    assert loader.state_dict() == state == saved(3)


def test_a_framework_that_takes_the_iterator_away_loses_neither_state_nor_batches() -> None:
    loader = iterating()
    loader._iterator = None
    assert loader.state_dict() == saved()
    with pytest.raises(LifecycleError, match="after iteration has begun"):
        loader.load_state_dict(saved())
    assert [ids(batch) for batch in loader] == EXPECTED[2:]


def test_the_class_says_that_it_is_saved_by_distributed_checkpointing() -> None:
    assert ZephonDataLoader.use_distributed_checkpointing is True
    assert not hasattr(ZephonDataLoader, "__len__")
    assert {"state_dict", "load_state_dict"} <= set(dir(ZephonDataLoader))
    names = [base.__name__ for base in ZephonDataLoader.__mro__]
    assert "StatefulDataLoader" not in names


def test_the_fresh_loader_has_the_attributes_that_recipes_look_at() -> None:
    loader = fresh()
    assert loader._iterator is None
    assert loader._restored_checkpoint == b""
    assert loader._component_tokens == {}


def test_counters_start_anew_with_each_loader_and_are_no_part_of_the_state() -> None:
    with iterating() as loader:
        assert dict(loader.component_tokens) == {"a": 18}
    rest = restored()
    assert dict(rest.component_tokens) == {"a": 0}
    with rest:
        next(rest)
        assert dict(rest.component_tokens) == {"a": 9}


def test_what_a_rank_knows_for_itself_is_the_state_if_it_is_the_only_one() -> None:
    with iterating() as loader:
        assert state_format.local_state(loader) == loader.state_dict()["zephon"]
        assert state_format.merge([loader.local_state()]) == loader.state_dict()["zephon"]


def test_flipping_any_bit_of_a_saved_state_is_refused_by_the_loader() -> None:
    state = saved()["zephon"]
    loader = fresh()
    for bit in range(8 * len(state)):
        damaged = bytearray(state)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="state"):
            loader.load_state_dict({"zephon": bytes(damaged)})
    assert loader.state_dict() == {"zephon": b""}
    assert ids(next(loader)) == EXPECTED[0]
    loader.close()


def test_a_batch_is_made_of_tensors_that_the_trainer_may_keep() -> None:
    kept = []
    with fresh() as loader:
        for batch in loader:
            kept.append(batch["input_ids"])
    assert [batch.tolist() for batch in kept] == EXPECTED
    assert all(isinstance(batch, torch.Tensor) for batch in kept)
