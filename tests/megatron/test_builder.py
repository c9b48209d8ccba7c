import itertools
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError, ConfigTypeError, DataError, LifecycleError
from zephon.megatron import IndexedDataset, IndexedDatasetBuilder, optimal_dtype

DATA = Path(__file__).parents[1] / "data" / "indexed"
RECORDED = [
    case
    for case in json.loads((DATA / "index.json").read_text())
    if (DATA.parent / f"{case['prefix']}.npz").exists()
]


def same_bytes(prefix, name):
    for suffix in (".bin", ".idx"):
        assert Path(f"{prefix}{suffix}").read_bytes() == (DATA / f"{name}{suffix}").read_bytes()


def write(prefix, documents, **options):
    """``documents`` is a list of lists of sequences."""
    with IndexedDatasetBuilder(f"{prefix}.bin", **options) as builder:
        for sequences in documents:
            flat = [item for sequence in sequences for item in sequence]
            builder.add_document(flat, [len(sequence) for sequence in sequences])
        builder.finalize(f"{prefix}.idx")


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["prefix"])
def test_documents_give_the_bytes_of_the_reference(case, tmp_path):
    name = Path(case["prefix"]).name
    source = np.load(DATA / f"{name}.npz")
    bounds = source["docs"].tolist()
    before = np.concatenate([[0], np.cumsum(source["lengths"])])
    builder = IndexedDatasetBuilder(tmp_path / "a.bin", case["dtype"], case["multimodal"])
    for first, stop in itertools.pairwise(bounds):
        builder.add_document(
            source["tokens"][before[first] : before[stop]],
            source["lengths"][first:stop],
            source["modes"][first:stop] if case["multimodal"] else None,
        )
    builder.finalize(tmp_path / "a.idx")
    same_bytes(tmp_path / "a", name)


def test_items_and_ended_documents_give_the_bytes_of_the_reference(tmp_path):
    source = IndexedDataset(DATA / "additem_i32")
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        for first, stop in ((0, 1), (1, 3), (3, 5)):
            for at in range(first, stop):
                builder.add_item(source[at])
            builder.end_document()
        builder.finalize(tmp_path / "a.idx")
    same_bytes(tmp_path / "a", "additem_i32")


def test_merged_datasets_give_the_bytes_of_the_reference(tmp_path):
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        builder.add_index(DATA / "dt_i32")
        builder.add_index(DATA / "empty_i32.bin")
        builder.finalize(tmp_path / "a.idx")
    same_bytes(tmp_path / "a", "merged_i32")


def test_no_document_gives_the_bytes_of_the_reference(tmp_path):
    write(tmp_path / "a", [])
    same_bytes(tmp_path / "a", "nodocs_i32")
    assert len(IndexedDataset(tmp_path / "a")) == 0


def test_document_that_has_not_ended_is_refused(tmp_path):
    # The reference writes a pair that no reader takes: recorded as openend_i32.
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        builder.add_item([1, 2, 3])
        for act in (lambda: builder.finalize(tmp_path / "a.idx"), lambda: builder.add_index("x")):
            with pytest.raises(LifecycleError, match="document 0 has 1 sequences and has not end"):
                act()
        builder.end_document()
        builder.finalize(tmp_path / "a.idx")
    assert IndexedDataset(tmp_path / "a")[0].tolist() == [1, 2, 3]


SEQUENCES = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6)


@given(st.lists(st.lists(SEQUENCES, max_size=4), max_size=12))
def test_what_is_written_is_read(tmp_path_factory, documents):
    prefix = tmp_path_factory.mktemp("pair") / "a"
    write(prefix, documents)
    dataset = IndexedDataset(prefix)
    read = [part.tolist() for part in dataset]
    bounds = dataset.document_indices.tolist()
    joined = [read[a:b] for a, b in itertools.pairwise(bounds)]
    assert joined == documents


