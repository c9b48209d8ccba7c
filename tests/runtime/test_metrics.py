"""What stages are counted to have done."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from itertools import islice

import pytest

import user_functions as functions
import zephon
from zephon.runtime.metrics import Metrics

MakeDataset = Callable[..., zephon.Dataset]


@pytest.mark.parametrize("runner", ["inline", "threads", "process"])
def test_every_stage_says_what_it_did(memory_dataset: MakeDataset, runner: str) -> None:
    work = zephon.StaticMixtureWorkSource(
        [memory_dataset("m", [4] * 50)], {"m": 1}, exhausted_policy="repeat"
    )
    stream = zephon.Pipeline(work).map_transform(functions.keep).pack_flat(8).batch(2)
    stream.prefetch(64, 1).options(runner=runner)
    assert stream.metrics_snapshot().stages == ()
    assert len(list(islice(iter(stream), 5))) == 5
    summary = stream.metrics_snapshot()
    names = [stage.name for stage in summary.stages]
    assert names == ["read", "map_transform(user_functions.keep)", "pack", "batch"]
    assert summary.stage("batch").items == 5
    assert summary.stage("pack").items >= 10
    assert summary.stage("read").items >= 20
    assert summary.stage(names[1]).items >= 20
    assert summary.stage("read").working_seconds > 0
    assert summary.stage("batch").waiting_seconds > 0
    assert "map_transform(user_functions.keep" in str(summary)
    with pytest.raises(KeyError, match="no stage 'tokenize'; there are: read, map_transform"):
        summary.stage("tokenize")
    stream.close()
    next(iter(stream))
    assert stream.metrics_snapshot().stage("batch").items == 1
    stream.close()


def test_what_many_threads_count_is_added_up_and_goes_to_another_process() -> None:
    metrics, other = Metrics(), Metrics()

    def count() -> None:
        for _ in range(1000):
            metrics.add("one", 1, items=1, working=0.5)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.add("zero", 0, items=7, waiting=2.0)
    other.merge(metrics.take())
    assert metrics.summary().stages == ()
    zero, one = other.summary().stages
    assert (zero.items, zero.waiting_seconds) == (7, 2.0)
    assert (one.items, one.working_seconds) == (4000, 2000.0)
    assert pickle.loads(pickle.dumps(other)).summary().stages == ()


def test_a_stage_that_few_may_be_in_says_how_long_others_waited(
    memory_dataset: MakeDataset,
) -> None:
    work = zephon.StaticMixtureWorkSource(
        [memory_dataset("m", [4] * 50)], {"m": 1}, exhausted_policy="repeat"
    )
    inside, most = 0, 0
    lock = threading.Lock()

    def watch(document: dict[str, object]) -> dict[str, object]:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.001)
        with lock:
            inside -= 1
        return document

    for parallelism, expected in ((1, {1}), (3, {2, 3})):
        most = 0
        stream = zephon.Pipeline(work).map_transform(watch, parallelism=parallelism)
        stream.pack_flat(8).batch(2).prefetch(64, 1)
        assert len(list(islice(iter(stream), 20))) == 20
        stream.close()
        assert most in expected
