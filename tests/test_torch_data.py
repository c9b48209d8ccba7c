"""Pipelines in DataLoaders, StatefulDataLoaders and torchdata's nodes."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import user_functions as functions
import zephon
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.runtime.worker_meeting import MeetingExchange
from zephon.types import SampleBatch

# A machine with fewer processors than workers, and a fork beside threads, are told by torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*set_vital"),
    pytest.mark.filterwarnings("ignore:.*use of fork"),
]


def build(lanes: int = 4, policy: str = "redistribute", **options: Any) -> zephon.Pipeline:
    rows = [{"tokens": 1000 * i + np.arange(1 + 7 * i % 13)} for i in range(120)]
    sources = [
        zephon.Dataset.from_dict("a", {0: zephon.InMemoryShard(rows[:90])}),
        zephon.Dataset.from_dict("b", {0: zephon.InMemoryShard(rows[90:])}),
    ]
    work = zephon.StaticMixtureWorkSource(
        sources, {"a": 0.7, "b": 0.3}, shuffle_block_size="global", exhausted_policy=policy
    )
    stream = zephon.Pipeline(work).map_transform(functions.Cut(5))
    stream.map_batch(functions.backwards, size=4).pack_flat(9).batch(2)
    return stream.options(canonical_replicas=lanes, **options)


tensor = functions.as_one_tensor  # in a module that spawned workers find


def contents(some: Any) -> list[bytes]:
    return [one.numpy().tobytes() for one in some]


def expected(**shape: Any) -> list[bytes]:
    return contents(map(tensor, build(**shape)))


def loader(stream: zephon.Pipeline, workers: int, **more: Any) -> DataLoader[Any]:
    dataset = stream.to_torch_dataset(convert=tensor)
    return DataLoader(dataset, batch_size=None, num_workers=workers, **more)


@pytest.mark.parametrize("end", ["agree", "filler"])
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_workers_make_together_what_one_process_makes(workers: int, end: str) -> None:
    lanes = 4 if workers < 3 else 6
    assert contents(loader(build(lanes, end=end), workers)) == expected(lanes=lanes, end=end)


def test_workers_that_are_spawned_make_the_same() -> None:
    found = loader(build(), 2, multiprocessing_context="spawn")
    assert contents(found) == expected()


def test_too_many_workers_lose_and_double_nothing(caplog: pytest.LogCaptureFixture) -> None:
    found = contents(loader(build(lanes=2), 3))
    assert Counter(found) == Counter(expected(lanes=2))
    dataset = build(lanes=2).to_torch_dataset()
    with caplog.at_level(logging.WARNING):
        assert dataset._of_worker(2, 3) is None
        assert dataset._of_worker(0, 3) is not None
    assert "1 of the 3 workers of the DataLoader have nothing to do: they share 2" in caplog.text


def test_workers_that_stay_go_on_with_the_next_pass() -> None:
    stream = build()
    passes = [contents(map(tensor, stream)) for _ in range(2)]
    staying = loader(build(), 2, persistent_workers=True)
    assert [contents(staying) for _ in range(2)] == passes
    fresh = loader(build(), 2)  # begin where the main process stands, each time
    assert [contents(fresh) for _ in range(2)] == [passes[0], passes[0]]


def test_processes_of_functions_work_in_workers_of_a_data_loader() -> None:
    assert contents(loader(build(runner="process"), 2)) == expected()


def test_workers_give_batches_of_plain_records_if_nothing_converts_them() -> None:
    found = DataLoader(build().to_torch_dataset(), batch_size=None, num_workers=2)
    batches = list(found)
    assert contents(map(tensor, batches)) == expected()
    assert batches[0].records[0].meta.contributors


def test_a_dataset_goes_on_from_where_its_pipeline_stands() -> None:
    stream = build()
    first = contents(map(tensor, islice(iter(stream), 4)))
    stream.close()
    for workers in (0, 2):
        again = build()
        again.restore(stream.checkpoint())
        assert first + contents(loader(again, workers)) == expected()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [4, 7])
def test_a_stateful_data_loader_goes_on(workers: int, stop: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def make() -> Any:
        dataset = build().to_torch_dataset(convert=tensor)
        return stateful(dataset, batch_size=None, num_workers=workers)

    one = make()
    iterator = iter(one)
    found = contents(islice(iterator, stop))
    state = one.state_dict()
    del iterator
    other = make()
    other.load_state_dict(state)
    assert found + contents(other) == expected()


def test_the_state_of_a_worker_goes_back_to_it_alone() -> None:
    dataset = build().to_torch_dataset()
    state = {**dataset.state_dict(), "worker": (1, 2)}
    with pytest.raises(StateError, match="is of worker 1 of 2, this is no worker of a DataLoader"):
        dataset.load_state_dict(state)
    assert not hasattr(build().to_torch_dataset(stateful=False), "state_dict")


def test_a_node_of_torchdata_goes_on() -> None:
    nodes = pytest.importorskip("torchdata.nodes")
    one = nodes.Loader(build().to_torch_node(convert=tensor))
    found = contents(islice(iter(one), 5))
    other = nodes.Loader(build().to_torch_node(convert=tensor))
    other.load_state_dict(one.state_dict())
    assert found + contents(other) == expected()


def test_a_node_without_torchdata_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchdata.nodes", None)
    with pytest.raises(ConfigError, match="needs torchdata: install it"):
        build().to_torch_node()


def test_an_error_in_a_worker_names_the_function() -> None:
    stream = build().to_torch_dataset(convert=fail)
    with pytest.raises(ValueError, match="not this one"):
        list(DataLoader(stream, batch_size=None, num_workers=1))
    with pytest.raises(ConfigTypeError, match="convert is 3, expected a function"):
        build().to_torch_dataset(convert=3)  # type: ignore[arg-type]


def fail(batch: SampleBatch) -> None:
    raise ValueError("not this one")


def test_the_end_of_a_pass_on_several_ranks_is_refused_in_workers() -> None:
    stream = build(dp_degree=2).to_torch_dataset()
    mine = stream._of_worker(0, 2)
    assert mine is not None
    with pytest.raises(LifecycleError, match="cannot agree with other ranks on the end of a pass"):
        iter(mine)
    endless = build(policy="repeat", dp_degree=2, dp_group_id=1).to_torch_dataset()
    numbers = []
    for worker in range(2):
        mine = endless._of_worker(worker, 2)
        assert mine is not None
        numbers.append([batch.chunk_ids[0] for batch in islice(iter(mine), 3)])
        mine.close()
        endless._mine = None
    assert numbers == [[1, 5, 9], [3, 7, 11]]


def test_workers_agree_whatever_was_agreed_before_in_the_same_memory() -> None:
    table = torch.zeros((8, 4), dtype=torch.int64)
    for answers in ([True, False], [True, True, True, False], [True, False]):
        found: list[list[bool]] = [[] for _ in range(3)]

        def ask(rank: int, answers: list[bool], found: list[list[bool]]) -> None:
            exchange = MeetingExchange(table, rank, 3)
            begin = 1 if rank == 2 else 0  # was past the first round before it was stopped
            for number, answer in list(enumerate(answers))[begin:]:
                exchange.round = number
                found[rank].append(exchange.all_true(answer or rank != 1))

        threads = [
            threading.Thread(target=ask, args=(r, answers, found), daemon=True) for r in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert found == [answers, answers, answers[1:]]
    with pytest.raises(LifecycleError, match="exchange nothing but answers"):
        MeetingExchange(table, 0, 1).exchange(b"")
