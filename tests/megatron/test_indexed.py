import copy
import itertools
import json
import multiprocessing
import operator
import os
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.megatron import IndexedDataset

DATA = Path(__file__).parents[1] / "data"
RECORDED = [
    case
    for case in json.loads((DATA / "indexed" / "index.json").read_text())
    if (DATA / f"{case['prefix']}.npz").exists()
]
HEADER = struct.Struct("<9sQBQQ")


def bad(name):
    return DATA / "badfiles" / name


def write_index(
    prefix, lengths, pointers, documents, code=4, version=1, tail=b"", counts=None, items=None
):
    """A pair whose tables are as given, whether or not they make sense."""
    n, m = counts or (len(lengths), len(documents))
    Path(f"{prefix}.idx").write_bytes(
        HEADER.pack(b"MMIDIDX\0\0", version, code, n, m)
        + np.array(lengths, "<i4").tobytes()
        + np.array(pointers, "<i8").tobytes()
        + np.array(documents, "<i8").tobytes()
        + tail
    )
    total = sum(lengths) if items is None else items
    Path(f"{prefix}.bin").write_bytes(np.arange(total, dtype="<i4").tobytes())
    return prefix


@pytest.fixture
def small(tmp_path):
    """Sequences 0 1 2 | (empty) | 3 4 | 5 6 7 8 in documents of 2, 0 and 2 sequences."""
    return write_index(tmp_path / "small", [3, 0, 2, 4], [0, 12, 12, 20], [0, 2, 2, 4])


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["prefix"])
@pytest.mark.parametrize("mmap", [True, False])
def test_recorded_dataset_reads_as_it_was_written(case, mmap):
    expected = np.load(DATA / f"{case['prefix']}.npz")
    dataset = IndexedDataset(DATA / case["prefix"], multimodal=case["multimodal"], mmap=mmap)
    assert dataset.dtype == case["dtype"]
    assert len(dataset) == case["sequences"]
    np.testing.assert_array_equal(dataset.sequence_lengths, expected["lengths"], strict=True)
    np.testing.assert_array_equal(dataset.document_indices, expected["docs"], strict=True)
    np.testing.assert_array_equal(
        dataset.sequence_starts, expected["pointers"] // expected["tokens"].itemsize, strict=True
    )
    np.testing.assert_array_equal(dataset.items, expected["tokens"], strict=True)
    ends = np.cumsum(expected["lengths"])
    for at, end in enumerate(ends.tolist()):
        part = dataset[at]
        if case["multimodal"]:
            part, mode = part
            assert mode == expected["modes"][at]
        start = end - int(expected["lengths"][at])
        np.testing.assert_array_equal(part, expected["tokens"][start:end], strict=True)


@pytest.mark.parametrize("suffix", ["", ".bin", ".idx"])
def test_path_may_end_in_either_suffix(small, suffix):
    dataset = IndexedDataset(f"{small}{suffix}")
    assert dataset.path_prefix == str(small)
    assert IndexedDataset.exists(f"{small}{suffix}")
    assert not IndexedDataset.exists(f"{small}2{suffix}")


def test_mapped_items_are_views_that_cannot_be_written(small):
    dataset = IndexedDataset(small)
    assert np.shares_memory(dataset[3], dataset.tokens)
    with pytest.raises(ValueError, match="read-only"):
        dataset[3][0] = 1


