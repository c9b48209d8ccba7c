"""Weights as shares of tokens where the user says how long documents are, or counts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zephon
from zephon.errors import ConfigError, ConfigTypeError, DataError, StateError
from zephon.work import TokenEstimation

MakeDataset = Callable[..., zephon.Dataset]


def source(
    datasets: list[zephon.Dataset], estimation: TokenEstimation | None, **options: Any
) -> zephon.StaticMixtureWorkSource:
    return zephon.StaticMixtureWorkSource(
        datasets,
        {dataset.name: 0.5 for dataset in datasets},
        token_estimation=estimation,
        **{"exhausted_policy": "repeat", "chunk_size": 64, **options},
    )


@pytest.fixture
def texts(write_jsonl: Callable[..., Path]) -> list[zephon.Dataset]:
    return [
        zephon.Dataset.from_path(name, write_jsonl(f"{name}.jsonl", [words] * 30))
        for name, words in (("short", "a fox"), ("long", "a fox and a dog and a cat "))
    ]


def test_given_means_are_weights_and_nothing_is_read(memory_dataset: MakeDataset) -> None:
    datasets = [memory_dataset("a", [10]), memory_dataset("b", [20], base=10**6)]
    made = source(datasets, TokenEstimation(primer={"b": 30, "a": 10.0}))
    assert not made.requires_token_priming
    assert made.weights == (3 * 2**30, 2**30)
    assert source(datasets, TokenEstimation(primer=7)).weights == (2**31, 2**31)
    stream = zephon.Pipeline(made).pack_flat(9).batch(1)
    saved = stream.checkpoint()
    assert stream.ws is made
    other = source(datasets, TokenEstimation(primer={"a": 10, "b": 20}))
    with pytest.raises(StateError, match="share of 'a'"):
        zephon.Pipeline(other).pack_flat(9).batch(1).restore(saved)
    # They are plain weights, so they are the same as such.
    plain = zephon.StaticMixtureWorkSource(
        datasets, {"a": 3, "b": 1}, exhausted_policy="repeat", chunk_size=64
    )
    zephon.Pipeline(plain).pack_flat(9).batch(1).restore(saved)


@pytest.mark.parametrize(
    ("primer", "message"),
    [
        ({"a": 1}, "primer has no mean number of tokens for dataset 'b'"),
        ({"a": 1, "b": 1, "c": 1}, "primer names 'c', which is no dataset"),
    ],
)
def test_means_are_for_exactly_the_datasets(
    memory_dataset: MakeDataset, primer: dict[str, float], message: str
) -> None:
    datasets = [memory_dataset("a", [10]), memory_dataset("b", [20], base=10**6)]
    with pytest.raises(ConfigError, match=message):
        source(datasets, TokenEstimation(primer=primer))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"primer": "guess"}, "primer is 'guess', expected 'measure'"),
        ({"primer": 0}, "primer is 0, expected positive and finite"),
        ({"primer": True}, "primer is True, expected a number"),
        ({"primer": {"a": float("nan")}}, "primer of 'a' is nan, expected positive"),
        ({"primer": 3, "measure": len}, "measure has nothing to do"),
        ({"measure": 3}, "measure is 3, expected a function"),
        ({"calibration_shards_min": 0}, "calibration_shards_min is 0"),
        ({"calibration_shards_max": 0}, "calibration_shards_max is 0"),
        (
            {"calibration_shards_min": 3, "calibration_shards_max": 2},
            "calibration_shards_max is 2, less than calibration_shards_min 3",
        ),
        ({"fallback_tokens_per_byte": -1}, "fallback_tokens_per_byte is -1, expected positive"),
    ],
)
def test_settings_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ConfigTypeError), match=message):
        TokenEstimation(**options)


def test_a_fallback_is_told_to_have_no_effect(memory_dataset: MakeDataset) -> None:
    estimation = TokenEstimation(fallback_tokens_per_byte=0.5)
    stream = zephon.Pipeline(source([memory_dataset("a", [10])], estimation))
    assert "fallback_tokens_per_byte=0.5: documents that cannot be counted" in stream.explain()


def test_a_function_counts_in_place_of_the_pipeline(
    texts: list[zephon.Dataset], tokenizer_folder: Path
) -> None:
    seen = []

    def words(record: Any) -> int:
        seen.append(dict(record))
        return len(record["text"].split())

    def make(estimation: TokenEstimation) -> zephon.Pipeline:
        made = zephon.Pipeline(source(texts, estimation)).tokenize(tokenizer_folder, field="text")
        return made.pack_flat(65).batch(1).prefetch(0)

    stream = make(TokenEstimation(measure=words))
    assert stream.ws.requires_token_priming
    saved = stream.checkpoint()
    assert stream.ws.weights == (8 * 2**32 // 10 + 1, 2 * 2**32 // 10)  # 2 and 8 words
    assert {"text": "a fox"} in seen
    again = make(TokenEstimation(measure=len))
    again.restore(saved)  # weights that were found are the state's
    assert again.ws.weights == stream.ws.weights
    # What the pipeline itself says of lengths is not what the function says.
    assert stream._document_lengths()[0].mean > 2


def test_documents_of_tokens_are_counted_as_input_ids(memory_dataset: MakeDataset) -> None:
    datasets = [memory_dataset("a", [4, 4]), memory_dataset("b", [4], base=10**6)]

    def count(record: Any) -> Any:
        return np.int64(3) if record["tokens"][0] >= 10**6 else 1

    stream = zephon.Pipeline(source(datasets, TokenEstimation(measure=count))).pack_flat(9)
    stream.batch(1).local_state()
    assert stream.ws.weights == (3 * 2**30, 2**30)


def test_a_function_that_fails_or_gives_no_number_is_named(
    texts: list[zephon.Dataset], tokenizer_folder: Path
) -> None:
    def make(measure: Callable[[Any], Any]) -> zephon.Pipeline:
        made = zephon.Pipeline(source(texts, TokenEstimation(measure=measure)))
        return made.tokenize(tokenizer_folder, field="text").pack_flat(65).batch(1)

    with pytest.raises(DataError, match="measure failed on a document of dataset 'short': KeyE"):
        make(lambda record: record["tokens"]).local_state()
    for wrong in ("3", -1, True, 1.5):
        with pytest.raises(ConfigTypeError, match=f"measure gave {wrong!r} for a document"):
            make(lambda record, wrong=wrong: wrong).local_state()  # type: ignore[misc]
