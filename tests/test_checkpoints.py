"""The state of a loader in the checkpoints of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

import zephon
from zephon.loader import ZephonDataLoader

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's own about its checkpoints


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path_factory.mktemp("store") / "file"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def make(lanes: int = 2) -> ZephonDataLoader:
    rows: list[dict[str, object]] = [{"tokens": 10 * i + np.arange(7)} for i in range(9)]
    dataset = zephon.Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)})
    work = zephon.StaticMixtureWorkSource(
        [dataset], {"a": 1}, exhausted_policy="repeat", shuffle_shards=False
    )
    stream = zephon.Pipeline(work).pack_flat(9).batch(1).prefetch(0)
    return ZephonDataLoader(stream.options(canonical_replicas=lanes))


def load(folder: Path) -> ZephonDataLoader:
    """As recipes do: the state of an unstarted loader is what the checkpoint is read into."""
    loader = make()
    into: dict[str, Any] = {"data": loader.state_dict()}
    dcp.load(into, checkpoint_id=folder)
    loader.load_state_dict(into["data"])
    return loader


def same(one: ZephonDataLoader, other: ZephonDataLoader) -> bool:
    return all(torch.equal(next(one)["input_ids"], next(other)["input_ids"]) for _ in range(5))


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_states_of_any_length_pass_through_distributed_checkpoints(
    tmp_path: Path, caching: bool, background: bool
) -> None:
    planner = dcp.DefaultSavePlanner(enable_plan_caching=caching)
    lengths = set()
    with make() as loader:
        for save, batches in enumerate((0, 3, 400)):
            for _ in range(batches):
                next(loader)
            state = {"data": loader.state_dict(), "weights": torch.ones(3)}
            lengths.add(len(state["data"]["zephon"]))  # type: ignore[index]
            target = tmp_path / str(save)
            if background:
                saving = dcp.async_save(state, checkpoint_id=target, planner=planner)
                following = next(loader)  # while it is being written
                saving.result()
                del following
                rest = load(target)
                assert rest.state_dict() == state["data"]
            else:
                dcp.save(state, checkpoint_id=target, planner=planner)
                with load(target) as rest:
                    assert rest.state_dict() == state["data"]
                    if save == 2:
                        assert same(loader, rest)
    assert len(lengths) == 3  # nothing, little and more


@pytest.mark.usefixtures("group")
def test_a_checkpoint_without_the_loader_is_told_by_its_key(tmp_path: Path) -> None:
    dcp.save({"other": torch.ones(2)}, checkpoint_id=tmp_path / "x")
    with pytest.raises(CheckpointException, match="data"):
        load(tmp_path / "x")


def test_torch_save_reads_the_state_back_with_weights_only(tmp_path: Path) -> None:
    with make() as loader:
        next(loader)
        torch.save({"data": loader.state_dict(), "step": 1}, tmp_path / "x.pt")
        rest = make()
        rest.load_state_dict(torch.load(tmp_path / "x.pt", weights_only=True)["data"])
        with rest:
            assert same(loader, rest)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_torchdata_keeps_the_loader_and_its_position(workers: int) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")

    class Batches(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> ZephonDataLoader:
            return make()

    def loader() -> Any:
        return torchdata.StatefulDataLoader(Batches(), batch_size=None, num_workers=workers)

    first = loader()
    iterator = iter(first)
    for _ in range(3):
        next(iterator)
    state = first.state_dict()
    expected = [next(iterator)["input_ids"].tolist() for _ in range(4)]
    second = loader()
    second.load_state_dict(state)
    again = iter(second)
    assert [next(again)["input_ids"].tolist() for _ in range(4)] == expected
