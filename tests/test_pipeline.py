from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zephon
from zephon.errors import ConfigError, ConfigTypeError, DataError, LifecycleError, StateError
from zephon.ops.pack_options import ALGORITHMS, PackingAlgorithm
from zephon.types import SampleBatch

MakeDataset = Callable[..., zephon.Dataset]
Fingerprint = tuple[bytes, ...]


def work(*datasets: zephon.Dataset, **options: Any) -> zephon.StaticMixtureWorkSource:
    weights = {dataset.name: float(2 + i) for i, dataset in enumerate(datasets)}
    return zephon.StaticMixtureWorkSource(
        list(datasets), weights, **{"exhausted_policy": "repeat", "chunk_size": 16, **options}
    )


def pipeline(
    source: zephon.StaticMixtureWorkSource,
    *,
    length: int = 9,
    batch: int = 2,
    lanes: int = 1,
    ahead: int = 64,
) -> zephon.Pipeline:
    return (
        zephon.Pipeline(source)
        .pack_flat(length)
        .batch(batch)
        .prefetch(ahead, 2)
        .options(canonical_replicas=lanes)
    )


def content(batch: SampleBatch) -> Fingerprint:
    """All that a batch delivers, to the byte."""
    tensors = batch.to_training(
        return_labels=True, dtype=np.int64, return_document_ids=True, return_padding_mask=True
    )
    arrays = [value.tobytes() for value in tensors.values() if isinstance(value, np.ndarray)]
    return (*arrays, repr((batch.ids, batch.lane_ids, batch.chunk_ids)).encode())


def take(source: zephon.Pipeline, count: int) -> list[Fingerprint]:
    iterator = iter(source)
    found = [content(batch) for batch in islice(iterator, count)]
    source.close()
    return found


@pytest.fixture(scope="module")
def sources(memory_dataset: MakeDataset) -> list[zephon.Dataset]:
    return [
        memory_dataset("short", [3, 1, 4, 0, 1, 5, 9, 2, 6], base=10**6),
        memory_dataset("long", [40, 0, 17, 25], base=2 * 10**6, shards=2),
    ]


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("ahead", [0, 64])
def test_a_stream_stopped_anywhere_goes_on_with_the_same_bytes(
    sources: list[zephon.Dataset], lanes: int, ahead: int
) -> None:
    batches = 24
    expected = take(pipeline(work(*sources, seed=3), lanes=lanes, ahead=ahead), batches)
    for stop in range(batches + 1):
        first = pipeline(work(*sources, seed=3), lanes=lanes, ahead=ahead)
        delivered = take(first, stop)
        second = pipeline(work(*sources, seed=3), lanes=lanes, ahead=ahead)
        second.restore(first.checkpoint()["state"])
        assert delivered + take(second, batches - stop) == expected


def test_text_of_files_and_memory_is_mixed_and_read_as_it_was_written(
    tokenizer_folder: Path, write_jsonl: Callable[..., Path]
) -> None:
    texts = [f"the quick brown fox number {i}" for i in range(20)]
    text = zephon.Dataset.from_path("text", write_jsonl("t.jsonl", texts))
    rows = [{"text": "a lazy dog"}, {"text": ""}]
    memory = zephon.Dataset.from_dict("memory", {0: zephon.InMemoryShard(rows)})
    stream = (
        zephon.Pipeline(work(text, memory))
        .tokenize(tokenizer_id=tokenizer_folder, field="text")
        .pack_flat(64)
        .batch(1)
    )
    from tokenizers import Tokenizer

    decode = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json")).decode
    seen: set[str] = set()
    for batch in islice(iter(stream), 40):
        ids = batch.to_training(dtype=np.int64)["input_ids"][0].tolist()
        documents = decode(ids, skip_special_tokens=False).split("<bos>")[1:]
        seen.update(d.removesuffix("<eos>") for d in documents if d.endswith("<eos>"))
    stream.close()
    assert seen == {*texts, "a lazy dog"}