def test_merge_keeps_modes_and_drops_what_no_sequence_holds(tmp_path):
    with IndexedDatasetBuilder(tmp_path / "a.bin", np.uint16, multimodal=True) as builder:
        builder.add_item([1, 2], mode=3)
        builder.add_item([])
        builder.end_document()
        builder.add_document([4, 5], [1, 1], [-128, 127])
        builder.finalize(tmp_path / "a.idx")
    with open(tmp_path / "a.bin", "ab") as file:
        file.write(bytes(6))
    with IndexedDatasetBuilder(tmp_path / "b.bin", np.uint16, multimodal=True) as builder:
        for _ in range(2):
            with pytest.warns(UserWarning, match="6 trailing bytes"):
                builder.add_index(tmp_path / "a")
        builder.finalize(tmp_path / "b.idx")
    dataset = IndexedDataset(tmp_path / "b", multimodal=True)
    parts, modes = dataset[:]
    assert [part.tolist() for part in parts] == [[1, 2], [], [4], [5]] * 2
    assert modes.tolist() == [3, 0, -128, 127] * 2
    assert dataset.document_indices.tolist() == [0, 2, 4, 6, 8]


def test_merge_follows_the_pointers_of_a_dataset_in_another_order(tmp_path):
    write(tmp_path / "a", [[[1, 2, 3]], [[4]], [[5, 6]]])
    index = bytearray((tmp_path / "a.idx").read_bytes())
    index[34:46] = np.array([2, 3, 1], "<i4").tobytes()
    index[46:70] = np.array([16, 0, 12], "<i8").tobytes()
    (tmp_path / "a.idx").write_bytes(index)
    with IndexedDatasetBuilder(tmp_path / "b.bin") as builder:
        builder.add_index(tmp_path / "a")
        builder.finalize(tmp_path / "b.idx")
    assert [part.tolist() for part in IndexedDataset(tmp_path / "b")] == [[5, 6], [1, 2, 3], [4]]


def test_merge_of_another_dtype_is_refused(tmp_path):
    with (
        IndexedDatasetBuilder(tmp_path / "a.bin", np.uint16) as builder,
        pytest.raises(ConfigError, match=r"dt_i32 holds int32, but .* is written as uint16"),
    ):
        builder.add_index(DATA / "dt_i32")


@pytest.mark.parametrize(
    ("dtype", "value", "limits"),
    [
        (np.uint16, 65536, "0 to 65535"),
        (np.uint16, -1, "0 to 65535"),
        (np.int16, 32768, "-32768 to 32767"),
        (np.int32, 2**31, "-2147483648 to 2147483647"),
        (np.int64, 2**63, "-9223372036854775808 to"),
        (np.uint8, np.int8(-1), "0 to 255"),
        (np.float32, 1e39, "-3.4"),
    ],
)
def test_value_beyond_the_dtype_is_refused_with_its_document(tmp_path, dtype, value, limits):
    with IndexedDatasetBuilder(tmp_path / "a.bin", dtype) as builder:
        builder.add_document([1, 2], [1, 1])
        kind = np.uint64 if value == 2**63 else None
        items = np.array([0, value] if value != -1 else [np.int8(0), value], kind)
        with pytest.raises(
            DataError, match=rf"document 1, sequence 2 holds .* position 1.*{limits}"
        ):
            builder.add_document(items, [2])
        builder.finalize(tmp_path / "a.idx")
    assert len(IndexedDataset(tmp_path / "a")) == 2


def test_every_value_of_the_dtype_is_kept(tmp_path):
    for dtype in (np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64):
        limits = np.iinfo(dtype)
        write(tmp_path / "a", [[[limits.min, limits.max]]], dtype=dtype)
        assert IndexedDataset(tmp_path / "a")[0].tolist() == [limits.min, limits.max]


def test_infinity_and_nan_are_kept_where_items_are_floats(tmp_path):
    write(tmp_path / "a", [[[np.inf, -np.inf, np.nan, 0.5]]], dtype=np.float32)
    np.testing.assert_array_equal(
        IndexedDataset(tmp_path / "a")[0], np.array([np.inf, -np.inf, np.nan, 0.5], np.float32)
    )


@pytest.mark.parametrize("items", [[1.0], ["1"], [True], [None]])
def test_items_that_are_not_integers_are_refused(tmp_path, items):
    with (
        IndexedDatasetBuilder(tmp_path / "a.bin") as builder,
        pytest.raises(ConfigTypeError, match=r"int32 items are written, got .* in document 0"),
    ):
        builder.add_item(items)