@pytest.mark.parametrize("mmap", [True, False])
def test_sequences_are_found_by_positive_and_negative_numbers(small, mmap):
    dataset = IndexedDataset(small, mmap=mmap)
    assert [part.tolist() for part in dataset] == [[0, 1, 2], [], [3, 4], [5, 6, 7, 8]]
    assert dataset[-1].tolist() == [5, 6, 7, 8]
    assert dataset[np.int64(-4)].tolist() == [0, 1, 2]
    assert [part.tolist() for part in dataset[1:3]] == [[], [3, 4]]
    assert [part.tolist() for part in dataset[-2:]] == [[3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("mmap", [True, False])
def test_part_of_a_sequence_is_given(small, mmap):
    dataset = IndexedDataset(small, mmap=mmap)
    assert dataset.get(3, 1, 2).tolist() == [6, 7]
    assert dataset.get(3, offset=3).tolist() == [8]
    assert dataset.get(3, 4).tolist() == []
    assert dataset.get(-1, 0, 0).tolist() == []


def test_slice_of_nothing_has_one_empty_part_as_in_megatron(small):
    (part,) = IndexedDataset(small)[2:2]
    assert part.tolist() == []
    assert part.dtype == np.int32


def test_multimodal_slice_has_the_modes():
    parts, modes = IndexedDataset(bad("mg_25_multimodal_modes"), multimodal=True)[1:3]
    assert [len(part) for part in parts] == [3, 7]
    assert modes.tolist() == [1, 0]


@pytest.mark.parametrize("index", [4, -5, 2**40])
def test_number_out_of_range_is_an_index_error(small, index):
    with pytest.raises(IndexError, match=rf"sequence {index} of .*small is out of range: it has 4"):
        IndexedDataset(small)[index]


@pytest.mark.parametrize("index", ["1", 1.0, None, [1]])
def test_index_of_another_type_is_a_type_error(small, index):
    with pytest.raises(ConfigTypeError, match="integer or a slice, got"):
        IndexedDataset(small)[index]


@pytest.mark.parametrize("step", [2, -1])
def test_slice_with_a_step_is_refused(small, step):
    with pytest.raises(ConfigError, match=f"must have step 1, got {step}"):
        IndexedDataset(small)[::step]


@pytest.mark.parametrize(("offset", "length"), [(5, None), (-1, 2), (0, 5), (2, 3), (0, -1)])
def test_part_that_leaves_the_sequence_is_refused(small, offset, length):
    with pytest.raises(ConfigError, match=r"sequence 3 of .* has 4 items; offset"):
        IndexedDataset(small).get(3, offset, length)


def test_tables_are_aligned_copies(small):
    dataset = IndexedDataset(small)
    for table in (dataset.sequence_lengths, dataset.sequence_starts, dataset.document_indices):
        assert table.flags.aligned
        assert table.flags.c_contiguous
        assert not table.flags.writeable
    assert dataset.sequence_modes is None
    assert dataset.sequence_starts.tolist() == [0, 3, 3, 5]


def test_sequences_may_overlap_and_lie_in_any_order(tmp_path):
    dataset = IndexedDataset(write_index(tmp_path / "a", [2, 3], [8, 0], [0, 2], items=4))
    assert [part.tolist() for part in dataset] == [[2, 3], [0, 1, 2]]


# What must be said about each damaged pair.
REFUSED = {
    "mg_01_bad_magic": r"mg_01_bad_magic\.idx, byte 0: magic is b'TNTIDX.*expected b'MMIDIDX"
    r".*not a Megatron index of version 1 but a legacy one",
    "mg_02_version2": r"mg_02_version2\.idx, byte 9: version 2 is not supported, only 1",
    "mg_03_dtype99": r"unknown dtype code 99; the codes are 1 \(uint8\), .* 8 \(uint16\)",
    "mg_05_idx_0byte": r"mg_05_idx_0byte\.idx: the index is empty \(0 bytes\): was its writer",
    "mg_07_idx_short_tables": r"the index has 61 bytes, but 4 sequences and 5 document index "
    r"entries need 122",
    "mg_08_bin_short": r"mg_08_bin_short\.bin: the file has 50 bytes, but its index .*\.idx needs "
    r"64: sequence 2 goes from byte 32 to byte 60",
    "mg_10_no_bin": r"mg_10_no_bin\.bin: the data file of .*mg_10_no_bin\.idx is missing",
    "mg_12_neg_len": r"mg_12_neg_len\.idx, byte 38: sequence 1 has length -3; the least is 0",
    "mg_14_ptr_past_end": r"\.bin: the file has 64 bytes, but its index .* needs 1099511627780: "
    r"sequence 3 goes from byte 1099511627776 to byte 1099511627780",
    "mg_16_docidx_unmerged": r"the document index ends at 0, expected 4, .*add_index",
    "mg_17_docidx_unsorted": r"not sorted: document 1 begins at sequence 3 and ends before "
    r"sequence 2",
}
READ = {
    "mg_00_ok": [5, 3, 7, 1],
    "mg_04_dtype_float": [5, 3, 7, 1],
    "mg_11_zero_len_docs": [5, 0, 3, 0],
    "mg_20_zero_seqs": [],
    "mg_23_id_over_vocab": [5, 3, 7, 1],
    "mg_25_multimodal_modes": [5, 3, 7, 1],
    "mg_28_multi_seq_doc": [5, 3, 7, 1],
}
WARNED = {"mg_22_dtype_mismatch"}


def test_every_damaged_pair_is_tested():
    names = {path.stem for path in (DATA / "badfiles").glob("mg_*.idx")}
    assert names == REFUSED.keys() | READ.keys() | WARNED


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_pair_is_refused_when_it_is_opened(name):
    with pytest.raises(DataError, match=REFUSED[name]):
        IndexedDataset(bad(name))


@pytest.mark.parametrize("name", READ)
def test_odd_but_sound_pair_is_read(name):
    dataset = IndexedDataset(bad(name))
    assert [len(part) for part in dataset] == READ[name]
    assert np.concatenate([np.zeros(0, dataset.dtype), *dataset]).size == len(dataset.items)


def test_items_after_the_last_sequence_are_warned_about():
    with pytest.warns(UserWarning, match="32 trailing bytes are not covered by the index, which"):
        dataset = IndexedDataset(bad("mg_22_dtype_mismatch"))
    assert [len(part) for part in dataset] == [5, 3, 7, 1]


def test_document_of_several_sequences_is_their_join():
    dataset = IndexedDataset(bad("mg_28_multi_seq_doc"))
    bounds = dataset.document_indices.tolist()
    lengths = dataset.sequence_lengths
    joined = [int(lengths[a:b].sum()) for a, b in itertools.pairwise(bounds)]
    assert joined == [8, 8]


def test_empty_document_without_a_sequence_is_kept():
    dataset = IndexedDataset(bad("mg_11_zero_len_docs"))
    assert dataset.document_indices.tolist() == [0, 1, 2, 2, 3, 4]


def test_modes_are_read_on_request():
    dataset = IndexedDataset(bad("mg_25_multimodal_modes"), multimodal=True)
    assert dataset.sequence_modes.tolist() == [0, 1, 0, 1]
    part, mode = dataset[1]
    assert (len(part), mode) == (3, 1)
    with pytest.raises(DataError, match="with modes need 126"):
        IndexedDataset(bad("mg_00_ok"), multimodal=True)


def test_floats_are_items_but_not_tokens():
    dataset = IndexedDataset(bad("mg_04_dtype_float"))
    assert dataset.items.dtype == np.float32
    with pytest.raises(DataError, match="items are float32, but tokens must be of an integer"):
        _ = dataset.tokens
    with pytest.raises(DataError, match="tokens must be of an integer dtype"):
        dataset.check_token_ids()


def test_id_beyond_the_vocabulary_is_named():
    dataset = IndexedDataset(bad("mg_23_id_over_vocab"))
    dataset.check_token_ids()
    dataset.check_token_ids(70001)
    with pytest.raises(
        DataError,
        match=r"mg_23_id_over_vocab\.bin, byte 36: token 70000 at offset 1 of sequence 2 "
        r"\(document 2\) is not from 0 to 65535",
    ):
        dataset.check_token_ids(65536)
    with pytest.raises(ConfigError, match="vocab_size must be at least 1, got 0"):
        dataset.check_token_ids(0)


def test_negative_id_is_found_without_a_vocabulary(tmp_path):
    prefix = write_index(tmp_path / "a", [2, 2], [0, 8], [0, 2])
    Path(f"{prefix}.bin").write_bytes(np.array([1, 2, 3, -4], "<i4").tobytes())
    with pytest.raises(DataError, match=r"token -4 at offset 1 of sequence 1 \(document 0\)"):
        IndexedDataset(prefix).check_token_ids()


def test_unsigned_ids_up_to_the_last_are_kept(tmp_path):
    prefix = write_index(tmp_path / "a", [2], [0], [0, 1], code=8)
    Path(f"{prefix}.bin").write_bytes(np.array([65534, 65535], "<u2").tobytes())
    dataset = IndexedDataset(prefix)
    dataset.check_token_ids()
    dataset.check_token_ids(65536)
    assert dataset[0].tolist() == [65534, 65535]


def test_ids_in_the_middle_are_found_on_request(tmp_path):
    prefix = write_index(tmp_path / "a", [3 << 20], [0], [0, 1], items=0)
    ids = np.zeros(3 << 20, "<i4")
    ids[(3 << 19) + 5] = 9
    Path(f"{prefix}.bin").write_bytes(ids.tobytes())
    dataset = IndexedDataset(prefix)
    dataset.check_token_ids(9)
    with pytest.raises(DataError, match=rf"token 9 at offset {(3 << 19) + 5} of sequence 0"):
        dataset.check_token_ids(9, whole=True)


def test_wrong_ids_that_no_sequence_holds_are_no_error(tmp_path):
    prefix = write_index(tmp_path / "a", [1, 1], [0, 8], [0, 2], items=3)
    Path(f"{prefix}.bin").write_bytes(np.array([1, -2, -3], "<i4").tobytes())
    with pytest.raises(DataError, match=r"token -3 at offset 0 of sequence 1 \(document 1|0\)"):
        IndexedDataset(prefix).check_token_ids()
    Path(f"{prefix}.bin").write_bytes(np.array([1, -2, 3], "<i4").tobytes())
    IndexedDataset(prefix).check_token_ids()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pointers": [0, 12, -8, 20]}, "sequence 2 begins at byte -8 .* in 32 bits"),
        ({"pointers": [0, 12, 14, 20]}, "sequence 2 begins at byte 14 .* no multiple of the 4"),
        ({"pointers": [0, 12, 12, 2**63 - 4]}, "needs 9223372036854775820: sequence 3 goes"),
        ({"lengths": [3, 0, 2, 2**31 - 1]}, "has 36 bytes, .* needs 8589934608: sequence 3"),
        ({"lengths": [3, -(2**31), 2, 4]}, "sequence 1 has length -2147483648"),
        ({"documents": [1, 2, 2, 4]}, "begins at sequence 1, expected 0"),
        ({"documents": [0, 2, 2, 5]}, "ends at 5, expected 4"),
        ({"documents": [0, 2, -1, 4]}, "document 1 begins at sequence 2 .* before sequence -1"),
        ({"documents": []}, "the document index has 0 entries; for 4 sequences"),
        ({"counts": (2**61, 5)}, rf"but {2**61} sequences and 5 .* need {34 + 12 * 2**61 + 40}"),
        ({"counts": (4, 2**64 - 1)}, "4 sequences and 18446744073709551615 document index"),
        ({"code": 0}, "unknown dtype code 0"),
    ],
)
def test_every_entry_of_the_index_is_checked(tmp_path, change, message):
    tables = {"lengths": [3, 0, 2, 4], "pointers": [0, 12, 12, 20], "documents": [0, 2, 2, 4]}
    prefix = write_index(tmp_path / "a", **{**tables, "items": 9, **change})
    with pytest.raises(DataError, match=message):
        IndexedDataset(prefix)


