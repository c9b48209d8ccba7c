"""Each operator through a pipeline: what it does, what it counts, what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import user_functions as functions
import zephon
from zephon.errors import ConfigError, ConfigTypeError, OperatorError, StateError
from zephon.types import SampleBatch, SampleRecord

Rows = list[dict[str, Any]]


def start(rows: Rows, more: dict[str, Rows] | None = None, **options: Any) -> zephon.Pipeline:
    """A pipeline over records in their order, in one pass."""
    sources = {"m": rows, **(more or {})}
    work = zephon.StaticMixtureWorkSource(
        [
            zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(some)})
            for name, some in sources.items()
        ],
        dict.fromkeys(sources, 1.0),
        shuffle_shards=False,
        exhausted_policy="redistribute",
        **options,
    )
    return zephon.Pipeline(work)


def numbered(count: int, length: int = 3) -> Rows:
    return [{"tokens": np.arange(100 * i, 100 * i + length), "n": i} for i in range(count)]


def documents(stream: zephon.Pipeline, ahead: int = 0) -> list[list[int]]:
    """Tokens of all documents, whole."""
    stream.pack_flat(64).batch(1).prefetch(ahead).options(tail="pad")
    found: list[list[int]] = []
    for batch in stream:
        rows = batch.rows()
        for segment in range(len(rows.length)):
            tokens = rows.tokens(segment).tolist()
            if rows.offset[segment]:
                found[-1] += tokens
            else:
                found.append(tokens)
    return found


def test_none_leaves_a_document_out_and_counts_it() -> None:
    stream = start(numbered(5)).map_transform(lambda d: None if d["n"] == 2 else d)
    stream.pack_flat(6).batch(1).options(tail="pad")
    batches = list(islice(iter(stream), 2))
    assert [batch.rows().row.tolist() for batch in batches] == [[0, 1], [3, 4]]
    assert stream.dropped().filtered == 1
    state = zephon.state.decode(stream.checkpoint()["state"])
    assert state.cursors[0].documents.dropped.filtered == 1
    assert "1 by operators" in zephon.state.describe(stream.checkpoint()["state"])
    again = start(numbered(5)).map_transform(lambda d: None if d["n"] == 2 else d)
    assert again.pack_flat(6).dropped().filtered == 0


def test_none_can_be_made_an_error() -> None:
    stream = start(numbered(5)).map_transform(lambda d: None, drop_none=False)
    with pytest.raises(OperatorError, match="gave None, and drop_none=False"):
        documents(stream)


def test_several_documents_of_one_have_their_numbers_as_lineage() -> None:
    def split(d: dict[str, Any]) -> Any:
        return [{"tokens": d["tokens"][i : i + 1]} for i in range(d["n"])]  # of 0: nothing

    stream = start(numbered(3)).map_transform(split).map_transform(functions.keep)
    assert documents(start(numbered(3)).map_transform(split)) == [[100], [200], [201]]
    (batch,) = stream.pack_flat(3).batch(1)
    refs = batch.records[0].meta.contribution_refs()
    assert [(ref.cursor.sample_id, ref.cursor.lineage) for ref in refs] == [
        ((0, 0, 1), (0,)),
        ((0, 0, 2), (0,)),
        ((0, 0, 2), (1,)),
    ]


def test_what_is_no_document_is_refused() -> None:
    for made, told in (
        (3, "gave a int, expected a mapping"),
        ([1], "gave a int, expected a mapping"),
        ("text", "gave a str, expected a mapping"),
    ):
        with pytest.raises(OperatorError, match=told):
            documents(start(numbered(1)).map_transform(lambda d, made=made: made, version=1))


def test_a_function_may_change_its_document_and_not_the_dataset() -> None:
    def change(d: dict[str, Any]) -> dict[str, Any]:
        d["tokens"] = d["tokens"] + 1
        return d

    rows = numbered(2)
    assert documents(start(rows).map_transform(change).map_transform(change)) == [
        [2, 3, 4],
        [102, 103, 104],
    ]
    assert rows[0]["tokens"].tolist() == [0, 1, 2]


def test_functions_may_give_token_ids_and_a_loss_mask(tokenizer_folder: Any) -> None:
    def pretokenize(d: dict[str, Any]) -> dict[str, Any]:
        if d["text"] == "no":
            return d
        return {"input_ids": [5, 6, 7, 8], "loss_mask": [0, 0, 1, 1]}

    rows = [{"text": "yes"}, {"text": "no"}]
    stream = start(rows).map_transform(pretokenize).tokenize(tokenizer_folder, field="text")
    (batch,) = stream.pack_flat(8).batch(1).options(tail="pad")
    tensors = batch.to_training(return_labels=True, ignore_index=-1)
    assert tensors["input_ids"][0, :5].tolist() == [5, 6, 7, 8, 0]  # then BOS
    assert tensors["labels"][0, :4].tolist() == [-1, 7, 8, 0]


def test_a_key_is_the_same_for_the_same_document_of_a_pass_and_else_another() -> None:
    keys: dict[tuple[int, int], set[int]] = {}
    drawn: list[float] = []

    def take(d: dict[str, Any], key: int) -> dict[str, Any]:
        keys.setdefault((d["n"], len(keys) // 4), set()).add(key)
        return d

    def draw(d: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        drawn.append(float(rng.random()))
        return d

    for seed in (0, 0, 1):
        stream = start(numbered(4), seed=seed)
        documents(stream.map_transform(take).map_transform(draw))
    assert all(len(some) == 1 for some in keys.values())
    first, second, third = drawn[:4], drawn[4:8], drawn[8:]
    assert first == second != third
    assert len({key for some in keys.values() for key in some}) == 8  # of two seeds


def test_bytes_become_text(tokenizer_folder: Any) -> None:
    rows: Rows = [{"text": "f\xfcr".encode("latin-1"), "raw": b"\xff"}]
    seen: list[Any] = []

    def look(d: dict[str, Any]) -> dict[str, Any]:
        seen.append(d)
        return d

    stream = start(rows).decode_text(field="text", encoding="latin-1").map_transform(look)
    stream.tokenize(tokenizer_folder, field="text")
    assert len(documents(stream)) == 1
    assert seen[0] == {"text": "f\xfcr", "raw": b"\xff"}
    with pytest.raises(OperatorError, match=r"decode_text\(\) failed on document 0 .*0xfc"):
        documents(start(rows).decode_text().tokenize(tokenizer_folder, field="text"))
    with pytest.raises(ConfigError, match="encoding='utf-9'.*unknown encoding"):
        start(rows).decode_text(encoding="utf-9")
    with pytest.raises(ConfigError, match="errors='ignor'.*unknown error handler"):
        start(rows).decode_text(errors="ignor")
    assert documents(start(numbered(2)).decode_text()) == [[0, 1, 2], [100, 101, 102]]


def test_long_documents_are_split_with_what_goes_along() -> None:
    rows: Rows = [
        {"tokens": [1, 2, 3, 4, 5], "loss_mask": [1, 0, 1, 0, 1], "url": "abcde", "w": [1] * 5},
        {"tokens": [6], "loss_mask": [0], "url": "x", "w": [1]},
    ]
    assert documents(start(rows).split_long_samples(2)) == [[1, 2], [3, 4], [5], [6]]
    (batch,) = start(rows).split_long_samples(2).pack_flat(6).batch(1)
    assert batch.to_training(dtype=None)["loss_mask"][0] == [1, 0, 1, 0, 1, 0]
    with pytest.raises(OperatorError, match="the document holds no token ids"):
        documents(start([{"text": "a"}]).split_long_samples(2))


def test_groups_are_of_draws_and_not_of_documents() -> None:
    sizes: list[int] = []

    def count(batch: SampleBatch) -> SampleBatch | None:
        sizes.append(len(batch))
        return None if len(batch) == 2 else batch

    stream = start(numbered(10)).map_transform(lambda d: None if d["n"] in (4, 8) else d)
    assert documents(stream.map_batch(count, size=3)) == [
        list(range(100 * i, 100 * i + 3)) for i in (0, 1, 2, 9)
    ]
    assert sizes == [3, 2, 2, 1]


def test_what_a_group_gives_keeps_the_meta_that_it_was_given() -> None:
    def double(batch: SampleBatch) -> SampleBatch:
        return SampleBatch(
            [SampleRecord(r.meta.child(i), r.payload) for r in batch.records for i in range(2)]
        )

    stream = start(numbered(3)).map_batch(double, size=2)
    (batch,) = stream.pack_flat(18).batch(1)
    assert batch.rows().row.tolist() == [0, 0, 1, 1, 2, 2]
    for wrong, told in (
        (lambda b: [1], "gave a list, expected a SampleBatch"),
        (lambda b: SampleBatch([1]), "gave a int, expected a SampleRecord"),  # type: ignore[list-item]
    ):
        with pytest.raises(OperatorError, match=told):
            documents(start(numbered(3)).map_batch(wrong, version=1))


def test_batches_can_be_changed_and_left_out_behind_batching() -> None:
    def backwards(batch: SampleBatch, key: int) -> SampleBatch | None:
        assert key >= 0
        return None if batch.chunk_ids[0] == 1 else SampleBatch(batch.records[::-1])

    stream = start(numbered(12, 4)).pack_flat(4).batch(2).map_batch(backwards)
    found = []
    for batch in stream:
        found.append([int(r.payload["input_ids"][0]) for r in batch.records])
        if len(found) == 2:
            state = stream.checkpoint()
            break
    stream.close()
    assert found == [[100, 0], [500, 400]]
    again = start(numbered(12, 4)).pack_flat(4).batch(2).map_batch(backwards)
    again.restore(state)
    assert [int(b.records[0].payload["input_ids"][0]) for b in again] == [700, 900, 1100]

    def fail(batch: SampleBatch) -> SampleBatch:
        raise KeyError("no")

    stream = start(numbered(12, 4)).pack_flat(4).batch(2).map_batch(fail)
    with pytest.raises(OperatorError, match=r"fail\) failed on lane-batch 0, .*\(0, 0, 0\)") as e:
        next(iter(stream))
    assert isinstance(e.value.__cause__, KeyError)
    stream = start(numbered(12, 4)).pack_flat(4).batch(2).map_batch(lambda b: 1)
    with pytest.raises(OperatorError, match="gave a int, expected a SampleBatch"):
        next(iter(stream))


def test_a_memory_begins_anew_with_every_window_and_in_every_lane() -> None:
    def push(held: list[SampleRecord], records: list[SampleRecord]) -> Any:
        held = held + records
        return ([], [held[-1]]) if len(held) == 3 else (held, [])

    def make(lanes: int) -> zephon.Pipeline:
        stream = start(numbered(10, 1))
        stream.stateful_transform("every third", init_state=list, push=push, window=5)
        return stream.options(canonical_replicas=lanes)

    assert documents(make(1)) == [[200], [700]]


def test_a_memory_can_be_flushed_early_and_what_comes_out_be_changed() -> None:
    def push(held: list[SampleRecord], records: list[SampleRecord]) -> Any:
        return held + records, []

    stream = start(numbered(7, 1)).stateful_transform(
        "pairs",
        init_state=list,
        push=push,
        flush=lambda held: held,
        should_flush=lambda held: len(held) == 2,
        transform=lambda records: records[::-1],
        window=5,
    )
    assert documents(stream) == [[100], [0], [300], [200], [400], [600], [500]]


def test_what_push_gives_is_checked() -> None:
    for push, told in (
        (lambda s, r: r, "push gave no pair"),
        (lambda s, r: (s, 3), "push gave a int, expected a list"),
        (lambda s, r: (s, [3]), "push gave a int, expected a SampleRecord"),
    ):
        stream = start(numbered(2)).stateful_transform(
            "s",
            init_state=list,
            push=push,  # type: ignore[arg-type]
            version=1,
        )
        with pytest.raises(OperatorError, match=f"stateful_transform.*{told}"):
            documents(stream)


def skewed(**options: Any) -> zephon.Pipeline:
    """Documents of two sources in equal shares, of which one loses three of four."""
    stream = start(numbered(40, 1), {"other": [{"tokens": [9000 + i], "n": i} for i in range(40)]})
    stream.map_transform(lambda d: None if d["tokens"][0] < 9000 and d["n"] % 4 else d)
    return stream.ensure_mixture(**options)


def test_shares_are_kept_as_long_as_a_window_allows() -> None:
    unchanged = documents(skewed(max_buffer_size=0))
    strict = documents(skewed(max_buffer_size=None, mixture={"m": 1, "other": 4}, window=64))
    assert sorted(strict) == sorted(unchanged)
    kinds = "".join("o" if d[0] >= 9000 else "m" for d in strict[:40])
    assert all(kinds[i : i + 5].count("m") == 1 for i in range(0, 40, 5))


def test_a_small_buffer_lets_out_what_is_too_much() -> None:
    bounded = documents(skewed(max_buffer_size=3, drain_target_ratio=0.5))
    assert sorted(bounded) == sorted(documents(skewed(max_buffer_size=0)))
    assert bounded != documents(skewed(max_buffer_size=None))


def test_documents_of_sources_without_a_share_trickle() -> None:
    found = documents(skewed(mixture={"m": 1}, obsolete_drain_rate=0.5, max_buffer_size=None))
    assert len(found) == 50
    first = "".join("o" if d[0] >= 9000 else "m" for d in found[:15])
    assert first == "mmo" * 5


def test_documents_weigh_what_is_asked_for(tokenizer_folder: Any) -> None:
    def make(weight_by: Any, **more: Any) -> list[int]:
        stream = start(
            [{"tokens": [i] * 3, "w": 3} for i in range(8)],
            {"other": [{"tokens": [9000 + i], "w": 1} for i in range(24)]},
        )
        stream.ensure_mixture(weight_by=weight_by, max_buffer_size=None, window=64, **more)
        return [d[0] for d in documents(stream)]

    by_field, by_tokens = make("w"), make("tokens")
    assert by_field == by_tokens == make(lambda r: len(r.payload["tokens"]), version=1)
    assert sum(d < 9000 for d in by_field[:16]) == 4  # 12 tokens of either
    assert make("samples") == make("auto") != by_field
    for weight_by, told in (
        ("nothing", "KeyError: .*no field 'nothing'"),
        (lambda r: -1.0, "the weight of the document is -1.0"),
    ):
        with pytest.raises(OperatorError, match=told):
            make(weight_by, version=1)


def test_a_share_that_is_off_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            documents(skewed(warn_tolerance=0.111, max_buffer_size=0))
        documents(skewed(warn_tolerance=0.9, max_buffer_size=0))
    told = [r.getMessage() for r in caplog.records if "ensure_mixture" in r.getMessage()]
    assert len(told) == 1
    assert "of lane 0 gave" in told[0]
    assert "asked are 50.0 %" in told[0]


WRONG: list[tuple[Callable[[zephon.Pipeline], Any], str]] = [
    (lambda p: p.map_transform(3), r"map_transform\(transform_fn=...\) is 3, expected a function"),
    (lambda p: p.map_transform(len, drop_none=1), "drop_none is 1, expected True or False"),
    (lambda p: p.map_transform(len, parallelism=0), "parallelism is 0, expected 1 to 1024"),
    (lambda p: p.map_transform(len, placement=1), "placement is 1, expected a str"),
    (lambda p: p.map_transform(len, version=1.5), "is 1.5, expected a str or an int"),
    (
        lambda p: p.map_transform(len, drop_nones=True),
        r"map_transform\(...\) has no option 'drop_nones': did you mean 'drop_none'\? It has: drop",
    ),
    (lambda p: p.map_batch(len, size=0), r"map_batch\(size=...\) is 0, expected 1 to 65536"),
    (lambda p: p.map_batch(None), r"map_batch\(transform_fn=...\) is None"),
    (lambda p: p.pack_flat(4).batch(1).map_batch(len, size=3), "behind batch"),
    (lambda p: p.pack_flat(4).map_batch(len), r"map_batch\(...\) belongs before pack_flat"),
    (lambda p: p.pack_flat(4).map_transform(len), r"map_transform\(...\) belongs before pack_flat"),
    (lambda p: p.stateful_transform("", init_state=list, push=len), "name is empty"),
    (lambda p: p.stateful_transform(3, init_state=list, push=len), "name is 3, expected a str"),
    (lambda p: p.stateful_transform("a", init_state=None, push=len), "init_state=...\\) is None"),
    (lambda p: p.stateful_transform("a", init_state=list, push=len, flush=1), "flush=...\\) is 1"),
    (lambda p: p.stateful_transform("a", init_state=list, push=len, indexable=3), "indexable is 3"),
    (lambda p: p.ensure_mixture(mixture={"x": 1}), "names 'x', but the datasets are 'm'"),
    (lambda p: p.ensure_mixture(mixture={}), "mixture is empty"),
    (lambda p: p.ensure_mixture(mixture={"m": 0}), r"mixture\['m'\] is 0, expected a finite num"),
    (lambda p: p.ensure_mixture(mixture={"m": "1"}), r"mixture\['m'\] is '1', expected a number"),
    (lambda p: p.ensure_mixture(mixture=3), "mixture is 3, expected a mapping"),
    (lambda p: p.ensure_mixture(drain_target_ratio=2), "drain_target_ratio is 2, expected 0 to 1"),
    (lambda p: p.ensure_mixture(obsolete_drain_rate="1"), "obsolete_drain_rate is '1', expected a"),
    (lambda p: p.ensure_mixture(max_buffer_size=-1), "max_buffer_size is -1"),
    (lambda p: p.ensure_mixture(weight_by=""), "weight_by is empty"),
    (lambda p: p.ensure_mixture(max_bufer_size=1), "did you mean 'max_buffer_size'"),
    (lambda p: p.split_long_samples(0), "max_length is 0"),
    (lambda p: p.decode_text(field=3), "field is 3, expected the name of a field"),
    (lambda p: p.decode_text(encode="x"), "no option 'encode': did you mean 'encoding'"),
    (lambda p: p.fetch_parallelism(0), "parallelism is 0"),
    (
        lambda p: p.map_batch(len, size=1000).ensure_mixture(window=1024),
        r"map_batch 1000, ensure_mixture 1024 draws\) begin together only every 128,000 draws",
    ),
]


@pytest.mark.parametrize(("call", "told"), WRONG)
def test_wrong_options_are_named(call: Callable[[zephon.Pipeline], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        call(start(numbered(3)))
    if "no option" in told or "expected a" in told:
        assert isinstance(caught.value, ConfigTypeError) or "finite" in told


def least(number: int) -> Callable[[Any], Any]:
    return lambda d: d if d["n"] >= number else None


def test_a_state_refuses_a_function_that_changed_by_its_name() -> None:
    def make(number: int, version: Any = None) -> zephon.Pipeline:
        stream = start(numbered(30)).map_transform(least(number), version=version)
        return stream.pack_flat(4).batch(1)

    stream = make(3)
    next(iter(stream))
    state = stream.checkpoint()
    make(3).restore(state)
    with pytest.raises(StateError, match=r"operators.0 map_transform\(.*least.<locals>.<lambda>\)"):
        make(4).restore(state)
    with pytest.raises(StateError, match=r"operators"):
        start(numbered(30)).pack_flat(4).batch(1).restore(state)


@pytest.mark.parametrize("algorithm", ["wrap", "best_fit"])
def test_a_change_that_a_version_hides_is_noticed_where_the_state_stands(algorithm: Any) -> None:
    def make(add: int) -> zephon.Pipeline:
        stream = start(numbered(30, 5)).map_transform(
            lambda d: {"tokens": d["tokens"] + add}, version="the same"
        )
        return stream.pack_flat(8, algorithm=algorithm).batch(1)

    stream = make(0)
    batches = iter(stream)
    next(batches)
    next(batches)
    state = stream.checkpoint()
    stream.close()
    make(0).restore(state)
    changed = make(1)
    changed.restore(state)
    with pytest.raises(StateError, match="a function changed"):
        next(iter(changed))


def test_a_document_that_gives_fewer_than_before_is_noticed() -> None:
    def make(parts: int) -> zephon.Pipeline:
        stream = start(numbered(30, 4)).map_transform(
            lambda d: [{"tokens": d["tokens"]}] * parts, version="the same"
        )
        return stream.pack_flat(4).batch(1)

    stream = make(3)
    batches = iter(stream)
    next(batches)
    next(batches)
    state = stream.checkpoint()
    assert zephon.state.decode(state["state"]).cursors[0].documents.child == 2
    stream.close()
    changed = make(2)
    changed.restore(state)
    with pytest.raises(StateError, match="draw 0 gives fewer documents than before"):
        next(iter(changed))


def test_a_state_without_operators_says_nothing_of_them() -> None:
    stream = start(numbered(30)).pack_flat(4).batch(1)
    next(iter(stream))
    state = zephon.state.decode(stream.checkpoint()["state"])
    assert not {"operators", "on_batches", "python"} & set(state.options)


def test_children_and_filters_make_the_round_through_bytes_and_cost_others_nothing() -> None:
    from dataclasses import replace

    from zephon.cursor import DocumentCursor, Dropped, LaneCursor

    stream = start(numbered(30)).options(canonical_replicas=2).pack_flat(4).batch(1)
    plain = stream.checkpoint()["state"]
    saved = zephon.state.decode(plain)
    cursors = (LaneCursor(DocumentCursor(7, 0, Dropped(filtered=300), child=2)), LaneCursor())
    made = zephon.state.encode(replace(saved, cursors=cursors))
    assert zephon.state.decode(made).cursors == cursors
    none = (LaneCursor(DocumentCursor(7)), LaneCursor())
    assert len(made) - len(zephon.state.encode(replace(saved, cursors=none))) == 2 + 5
    assert zephon.state.encode(saved) == plain


def test_lengths_and_shares_of_tokens_are_those_behind_the_operators() -> None:
    def halve(d: dict[str, Any]) -> Any:
        return None if d["n"] % 2 else [d, d]

    rows, other = numbered(40, 6), [{"tokens": [1] * 3, "n": 0} for _ in range(40)]
    stream = start(rows, {"other": other}, token_estimation=zephon.work.TokenEstimation())
    stream.map_transform(halve, version=1).pack_flat(9).batch(1)
    assert stream.ws.requires_token_priming
    next(iter(stream))
    assert not stream.ws.requires_token_priming
    assert stream.ws.weights[0] == stream.ws.weights[1]  # 12 / 2 and 3 * 2 tokens a draw
    text = stream.explain()
    assert "6.0 tokens a draw (exact)" in text
    stream.close()


@pytest.mark.parametrize("algorithm", ["wrap", "best_fit", "first_fit", "best_fit_wrap"])
def test_steps_are_counted_or_bounded_behind_the_operators(algorithm: Any) -> None:
    def make() -> zephon.Pipeline:
        stream = start(numbered(200, 9)).map_transform(functions.Cut(4))
        return stream.pack_flat(10, algorithm=algorithm).batch(1)

    steps = make().estimate_steps()
    assert steps is not None
    count = sum(1 for _ in make())
    assert steps[0] <= count <= steps[1]
    assert (steps[0] == steps[1]) == (algorithm == "wrap")


def test_a_pipeline_explains_and_checks_its_operators() -> None:
    stream = start(numbered(9)).map_transform(functions.keep).map_batch(functions.backwards)
    stream.ensure_mixture(placement="local").pack_flat(4).batch(1).map_batch(functions.keep)
    stream.fetch_parallelism(3, max_batch=7)
    text = stream.explain()
    for line in (
        "map_transform(user_functions.keep)",
        "map_batch(user_functions.backwards), in windows of 32 draws",
        "ensure_mixture(), in windows of 1,024 draws",
        "map_batch(user_functions.keep): each batch",
        "3 threads read and tokenize",
        "placement='local': options(runner=...) says where functions run",
        "max_batch=7: how many are read at a time follows from prefetch(...)",
    ):
        assert line in text
    assert "3 processes read and tok" in stream.options(runner="process").explain()
    assert ": 0 threads read and tok" in stream.options(runner="inline").explain()
    assert stream.validate().ok
    broken = start(numbered(9)).map_transform(functions.fail_always).pack_flat(4).batch(1)
    report = broken.validate()
    assert not report.ok
    assert {issue.op_name for issue in report.errors} >= {"map_transform"}
    assert "<memory>, record 1: map_transform(user_functions.fail_always) failed" in str(report)


def test_text_needs_no_tokenizer_if_functions_make_tokens_of_it(write_jsonl: Any) -> None:
    def spell(d: dict[str, Any]) -> dict[str, Any]:
        return {"input_ids": [ord(c) for c in d["text"]]}

    path = write_jsonl("t.jsonl", ["abc", "de"])
    work = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_path("t", path)], {"t": 1}, shuffle_shards=False
    )
    assert documents(zephon.Pipeline(work).map_transform(spell)) == [[97, 98, 99], [100, 101]]
    stream = zephon.Pipeline(work).map_transform(functions.keep)
    with pytest.raises(zephon.errors.DataError, match="t.jsonl, record 1.*has no token field"):
        documents(stream)
