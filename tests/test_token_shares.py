"""Weights as shares of tokens: found before the first batch, kept by states."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zephon
from zephon import state as state_format
from zephon.errors import ConfigTypeError, DataError, LifecycleError, StateError
from zephon.megatron import IndexedDatasetBuilder
from zephon.work import TokenEstimation

MakeDataset = Callable[..., zephon.Dataset]


def work(
    datasets: list[zephon.Dataset], shares: dict[str, float], samples: int = 2048, **options: Any
) -> zephon.StaticMixtureWorkSource:
    return zephon.StaticMixtureWorkSource(
        datasets,
        shares,
        token_estimation=TokenEstimation(calibration_samples=samples),
        **{"exhausted_policy": "repeat", "chunk_size": 64, **options},
    )


def pack(source: zephon.WorkSource, **options: Any) -> zephon.Pipeline:
    return zephon.Pipeline(source).pack_flat(33, **options).batch(1)


def take(stream: zephon.Pipeline, count: int) -> list[bytes]:
    iterator = iter(stream)
    found = [b.to_training(dtype=np.int64)["input_ids"].tobytes() for b in islice(iterator, count)]
    stream.close()
    return found


@pytest.fixture
def texts(write_jsonl: Callable[..., Path]) -> list[zephon.Dataset]:
    short = write_jsonl("short.jsonl", ["a quick fox " * (1 + i % 3) for i in range(400)])
    long = write_jsonl("long.jsonl", ["the lazy dog " * (5 + i % 40) for i in range(400)])
    return [zephon.Dataset.from_path("short", short), zephon.Dataset.from_path("long", long)]


def text_pipeline(
    texts: list[zephon.Dataset], folder: Path, samples: int = 64, ahead: int = 0, threads: int = 1
) -> zephon.Pipeline:
    source = work(texts, {"short": 0.5, "long": 0.5}, samples, seed=5)
    stream = zephon.Pipeline(source).tokenize(folder, field="text").pack_flat(65).batch(2)
    return stream.prefetch(ahead, threads)


def test_exact_means_keep_the_shares_of_tokens_to_within_a_document(
    memory_dataset: MakeDataset,
) -> None:
    datasets = [memory_dataset("a", [10] * 30), memory_dataset("b", [70] * 30, base=10**6)]
    stream = pack(work(datasets, {"a": 0.25, "b": 0.75}))
    seen = {0: 0, 1: 0}
    for batch in islice(iter(stream), 600):
        for source, tokens in batch.token_counts().items():
            seen[source] += tokens
        off = abs(seen[0] - 0.25 * sum(seen.values()))
        assert off <= 0.75 * 70 + 0.25 * 10  # one document of each, as deep as rows cut it
    stream.close()


def test_lengths_of_mapped_files_are_known_without_reading_them(
    tmp_path: Path, memory_dataset: MakeDataset
) -> None:
    prefix = tmp_path / "corpus"
    with IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16) as builder:
        for length in (2, 4, 6, 0):
            builder.add_document(np.arange(length), [length])
        builder.finalize(f"{prefix}.idx")
    bins = zephon.Dataset.from_path("bin", prefix)
    lengths = bins.token_lengths()
    assert lengths is not None
    assert lengths.tolist() == [2, 4, 6, 0]
    stream = pack(work([bins, memory_dataset("m", [9, 3])], {"bin": 1, "m": 1}))
    take(stream, 1)
    assert stream.ws.weights == (2863311531, 1431655765)  # means 3 and 6: two to one


def test_documents_that_packing_leaves_out_count_as_no_tokens(memory_dataset: MakeDataset) -> None:
    datasets = [memory_dataset("a", [10, 50]), memory_dataset("b", [10, 20], base=10**6)]
    found = {}
    for algorithm in ("wrap", "best_fit"):
        stream = pack(work(datasets, {"a": 1, "b": 1}), algorithm=algorithm)
        stream.checkpoint()
        found[algorithm] = stream.ws.weights[0] / 2**32
    assert found["wrap"] == pytest.approx(15 / (30 + 15))
    assert found["best_fit"] == pytest.approx(15 / (5 + 15))


def test_means_of_text_are_those_of_the_pipeline_with_an_error_that_holds(
    texts: list[zephon.Dataset], tokenizer_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="zephon.work")
    exact = text_pipeline(texts, tokenizer_folder, samples=400)
    exact.checkpoint()
    assert "tokens per document (exact)" in caplog.text
    sampled = text_pipeline(texts, tokenizer_folder, samples=300)
    sampled.checkpoint()
    assert "+- " in caplog.text
    assert sampled.ws.weights != exact.ws.weights
    for one, other in zip(sampled._document_lengths(), exact._document_lengths(), strict=True):
        assert other.exact
        assert abs(one.mean / other.mean - 1) < 4 * max(one.relative_error, 1e-9)


def test_priming_is_needed_before_the_first_batch_and_not_after_it(
    texts: list[zephon.Dataset], tokenizer_folder: Path, memory_dataset: MakeDataset
) -> None:
    stream = text_pipeline(texts, tokenizer_folder)
    given = stream.ws
    assert given.requires_token_priming
    with pytest.raises(LifecycleError, match="a pipeline finds them before its first batch"):
        given.lane(0, 1)
    take(stream, 1)
    assert not stream.ws.requires_token_priming
    assert given.requires_token_priming  # it can serve another pipeline
    plain = zephon.StaticMixtureWorkSource([memory_dataset("a", [1])], {"a": 1})
    assert not pack(plain).ws.requires_token_priming


def test_a_stage_that_comes_later_makes_the_weights_be_found_again(
    memory_dataset: MakeDataset,
) -> None:
    datasets = [memory_dataset("a", [10, 50]), memory_dataset("b", [10, 20], base=10**6)]
    stream = zephon.Pipeline(work(datasets, {"a": 1, "b": 1})).pack_flat(33)
    stream.local_state()
    assert not stream.ws.requires_token_priming
    stream.batch(2)
    assert stream.ws.requires_token_priming


@pytest.mark.parametrize("stop", [0, 7])
def test_resuming_keeps_the_saved_weights_though_a_sample_would_give_others(
    texts: list[zephon.Dataset], tokenizer_folder: Path, stop: int
) -> None:
    expected = take(text_pipeline(texts, tokenizer_folder, samples=64), 20)
    first = text_pipeline(texts, tokenizer_folder, samples=64)
    delivered = take(first, stop)
    state = first.checkpoint()
    for primed in (False, True):
        second = text_pipeline(texts, tokenizer_folder, samples=50)
        if primed:
            second.checkpoint()
            assert second.ws.weights != first.ws.weights
        second.restore(state)
        assert not second.ws.requires_token_priming
        assert second.ws.weights == first.ws.weights
        assert second.checkpoint()["state"] == state["state"]
        if not primed:
            assert second._lengths is None  # nothing was read for it
        assert delivered + take(second, 20 - stop) == expected


def test_a_state_of_other_shares_or_of_weights_of_documents_is_refused(
    memory_dataset: MakeDataset,
) -> None:
    datasets = [memory_dataset("a", [10]), memory_dataset("b", [20], base=10**6)]
    state = pack(work(datasets, {"a": 1, "b": 1})).checkpoint()
    with pytest.raises(StateError) as caught:
        pack(work(datasets, {"a": 1, "b": 3})).restore(state)
    assert "work.token_shares ([2147483648, 2147483648], [1073741824, 3221225472])" in str(
        caught.value
    )
    assert "weight of" not in str(caught.value)
    plain = zephon.StaticMixtureWorkSource(
        datasets, {"a": 2, "b": 1}, chunk_size=64, exhausted_policy="repeat"
    )
    with pytest.raises(StateError, match=r"work.token_shares \(\[.*\], None\)"):
        pack(plain).restore(state)
    with pytest.raises(StateError, match="source 'b' is gone"):
        pack(work(datasets[:1], {"a": 1})).restore(state)


def test_shares_of_many_sources_are_in_a_state_by_their_digest(
    memory_dataset: MakeDataset,
) -> None:
    datasets = [memory_dataset(f"s{i}", [4]) for i in range(65)]
    options = work(datasets, {d.name: 1.0 for d in datasets}).options()
    assert len(options["token_shares"]) == 16
    other = work(datasets, {d.name: 1.0 + i for i, d in enumerate(datasets)}).options()
    assert other["token_shares"] != options["token_shares"]


def test_a_forged_state_with_weights_of_no_mixture_is_refused(memory_dataset: MakeDataset) -> None:
    stream = pack(work([memory_dataset("a", [10])], {"a": 1}))
    saved = state_format.decode(stream.local_state())
    [source] = saved.sources
    forged = state_format.StreamState(
        saved.options,
        (state_format.SourceState(source.name, source.digest, 7, source.size),),
        saved.delivered,
        saved.cursors,
    )
    with pytest.raises(StateError, match=r"weights \(7,\) are not those of a mixture"):
        stream.restore(state_format.encode(forged))


def test_a_source_without_tokens_is_refused_by_name(memory_dataset: MakeDataset) -> None:
    datasets = [memory_dataset("a", [10]), memory_dataset("none", [0, 0])]
    with pytest.raises(DataError, match="dataset 'none': 2 of its 2 documents were counted"):
        iter(pack(work(datasets, {"a": 1, "none": 1})))


def test_token_estimation_of_another_type_is_refused(memory_dataset: MakeDataset) -> None:
    with pytest.raises(ConfigTypeError, match="token_estimation is True, expected a TokenEstimat"):
        zephon.StaticMixtureWorkSource(
            [memory_dataset("a", [1])],
            {"a": 1},
            token_estimation=True,  # type: ignore[arg-type]
        )


_WEIGHTS = """
import json, sys, zephon
from zephon.work import TokenEstimation
short, long, folder, ahead, threads = sys.argv[1:]
sources = [zephon.Dataset.from_path("short", short), zephon.Dataset.from_path("long", long)]
source = zephon.StaticMixtureWorkSource(
    sources, {"short": 0.5, "long": 0.5}, chunk_size=64, seed=5, exhausted_policy="repeat",
    token_estimation=TokenEstimation(calibration_samples=64))
stream = zephon.Pipeline(source).tokenize(folder, field="text").pack_flat(65).batch(2)
stream.prefetch(int(ahead), int(threads)).checkpoint()
print(json.dumps(stream.ws.weights))
"""


def test_every_process_with_any_threads_finds_the_same_weights(
    texts: list[zephon.Dataset], tokenizer_folder: Path, tmp_path: Path
) -> None:
    here = text_pipeline(texts, tokenizer_folder)
    here.checkpoint()
    for ahead, threads in ((0, 1), (64, 3)):
        files = [str(tmp_path / f"{name}.jsonl") for name in ("short", "long")]
        done = subprocess.run(
            [sys.executable, "-P", "-c", _WEIGHTS, *files, str(tokenizer_folder),
             str(ahead), str(threads)],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        assert tuple(json.loads(done.stdout)) == here.ws.weights