def test_entries_behind_the_first_million_are_checked(tmp_path):
    n = (1 << 20) + 3
    lengths = np.ones(n, np.int32)
    pointers = np.arange(n, dtype=np.int64) * 4
    documents = np.arange(n + 1, dtype=np.int64)
    prefix = write_index(tmp_path / "a", lengths, pointers, documents, items=n)
    assert len(IndexedDataset(prefix)) == n
    for table, message in (
        (lengths, f"sequence {n - 2} has length -1"),
        (pointers, f"sequence {n - 2} begins at byte -1"),
        (documents, f"document {n - 2} begins at sequence -1|document {n - 3} begins at"),
    ):
        kept = table[n - 2]
        table[n - 2] = -1
        write_index(prefix, lengths, pointers, documents, items=n)
        with pytest.raises(DataError, match=message):
            IndexedDataset(prefix)
        table[n - 2] = kept


@pytest.mark.parametrize("size", [1, 8, 9, 33])
def test_index_cut_in_its_header_is_refused(small, size):
    content = Path(f"{small}.idx").read_bytes()
    Path(f"{small}.idx").write_bytes(content[:size])
    wanted = "magic is" if size < 9 else f"has {size} bytes, but its header alone takes 34"
    with pytest.raises(DataError, match=wanted):
        IndexedDataset(small)


