import json
import logging
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from zephon.megatron import GPTDataset, IndexedDataset, Split
from zephon.megatron.index_cache import IndexCache, cache_folder

DOCUMENTS = [[at] * (at % 7 + 1) for at in range(1, 60)]
ARRAYS = ("document_index", "sample_index", "shuffle_index")


@pytest.fixture
def build(write_pair, config, tmp_path):
    prefix = write_pair("data", DOCUMENTS)
    folder = tmp_path / "cache"

    def make(**changes):
        low_level = IndexedDataset(prefix)
        options = {"path_to_cache": folder, **changes}
        return GPTDataset(
            low_level, prefix, np.arange(len(low_level)), 200, Split.train, config(**options)
        )

    make.folder = folder
    return make


def indices(dataset):
    return [getattr(dataset, name).tolist() for name in ARRAYS]


def the_file(folder, ending):
    (path,) = Path(folder).glob(f"*{ending}")
    return path


def truncate(path):
    path.write_bytes(path.read_bytes()[:-5])


def cut_in_the_header(path):
    path.write_bytes(path.read_bytes()[:20])


def empty(path):
    path.write_bytes(b"")


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


def flip_the_last_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def flip_a_low_bit(path):
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)


def append(path):
    path.write_bytes(path.read_bytes() + b"\0" * 8)


DAMAGE = [truncate, cut_in_the_header, empty, zero, flip_the_last_bit, flip_a_low_bit]


@pytest.mark.parametrize(
    ("damage", "checksummed"),
    # Bytes behind an array are no part of it: only a checksum sees them.
    [*((damage, True) for damage in (*DAMAGE, append)), *((damage, False) for damage in DAMAGE)],
    ids=lambda value: getattr(value, "__name__", f"checksummed={value}"),
)
@pytest.mark.parametrize("name", ARRAYS)
def test_a_damaged_cache_is_rebuilt_with_a_warning(build, caplog, damage, name, checksummed):
    fresh = indices(build())
    path = the_file(build.folder, f"-{name}.npy")
    good = path.read_bytes()
    if not checksummed:  # as the reference leaves it
        the_file(build.folder, "checksum.json").unlink()
    damage(path)
    assert path.read_bytes() != good
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        assert indices(build()) == fresh
    assert "is rebuilt: " in caplog.text
    assert path.read_bytes() == good
    caplog.clear()
    assert indices(build()) == fresh
    assert "rebuilt" not in caplog.text


@pytest.mark.parametrize("damage", [truncate, empty, zero], ids=lambda damage: damage.__name__)
def test_a_damaged_checksum_file_is_a_reason_to_rebuild(build, caplog, damage):
    fresh = indices(build())
    damage(the_file(build.folder, "checksum.json"))
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        assert indices(build()) == fresh
    assert "is rebuilt: " in caplog.text
    json.loads(the_file(build.folder, "checksum.json").read_text())


@pytest.mark.parametrize("content", ["[]", "{}", '{"document_index": 5}'])
def test_a_checksum_file_of_something_else_is_a_reason_to_rebuild(build, caplog, content):
    fresh = indices(build())
    the_file(build.folder, "checksum.json").write_text(content)
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        assert indices(build()) == fresh
    assert "is damaged" in caplog.text


def test_a_missing_file_is_a_cache_that_is_not_there(build, caplog):
    fresh = indices(build())
    the_file(build.folder, "-sample_index.npy").unlink()
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        assert indices(build()) == fresh
    assert caplog.text == ""
    assert the_file(build.folder, "-sample_index.npy").exists()


def test_an_index_is_read_and_not_built_a_second_time(build, caplog):
    fresh = build()
    with caplog.at_level(logging.INFO, "zephon.megatron"):
        again = build()
    assert indices(again) == indices(fresh)
    assert "epochs of" not in caplog.text
    assert not again.document_index.flags.owndata


def test_nothing_but_finished_files_is_left(build):
    build()
    names = {path.name.split("-", 1)[1] for path in build.folder.iterdir()}
    assert names == {
        "GPTDataset-train-document_index.npy",
        "GPTDataset-train-sample_index.npy",
        "GPTDataset-train-shuffle_index.npy",
        "GPTDataset-train-description.txt",
        "GPTDataset-train-checksum.json",
    }


def test_files_have_the_permissions_of_any_new_file(build, tmp_path):
    build()
    plain = tmp_path / "plain"
    plain.touch()
    for path in build.folder.iterdir():
        assert path.stat().st_mode == plain.stat().st_mode


def test_a_write_that_fails_leaves_no_file_and_the_index_in_memory(build, caplog, monkeypatch):
    fresh = indices(build(path_to_cache=None))

    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", fail)
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        dataset = build()
    assert indices(dataset) == fresh
    assert "cannot be kept: [Errno 28] No space left" in caplog.text
    assert list(build.folder.iterdir()) == []


def test_a_folder_that_is_a_file_is_a_warning(build, caplog):
    build.folder.write_text("here")
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        assert len(build()) > 0
    assert "cannot be kept" in caplog.text


def test_the_environment_names_a_folder_and_an_argument_goes_before_it(
    build, monkeypatch, tmp_path
):
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "elsewhere"))
    build(path_to_cache=None)
    assert the_file(tmp_path / "elsewhere", "-description.txt").exists()
    build()
    assert the_file(build.folder, "-description.txt").exists()
    monkeypatch.setenv("ZEPHON_CACHE_DIR", "")
    assert cache_folder(None) is None


def test_without_a_folder_nothing_is_written(build, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    build(path_to_cache=None)
    assert sorted(tmp_path.rglob("*")) == before


def test_options_that_change_an_index_change_its_name(build):
    digests = {
        build(**changes).unique_description_hash
        for changes in (
            {},
            {"random_seed": 5},
            {"sequence_length": 5},
            {"add_extra_token_to_sequence": False},
            {"drop_last_partial_validation_sequence": False},
            {"split": "1,1"},
            {"tokenizer": None},
        )
    }
    assert len(digests) == 7
    assert build(mmap_bin_files=False).unique_description_hash in digests


def test_many_threads_may_build_the_same_index_at_once(build):
    found = []
    threads = [threading.Thread(target=lambda: found.append(indices(build()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(one == found[0] for one in found)
    assert indices(build()) == found[0]
    assert not list(build.folder.glob("*.partial"))


def test_arrays_without_items_are_kept_too(tmp_path):
    cache = IndexCache("Kind", ("a", "b"), write_to=str(tmp_path), read_from=[])
    arrays = {"a": np.zeros(0, np.int32), "b": np.zeros((0, 2), np.int64)}
    assert cache.store("text", arrays) is not None
    stored = cache.load("text", lambda found, checksummed: None if checksummed else "no")
    for name, array in arrays.items():
        assert stored.arrays[name].dtype == array.dtype
        assert stored.arrays[name].shape == array.shape
    assert pickle.loads(pickle.dumps(stored)).arrays["b"].shape == (0, 2)


def test_pickled_objects_in_a_cache_are_never_loaded(build, caplog):
    """An index is numbers: a file that would run code is damage."""
    fresh = indices(build())
    the_file(build.folder, "checksum.json").unlink()
    path = the_file(build.folder, "-shuffle_index.npy")
    np.save(path, np.array([os.getpid, "code"], object), allow_pickle=True)
    with caplog.at_level(logging.WARNING, "zephon.megatron"):
        assert indices(build()) == fresh
    assert "is rebuilt: " in caplog.text
