"""Fields that go along with tokens, and columns that stand beside them, through whole streams."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import zephon
from oracles.aligned import field_of_inputs, masked_labels
from zephon.aligned import ArrayFields, RecordFields
from zephon.block import TokenDocuments
from zephon.errors import DataError
from zephon.io.dataset import Dataset
from zephon.io.shard import Place, Shard
from zephon.ops.pack_options import ALGORITHMS
from zephon.types import SampleBatch

IGNORE = -100


pytestmark = pytest.mark.usefixtures("small_windows")


def tokens_of(source: int, document: int, length: int) -> NDArray[np.int64]:
    """Ids that no other document has."""
    return 10**6 * source + 1000 * document + np.arange(1, length + 1)


@dataclass
class Corpus:
    """Sources of documents with random masks and weights, and both by token."""

    datasets: list[Dataset]
    plain: list[Dataset]
    mask: dict[int, int]
    weight: dict[int, float]


class ArrayShard(Shard):
    """A columnar format: tokens and fields are arrays, documents are runs of them."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._lengths = np.array([len(row["tokens"]) for row in rows], dtype=np.int64)
        self._ends = np.cumsum(self._lengths)
        join = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
        self._tokens = join.pop("tokens").astype(np.int32)
        mask = join.pop("loss_mask", None)
        self._fields = ArrayFields(join, None if mask is None else (mask != 0).view(np.uint8))
        self.nbytes = self._tokens.nbytes

    def __len__(self) -> int:
        return len(self._lengths)

    def read(self, rows: NDArray[np.int64]) -> TokenDocuments:
        return TokenDocuments(
            (self._tokens,),
            np.zeros(len(rows), np.int32),
            (self._ends - self._lengths)[rows],
            self._lengths[rows],
            (self._fields,),
        )

    def place(self, row: int) -> Place:
        return Place("columns", row + 1)

    def digest(self) -> bytes:
        return self._tokens.tobytes()[:16]


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    corpus = Corpus([], [], {}, {})
    for source in range(draw(st.integers(1, 3))):
        lengths = draw(st.lists(st.integers(0, 25), min_size=1, max_size=12).filter(any))
        masked = draw(st.sampled_from(["all", "some", "none"]))
        rows: list[dict[str, Any]] = []
        for document, length in enumerate(lengths):
            tokens = tokens_of(source, document, length)
            mask = np.ones(length, np.int64)
            row: dict[str, Any] = {"tokens": tokens, "weight": (tokens % 7).astype(np.float32)}
            if masked == "all" or (masked == "some" and draw(st.booleans())):
                bits = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
                mask = np.array(bits, np.int64)
                row["loss_mask"] = draw(st.sampled_from([mask, bits, mask.astype(float)]))
            rows.append(row)
            corpus.mask.update(zip(tokens.tolist(), mask.tolist(), strict=True))
            corpus.weight.update(zip(tokens.tolist(), row["weight"].tolist(), strict=True))
        name, cut = "abc"[source], draw(st.integers(0, len(rows)))
        parts = [part for part in (rows[:cut], rows[cut:]) if part]
        bare = [[{"tokens": row["tokens"]} for row in part] for part in parts]
        memory = zephon.InMemoryShard
        if masked != "some" and draw(st.booleans()):
            for row in rows:
                row.update({n: np.asarray(value) for n, value in row.items()})
            dataset = Dataset(name, "columns", [ArrayShard(part) for part in parts])
        else:
            dataset = Dataset.from_dict(name, {i: memory(part) for i, part in enumerate(parts)})
        corpus.datasets.append(dataset)
        plain = Dataset.from_dict(name, {i: memory(part) for i, part in enumerate(bare)})
        corpus.plain.append(plain)
    return corpus


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "seed": draw(st.integers(0, 2**32)),
        "max_length": draw(st.integers(3, 20)),
        "algorithm": draw(st.sampled_from(ALGORITHMS)),
        "max_sequences_per_bin": draw(st.sampled_from([None, 3])),
        "shuffle": draw(st.sampled_from([0, 3])),
        "lanes": draw(st.sampled_from([1, 2])),
        "ahead": draw(st.sampled_from([0, 0, 40])),
    }