def test_lines_without_the_field_are_refused_also_if_they_hold_tokens(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text('{"tokens": [1, 2]}\n' * 3)
    stream = zephon.Pipeline(work(zephon.Dataset.from_path("t", path)))
    stream.tokenize(tokenizer_folder, field="text").pack_flat(8).batch(1)
    with pytest.raises(DataError, match="the field 'text' is missing; keys: tokens"):
        next(iter(stream))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_long_and_short_documents_come_in_all_batches(algorithm: PackingAlgorithm) -> None:
    def of_length(name: str, token: int, length: int) -> zephon.Dataset:
        rows = [{"tokens": [token] * length}] * 400
        return zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(rows)})

    source = work(of_length("long", 1, 60), of_length("short", 2, 6), shuffle_shards=False)
    stream = zephon.Pipeline(source).pack_flat(64, algorithm=algorithm).batch(32)
    for batch in islice(iter(stream), 40):
        counts = batch.token_counts()
        assert 0.05 < counts[1] / (counts[0] + counts[1]) < 0.25  # 0.13 in the mean
    stream.close()


def test_the_mixture_of_documents_is_the_one_asked_for(memory_dataset: MakeDataset) -> None:
    a = memory_dataset("a", [5] * 50)
    b = memory_dataset("b", [5] * 50, base=10**6)
    source = zephon.StaticMixtureWorkSource(
        [a, b], {"a": 0.7, "b": 0.3}, chunk_size=10, exhausted_policy="repeat"
    )
    stream = pipeline(source, length=50, batch=1)
    for batch in islice(iter(stream), 8):  # a row holds one chunk
        assert batch.document_counts() == {0: 7, 1: 3}
        assert batch.token_counts() == {0: 35, 1: 15}
    stream.close()


def test_the_microbatch_size_may_change_when_resuming(sources: list[zephon.Dataset]) -> None:
    def rows(stream: zephon.Pipeline, count: int) -> list[bytes]:
        found = [
            row.tobytes()
            for batch in islice(iter(stream), count)
            for row in batch.to_training(dtype=np.int64)["input_ids"]
        ]
        stream.close()
        return found

    expected = rows(pipeline(work(*sources), batch=1), 30)
    first = pipeline(work(*sources), batch=2)
    delivered = rows(first, 6)
    second = pipeline(work(*sources), batch=3)
    second.restore(first.checkpoint())
    assert delivered + rows(second, 6) == expected


def test_a_batch_may_be_closed_over_and_the_pipeline_goes_on_where_it_was(
    sources: list[zephon.Dataset],
) -> None:
    expected = take(pipeline(work(*sources)), 6)
    stream = pipeline(work(*sources))
    found = [content(batch) for batch in islice(iter(stream), 2)]
    stream.close()
    found += [content(batch) for batch in islice(iter(stream), 4)]
    stream.close()
    assert found == expected


def test_nothing_runs_before_iteration_and_nothing_after_it(
    sources: list[zephon.Dataset],
) -> None:
    def running() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("zephon")]

    def settle() -> list[str]:
        deadline = time.monotonic() + 30  # dropping an iterator signals and does not wait
        while running() and time.monotonic() < deadline:
            time.sleep(0.01)
        return running()

    assert settle() == []  # of what other tests dropped
    stream = pipeline(work(*sources))
    stream.restore(stream.checkpoint())
    assert running() == []
    iterator = iter(stream)
    assert running() == []
    next(iterator)
    assert running() != []
    stream.close()
    assert running() == []
    with pytest.raises(StopIteration):
        next(iterator)
    for _ in stream:
        break  # the iterator is dropped, and with it its threads
    del _
    assert settle() == []
    inline = pipeline(work(*sources), ahead=0)
    next(iter(inline))
    assert running() == []


