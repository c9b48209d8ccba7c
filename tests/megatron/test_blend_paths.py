import json
import os

import pytest

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron import expand_paths, get_blend_from_list


@pytest.fixture
def folder(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.bin").touch()
        (tmp_path / f"{name}.idx").touch()
    (tmp_path / "notes.txt").touch()
    return tmp_path


@pytest.mark.parametrize("pattern", ["*", "*.bin", "*.idx", "[ab]*"])
def test_a_pattern_gives_each_prefix_once_in_order(folder, pattern):
    names = "ab" if "[" in pattern else "abc"
    assert expand_paths(f"{folder}/{pattern}") == [f"{folder}/{name}" for name in names]


@pytest.mark.parametrize("suffix", ["", ".bin", ".idx"])
def test_a_prefix_is_taken_with_or_without_a_suffix(folder, suffix):
    assert expand_paths(f"{folder}/a{suffix}") == [f"{folder}/a"]
    assert expand_paths(folder / f"a{suffix}") == [f"{folder}/a"]


def test_a_pattern_without_the_suffix_finds_the_files(folder):
    assert expand_paths(f"{folder}/?") == [f"{folder}/{name}" for name in "abc"]


def test_lists_keep_their_weights(folder):
    expanded = expand_paths(["30", f"{folder}/a", 70, f"{folder}/[b]"])
    assert expanded == ["30", f"{folder}/a", 70, f"{folder}/b"]
    assert get_blend_from_list(expanded) == ([f"{folder}/a", f"{folder}/b"], [30.0, 70.0])


def test_a_weight_for_several_datasets_is_refused(folder):
    with pytest.raises(ConfigError, match=r"weight 30 stands before .* matches 3 datasets"):
        expand_paths(["30", f"{folder}/*"])


def test_a_pattern_that_finds_nothing_shows_what_is_there(folder):
    with pytest.raises(ConfigError, match=r"matches no .bin or .idx file; it matches .*notes.txt"):
        expand_paths(f"{folder}/*.txt")
    with pytest.raises(ConfigError, match="it matches nothing"):
        expand_paths(f"{folder}/x*")


def test_a_missing_half_is_named(folder):
    (folder / "a.idx").unlink()
    for paths in (f"{folder}/a", f"{folder}/*", [f"{folder}/a"]):
        with pytest.raises(FileNotFoundError, match=r"a.idx does not exist"):
            expand_paths(paths)


def test_a_file_that_may_not_be_read_is_named(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("b.bin"))
    with pytest.raises(PermissionError, match=r"b.bin may not be read"):
        expand_paths(f"{folder}/*")


def write_json(folder, content):
    path = folder / "blend.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_json_file_holds_a_list(folder):
    assert expand_paths(write_json(folder, ["30", f"{folder}/a", "70", f"{folder}/b"])) == [
        "30", f"{folder}/a", "70", f"{folder}/b",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["valid", "val", "validation", "dev"])
def test_a_json_file_holds_splits(folder, name):
    path = write_json(folder, {"train": [f"{folder}/a"], name: [f"{folder}/b"], "test": []})
    assert expand_paths(path) == {
        "train": [f"{folder}/a"],
        "validation": [f"{folder}/b"],
        "test": [],
    }


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", ConfigError, "blend.json is not JSON"),
        ("5", ConfigTypeError, "must hold a list of paths, or a dict"),
        ({}, ConfigTypeError, "must hold a list of paths, or a dict"),
        ({"eval": []}, ConfigError, "has the split 'eval'; known are train, valid"),
        ({"val": [], "dev": []}, ConfigError, "has the validation split twice"),
        ({"train": "a"}, ConfigTypeError, "'train' must be a list of paths, got 'a'"),
    ],
)
def test_a_json_file_of_something_else_is_refused(folder, content, error, message):
    with pytest.raises(error, match=message):
        expand_paths(write_json(folder, content))


def test_a_missing_json_file_is_missing(folder):
    with pytest.raises(FileNotFoundError, match=r"none.json"):
        expand_paths(f"{folder}/none.json")