def build(datasets: list[Dataset], shape: dict[str, Any]) -> zephon.Pipeline:
    weights = {dataset.name: 1.0 + i for i, dataset in enumerate(datasets)}
    work = zephon.StaticMixtureWorkSource(
        datasets, weights, chunk_size=4, seed=shape["seed"], exhausted_policy="repeat"
    )
    stream = zephon.Pipeline(work).pack_flat(
        shape["max_length"],
        algorithm=shape["algorithm"],
        max_sequences_per_bin=shape["max_sequences_per_bin"],
        drop_oversized=False,
    )
    if shape["shuffle"]:
        stream.shuffle(shape["shuffle"])
    stream.batch(2).prefetch(shape["ahead"], 2)
    return stream.options(canonical_replicas=shape["lanes"])


def take(stream: zephon.Pipeline, count: int) -> list[SampleBatch]:
    found = list(islice(iter(stream), count))
    stream.close()
    return found


def labels(batch: SampleBatch, **more: Any) -> dict[str, Any]:
    return batch.to_training(return_labels=True, return_padding_mask=True, dtype=None, **more)


RANDOM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RANDOM
@given(corpora(), shapes())
def test_masks_and_fields_are_those_of_the_oracle(corpus: Corpus, shape: dict[str, Any]) -> None:
    # 38, 40, and 8 of "Where ours must be better"
    found = take(build(corpus.datasets, shape), 6)
    for batch, bare in zip(found, take(build(corpus.plain, shape), 6), strict=True):
        expected, out = labels(bare), labels(batch, extra_fields=("weight",))
        assert out["input_ids"] == expected["input_ids"]
        assert out["labels"] == masked_labels(expected["labels"], corpus.mask, IGNORE)
        assert out["weight"] == field_of_inputs(
            out["input_ids"], out["padding_mask"], corpus.weight
        )
        whole = batch.to_training(dtype=None, return_padding_mask=True, extra_fields=("loss_mask",))
        ones = {token: int(bool(value)) for token, value in corpus.mask.items()}
        assert whole["loss_mask"] == field_of_inputs(
            whole["input_ids"], whole["padding_mask"], ones
        )


@RANDOM
@given(corpora(), shapes())
def test_records_of_a_stream_give_what_its_rows_give(corpus: Corpus, shape: dict[str, Any]) -> None:
    for batch in take(build(corpus.datasets, shape), 3):
        again = SampleBatch(batch.records)
        for options in ({"return_labels": True, "return_cu_seqlens": True}, {}):
            some: dict[str, Any] = {"dtype": None, "extra_fields": ("weight",), **options}
            assert again.to_training(**some) == batch.to_training(**some)


@RANDOM
@given(corpora(), shapes(), st.integers(0, 5))
def test_a_restored_stream_goes_on_with_the_same_masks(
    corpus: Corpus, shape: dict[str, Any], stop: int
) -> None:
    expected = take(build(corpus.datasets, shape), 8)
    first = build(corpus.datasets, shape)
    take(first, stop)
    second = build(corpus.datasets, shape)
    second.restore(first.checkpoint())
    for batch, other in zip(take(second, 8 - stop), expected[stop:], strict=True):
        assert labels(batch, extra_fields=("weight",)) == labels(other, extra_fields=("weight",))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_mask_of_one_document_changes_no_label_of_another(algorithm: str) -> None:
    shape = {"seed": 1, "max_length": 9, "algorithm": algorithm, "max_sequences_per_bin": None}
    shape |= {"shuffle": 0, "lanes": 1, "ahead": 0}

    def run(masked: int) -> list[dict[str, Any]]:
        rows = [{"tokens": tokens_of(0, i, n)} for i, n in enumerate([5, 12, 3, 7, 20, 4])]
        rows[masked]["loss_mask"] = np.zeros(len(rows[masked]["tokens"]), bool)
        data = Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)})
        return [labels(batch) for batch in take(build([data], shape), 5)]

    bare = [labels(b) for b in take(build([_plain([5, 12, 3, 7, 20, 4])], shape), 5)]
    for document in range(6):
        own = set(tokens_of(0, document, [5, 12, 3, 7, 20, 4][document]).tolist())
        for out, before in zip(run(document), bare, strict=True):
            assert out["input_ids"] == before["input_ids"]
            assert out["labels"] == [
                [IGNORE if label in own else label for label in row] for row in before["labels"]
            ]