def test_index_cut_anywhere_is_refused(small):
    content = Path(f"{small}.idx").read_bytes()
    for size in range(len(content)):
        Path(f"{small}.idx").write_bytes(content[:size])
        with pytest.raises(DataError, match=r"small\.idx"):
            IndexedDataset(small)


def test_bytes_after_the_tables_are_warned_about_unless_they_may_be_modes(small, tmp_path):
    index = Path(f"{small}.idx")
    content = index.read_bytes()
    index.write_bytes(content + bytes(4))
    IndexedDataset(small)
    index.write_bytes(content + bytes(5))
    with pytest.warns(UserWarning, match=r"small\.idx: 5 bytes after the 114"):
        IndexedDataset(small)


def test_missing_index_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.idx: the index of this dataset is missing"):
        IndexedDataset(tmp_path / "none")


def test_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "a.idx").mkdir()
    with pytest.raises(DataError, match=r"a\.idx: the index of this dataset cannot be read: Is a"):
        IndexedDataset(tmp_path / "a")


def test_failed_open_leaves_no_noise(capfd):
    # An exception in a finalizer would be an error of this test, too.
    for name in REFUSED:
        with pytest.raises(DataError):
            IndexedDataset(bad(name))
    assert capfd.readouterr() == ("", "")


def test_pickle_is_the_path_and_opens_anew(small):
    dataset = IndexedDataset(small)
    _ = dataset.sequence_lengths
    content = pickle.dumps(dataset)
    assert len(content) < 400
    for other in (pickle.loads(content), copy.deepcopy(dataset)):
        assert [part.tolist() for part in other] == [part.tolist() for part in dataset]
        assert other.path_prefix == dataset.path_prefix