def test_tensors_are_taken(tmp_path):
    torch = pytest.importorskip("torch")
    with IndexedDatasetBuilder(tmp_path / "a.bin", np.uint16) as builder:
        builder.add_item(torch.tensor([1, 65535]))
        builder.end_document()
        builder.finalize(tmp_path / "a.idx")
    assert IndexedDataset(tmp_path / "a")[0].tolist() == [1, 65535]


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([1, 1], ConfigError, "lengths of document 0 must .* sum to its 3 items, got"),
        ([4, -1], ConfigError, "must be at least 0"),
        ([], ConfigError, "sum to its 3 items"),
        ([3.0], ConfigTypeError, "lengths must be a list of integers"),
        (3, ConfigTypeError, "lengths must be a list of integers, got 3"),
    ],
)
def test_lengths_that_do_not_fit_the_items_are_refused(tmp_path, lengths, error, message):
    with (
        IndexedDatasetBuilder(tmp_path / "a.bin") as builder,
        pytest.raises(error, match=message),
    ):
        builder.add_document([1, 2, 3], lengths)


def test_other_arguments_that_cannot_work_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"dtype must be one of uint8, .* got complex128"):
        IndexedDatasetBuilder(tmp_path / "a.bin", np.complex128)
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        with pytest.raises(ConfigError, match=r"must have one dimension, got shape \(1, 2\)"):
            builder.add_item([[1, 2]])
        with pytest.raises(ConfigError, match="the builder is not multimodal"):
            builder.add_item([1], mode=1)
    with IndexedDatasetBuilder(tmp_path / "a.bin", multimodal=True) as builder:
        with pytest.raises(ConfigError, match="modes must be from -128 to 127"):
            builder.add_item([1], mode=128)
        with pytest.raises(ConfigError, match="modes must be one integer for each of 2 sequences"):
            builder.add_document([1, 2], [1, 1], [0])


def test_nothing_is_seen_until_the_index_is_whole(tmp_path):
    builder = IndexedDatasetBuilder(tmp_path / "a.bin")
    builder.add_document([1, 2], [2])
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin.partial"]
    builder.finalize(tmp_path / "a.idx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "a.idx"]


def test_older_pair_is_kept_until_the_new_one_is_whole(tmp_path):
    write(tmp_path / "a", [[[1, 2, 3]]])
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        builder.add_document([4], [1])
        assert IndexedDataset(tmp_path / "a")[0].tolist() == [1, 2, 3]
    assert IndexedDataset(tmp_path / "a")[0].tolist() == [1, 2, 3]
    write(tmp_path / "a", [[[4]]])
    assert IndexedDataset(tmp_path / "a")[0].tolist() == [4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "a.idx"]


def test_failed_finalize_removes_its_half_index_and_may_be_repeated(tmp_path, monkeypatch):
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        builder.add_document([4], [1])

        def full(*_):
            raise OSError("no space")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="no space"):
            builder.finalize(tmp_path / "a.idx")
        monkeypatch.undo()
        assert [path.name for path in tmp_path.iterdir()] == ["a.bin.partial"]
        builder.finalize(tmp_path / "a.idx")
    assert IndexedDataset(tmp_path / "a")[0].tolist() == [4]


def test_builder_that_is_finished_takes_no_more(tmp_path):
    builder = IndexedDatasetBuilder(tmp_path / "a.bin")
    builder.finalize(tmp_path / "a.idx")
    builder.close()
    for act in (
        lambda: builder.add_item([1]),
        lambda: builder.add_document([1], [1]),
        lambda: builder.add_index(DATA / "dt_i32"),
        builder.end_document,
        lambda: builder.finalize(tmp_path / "b.idx"),
    ):
        with pytest.raises(LifecycleError, match=r"a\.bin is finalized or closed"):
            act()


def test_memory_does_not_grow_with_the_sequences(tmp_path):
    item = np.arange(2, dtype=np.int32)
    with IndexedDatasetBuilder(tmp_path / "a.bin") as builder:
        builder.add_document(item, [2])
        tracemalloc.start()
        for _ in range(20_000):
            builder.add_document(item, [2])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        builder.finalize(tmp_path / "a.idx")
    assert peak < 200_000
    assert len(IndexedDataset(tmp_path / "a")) == 20_001


def test_dtype_follows_the_rule_of_megatron_or_the_greatest_id():
    assert optimal_dtype(65499) is np.uint16
    assert optimal_dtype(65500) is np.int32
    assert optimal_dtype(65500, greatest_id=5) is np.int32
    assert optimal_dtype(greatest_id=65535) is np.uint16
    assert optimal_dtype(greatest_id=65536) is np.int32
    assert optimal_dtype() is np.int32
    assert optimal_dtype(None) is np.int32
