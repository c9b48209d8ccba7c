"""Options that code for the other package gives: in force, without effect and told, or refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zephon
from zephon._hints import HINTS
from zephon.errors import ConfigError, ConfigTypeError, LifecycleError
from zephon.types import SampleRecord
from zephon.work import TokenEstimation

MakeDataset = Callable[..., zephon.Dataset]


def work(make: MakeDataset, **options: Any) -> zephon.StaticMixtureWorkSource:
    datasets = [
        make("a", [3, 12, 7, 1, 9, 30, 5, 2], base=10**6, shards=2),
        make("b", [4, 4, 11, 8], base=2 * 10**6),
    ]
    options = {"exhausted_policy": "redistribute", "chunk_size": 8, **options}
    return zephon.StaticMixtureWorkSource(datasets, {"a": 2, "b": 1}, **options)


def rows(stream: zephon.Pipeline, count: int = 1000) -> list[list[int]]:
    found = []
    for batch in islice(iter(stream), count):
        made = batch.to_training(dtype=None)["input_ids"]
        found += [list(row) for row in made]
    stream.close()
    return found


def test_options_that_change_nothing_change_nothing_and_are_told(
    memory_dataset: MakeDataset,
) -> None:
    plain = zephon.Pipeline(work(memory_dataset)).pack_flat(9, algorithm="best_fit_wrap")
    full = (
        zephon.Pipeline(work(memory_dataset, lane_assignment="modulo"))
        .prefetch(16, placement="remote")
        .fetch(2, max_batch=7)
        .materialize()
        .pack_flat(
            9,
            algorithm="best_fit_wrap",
            shuffle_seed=3,
            flush_strategy="fullest",
            candidate_pool_size=1024,
            max_candidate_age=5,
            parallelism=4,
            placement="cpu",
        )
        .shuffle(4, algorithm="block", warmup_growth=2, parallelism=3)
        .batch(2, placement="gpu")
        .options(deterministic=True, mtp_mode=False, aggregate_timeout_s=7, shutdown_mode="hard")
        .options(mapping_strategy="interleaved", mixture_config=None)
    )
    assert full.stream_options.aggregate_timeout == 7
    text = full.explain()
    for told in (
        "lane_assignment='modulo'",
        "placement='remote'",
        "max_batch=7",
        "materialize()",
        "shuffle_seed=3",
        "flush_strategy='fullest'",
        "candidate_pool_size=1024",
        "max_candidate_age=5",
        "parallelism=4",
        "placement='cpu'",
        "warmup_growth=2",
        "parallelism=3",
        "placement='gpu'",
        "deterministic=True",
        "mtp_mode=False",
        "shutdown_mode='hard'",
        "mapping_strategy='interleaved'",
    ):
        assert told in text.split("compatibility")[1], told
    assert rows(full) == rows(plain.shuffle(4).batch(2))


def test_shuffling_has_a_usual_size(memory_dataset: MakeDataset) -> None:
    stream = zephon.Pipeline(work(memory_dataset)).pack_flat(9).shuffle().batch(1)
    assert "buffer_size=256" in stream.explain()


@pytest.mark.parametrize("name", sorted(HINTS))
def test_each_hint_is_taken_and_one_of_a_wrong_kind_is_not(
    memory_dataset: MakeDataset, name: str
) -> None:
    stream = zephon.Pipeline(work(memory_dataset)).options(**{name: None})
    assert f"{name}=None" in stream.explain()
    hint = HINTS[name]
    if hint.kinds != (object,):
        with pytest.raises(ConfigTypeError, match=f"{name} is .*, expected"):
            stream.options(**{name: b"wrong"})
    if hint.choices:
        with pytest.raises(ConfigError, match=f"{name} is 'x', expected one of"):
            stream.options(**{name: "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"emit_positions": False}, "emit_positions is False, expected True.*exclude_fields"),
        ({"shuffle_strategy": "random"}, "shuffle_strategy is 'random'.*shuffle_within_shard"),
        ({"shuffle_strategy": "length"}, "shuffle_strategy is 'length'"),
        ({"flush_strategy": "x"}, "flush_strategy is 'x', expected 'fifo' or 'fullest'"),
        ({"candidate_pool_size": 3}, "candidate_pool_size does not apply to 'wrap'"),
        ({"max_candidate_age": 3}, "max_candidate_age does not apply to 'wrap'"),
        ({"shuffle_seed": -1}, "shuffle_seed is -1"),
        ({"min_sequence_length": 0}, "min_sequence_length is 0"),
        (
            {"min_sequence_length": 10, "algorithm": "best_fit"},
            "min_sequence_length is 10, more than max_length 9",
        ),
        ({"tokens_field": 3}, "tokens_field is 3, expected a str"),
        ({"parallelism": 0}, "parallelism is 0"),
        ({"max_sequence_per_bin": 3}, "did you mean 'max_sequences_per_bin'"),
    ],
)
def test_packing_that_is_not_done_is_refused(
    memory_dataset: MakeDataset, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, ConfigTypeError), match=message):
        zephon.Pipeline(work(memory_dataset)).pack_flat(9, **options)


def test_the_longest_first_is_what_is_done(memory_dataset: MakeDataset) -> None:
    stream = zephon.Pipeline(work(memory_dataset))
    stream.pack_flat(9, algorithm="best_fit", shuffle_strategy="length")
    assert "shuffle_strategy='length'" in stream.explain()


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        ("shuffle", {"algorithm": "block_warmup"}, "algorithm is 'block_warmup', expected"),
        ("shuffle", {"warmup_growth": "x"}, "warmup_growth is 'x', expected a number"),
        ("shuffle", {"bufer_size": 3}, "did you mean 'buffer_size'"),
        ("prefetch", {"buffersize": 3}, "did you mean 'buffer_size'"),
        ("prefetch", {"placement": 3}, "placement is 3"),
        ("materialize", {"paralelism": 3}, "did you mean 'parallelism'"),
        ("options", {"mtp_mod": 3}, "did you mean 'mtp_mode'"),
        ("options", {"mixture_config": object()}, "mixture_config orders the draws"),
        ("options", {"mapping_strategy": "contiguous"}, "ranks take lanes in turn"),
        ("options", {"aggregate_timeout_s": 1, "aggregate_timeout": 1}, "give one"),
    ],
)
def test_stages_refuse_what_they_do_not_do(
    memory_dataset: MakeDataset, call: str, options: dict[str, Any], message: str
) -> None:
    stream = zephon.Pipeline(work(memory_dataset)).pack_flat(9)
    with pytest.raises((ConfigError, ConfigTypeError), match=message):
        getattr(stream, call)(**options)


def test_batch_knows_its_options(memory_dataset: MakeDataset) -> None:
    with pytest.raises(ConfigTypeError, match="did you mean 'drop_last'"):
        zephon.Pipeline(work(memory_dataset)).pack_flat(9).batch(1, droplast=False)


@pytest.mark.parametrize("algorithm", ["wrap", "first_fit", "best_fit", "best_fit_wrap"])
def test_short_documents_are_left_out_and_counted(
    memory_dataset: MakeDataset, algorithm: Any
) -> None:
    def make(**options: Any) -> zephon.Pipeline:
        made = zephon.Pipeline(work(memory_dataset))
        made.pack_flat(31, algorithm=algorithm, **options)
        return made.batch(1, drop_last=False).options(tail="pad")

    stream = make(min_sequence_length=5)
    seen = {token // 1000 for row in rows(stream) for token in row if token}
    assert seen == {1000 + i for i in (1, 2, 4, 5, 6)} | {2002, 2003}
    kept = make(min_sequence_length=5)
    iterator = iter(kept)
    left = 0
    for _ in iterator:
        left = max(left, kept.dropped().empty)
    assert left == 5
    assert make().estimate_steps() != stream.estimate_steps() or algorithm == "wrap"
    assert stream.estimate_steps() == (len(rows(make(min_sequence_length=5))),) * 2
    state = make().checkpoint()
    with pytest.raises(zephon.errors.StateError, match="min_sequence_length"):
        make(min_sequence_length=5).restore(state)


def test_a_token_field_that_is_named_is_the_one_that_is_read() -> None:
    records = [{"tokens": np.arange(5), "codes": 50 + np.arange(4), "note": "x"}] * 3
    dataset = zephon.Dataset.from_dict("d", {0: zephon.InMemoryShard(records)})

    def first(field: str) -> list[int]:
        source = zephon.StaticMixtureWorkSource([dataset], {"d": 1})
        stream = zephon.Pipeline(source).pack_flat(4, tokens_field=field).batch(1)
        return rows(stream, 1)[0]

    assert first("auto") == [0, 1, 2, 3]
    assert first("tokens") == [0, 1, 2, 3]
    assert first("codes") == [50, 51, 52, 53]
    with pytest.raises(zephon.errors.DataError, match="no field 'input_ids', the document has"):
        first("input_ids")


def test_without_batch_rows_come_out_as_records(memory_dataset: MakeDataset) -> None:
    def make() -> zephon.Pipeline:
        return zephon.Pipeline(work(memory_dataset)).pack_flat(9).options(canonical_replicas=2)

    batches = rows(make().batch(1))
    stream = make()
    first = list(islice(iter(stream), 3))
    stream.close()
    assert all(isinstance(record, SampleRecord) for record in first)
    rest = make()
    rest.restore(stream.checkpoint())
    found = [record.payload["input_ids"].tolist() for record in (*first, *rest)]
    assert found == batches
    with pytest.raises(ConfigError, match=r"call pack_flat\(...\) before iterating it"):
        iter(zephon.Pipeline(work(memory_dataset)))


def test_documents_can_be_told_by_number(memory_dataset: MakeDataset) -> None:
    source = work(memory_dataset)
    assert source.component_ids() == source.dataset_ids == {"a": 0, "b": 1}
    assert source.datasets_by_id == dict(enumerate(source.datasets))
    assert source.total_samples == 12
    assert source.chunk_size_hint() == source.chunk_size
    assert source.continues_after_exhaustion() == frozenset()
    repeating = work(memory_dataset, exhausted_policy={"a": "repeat", "b": "redistribute"})
    assert repeating.continues_after_exhaustion() == {"a"}
    assert source.supports_indexing()
    told = [source.sample_id_at(i) for i in range(12)]
    assert sorted(told) == sorted(
        (i, *dataset.sample_id(row))
        for i, dataset in enumerate(source.datasets)
        for row in range(dataset.total())
    )
    with pytest.raises(IndexError, match="index is 12, the run has 12 draws"):
        source.sample_id_at(12)
    unknown = work(memory_dataset, token_estimation=TokenEstimation())
    assert not unknown.supports_indexing()
    with pytest.raises(LifecycleError, match="has not found its weights yet"):
        unknown.sample_id_at(0)
    with pytest.raises(ConfigError, match="lane_assignment is 'x', expected 'permute'"):
        work(memory_dataset, lane_assignment="x")


def test_options_of_formats_are_taken_merged_and_told(memory_dataset: MakeDataset) -> None:
    from zephon.io import ArrowOptions, CacheOptions, ParquetOptions, StoreOptions

    megabytes = 64 * 1024**2
    options = StoreOptions.from_any(
        {
            "arrow": {"cpu_threads": 2},
            "parquet": {"use_threads": False, "rg_cache": {"limit_bytes": megabytes, "root": "x"}},
            "metadata_cache_entries": 9,
            "cache": CacheOptions(keep_zip=True, open_retry_attempts=3),
        }
    )
    assert options.cache.rg_cache_bytes == megabytes
    assert options.resolved_parquet_rg_cache().limit_bytes == megabytes
    merged = StoreOptions(arrow=ArrowOptions(io_threads=4)).merge(options)
    assert merged.arrow == ArrowOptions(cpu_threads=2, io_threads=4)
    assert merged.parquet == options.parquet
    assert options.merge(StoreOptions()).parquet == options.parquet
    text = zephon.Pipeline(work(memory_dataset)).options(io_options=options).explain()
    for told in (
        "arrow.cpu_threads=2",
        "parquet.use_threads=False",
        "parquet.rg_cache.root='x'",
        "metadata_cache_entries=9",
        "keep_zip=True",
        "open_retry_attempts=3",
    ):
        assert told in text, told
    assert CacheOptions(enabled=False, root="somewhere").folder is None
    with pytest.raises(ConfigError, match="validate_hash is 'md5', expected None"):
        CacheOptions(validate_hash="md5")
    with pytest.raises(ConfigTypeError, match="enabled is 1, expected True or False"):
        CacheOptions(enabled=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigTypeError, match="ArrowOptions has no 'threads'"):
        ArrowOptions.from_any({"threads": 1})
    with pytest.raises(ConfigTypeError, match="no description of ParquetOptions"):
        ParquetOptions.from_any(3)
    with pytest.raises(ConfigError, match="cpu_threads is 0, expected at least 1"):
        ArrowOptions(cpu_threads=0)
    with pytest.raises(ConfigTypeError, match="io_threads is 'x', expected an int or None"):
        ArrowOptions(io_threads="x")  # type: ignore[arg-type]


def test_the_engine_is_told_by_a_state_and_not_compared(
    tokenizer_folder: Path, write_jsonl: Callable[..., Path]
) -> None:
    from zephon import state

    dataset = zephon.Dataset.from_path("t", write_jsonl("t.jsonl", ["a fox", "a dog"]))
    source = zephon.StaticMixtureWorkSource([dataset], {"t": 1})
    stream = zephon.Pipeline(source).tokenize(tokenizer_folder, field="text").pack_flat(9).batch(1)
    saved = stream.local_state()
    engine = state.decode(saved).options["engine"]
    assert engine.startswith("tokenizers ")
    assert f"token ids computed by {engine}" in state.describe(saved)