def test_unpickled_dataset_is_checked_again_where_its_files_have_changed(small):
    content = pickle.dumps(IndexedDataset(small))
    write_index(small, [3, 0, 2, 5], [0, 12, 12, 20], [0, 2, 2, 4], items=9)
    os.utime(f"{small}.idx", ns=(1, 1))
    with pytest.raises(DataError, match="needs 40"):
        pickle.loads(content)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_dataset_is_read_in_another_process(small, method):
    dataset = IndexedDataset(small)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(operator.itemgetter(-1), (dataset,)).tolist() == [5, 6, 7, 8]


def test_unmapped_file_that_has_shrunk_is_an_error(small):
    dataset = IndexedDataset(small, mmap=False)
    Path(f"{small}.bin").write_bytes(bytes(24))
    with pytest.raises(DataError, match="has lost 12 bytes since it was opened"):
        dataset[3]


def test_dataset_may_be_removed_while_it_is_open(small):
    dataset = IndexedDataset(small)
    shutil.rmtree(small.parent)
    assert dataset[-1].tolist() == [5, 6, 7, 8]


def test_reference_pair_whose_last_document_never_ended_is_refused():
    with pytest.raises(DataError, match="the document index ends at 0, expected 1"):
        IndexedDataset(DATA / "indexed" / "openend_i32")