def test_closing_waits_for_the_threads_of_an_iteration_that_was_left(
    sources: list[zephon.Dataset], tokenizer_folder: Path
) -> None:
    at_work = threading.Semaphore(0)

    def slowly(record: dict[str, object]) -> dict[str, object]:
        at_work.release()
        time.sleep(0.02)
        return record

    def made() -> zephon.Pipeline:
        records = [{"text": "the quick brown fox"}] * 64
        data = zephon.Dataset.from_dict("c", {0: zephon.InMemoryShard(records)})
        stream = zephon.Pipeline(zephon.StaticMixtureWorkSource([data], {"c": 1.0}))
        stream = stream.map_transform(slowly).prefetch(64).tokenize(tokenizer_folder, field="text")
        return stream.pack_flat(9).batch(1)

    before = set(threading.enumerate())  # of what other tests dropped
    stream = made()
    for again in (False, True):
        next(iter(stream))  # the iterator is dropped while its threads are at work
        assert at_work.acquire(timeout=30)
        if again:
            next(iter(stream))
        stream.close()
        assert set(threading.enumerate()) <= before


def test_closing_waits_for_no_more_than_the_call_that_runs(tokenizer_folder: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    called: list[object] = []

    def slowly(record: dict[str, object]) -> dict[str, object]:
        called.append(record)
        begun.set()
        assert go_on.wait(timeout=60)
        return record

    records = [{"text": "the quick brown fox"}] * 64
    data = zephon.Dataset.from_dict("c", {0: zephon.InMemoryShard(records)})
    stream = zephon.Pipeline(zephon.StaticMixtureWorkSource([data], {"c": 1.0}))
    stream = stream.map_transform(slowly).prefetch(64, 1).tokenize(tokenizer_folder, field="text")
    iterator = iter(stream.pack_flat(9).batch(1))
    waiting = threading.Thread(target=lambda: next(iterator, None))
    waiting.start()
    assert begun.wait(timeout=60)
    closing = threading.Thread(target=stream.close)
    closing.start()
    while not iterator._stream._closed:
        time.sleep(0.001)
    go_on.set()
    for one in (closing, waiting):
        one.join(timeout=60)
        assert not one.is_alive()
    assert len(called) == 1


def test_what_a_pass_left_out_is_told_until_the_next_one_begins(
    memory_dataset: MakeDataset,
) -> None:
    data = memory_dataset("c", [3, 12, 0, 5] * 20)
    source = zephon.StaticMixtureWorkSource([data], {"c": 1.0}, exhausted_policy="redistribute")
    stream = zephon.Pipeline(source).pack_flat(8, drop_oversized=True).batch(1, drop_last=False)
    stream.options(vocab_size=10**6)
    assert len(list(stream)) > 0
    left_out = stream.dropped()
    assert (left_out.empty, left_out.oversized, left_out.oversized_tokens) == (20, 20, 240)
    assert stream.passes == 1
    next(iter(stream))
    stream.close()
    assert 0 < stream.dropped().empty < 20


def test_closing_from_another_thread_ends_a_wait_and_keeps_the_position(
    sources: list[zephon.Dataset],
) -> None:
    for _ in range(20):
        stream = pipeline(work(*sources))
        timer = threading.Timer(0.01, stream.close)
        iterator = iter(stream)  # closing what was not begun would end nothing
        timer.start()
        count = sum(1 for _ in iterator)
        timer.join()
        assert stream.passes == 0
        assert f"delivered: {count:,} lane" in zephon.state.describe(stream.local_state())


def test_a_pipeline_in_a_cycle_is_collected_from_any_thread_without_a_deadlock(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    """The collector may run in the stream's own threads: its finalizers must not wait."""
    script = f"""
import gc, json, time
from pathlib import Path
import zephon
from zephon.loader import ZephonDataLoader
path = Path({str(tmp_path)!r}, "t.jsonl")
line = json.dumps({{"text": "the quick brown fox " * 30}}) + "\\n"
path.write_text(line * 400)
gc.set_threshold(50, 2, 2)
class Trainer: pass
for _ in range(15):
    source = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_path("t", path)], {{"t": 1}}, exhausted_policy="repeat")
    stream = zephon.Pipeline(source).tokenize({str(tokenizer_folder)!r}, field="text")
    trainer = Trainer()
    trainer.loader = ZephonDataLoader(stream.pack_flat(65).batch(2).prefetch(512, 2))
    trainer.loader.owner = trainer
    next(trainer.loader)
    del trainer, stream, source
    time.sleep(0.02)
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "end\n"
    assert "cannot join" not in done.stderr


def test_negative_ids_are_refused_where_no_vocabulary_is_known() -> None:
    rows = [{"tokens": np.array([1, -2, 3], np.int16)}]
    source = work(zephon.Dataset.from_dict("m", {0: zephon.InMemoryShard(rows)}))
    batch = next(iter(pipeline(source, length=3, batch=1)))
    with pytest.raises(DataError, match="dataset 'm', document 0: token 1 is -2, but ids are not"):
        batch.to_training()


def test_a_bin_file_that_shrinks_in_use_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    from zephon.megatron.builder import IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(f"{tmp_path}/t.bin", dtype=np.int32)
    for _ in range(40):
        builder.add_document(np.arange(1000, dtype=np.int32), [1000])
    builder.finalize(f"{tmp_path}/t.idx")
    for ahead in (0, 64):
        stream = pipeline(work(zephon.Dataset.from_path("t", tmp_path / "t")), length=2000)
        batch = next(iter(stream.prefetch(ahead)))
        size = os.path.getsize(tmp_path / "t.bin")
        os.truncate(tmp_path / "t.bin", 4096)
        with pytest.raises(DataError, match="t.bin: had 160000 bytes of tokens .* has 4096 now"):
            batch.to_training(return_labels=True)
        stream.close()
        os.truncate(tmp_path / "t.bin", size)


def test_a_rare_source_is_waited_for(memory_dataset: MakeDataset) -> None:
    source = zephon.StaticMixtureWorkSource(
        [memory_dataset("none", [0, 0, 0]), memory_dataset("some", [8, 8])],
        {"none": 0.9995, "some": 0.0005},
        exhausted_policy="repeat",
    )
    stream = pipeline(source, length=8, batch=1)
    assert next(iter(stream)).token_counts() == {1: 8}
    stream.close()


def test_an_error_in_the_data_reaches_the_consumer_with_its_place(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "fine"}\n' * 30 + '{"txt": "not"}\n')
    for ahead in (0, 256):
        source = work(zephon.Dataset.from_path("bad", path), shuffle_shards=False)
        stream = (
            zephon.Pipeline(source)
            .tokenize(tokenizer_folder, field="text")
            .pack_flat(8)
            .batch(1)
            .prefetch(ahead)
        )
        with pytest.raises(DataError, match=r"bad.jsonl, record 31, byte 510: the field 'text'"):
            list(stream)
        assert stream._stream is None


def test_ids_outside_the_vocabulary_are_named_by_document(memory_dataset: MakeDataset) -> None:
    dataset = memory_dataset("m", [10, 10])  # ids 0.. and 1000..
    source = work(dataset, shuffle_shards=False)
    stream = pipeline(source, length=16, batch=1).options(vocab_size=1005)
    batch = next(iter(stream))
    stream.close()
    with pytest.raises(
        DataError,
        match=r"<memory>, record 2: dataset 'm', document 1: token 5 is 1005, outside the "
        r"vocabulary of 1005 ids",
    ):
        batch.to_training(return_labels=True)


CHANGES: list[tuple[str, Callable[[list[zephon.Dataset]], zephon.Pipeline]]] = [
    (r"work.seed \(0, 1\)", lambda s: pipeline(work(*s, seed=1))),
    (r"work.chunk_size \(16, 32\)", lambda s: pipeline(work(*s, chunk_size=32))),
    (r"pack.max_length \(9, 10\)", lambda s: pipeline(work(*s), length=10)),
    (r"canonical_replicas \(1, 2\)", lambda s: pipeline(work(*s), lanes=2)),
    (r"pack.pad_tail \(False, True\)", lambda s: pipeline(work(*s)).options(tail="pad")),
    (
        r"shuffle \(None, {'buffer_size': 4, 'seed': 0}\)",
        lambda s: zephon.Pipeline(work(*s)).pack_flat(9).shuffle(4).batch(2),
    ),
    (
        r"pack.algorithm \('wrap', 'best_fit'\)",
        lambda s: zephon.Pipeline(work(*s)).pack_flat(9, algorithm="best_fit").batch(2),
    ),
    ("source 'short' is gone", lambda s: pipeline(work(s[1]))),
    (r"the order of sources", lambda s: pipeline(work(*s[::-1]))),
    ("shuffle_within_shard", lambda s: pipeline(work(*s, shuffle_within_shard=True))),
    ("shuffle_block_size", lambda s: pipeline(work(*s, shuffle_block_size=2))),
    ("shuffle_shards", lambda s: pipeline(work(*s, shuffle_shards=False))),
    ("reshuffle_on_repeat", lambda s: pipeline(work(*s, reshuffle_on_repeat=False))),
]


@pytest.mark.parametrize(("message", "make"), CHANGES)
def test_a_state_of_another_stream_is_refused_with_what_differs(
    sources: list[zephon.Dataset],
    message: str,
    make: Callable[[list[zephon.Dataset]], zephon.Pipeline],
) -> None:
    state = pipeline(work(*sources)).checkpoint()
    with pytest.raises(StateError, match=message):
        make(sources).restore(state)


def test_a_state_with_other_weights_names_them(sources: list[zephon.Dataset]) -> None:
    state = pipeline(work(*sources)).checkpoint()
    other = zephon.StaticMixtureWorkSource(
        sources, {"short": 1, "long": 1}, chunk_size=16, exhausted_policy="repeat"
    )
    with pytest.raises(
        StateError, match=r"share of 'short' \(40.0000%, 50.0000%\); share of 'long' \(60"
    ):
        pipeline(other).restore(state)


def test_a_state_with_another_tokenizer_is_refused(
    tokenizer_folder: Path, write_jsonl: Callable[..., Path]
) -> None:
    source = work(zephon.Dataset.from_path("t", write_jsonl("t.jsonl", ["a", "b"])))

    def make(**options: Any) -> zephon.Pipeline:
        return (
            zephon.Pipeline(source)
            .tokenize(tokenizer_folder, field="text", **options)
            .pack_flat(9)
            .batch(1)
        )

    with pytest.raises(StateError, match="tokenizer"):
        make(special_tokens="eos").restore(make().checkpoint())


def test_files_that_changed_under_the_same_name_are_refused(
    tokenizer_folder: Path, write_jsonl: Callable[..., Path]
) -> None:
    def make(texts: list[object]) -> zephon.Pipeline:
        source = work(zephon.Dataset.from_path("t", write_jsonl("t.jsonl", texts)))
        return (
            zephon.Pipeline(source).tokenize(tokenizer_folder, field="text").pack_flat(9).batch(1)
        )

    state = make(["abc", "def"]).checkpoint()
    with pytest.raises(StateError, match="content of 't': same size, but its files have changed"):
        make(["abc", "dxf"]).restore(state)
    with pytest.raises(StateError, match=r"'t' bytes \(32, 48\); 't' documents \(2, 3\)"):
        make(["abc", "def", "ghi"]).restore(state)
    make(["abc", "def"]).restore(state)


def test_a_checkpoint_of_another_package_or_shape_is_refused(
    sources: list[zephon.Dataset],
) -> None:
    stream = pipeline(work(*sources))
    with pytest.raises(StateError, match="checkpoint of the registry's package named zephon"):
        stream.restore({"world": 1, "replay_cursors": {}, "version": 3})
    with pytest.raises(StateError, match="Expected 'state' bytes in the checkpoint, found .* a, b"):
        stream.restore({"a": 1, "b": 2})
    with pytest.raises(ConfigTypeError, match="Expected a state as bytes .* got int"):
        stream.restore(3)  # type: ignore[arg-type]
    data = bytearray(stream.checkpoint()["state"])
    data[40] ^= 1
    with pytest.raises(StateError, match="checksum"):
        stream.restore(bytes(data))


def test_checkpoint_counts_batches_by_lane(sources: list[zephon.Dataset]) -> None:
    stream = pipeline(work(*sources), lanes=4)
    take(stream, 6)
    checkpoint = stream.checkpoint()
    assert checkpoint["lane_emitted"] == {0: 2, 1: 2, 2: 1, 3: 1}
    assert checkpoint["version"] == 1
    assert "delivered: 6 lane-batches over 4 lanes" in zephon.state.describe(checkpoint["state"])


def test_calls_in_the_wrong_order_or_twice_are_refused(
    sources: list[zephon.Dataset], tokenizer_folder: Path
) -> None:
    source = work(*sources)
    with pytest.raises(ConfigError, match=r"batch\(...\) needs rows: call pack_flat"):
        zephon.Pipeline(source).batch(2)
    with pytest.raises(ConfigError, match=r"tokenize\(...\) belongs before pack_flat"):
        zephon.Pipeline(source).pack_flat(8).tokenize(tokenizer_folder, field="text")
    with pytest.raises(ConfigError, match=r"shuffle\(...\) needs rows: call pack_flat"):
        zephon.Pipeline(source).shuffle(4)
    with pytest.raises(ConfigError, match=r"shuffle\(...\) belongs before batch"):
        zephon.Pipeline(source).pack_flat(8).batch(2).shuffle(4)
    with pytest.raises(ConfigError, match=r"pack_flat\(...\) was called already"):
        zephon.Pipeline(source).pack_flat(8).pack_flat(8)
    with pytest.raises(ConfigError, match=r"not complete: call pack_flat"):
        iter(zephon.Pipeline(source))
    with pytest.raises(ConfigError, match=r"call pack_flat\(...\) before this"):
        zephon.Pipeline(source).checkpoint()
    with pytest.raises(ConfigError, match="either a tokenizer or a tokenizer_id"):
        zephon.Pipeline(source).tokenize(field="text")
    with pytest.raises(ConfigError, match="either a tokenizer or a tokenizer_id"):
        zephon.Pipeline(source).tokenize("a", "b", field="text")
    with pytest.raises(ConfigTypeError, match="work_source is a list, expected a WorkSource"):
        zephon.Pipeline(sources)  # type: ignore[arg-type]


def test_options_out_of_range_and_unknown_ones_are_named(
    sources: list[zephon.Dataset], tokenizer_folder: Path
) -> None:
    def make() -> zephon.Pipeline:
        return zephon.Pipeline(work(*sources))

    with pytest.raises(TypeError, match="no option 'canonical_replica': did you mean 'canonical_r"):
        make().options(canonical_replica=3)
    with pytest.raises(ConfigError, match="canonical_replicas is 0, expected 1 to 65536"):
        make().options(canonical_replicas=0)
    with pytest.raises(ConfigError, match="is 6, which dp_degree 4 does not divide.* 1, 2, 3, 6"):
        make().options(canonical_replicas=6, dp_degree=4)
    with pytest.raises(ConfigError, match="dp_group_id is 2, expected 0 to 1"):
        make().options(dp_degree=2, dp_group_id=2)
    with pytest.raises(ConfigError, match="world_size and global_rank belong together"):
        make().options(world_size=2)
    with pytest.raises(ConfigError, match="world_size is 1, expected 2 to"):
        make().options(dp_degree=2, world_size=1, global_rank=0)
    with pytest.raises(ConfigError, match="global_rank is 2, expected 0 to 1"):
        make().options(world_size=2, global_rank=2)
    with pytest.raises(ConfigError, match="aggregate_dir and aggregate_store need a run_id"):
        make().options(aggregate_dir="x")
    with pytest.raises(ConfigError, match="are two ways: give one of them"):
        make().options(aggregate_dir="x", aggregate_store=object(), run_id="r")
    with pytest.raises(ConfigError, match="aggregate_timeout is 0, expected seconds > 0"):
        make().options(aggregate_timeout=0)
    with pytest.raises(ConfigError, match="tail is 'keep', expected 'drop', 'pad' or None"):
        make().options(tail="keep")
    with pytest.raises(ConfigError, match="end is 'soon', expected 'agree', 'filler' or 'known'"):
        make().options(end="soon")
    with pytest.raises(ConfigTypeError, match="drop_last is 1, expected True or False"):
        make().pack_flat(8).batch(2, drop_last=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="pad_token_id is 9, outside the vocabulary of 9 ids"):
        make().options(vocab_size=9).pack_flat(8, pad_token_id=9)
    with pytest.raises(ConfigTypeError, match="vocab_size is 1.5, expected an int"):
        make().options(vocab_size=1.5)
    with pytest.raises(ConfigError, match="microbatch_size is 0, expected 1 to"):
        make().pack_flat(8).batch(0)
    with pytest.raises(ConfigError, match="buffer_size is -1, expected 0 to"):
        make().prefetch(-1)
    with pytest.raises(ConfigError, match="parallelism is 0, expected 1 to"):
        make().prefetch(8, 0)
    stream = make().options(vocab_size=100)
    with pytest.raises(ConfigError, match="vocab_size is 100, but the tokenizer makes ids up to 2"):
        stream.tokenize(tokenizer_folder, field="text")
    stream.options(vocab_size=300).tokenize(tokenizer_folder, field="text")  # nothing was changed


def test_jsonl_without_a_tokenizer_is_refused_before_anything_is_read(
    write_jsonl: Callable[..., Path],
) -> None:
    source = work(zephon.Dataset.from_path("t", write_jsonl("t.jsonl", ["a"])))
    with pytest.raises(ConfigError, match=r"dataset 't' is text, but .* no tokenize"):
        iter(zephon.Pipeline(source).pack_flat(8).batch(1))


def test_records_without_tokens_tell_to_tokenize() -> None:
    source = work(zephon.Dataset.from_dict("m", {0: zephon.InMemoryShard([{"text": "a"}])}))
    stream = zephon.Pipeline(source).pack_flat(8).batch(1)
    with pytest.raises(DataError, match="found text. Add .tokenize"):
        next(iter(stream))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.5], "holds float64 values, expected integer"),
        ([[1], [2]], "has 2 dimensions"),
        (np.array([1], np.uint64), "holds uint64 values"),
        (["a"], "holds <U1 values, expected integer token ids"),
        ([None], "holds object values, expected integer token ids"),
    ],
)
def test_tokens_of_other_types_are_refused(value: object, message: str) -> None:
    rows: list[dict[str, object]] = [{"input_ids": value}]
    source = work(zephon.Dataset.from_dict("m", {0: zephon.InMemoryShard(rows)}))
    with pytest.raises(DataError, match=rf"<memory>, record 1: the field 'input_ids' {message}"):
        next(iter(pipeline(source)))


def test_changes_while_iterating_and_after_are_refused(sources: list[zephon.Dataset]) -> None:
    stream = pipeline(work(*sources))
    iterator: Iterator[SampleBatch] = iter(stream)
    next(iterator)
    for call in (
        lambda: stream.restore(b""),
        lambda: stream.prefetch(8),
        lambda: stream.options(vocab_size=10**9),
        lambda: stream.batch(2),
        lambda: iter(stream),
    ):
        with pytest.raises(LifecycleError, match="being iterated"):
            call()
    stream.close()
    with pytest.raises(LifecycleError, match="would change the stream"):
        stream.batch(2)
    with pytest.raises(LifecycleError, match="canonical_replicas cannot change now"):
        stream.options(canonical_replicas=2)


def test_state_size_does_not_grow_with_the_position(sources: list[zephon.Dataset]) -> None:
    stream = pipeline(work(*sources), lanes=8)
    start = len(stream.checkpoint()["state"])
    take(stream, 200)
    assert len(stream.checkpoint()["state"]) <= start + 8 * 12