def _plain(lengths: list[int]) -> Dataset:
    rows = [{"tokens": tokens_of(0, i, n)} for i, n in enumerate(lengths)]
    return Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)})


def one_stream(rows: list[dict[str, Any]], length: int = 6, **pack: Any) -> zephon.Pipeline:
    data = Dataset.from_dict("docs", {0: zephon.InMemoryShard(rows)})
    work = zephon.StaticMixtureWorkSource([data], {"docs": 1}, shuffle_shards=False)
    return zephon.Pipeline(work).pack_flat(length, **pack).batch(1).prefetch(0)


def test_tokens_alone_carry_nothing() -> None:
    [batch] = take(one_stream([{"tokens": [1, 2, 3]}] * 2), 1)
    assert batch.rows().aligned == ()
    assert "loss_mask" not in batch.to_training()
    assert list(batch.documents(0)) == [{}, {}]


COLUMNS: list[dict[str, Any]] = [
    {"tokens": [1, 2, 3, 4], "url": "https://a", "score": 0.5, "language": None, "tags": ["x"]},
    {"tokens": [5, 6], "url": "https://b", "span": [0, 1, 5], "weight": [1, 2]},
]


def test_columns_beside_the_tokens_do_not_break_packing_and_are_read_when_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 8 of "Where ours must be better"
    [batch] = take(one_stream(COLUMNS), 1)
    reads: list[int] = []
    read = Dataset.read
    monkeypatch.setattr(Dataset, "read", lambda self, rows: reads.append(1) or read(self, rows))
    assert batch.to_training()["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6]]
    documents = batch.records[0].meta.tags["documents"]
    assert not reads
    assert len(documents) == 2
    assert documents[0] == {
        "url": "https://a",
        "score": 0.5,
        "language": None,
        "tags": ["x"],
    }
    assert len(reads) == 1
    assert documents[-1] == {"url": "https://b", "span": [0, 1, 5]}  # "weight" goes with the tokens
    assert [document["url"] for document in documents] == ["https://a", "https://b"]
    assert documents[:1] == [documents[0]]
    assert "https://b" in repr(documents)


def test_columns_of_text_documents_are_carried_too(tokenizer_folder: Any, write_jsonl: Any) -> None:
    data = Dataset.from_path("text", write_jsonl("a.jsonl", ["the fox", "a dog"], ids="no tokens"))
    work = zephon.StaticMixtureWorkSource([data], {"text": 1}, shuffle_shards=False)
    stream = zephon.Pipeline(work).tokenize(tokenizer_folder, field="text").pack_flat(8).batch(1)
    [batch] = take(stream.prefetch(0), 1)
    assert batch.documents(0)[0] == {"text": "the fox", "ids": "no tokens"}


def test_records_tell_their_documents_and_which_of_them_end() -> None:
    rows = [{"tokens": [1, 2, 3, 4]}, {"tokens": [5, 6, 7, 8]}]
    first, second = take(one_stream(rows, 3), 2)
    refs = [record.meta.contributors for record in (*first.records, *second.records)]
    told = [[(r.cursor.sample_id[2], r.is_last_child) for r in some or ()] for some in refs]
    assert told == [[(0, False)], [(0, True), (1, False)]]
    assert first.records[0].meta.cursor.chunk_id == 0
    assert first.lineage_paths == ((),)


@pytest.mark.parametrize("ahead", [0, 40])
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([1, 1], "the field 'loss_mask' has 2 values for 3 tokens"),
        ("abc", "the field 'loss_mask' holds no row of numbers"),
        ([[1], [1], [1]], "the field 'loss_mask' holds no row of numbers"),
        (1, "the field 'loss_mask' holds no row of numbers"),
        ([1, None, 1], "the field 'loss_mask' holds no row of numbers"),
        ([[1], [1, 2], 1], "the field 'loss_mask' holds no row of numbers"),
    ],
)
def test_a_loss_mask_that_does_not_fit_is_told_with_its_document(
    mask: Any, message: str, ahead: int
) -> None:
    stream = one_stream([{"tokens": [1, 2, 3]}, {"tokens": [1, 2, 3], "loss_mask": mask}])
    with pytest.raises(DataError, match=message) as caught:
        take(stream.prefetch(ahead), 1)
    assert (caught.value.file, caught.value.record) == ("<memory>", 2)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"w": [1]}, "dataset 'docs', document 1: the field 'w' has 1 values for 3 tokens"),
        ({"w": "abc"}, "document 1: the field 'w' holds no row of numbers"),
        ({"w": None}, "document 1: has no field 'w'; it has: tokens, w"),
        ({}, "document 1: has no field 'w'; it has: tokens"),
    ],
)
def test_a_field_is_missed_with_its_document_when_it_is_asked_for(
    second: dict[str, Any], message: str
) -> None:
    stream = one_stream([{"tokens": [1, 2, 3], "w": [7, 8, 9]}, {"tokens": [4, 5, 6], **second}])
    [batch] = take(stream, 1)
    batch.to_training()
    with pytest.raises(DataError, match=message) as caught:
        batch.to_training(extra_fields=("w",))
    assert (caught.value.file, caught.value.record) == ("<memory>", 2)
    assert "w" not in batch.records[0].payload  # type: ignore[operator]


