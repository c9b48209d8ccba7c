"""validate(): everything that can be wrong, in one report."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zephon
from zephon import checks
from zephon.errors import ConfigError
from zephon.megatron import IndexedDatasetBuilder
from zephon.validation import Issue, ValidationError, ValidationReport, preflight_tokenizers
from zephon.work import TokenEstimation

MakeDataset = Callable[..., zephon.Dataset]


def work(*datasets: zephon.Dataset, **options: Any) -> zephon.StaticMixtureWorkSource:
    return zephon.StaticMixtureWorkSource(
        list(datasets),
        {dataset.name: 1.0 for dataset in datasets},
        **{"exhausted_policy": "repeat", "chunk_size": 16, **options},
    )


def issues(stream: zephon.Pipeline) -> dict[str, Issue]:
    """The issues of a stream by their codes, which are all different here."""
    report = stream.validate()
    found = {issue.code: issue for issue in report.issues}
    assert len(found) == len(report.issues), report.format()
    return found


def write_bin(prefix: Path, documents: list[list[int]]) -> zephon.Dataset:
    with IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32) as builder:
        for document in documents:
            builder.add_document(document, [len(document)])
        builder.finalize(f"{prefix}.idx")
    return zephon.Dataset.from_path(prefix.name, prefix)


def test_nothing_is_said_of_a_pipeline_that_works(memory_dataset: MakeDataset) -> None:
    stream = zephon.Pipeline(work(memory_dataset("a", [5, 6]))).pack_flat(8).batch(1)
    report = stream.options(vocab_size=2000).validate(strict=True)
    assert report == ValidationReport()
    assert report.ok
    assert report.format() == "nothing was found wrong"


def test_all_that_is_wrong_comes_in_one_report_and_the_worst_first(
    memory_dataset: MakeDataset, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a"}\n')
    datasets = [
        zephon.Dataset.from_path("text", path),
        memory_dataset("high", [5], base=10**6),
    ]
    stream = zephon.Pipeline(work(*datasets)).pack_flat(8, algorithm="best_fit", num_bins=3)
    report = stream.options(vocab_size=1000).validate()
    assert [(i.severity, i.code, i.op_name) for i in report.issues] == [
        ("error", "incomplete", "batch"),
        ("error", "no-tokenizer", "tokenize"),
        ("error", "token-id", "work_source"),
        ("info", "compatibility", "pack_flat"),
    ]
    assert not report.ok
    assert len(report.errors) == 3
    assert report.warnings == ()
    assert report.format().splitlines()[0] == "3 errors, 1 infos"
    assert "error [no-tokenizer] tokenize: dataset 'text' is text" in str(report)
    with pytest.raises(ValidationError, match=r"call batch\(...\)") as caught:
        stream.validate(strict=True)
    assert caught.value.report == report
    assert isinstance(caught.value, ConfigError)
    assert pickle.loads(pickle.dumps(caught.value)).report == report


def test_an_empty_description_lacks_both_stages(memory_dataset: MakeDataset) -> None:
    source = work(memory_dataset("a", [5]), token_estimation=TokenEstimation())
    report = zephon.Pipeline(source).options(vocab_size=9).validate()
    assert [(issue.code, issue.op_name) for issue in report.issues] == [
        ("incomplete", "pack_flat"),
        ("incomplete", "batch"),
    ]


def test_records_without_the_field_are_found_in_the_first_of_each_shard(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    files = []
    for number, field in enumerate(["text", "txt", "text", "txt"]):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text(json.dumps({field: "some words"}) + '\n{"text": "b"}\n')
    stream = zephon.Pipeline(work(zephon.Dataset.from_path("t", files)))
    stream.tokenize(tokenizer_folder, field="text").pack_flat(8).batch(1)
    report = stream.validate()
    [issue] = [issue for issue in report.issues if issue.code == "unreadable-record"]
    assert issue.message.startswith(
        "dataset 't': the first record of 2 of 4 shards cannot be read, such as "
        f"{files[1]}, record 1, byte 0: the field 'text' is missing; keys: txt."
    )
    # Their lengths cannot be found out either.
    assert [issue.code for issue in report.issues] == ["failed", "unreadable-record"]


def test_of_very_many_shards_some_are_looked_at(
    memory_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SHARDS", 5)
    shards = {i: zephon.InMemoryShard([{"words": "a"}]) for i in range(40)}
    shards[7] = zephon.InMemoryShard([])
    stream = zephon.Pipeline(work(zephon.Dataset.from_dict("m", shards))).pack_flat(8).batch(1)
    [issue] = [i for i in stream.validate().issues if i.code == "unreadable-record"]
    assert "first record of 5 of 5 shards" in issue.message


@pytest.mark.parametrize("at", ["first", "last"])
def test_ids_outside_the_vocabulary_are_found_at_both_ends_of_a_file(
    tmp_path: Path, at: str
) -> None:
    documents = [[1, 2, 3]] * 500
    documents[0 if at == "first" else -1] = [1, 2, 50]
    stream = zephon.Pipeline(work(write_bin(tmp_path / "c", documents))).pack_flat(8).batch(1)
    found = issues(stream)
    assert set(found) == {"no-vocabulary"}
    assert "ids of 'c' are not compared with it" in found["no-vocabulary"].message
    found = issues(stream.options(vocab_size=50))
    assert set(found) == {"token-id"}
    record = 1 if at == "first" else 500
    assert found["token-id"].message.startswith(
        f"dataset 'c': token 2 is 50, outside the vocabulary of 50 ids: {tmp_path}/c.bin, record "
        f"{record}, byte {12 * (record - 1)}"
    )
    assert issues(stream.options(vocab_size=51)) == {}


def test_negative_ids_are_found_without_a_vocabulary_and_blocks_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_bin(tmp_path / "c", [[1, 2], [3, -4], [5, 6], [7, 8]])
    stream = zephon.Pipeline(work(data)).pack_flat(8).batch(1)
    assert "token 1 is -4, no token id" in issues(stream)["token-id"].message
    monkeypatch.setattr(checks, "BLOCK_TOKENS", 3)
    assert "token-id" not in issues(stream)


def test_sources_that_give_nothing_are_named(memory_dataset: MakeDataset) -> None:
    datasets = [memory_dataset("a", [5]), memory_dataset("b", [9, 10]), memory_dataset("c", [0])]
    for estimation in (None, TokenEstimation()):

        def make(*, some: list[zephon.Dataset], **options: Any) -> zephon.Pipeline:
            source = work(*some, token_estimation=estimation)  # noqa: B023
            stream = zephon.Pipeline(source).pack_flat(8, **options)
            return stream.batch(1).options(vocab_size=2000)

        found = issues(make(some=datasets[:2], algorithm="best_fit"))
        assert set(found) == {"no-tokens"}
        assert found["no-tokens"].severity == "error"
        assert found["no-tokens"].message == (
            "dataset 'b': all of 2 documents that were counted are empty or longer than 8 tokens, "
            "so it gives nothing. Raise max_length, or split them with drop_oversized=False"
        )
        assert issues(make(some=datasets[:2], algorithm="best_fit", drop_oversized=False)) == {}
        found = issues(make(some=datasets[1:]))
        assert "dataset 'c': all of 1 documents that were counted are empty, so it gives noth" in (
            found["no-tokens"].message
        )


def test_a_sample_without_tokens_is_a_warning(
    write_jsonl: Callable[..., Path], tokenizer_folder: Path
) -> None:
    path = write_jsonl("t.jsonl", [""] * 60 + ["words"])
    source = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_path("t", path)],
        {"t": 1},
        token_estimation=TokenEstimation(calibration_samples=2),
    )
    stream = zephon.Pipeline(source).tokenize(tokenizer_folder, field="text").pack_flat(8).batch(1)
    assert issues(stream)["no-tokens"].severity == "warning"


class Grouped(zephon.InMemoryShard):
    """Records that are decoded fifty at a time, as row groups are."""

    unit_documents = 50


def test_chunks_too_small_for_row_groups_are_a_warning_with_the_size_that_mends_it() -> None:
    rows = [{"tokens": np.arange(4)} for _ in range(500)]
    dataset = zephon.Dataset.from_dict("g", {0: Grouped(rows)})

    def make(chunk_size: int, lanes: int, **options: Any) -> zephon.Pipeline:
        stream = zephon.Pipeline(work(dataset, chunk_size=chunk_size, **options)).pack_flat(8)
        return stream.batch(1).options(canonical_replicas=lanes, vocab_size=9)

    found = issues(make(10, 2))
    assert set(found) == {"locality"}
    assert found["locality"].severity == "warning"
    assert "chunks of 10 draws, 2 lanes decode documents of 'g' up to 5.9 times a pass; with " in (
        found["locality"].message
    )
    assert "chunk_size=49 it is at most 2 times" in found["locality"].message
    assert issues(make(49, 2)) == {}
    assert issues(make(10, 1)) == {}
    # Documents of a shuffled block come in any order: all of its groups are met together.
    shuffled = issues(make(49, 2, shuffle_block_size=250))
    assert "chunk_size=249" in shuffled["locality"].message
    assert issues(make(249, 2, shuffle_block_size=250)) == {}


def test_a_run_of_as_many_lanes_as_ranks_is_told_what_it_can_become(
    memory_dataset: MakeDataset,
) -> None:
    stream = zephon.Pipeline(work(memory_dataset("a", [5]))).pack_flat(8).batch(1)
    stream.options(dp_degree=6, vocab_size=9)
    stream.options(aggregate_dir="shared", run_id="a")
    assert "can go on with 1, 2, 3, 6 ranks only" in issues(stream)["lanes"].message
    assert issues(stream.options(canonical_replicas=12)) == {}


def test_ranks_that_cannot_meet_are_told_before_they_have_to(memory_dataset: MakeDataset) -> None:
    found = {}
    for policy in ("repeat", "redistribute"):
        source = work(memory_dataset("a", [5] * 20), exhausted_policy=policy)
        stream = zephon.Pipeline(source).pack_flat(8).batch(1)
        stream.options(dp_degree=2, canonical_replicas=4, vocab_size=99999)
        found[policy] = issues(stream)["no-exchange"]
        assert issues(stream.options(aggregate_dir="shared", run_id="a")) == {}
    assert found["repeat"].severity == "info"
    assert found["repeat"].message.startswith("the 2 ranks have no way to meet yet, so checkpoint")
    assert found["redistribute"].severity == "error"
    assert "so a pass that ends cannot agree on its end and checkpoint() cannot" in (
        found["redistribute"].message
    )


def test_a_pass_that_gives_no_batch_is_an_error(
    memory_dataset: MakeDataset,
) -> None:
    source = work(memory_dataset("a", [5, 5, 5]), exhausted_policy="redistribute")

    def make(**options: Any) -> zephon.Pipeline:
        stream = zephon.Pipeline(source).pack_flat(8).batch(1)
        return stream.options(vocab_size=9000, **options)

    found = issues(make(canonical_replicas=4))
    assert set(found) == {"no-batches"}
    assert found["no-batches"].severity == "error"
    assert "a pass gives no batch: 4 lanes share it, and with end='agree' and drop_last=True" in (
        found["no-batches"].message
    )
    assert list(make(canonical_replicas=4)) == []
    assert issues(make(canonical_replicas=4, end="filler", tail="pad")) == {}
    assert issues(make()) == {}


def test_a_plan_that_is_too_long_is_in_the_report(memory_dataset: MakeDataset) -> None:
    source = work(memory_dataset("a", [5, 5, 5, 5]), max_repeats=2**39)
    found = issues(zephon.Pipeline(source).pack_flat(8).batch(1).options(vocab_size=9000))
    assert "would give 2199023255552 documents" in found["failed"].message


def test_a_share_too_small_for_its_tokens_is_in_the_report(memory_dataset: MakeDataset) -> None:
    source = zephon.StaticMixtureWorkSource(
        [memory_dataset("a", [1]), memory_dataset("b", [9000])],
        {"a": 1, "b": 1e-4},
        token_estimation=TokenEstimation(),
    )
    stream = zephon.Pipeline(source).pack_flat(8).batch(1).options(vocab_size=9000)
    assert "share of 'b' is" in issues(stream)["failed"].message


def test_padding_like_the_end_of_documents_is_no_fault(
    write_jsonl: Callable[..., Path], tokenizer_folder: Path
) -> None:
    source = work(zephon.Dataset.from_path("t", write_jsonl("t.jsonl", ["a", "b"])))
    stream = zephon.Pipeline(source).tokenize(tokenizer_folder, field="text", eos_token_id=7)
    stream.pack_flat(8, pad_token_id=7).batch(1)
    found = issues(stream)
    assert set(found) == {"pad-is-eos"}
    assert found["pad-is-eos"].severity == "info"
    assert stream.validate(strict=True).ok


def test_the_tokenizer_is_tried_before_iterating(
    write_jsonl: Callable[..., Path], tokenizer_folder: Path
) -> None:
    from tokenizers import Tokenizer, models

    source = work(zephon.Dataset.from_path("t", write_jsonl("t.jsonl", ["a"])))
    good = zephon.Pipeline(source).tokenize(tokenizer_folder, field="text")
    assert good.preflight_tokenizers().ok
    assert zephon.Pipeline(source).preflight_tokenizers().ok
    for model, message in (
        (models.WordLevel({"x": 0}), "fox jumps over the lazy dog.': the tokenizer fails on this"),
        (models.BPE(), "the tokenizer makes no token of 'The quick brown fox"),
    ):
        stream = zephon.Pipeline(source)
        stream.tokenize(Tokenizer(model), field="text", special_tokens="none")
        [issue] = preflight_tokenizers(stream).issues
        assert issue.code == "tokenizer"
        assert message in issue.message
        with pytest.raises(ValidationError, match="the tokenizer"):
            stream.preflight_tokenizers()
        assert issue in stream.validate().issues


def test_validating_changes_nothing_of_the_stream(memory_dataset: MakeDataset) -> None:
    def make() -> zephon.Pipeline:
        source = work(
            memory_dataset("a", [5, 3]), memory_dataset("b", [7]),
            token_estimation=TokenEstimation(),
        )  # fmt: skip
        return zephon.Pipeline(source).pack_flat(8).batch(1)

    validated = make()
    validated.validate()
    validated.explain(5)
    validated.estimate_steps()
    assert validated.checkpoint() == make().checkpoint()
