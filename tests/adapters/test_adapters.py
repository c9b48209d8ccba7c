"""Two adapters of trainers on the public names: what they deliver, and that they go on exactly."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zephon
from adapters.flat_adapter import FlatLoader
from adapters.rows_adapter import RowsLoader

ALGORITHMS = ("wrap", "first_fit", "best_fit", "best_fit_wrap")
CAPS = (None, 2)
LENGTH, ROWS = 24, 2

Made = list[dict[str, Any]]
Sources = dict[str, tuple[str, float]]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("text")
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
    found: Sources = {}
    for name, count, weight in (("web", 60, 0.7), ("books", 25, 0.3)):
        path = folder / f"{name}.jsonl"
        lines = [
            json.dumps({"text": f"{' '.join(words[: 1 + (7 * i) % 9])} {i}"}) for i in range(count)
        ]
        path.write_text("\n".join(lines) + "\n")
        found[name] = (str(path), weight)
    return found


def flat(sources: Sources, tokenizer: Path, **options: Any) -> FlatLoader:
    return FlatLoader(sources, str(tokenizer), seq_len=LENGTH, local_batch_size=ROWS, **options)


def rows(**options: Any) -> RowsLoader:
    random = np.random.default_rng(3)
    datasets = []
    for name, count in (("a", 50), ("b", 20)):
        records = [{"tokens": random.integers(1, 99, n)} for n in random.integers(1, 40, count)]
        datasets.append(zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(records)}))
    return RowsLoader(
        datasets, {"a": 0.6, "b": 0.4}, seq_length=LENGTH, micro_batch_size=ROWS, **options
    )


def plain(batch: Any) -> dict[str, Any]:
    """A batch of either adapter as lists."""
    made = batch if isinstance(batch, dict) else {**batch[0], "labels": batch[1]}
    return {
        name: value.tolist() if isinstance(value, torch.Tensor) else value
        for name, value in made.items()
    }


def take(loader: Any, count: int) -> Made:
    found = [plain(batch) for batch in islice(iter(loader), count)]
    loader.close()
    return found


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_flat_batches_resume_tensor_for_tensor(
    sources: Sources, tokenizer_folder: Path, algorithm: str, cap: int | None
) -> None:
    options: dict[str, Any] = {"algorithm": algorithm, "max_sequences_per_bin": cap}
    if "wrap" not in algorithm:
        options["num_bins"] = 8
    expected = take(flat(sources, tokenizer_folder, **options), 9)
    first = flat(sources, tokenizer_folder, **options)
    assert first.pipeline.ws.requires_token_priming
    delivered = take(first, 5)
    assert not first.pipeline.ws.requires_token_priming
    second = flat(sources, tokenizer_folder, **options)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert delivered + take(second, 4) == expected


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_resume_tensor_for_tensor(tmp_path: Path, algorithm: str, cap: int | None) -> None:
    options: dict[str, Any] = {"algorithm": algorithm, "max_sequences_per_bin": cap}
    expected = take(rows(**options), 9)
    first = rows(**options)
    delivered = take(first, 5)
    first.save(tmp_path / "state.pt")
    second = rows(**options)
    second.load(tmp_path / "state.pt")
    assert delivered + take(second, 4) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_flat_fields_agree_with_each_other(
    sources: Sources, tokenizer_folder: Path, algorithm: str
) -> None:
    more = {} if "wrap" in algorithm else {"num_bins": 4}
    loader = flat(sources, tokenizer_folder, algorithm=algorithm, **more)
    for inputs, labels in islice(loader, 4):
        assert set(inputs) == {"input", "positions", "padding_mask", "num_valid_tokens"}
        for name in ("input", "positions", "padding_mask"):
            assert inputs[name].shape == labels.shape == (ROWS * LENGTH,)
        assert inputs["input"].dtype == labels.dtype == inputs["positions"].dtype == torch.long
        assert inputs["padding_mask"].dtype == torch.bool
        assert type(inputs["num_valid_tokens"]) is int
        assert inputs["num_valid_tokens"] == int((labels != -100).sum())
        assert (labels[inputs["padding_mask"]] == -100).all()
        for row in inputs["positions"].reshape(ROWS, LENGTH).tolist():
            assert row[0] == 0
            assert all(b in (0, a + 1) for a, b in pairwise(row))
    loader.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fields_of_rows_agree_with_each_other(algorithm: str) -> None:
    loader = rows(algorithm=algorithm)
    for batch in islice(loader, 4):
        assert set(batch) == {
            "tokens", "labels", "loss_mask", "position_ids", "cu_seqlens", "max_seqlen"
        }  # fmt: skip
        for name in ("tokens", "labels", "loss_mask", "position_ids"):
            assert batch[name].shape == (ROWS, LENGTH)
        assert batch["loss_mask"].dtype == torch.float32
        assert torch.equal(batch["loss_mask"] == 1, batch["labels"] != -100)
        assert batch["cu_seqlens"].dtype == batch["max_seqlen"].dtype == torch.int32
        for row, positions in enumerate(batch["position_ids"].tolist()):
            ends = sorted(set(batch["cu_seqlens"][row].tolist()))
            starts = [i for i, position in enumerate(positions) if position == 0]
            assert ends == [*starts, LENGTH]
            gaps = [b - a for a, b in pairwise(ends)]
            assert int(batch["max_seqlen"][row]) == max(gaps)
    loader.close()


def test_a_cap_holds_and_is_reached() -> None:
    for algorithm in ALGORITHMS:
        most = 0
        loader = rows(algorithm=algorithm, max_sequences_per_bin=2)
        for batch in islice(loader.pipeline, 400):
            counts = [r.meta.tags["_packing_metadata"]["num_sequences"] for r in batch.records]
            most = max(most, *counts)
        loader.close()
        assert most == 2, algorithm


Build = Callable[..., Any]


@pytest.fixture(params=["flat", "rows"])
def build(request: pytest.FixtureRequest, sources: Sources, tokenizer_folder: Path) -> Build:
    """A loader of one rank of ``size``, of either adapter."""

    def make(rank: int, size: int, folder: Path, **options: Any) -> Any:
        shared: dict[str, Any] = {"dp_rank": rank, "canonical_replicas": 4, **options}
        if size > 1:
            shared |= {"aggregate_dir": str(folder), "run_id": f"run of {size}"}
        if request.param == "rows":
            return rows(dp_size=size, **shared)
        ranks = {"dp_degree": size, "world_size": size, "global_rank": rank}
        return flat(sources, tokenizer_folder, **ranks, **shared)

    return make


def states(loaders: list[Any]) -> Iterator[dict[str, Any]]:
    """What each rank saves, all of them at once."""
    with ThreadPoolExecutor(len(loaders)) as pool:
        found = list(pool.map(lambda one: one.pipeline.checkpoint(), loaders))
    assert all(one == found[0] for one in found)
    return iter(found)


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_saved_on_some_ranks_and_resumed_on_others_every_step_has_the_same_batches(
    build: Build, tmp_path: Path, algorithm: str, cap: int | None, before: int, after: int
) -> None:
    steps = 4  # of two lane-batches
    packing: dict[str, Any] = {"algorithm": algorithm, "max_sequences_per_bin": cap}
    expected = take(build(0, 1, tmp_path, **packing), 4 * steps)

    def run(size: int, batches: int, state: bytes | None) -> tuple[Made, bytes]:
        loaders = [build(rank, size, tmp_path, **packing) for rank in range(size)]
        for loader in loaders:
            if state is not None:
                loader.pipeline.restore(pickle.loads(state))
        found = [take(loader, batches // size) for loader in loaders]
        saved = next(states(loaders))
        return [one for step in zip(*found, strict=True) for one in step], pickle.dumps(saved)

    first, state = run(before, 2 * steps, None)
    second, _ = run(after, 2 * steps, state)
    assert first + second == expected


def test_building_and_restoring_begin_no_iteration(
    sources: Sources, tokenizer_folder: Path
) -> None:
    saved = flat(sources, tokenizer_folder).state_dict()
    loader = flat(sources, tokenizer_folder)
    loader.load_state_dict(saved)
    assert loader._batches is None
    assert loader.pipeline._stream is None


def test_a_finite_pass_ends_by_itself(sources: Sources, tokenizer_folder: Path) -> None:
    loader = flat(sources, tokenizer_folder, infinite=False, token_estimation=False)
    assert not loader.pipeline.ws.requires_token_priming
    assert 0 < len(list(loader)) < 1000


@pytest.mark.parametrize("state", [{}, {"zephon": b""}])
def test_an_empty_state_is_a_value_error_of_the_adapter(
    sources: Sources, tokenizer_folder: Path, state: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="holds no position"):
        flat(sources, tokenizer_folder).load_state_dict(state)


@pytest.mark.parametrize("foreign", [{"step": 3}, {"inflight": {}, "version": 1}, b"nonsense", 7])
def test_a_foreign_state_is_refused(
    sources: Sources, tokenizer_folder: Path, tmp_path: Path, foreign: Any
) -> None:
    state = {"zephon": pickle.dumps(foreign)}
    with pytest.raises(ValueError, match="cannot be restored"):
        flat(sources, tokenizer_folder).load_state_dict(state)
    torch.save(state, tmp_path / "state.pt")
    with pytest.raises(ValueError, match="cannot be restored"):
        rows().load(tmp_path / "state.pt")
    torch.save({"other": 1}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="no position"):
        rows().load(tmp_path / "other.pt")


def test_a_state_of_another_packing_is_refused(sources: Sources, tokenizer_folder: Path) -> None:
    state = flat(sources, tokenizer_folder).state_dict()
    with pytest.raises(ValueError, match="algorithm"):
        flat(sources, tokenizer_folder, algorithm="best_fit_wrap").load_state_dict(state)