def test_a_field_that_no_document_has_is_missed() -> None:
    [batch] = take(one_stream([{"tokens": [1, 2, 3]}] * 2), 1)
    with pytest.raises(DataError, match="document 0: has no field 'w' beside its tokens"):
        batch.to_training(extra_fields=("w",))


@pytest.mark.parametrize("ahead", [0, 40])
def test_a_mask_comes_out_where_a_row_has_one_whatever_was_read_with_it(ahead: int) -> None:
    rows = [{"tokens": [1, 2, 3]}, {"tokens": [4, 5, 6], "loss_mask": [0, 1, 1]}]
    first, second = take(one_stream(rows, 3).prefetch(ahead), 2)
    assert "loss_mask" not in first.to_training()
    assert "loss_mask" not in first.records[0].payload  # type: ignore[operator]
    asked = first.to_training(extra_fields=("loss_mask",))
    assert asked["loss_mask"].tolist() == [[1, 1, 1]]
    assert second.to_training()["loss_mask"].tolist() == [[0, 1, 1]]


def test_rows_of_padding_have_zeros() -> None:
    rows = [{"tokens": [1, 2], "w": [3, 4], "loss_mask": [0, 1]}]
    data = Dataset.from_dict("docs", {0: zephon.InMemoryShard(rows)})
    work = zephon.StaticMixtureWorkSource([data], {"docs": 1}, chunk_size=1)
    stream = zephon.Pipeline(work).pack_flat(2).batch(1).prefetch(0)
    stream.options(canonical_replicas=2, end="filler", tail="pad")
    found = [b.to_training(extra_fields=("w",), dtype=None) for b in stream]
    assert [out["w"] for out in found] == [[[3, 4]], [[0, 0]]]
    assert found[0]["loss_mask"] == [[0, 1]]


def test_fields_of_records_skip_documents_without_tokens() -> None:
    records = [{"t": [], "w": []}, {"t": [1, 2], "w": [5, 6]}, {"t": [], "w": []}]
    fields = RecordFields(records, ["t"] * 3, np.array([0, 2, 0]))
    assert fields.take("w", 1, 1).tolist() == [6]
    assert fields.names(0) == ("w",)


def test_fields_of_arrays_are_slices() -> None:
    fields = ArrayFields({"w": np.arange(5)})
    assert fields.take("w", 2, 2).tolist() == [2, 3]
    assert fields.names(0) == ("w",)
    with pytest.raises(DataError, match="has no field 'v'; it has: w"):
        fields.take("v", 0, 1)
