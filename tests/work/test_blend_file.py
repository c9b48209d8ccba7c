"""Blends from TOML, YAML and text files and from lists."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import zephon
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.work import Blend, load_blend


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with web/ (two files, 3 documents), books.jsonl (2) and odd.data (1)."""
    for name, count in (
        ("web/a.jsonl", 1),
        ("web/b.jsonl", 2),
        ("books.jsonl", 2),
        ("odd.data", 1),
    ):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps({"text": f"{name} {i}"}) + "\n" for i in range(count)))
    return tmp_path


def facts(blend: Blend) -> dict[str, tuple[int, float]]:
    return {one.name: (one.total(), blend.mixture.weights[one.name]) for one in blend.datasets}


TOML = """
[datasets.web]
path = "web"
weight = 0.7
[datasets."old books"]
path = ["books.jsonl", "web/a.jsonl"]
weight = 3
[datasets.odd]
path = "odd.data"
weight = 1e-3
format = "jsonl"
"""
YAML = """
datasets:
  web: {path: "web/*.jsonl", weight: 0.7}
  old books:
    path:
      - books.jsonl
      - web/a.jsonl
    weight: 3
  odd: {path: odd.data, weight: 0.001, format: jsonl}
"""


@pytest.mark.parametrize(("name", "text"), [("b.toml", TOML), ("b.yaml", YAML), ("b.yml", YAML)])
def test_paths_are_relative_to_the_file_and_weights_in_any_unit(
    data: Path, name: str, text: str, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    (data / name).write_text(text)
    blend = load_blend(data / name)
    assert facts(blend) == {"web": (3, 0.7), "old books": (3, 3.0), "odd": (1, 0.001)}
    datasets, mixture = blend
    work = zephon.StaticMixtureWorkSource(datasets, mixture)
    assert work.shares()["old books"] == pytest.approx(3 / 3.701)


def test_without_weights_every_document_is_as_likely_as_any_other(data: Path) -> None:
    (data / "b.toml").write_text('datasets = {a = {path = "web"}, b = {path = "books.jsonl"}}')
    assert facts(load_blend(data / "b.toml")) == {"a": (3, 3.0), "b": (2, 2.0)}


def test_absolute_paths_stay(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("other") / "b.toml"
    file.write_text(f"[datasets.a]\npath = '{data / 'web'}'")
    assert facts(load_blend(str(file))) == {"a": (3, 3.0)}


def test_a_megatron_list_names_datasets_by_their_paths(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(data)
    caplog.set_level(logging.INFO, "zephon.work.blend_file")
    assert facts(load_blend(["30", "web", 70, "books.jsonl", 0, "odd.data"])) == {
        "web": (3, 30.0),
        "books.jsonl": (2, 70.0),
    }
    assert "'odd.data' has weight 0 and is left out" in caplog.text
    assert facts(load_blend(["web", data / "books.jsonl"])) == {
        "web": (3, 3.0),
        str(data / "books.jsonl"): (2, 2.0),
    }


def test_a_text_file_holds_such_a_list(data: Path) -> None:
    (data / "blend.txt").write_text("0.3 web\n0.7 books.jsonl\n")
    assert facts(load_blend(data / "blend.txt")) == {"web": (3, 0.3), "books.jsonl": (2, 0.7)}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "[dataset.a]",
            ConfigError,
            r"b\.toml has the unknown key 'dataset' \(did you mean 'datasets'",
        ),
        ("[datasets.a]\npaht = 1", ConfigError, "dataset 'a' has the unknown key 'paht' .*'path'"),
        ("[datasets.a]\nx = 1", ConfigError, "unknown key 'x'; known: path, weight, format"),
        ("[datasets.a]\nweight = 1", ConfigError, "dataset 'a' has no 'path'"),
        ("[datasets]", ConfigError, "the table 'datasets' is missing or empty"),
        ("", ConfigError, "the table 'datasets' is missing or empty"),
        ("datasets = 3", ConfigTypeError, "'datasets' is 3, expected a table"),
        ("datasets = {a = 'x'}", ConfigTypeError, "dataset 'a' is 'x', expected a table"),
        ("[datasets.a]\npath = 3", ConfigTypeError, "path is 3, expected a string or a list"),
        (
            "[datasets.a]\npath = ['x', 3]",
            ConfigTypeError,
            "expected a string or a list of strings",
        ),
        (
            "[datasets.a]\npath = 'web'\nweight = '1'",
            ConfigTypeError,
            "weight is '1', expected a num",
        ),
        (
            "[datasets.a]\npath = 'web'\nweight = true",
            ConfigTypeError,
            "weight is True, expected a",
        ),
        ("[datasets.a]\npath = 'web'\nweight = 0", ConfigError, r"b\.toml: weight of 'a' is 0.0"),
        ("[datasets.a]\npath = 'web'\nweight = nan", ConfigError, "weight of 'a' is nan"),
        (
            "[datasets.a]\npath = 'web'\nformat = 1",
            ConfigTypeError,
            "format is 1, expected the name",
        ),
        ("[datasets.a]\npath = 'web'\nformat = 'jsn'", ConfigError, "did you mean 'jsonl'"),
        ("[datasets.a]\npath = 'nothing.jsonl'", DataError, "dataset 'a': there is no such file"),
        (
            "[datasets.a]\npath = 'web'\nweight = 1\n[datasets.b]\npath = 'web'",
            ConfigError,
            "dataset 'b' has no weight and others have",
        ),
        ("a = [", ConfigError, r"b\.toml: is not valid TOML: "),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_place(
    data: Path, text: str, error: type[Exception], message: str
) -> None:
    (data / "b.toml").write_text(text)
    with pytest.raises(error, match=message):
        load_blend(data / "b.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datasets: [", r"b\.yaml: is not valid YAML: "),
        ("datasets:\n  a: {path: web}\n  a: {path: web}", "the key 'a' is there twice"),
        ("- a", "expected a table"),
        ("!!python/object/apply:os.getcwd []", "is not valid YAML"),
    ],
)
def test_what_is_wrong_with_yaml_is_said(data: Path, text: str, message: str) -> None:
    (data / "b.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_blend(data / "b.yaml")


@pytest.mark.parametrize(
    ("blend", "error", "message"),
    [
        (3, ConfigTypeError, "blend is 3, expected the path of a file, or a list"),
        ([], ConfigError, "blend is empty"),
        ([0, "web"], ConfigError, "blend: all weights are 0"),
        ([1, "web", -1, "web"], ConfigError, "must be finite and not negative"),
        ([1, "web", 2, "web"], ConfigError, "'web' is there twice: add up its weights"),
        ("blend.json", ConfigError, "cannot be read: No such file"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(
    data: Path, monkeypatch: pytest.MonkeyPatch, blend: object, error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(data)
    with pytest.raises(error, match=message):
        load_blend(blend)  # type: ignore[arg-type]


def test_a_file_of_another_kind_or_code_is_refused(data: Path) -> None:
    (data / "blend.json").write_text("{}")
    with pytest.raises(
        ConfigError, match=r"ends in \.toml, \.yaml, \.yml or \.txt, not in '\.json'"
    ):
        load_blend(data / "blend.json")
    (data / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="the blend is not UTF-8 text"):
        load_blend(data / "b.toml")
    (data / "b.txt").write_text("1 web -1 books.jsonl")
    with pytest.raises(ConfigError, match=r"b\.txt: blend\[2\] is the weight"):
        load_blend(data / "b.txt")


def test_without_pyyaml_the_extra_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    (data / "b.yaml").write_text(YAML)
    with pytest.raises(ConfigError, match="reading YAML needs the package pyyaml: .*'yaml'"):
        load_blend(data / "b.yaml")
