"""Options of a recipe, and the pipelines made of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zephon
from zephon import config
from zephon.config import (
    TokenIds,
    ZephonCheckpointOptions,
    ZephonOptions,
    ZephonPackingOptions,
    ZephonPrefetchOptions,
    ZephonRuntimeOptions,
    ZephonSource,
    ZephonSourceOptions,
    ZephonTextOptions,
    ZephonTrainingOptions,
    ZephonWorkerOptions,
)
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.loader import ValidationLoader, ZephonDataLoader, convert_text_batch
from zephon.megatron import IndexedDatasetBuilder

VOCABULARY = np.array([0, 1, 2, 5, 6, 9], dtype=np.int64)


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    lines = [json.dumps({"text": f"the quick brown fox {i} jumps"}) for i in range(40)]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines) + "\n")
    for name in ("one", "two"):
        with IndexedDatasetBuilder(tmp_path / f"{name}.bin", dtype=np.int32) as builder:
            for i in range(30):
                builder.add_document(np.arange(5 + i % 7) + 10 * i, [5 + i % 7])
            builder.finalize(tmp_path / f"{name}.idx")
    return tmp_path


def options(folder: Path, **more: Any) -> ZephonOptions:
    return ZephonOptions(
        **{
            "sources": [ZephonSource(name="lines", path="lines.jsonl")],
            "packing": ZephonPackingOptions(seq_len=16),
            "base": folder,
            **more,
        }
    )


def test_every_exported_name_is_there() -> None:
    assert all(hasattr(config, name) for name in config.__all__)


# --- sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"name": 3}, ConfigTypeError, "name of a source is 3, expected a str"),
        ({"name": " "}, ConfigError, "name of a source is empty"),
        ({"path": ""}, ConfigError, "path of source 'a' is empty"),
        ({"path": []}, ConfigError, "path of source 'a' is an empty list"),
        ({"path": 7}, ConfigTypeError, "path of source 'a' is 7, expected a str or PathLike"),
        ({"fmt": 7}, ConfigTypeError, "fmt of source 'a' is 7"),
        ({"weight": True}, ConfigTypeError, "weight of source 'a' is True, expected a number"),
        ({"weight": 0}, ConfigError, "weight of source 'a' is 0, expected positive and finite"),
        ({"weight": float("nan")}, ConfigError, "weight of source 'a' is nan"),
    ],
)
def test_a_source_that_cannot_be_is_refused(
    given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ZephonSource(**{"name": "a", "path": "p", **given})


def test_a_blend_list_becomes_sources(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "zephon.config.sources"):
        found = config.sources_from_blend(["0.25", "/data/web", 0.75, "/data/books", "0", "x/no"])
    assert [(one.name, one.path, one.fmt, one.weight) for one in found] == [
        ("web", "/data/web", "bin", 0.25),
        ("books", "/data/books", "bin", 0.75),
    ]
    assert "x/no has the weight 0 in the blend and is left out" in caplog.text
    assert [s.weight for s in config.sources_from_blend(["/a/x", "/b/y"])] == [1.0, 1.0]
    names = [one.name for one in config.sources_from_blend(["a/x", "b/x"])]
    assert names == ["a/x", "b/x"]  # the last part would be the same


@pytest.mark.parametrize(
    ("blend", "message"),
    [
        (None, "blend is None"),
        (["1", "p", "2", "p"], "blend names 'p' 2 times"),
        (["0", "p"], "blend has no weight above 0"),
        (["-1", "p"], "must be finite and not negative"),
    ],
)
def test_a_blend_list_that_gives_nothing_is_refused(blend: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.sources_from_blend(blend)


# --- groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: ZephonSourceOptions(repeat=1), "repeat is 1, expected True or False"),
        (lambda: ZephonSourceOptions(chunk_size=0), "chunk_size is 0"),
        (lambda: ZephonSourceOptions(chunk_size=True), "chunk_size is True, expected an int"),
        (lambda: ZephonSourceOptions(shuffle_block_size="all"), "shuffle_block_size is 'all'"),
        (lambda: ZephonSourceOptions(shuffle_block_size=0), "shuffle_block_size is 0"),
        (lambda: ZephonSourceOptions(token_estimation=2), "token_estimation is 2"),
        (
            lambda: ZephonSourceOptions(token_estimation={"samples": 3}),
            "token_estimation has no setting samples; it has: .*calibration_samples",
        ),
        (
            lambda: ZephonSourceOptions(exhausted_policy="stop", stop_after_passes=2),
            "exhausted_policy and stop_after_passes both say",
        ),
        (lambda: ZephonTextOptions(field=3), "field is 3, expected a str"),
        (lambda: ZephonTextOptions(special_tokens="sep"), "special_tokens is 'sep', expected one"),
        (lambda: ZephonTextOptions(missing_field="x"), "missing_field is 'x', expected one"),
        (lambda: ZephonPackingOptions(seq_len=0), "seq_len is 0"),
        (lambda: ZephonPackingOptions(seq_len=8.0), "seq_len is 8.0, expected an int"),
        (lambda: ZephonPackingOptions(seq_len=8, algorithm="x"), "Unknown algorithm 'x'"),
        (lambda: ZephonPackingOptions(seq_len=8, num_bins=2), "num_bins does not apply"),
        (lambda: ZephonPackingOptions(seq_len=8, shuffle_buffer_size=0), "buffer_size is 0"),
        (lambda: ZephonPackingOptions(seq_len=8, shuffle_after_pack=1), "shuffle_after_pack is 1"),
        (lambda: ZephonTrainingOptions(mask_segment_starts="y"), "mask_segment_starts is 'y'"),
        (lambda: ZephonPrefetchOptions(buffer_size=-1), "buffer_size is -1"),
        (lambda: ZephonPrefetchOptions(parallelism=0), "parallelism is 0"),
        (lambda: ZephonRuntimeOptions(runner="fork"), "runner is 'fork', expected 'process'"),
        (lambda: ZephonRuntimeOptions(end="never"), "end is 'never'"),
        (lambda: ZephonWorkerOptions(tokenize_parallelism=0), "tokenize_parallelism is 0"),
        (lambda: ZephonCheckpointOptions(canonical_replicas=0), "canonical_replicas is 0"),
        (lambda: ZephonCheckpointOptions(aggregate_dir="x"), "need a run_id"),
        (lambda: ZephonCheckpointOptions(on_change="x"), "on_change is 'x'"),
    ],
)
def test_each_group_refuses_what_cannot_work_when_it_is_made(made: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made()


def test_none_in_files_that_have_no_null_is_a_word() -> None:
    assert ZephonSourceOptions(shuffle_block_size="none").shuffle_block_size is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sources": []}, "sources is empty, expected at least one"),
        ({"sources": "a"}, "sources is 'a', expected a list of ZephonSource"),
        ({"sources": [3]}, "sources holds 3, expected a ZephonSource"),
        ({"blend": ["1", "p"]}, "sources and blend are two ways to name data"),
        (
            {"sources": [ZephonSource(name="a", path="x"), ZephonSource(name="a", path="y")]},
            "two sources are named 'a'",
        ),
    ],
)
def test_options_without_distinct_sources_are_refused(
    given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        options(tmp_path, **given)


def test_a_mapping_as_a_file_holds_it_becomes_options() -> None:
    made = ZephonOptions.from_mapping(
        {
            "sources": [{"name": "a", "path": "a.jsonl", "weight": 2}, {"name": "b", "path": "b"}],
            "source": {"repeat": False, "shuffle_block_size": "none"},
            "packing": {"seq_len": 128, "algorithm": "best_fit"},
            "training": {"mask_segment_starts": True},
            "checkpoint": {"canonical_replicas": 8},
        },
        base="/recipes",
    )
    assert [one.weight for one in made.sources] == [2, 1.0]
    assert made.packing is not None
    assert (made.packing.seq_len, made.packing.algorithm) == (128, "best_fit")
    assert made.source.shuffle_block_size is None
    assert made.training.mask_segment_starts
    assert made.sources[0].resolved(made.base) == ["/recipes/a.jsonl"]
    assert ZephonOptions.from_mapping({"blend": ["1", "x"]}).sources[0].name == "x"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": 1}, "unknown option colour; there are: sources, blend, source"),
        ({"packing": {"seqlen": 1}}, "unknown option packing.seqlen; there are: seq_len"),
        ({"sources": [{"nam": "a"}]}, r"unknown option sources\[0\].nam; there are: name, path"),
        ({"sources": [{"name": "a"}]}, r"sources\[0\]: .*'path'"),
        ({"packing": 3}, "packing is 3, expected a mapping"),
        ({"sources": 3}, "sources is 3, expected a list of ZephonSource"),
        ({"sources": [{"name": "a", "path": "b", "weight": "x"}]}, "weight of source 'a' is 'x'"),
    ],
)
def test_unknown_and_missing_keys_are_named_in_full(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ZephonOptions.from_mapping(values)


# --- pipelines -------------------------------------------------------------------------------


def test_a_recipe_of_text_trains(corpora: Path, tokenizer_folder: Path) -> None:
    stream = config.build_pipeline(
        options(corpora), 2, tokenizer=tokenizer_folder, token_ids=TokenIds(0, 1, 1)
    )
    assert stream.ws.requires_token_priming  # weights are shares of tokens unless told otherwise
    with ZephonDataLoader(stream) as loader:
        batch = next(loader)
    assert batch["input_ids"].shape == (2, 16)
    text = stream.explain()
    assert "pad_token_id=1" in text
    assert "buffer_size=256, seed=42" in text


def test_the_parts_that_a_recipe_calls_make_the_same_pipeline(
    corpora: Path, tokenizer_folder: Path
) -> None:
    made = options(corpora, source=ZephonSourceOptions(token_estimation=False))
    whole = config.build_pipeline(made, 2, tokenizer=tokenizer_folder, seed=7)
    parts = config.create_source_pipeline(made, 7, 0, 1)
    parts.tokenize(tokenizer_folder, field="text").pack_flat(17, algorithm="wrap")
    assert config.finalize_pipeline(parts, made, 2, 7, 0, 1) is None
    with ZephonDataLoader(whole) as one_loader, ZephonDataLoader(parts) as other_loader:
        for _ in range(5):
            one, other = next(one_loader), next(other_loader)
            assert one["input_ids"].tolist() == other["input_ids"].tolist()
    assert whole.checkpoint()["state"] == parts.checkpoint()["state"]


def test_a_blend_of_indexed_data_is_mixed_by_its_weights(corpora: Path) -> None:
    made = options(
        corpora,
        sources=(),
        blend=["3", "one", "1", "two"],
        source=ZephonSourceOptions(token_estimation=False, shuffle_block_size=None),
        runtime=ZephonRuntimeOptions(runner="inline", vocab_size=1000),
        workers=ZephonWorkerOptions(tokenize_parallelism=2, fetch_parallelism=3),
    )
    stream = config.build_pipeline(made, 1)
    assert stream.ws.weights == (3 * 2**30, 2**30)
    text = stream.explain()
    assert "prefetch   buffer_size=0, parallelism=3: " in text
    assert "vocab_size=1000" in text


@pytest.mark.parametrize(
    ("source", "policy"),
    [
        (ZephonSourceOptions(), "repeat"),
        (ZephonSourceOptions(repeat=False), "redistribute"),
        (ZephonSourceOptions(exhausted_policy="stop"), "stop"),
    ],
)
def test_the_end_of_sources_is_as_told(
    corpora: Path, source: ZephonSourceOptions, policy: str
) -> None:
    stream = config.create_source_pipeline(options(corpora, source=source))
    assert stream.ws.options()["exhausted_policy"] == policy
    passes = ZephonSourceOptions(repeat=False, stop_after_passes=2, token_estimation=False)
    stream = config.create_source_pipeline(options(corpora, source=passes))
    assert stream.ws.options()["stop_after_passes"] == 2


def test_ranks_lanes_and_the_way_to_meet_reach_the_pipeline(corpora: Path) -> None:
    checkpoint = ZephonCheckpointOptions(
        canonical_replicas=6, aggregate_dir=corpora, run_id="r", on_change="adopt"
    )
    stream = config.create_source_pipeline(options(corpora, checkpoint=checkpoint), 1, 2, 3)
    stream.pack_flat(9)
    text = stream.explain()
    for said in ("canonical_replicas=6", "dp_degree=3", "dp_group_id=2", "on_change='adopt'"):
        assert said in text
    with pytest.raises(ConfigError, match="canonical_replicas is 6, which dp_degree 4"):
        config.create_source_pipeline(options(corpora, checkpoint=checkpoint), 1, 2, 4)
    with pytest.raises(ConfigError, match="dp_rank is 3, expected 0 to 2"):
        config.create_source_pipeline(options(corpora), 1, 3, 3)


def test_what_does_not_go_together_is_refused(corpora: Path) -> None:
    with pytest.raises(ConfigError, match="packing is missing"):
        config.build_pipeline(options(corpora, packing=None), 1)
    with pytest.raises(ConfigTypeError, match="pipeline is a int, expected a Pipeline"):
        config.finalize_pipeline(3, options(corpora), 1)  # type: ignore[arg-type]
    plain = options(corpora, source=ZephonSourceOptions(token_estimation=False))
    with pytest.raises(ConfigError, match="measure counts tokens, but token_estimation=False"):
        config.create_source_pipeline(plain, measure=len)


def test_a_function_that_measures_is_asked_and_given_means_are_taken(corpora: Path) -> None:
    counted = []

    def count(record: dict[str, Any]) -> int:
        counted.append(config.measure_pretokenized_document(record))
        return 3 if len(counted) <= 30 else 9

    sources = [ZephonSource(name=name, path=name) for name in ("one", "two")]
    pipeline = config.create_source_pipeline(options(corpora, sources=sources), measure=count)
    assert pipeline.ws.requires_token_priming
    pipeline.pack_flat(65).batch(1).prefetch(0).local_state()
    assert sorted(counted) == sorted(5 + i % 7 for i in range(30) for _ in sources)
    assert pipeline.ws.weights == (3 * 2**30, 2**30)
    given = ZephonSourceOptions(token_estimation={"primer": {"one": 3, "two": 9.0}})
    made = config.create_source_pipeline(options(corpora, sources=sources, source=given))
    assert not made.ws.requires_token_priming
    assert made.ws.weights == (3 * 2**30, 2**30)


def test_an_evaluation_sees_the_same_batches_each_time_and_as_many_on_each_rank(
    corpora: Path,
) -> None:
    made = options(corpora, sources=[ZephonSource(name="one", path="one")])
    loaders = [
        ValidationLoader(
            lambda rank=rank: config.create_validation_pipeline(  # type: ignore[misc]
                made, 2, dp_rank=rank, dp_world_size=1
            )
        )
        for rank in (0, 0)
    ]
    first, second = ([b["input_ids"].tolist() for b in loader] for loader in loaders)
    assert first == second == [b["input_ids"].tolist() for b in loaders[0]]
    tokens = sum(int((~b["padding_mask"]).sum()) for b in loaders[0])
    rows = sum(len(b["input_ids"]) for b in loaders[0])
    whole = sum(5 + i % 7 for i in range(30))
    assert tokens + rows in range(whole - 1, whole + rows)  # every token, once
    assert not hasattr(loaders[0], "state_dict")
    limited = ValidationLoader(
        lambda: config.create_validation_pipeline(made, 2), convert_text_batch, max_batches=1
    )
    assert [b["input_ids"].tolist() for b in limited] == first[:1]


def test_a_validation_loader_checks_what_it_is_given() -> None:
    with pytest.raises(ConfigTypeError, match="make_pipeline is a int, expected a callable"):
        ValidationLoader(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_batches is 0"):
        ValidationLoader(lambda: None, max_batches=0)  # type: ignore[arg-type, return-value]


# --- token ids and documents that come tokenized ---------------------------------------------


def test_token_ids_are_those_that_the_tokenizer_names() -> None:
    named = SimpleNamespace(bos_token_id=None, eos_token_id=2, pad_token_id=None)
    assert config.resolve_token_ids(named) == TokenIds(None, 2, 2)
    named.pad_token_id = 7
    assert config.resolve_token_ids(named) == TokenIds(None, 2, 7)
    with pytest.raises(ConfigError, match="names neither pad_token_id nor eos_token_id"):
        config.resolve_token_ids(SimpleNamespace())
    with pytest.raises(ConfigError, match="pad is -1"):
        TokenIds(None, None, -1)


def test_a_pretokenized_document_keeps_its_ids_and_its_supervision() -> None:
    tokens = np.array([1, 5, 9], dtype=np.int32)
    found, learnt = config.validate_pretokenized_document({"tokens": tokens}, VOCABULARY)
    assert found is tokens  # nothing is copied
    assert learnt is None
    for said in ({"loss_mask": [0, 1, 1]}, {"labels": [-100, 5, 9]}):
        made = config.normalize_pretokenized_document({"ids": tokens, **said}, VOCABULARY)
        assert made["input_ids"].tolist() == [1, 5, 9]
        assert made["loss_mask"].tolist() == [0, 1, 1]
    assert config.measure_pretokenized_document({"input_ids": [1, 2], "loss_mask": [0, 0]}) == 2
    alone = config.prepare_text_document_without_packing({"input_ids": [4, 4, 4], "x": 1})
    assert alone["positions"].tolist() == [0, 1, 2]
    assert alone["x"] == 1


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"input_ids": [1, 3]}, "token 1 of 'input_ids' is 3, which no vocabulary id is"),
        ({"input_ids": [1, 10]}, "token 1 of 'input_ids' is 10"),
        ({"input_ids": [-1]}, "token 0 of 'input_ids' is -1"),
        ({"text": "a"}, "has no token field"),
        ({"ids": [1.5]}, "holds float64 values"),
        ({"ids": [1], "loss_mask": [1], "labels": [1]}, "has both 'loss_mask' and 'labels'"),
        ({"ids": [1, 2], "loss_mask": [1]}, "loss_mask"),
        ({"ids": [1, 2], "labels": [1]}, r"'labels' has shape \(1,\), expected \(2,\)"),
        ({"ids": [1, 2], "labels": [2, -100]}, "label 0 is 2, expected 1, the token of 'ids'"),
    ],
)
def test_a_pretokenized_document_that_does_not_fit_is_refused(
    payload: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        config.validate_pretokenized_document(payload, VOCABULARY)
    with pytest.raises(ConfigTypeError, match="the document is list, expected a mapping"):
        config.validate_pretokenized_document([1], VOCABULARY)  # type: ignore[arg-type]


def test_config_makes_pipelines_of_the_public_kind(corpora: Path) -> None:
    assert isinstance(config.create_source_pipeline(options(corpora)), zephon.Pipeline)
