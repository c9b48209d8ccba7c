import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from small_corpora import TOPICS
from zephon.cli import corpora, harvest
from zephon.cli.corpora import CorporaOptions, build, reuse
from zephon.errors import ConfigError
from zephon.megatron.builder import IndexedDatasetBuilder


@pytest.fixture
def options(library):
    return CorporaOptions(root=library, topics=TOPICS, vocabulary=512)


def quietly(step):
    pass


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_code_is_one_json_object_a_line_with_text_and_path(small):
    lines = small.code.read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == small.code_documents == 15
    assert all(set(record) == {"text", "path"} for record in records)
    assert records[1]["path"] == "escape.py"
    assert "an umlaut: ü" in lines[2]


def test_prose_is_tokenized_and_every_document_begins_and_ends_with_its_marks(small):
    tokens = np.fromfile(small.prose.with_suffix(".bin"), np.uint16)
    assert len(tokens) == small.prose_tokens
    assert (tokens == 0).sum() == (tokens == 1).sum() == small.prose_documents == 14
    assert tokens[0] == 0
    assert tokens[-1] == 1
    tokenizer = Tokenizer.from_file(str(small.tokenizer / "tokenizer.json"))
    first = tokenizer.decode(tokens[: tokens.tolist().index(1)].tolist())
    assert first.startswith("escape.py\n\nAn escape:")


def test_the_manifest_is_complete_and_says_how_it_was_made(small):
    manifest = json.loads((small.folder / "manifest.json").read_text())
    assert manifest["complete"] is True
    assert manifest["fingerprint"]["vocabulary"] == 512
    assert manifest["bytes"]["code.jsonl"] == small.code.stat().st_size == small.code_bytes


def test_nothing_is_written_beside_the_files_that_are_named(tmp_path, options):
    before = set(tmp_path.iterdir())
    build(tmp_path / "out", options, quietly)
    assert set(tmp_path.iterdir()) - before == {tmp_path / "out"}
    assert set(contents(tmp_path / "out")) == {"manifest.json", *corpora._FILES}


def test_what_is_complete_is_found_again(tmp_path, options):
    assert reuse(tmp_path / "out", options) is None
    built = build(tmp_path / "out", options, quietly)
    assert reuse(tmp_path / "out", options) == built


def test_building_twice_gives_the_same_bytes(tmp_path, options):
    build(tmp_path / "a", options, quietly)
    build(tmp_path / "b", options, quietly)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("change", [{"vocabulary": 600}, {"topics": {}}, {"root": Path("/else")}])
def test_other_settings_are_not_taken_for_these(tmp_path, options, change):
    build(tmp_path / "out", options, quietly)
    assert reuse(tmp_path / "out", dataclasses.replace(options, **change)) is None


@pytest.mark.parametrize("name", corpora._FILES)
def test_a_missing_or_shortened_file_is_noticed_and_built_again(tmp_path, options, name):
    built = build(tmp_path / "out", options, quietly)
    whole = contents(tmp_path / "out")
    file = tmp_path / "out" / name
    file.write_bytes(file.read_bytes()[:-1])
    assert reuse(tmp_path / "out", options) is None
    file.unlink()
    assert reuse(tmp_path / "out", options) is None
    assert build(tmp_path / "out", options, quietly) == built
    assert contents(tmp_path / "out") == whole


@pytest.mark.parametrize("step", ["training the tokenizer", "tokenizing prose into .bin/.idx"])
def test_an_interrupted_build_leaves_nothing_behind_and_keeps_what_was_there(
    tmp_path, options, step
):
    def interrupt(now):
        if now == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", options, interrupt)
    assert list((tmp_path / "out").iterdir()) == []

    built = build(tmp_path / "out", options, quietly)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", options, interrupt)
    assert reuse(tmp_path / "out", options) == built


def test_a_build_that_dies_while_files_are_put_in_place_is_begun_anew(
    tmp_path, options, monkeypatch
):
    real = corpora.os.replace

    def replace(source, target):
        if Path(target) == tmp_path / "out" / "prose.idx":
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(corpora.os, "replace", replace)
        with pytest.raises(OSError, match="No space left"):
            build(tmp_path / "out", options, quietly)
    assert (tmp_path / "out" / "code.jsonl").exists()
    assert reuse(tmp_path / "out", options) is None
    built = build(tmp_path / "out", options, quietly)
    assert reuse(tmp_path / "out", options) == built


@pytest.mark.parametrize("name", ["code.jsonl", "prose.bin", "manifest.json"])
def test_files_that_the_demo_did_not_write_are_never_replaced(tmp_path, options, name):
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(ConfigError, match=f"holds {name}, which the demo did not write.*--folder"):
        build(tmp_path, options, quietly)
    assert (tmp_path / name).read_text() == '{"mine": 1}'


def test_a_library_without_docstrings_is_refused(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    options = CorporaOptions(root=tmp_path, topics={})
    with pytest.raises(ConfigError, match="has a docstring, so there is no prose"):
        build(tmp_path / "out", options, quietly)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("vocabulary", 511, "vocabulary is 511; it must be 512 to 65536"),
        ("vocabulary", 65537, "vocabulary is 65537; it must be 512 to 65536"),
        ("sample_characters", 0, "sample_characters is 0; it must be positive"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path, option, value, message):
    with pytest.raises(ConfigError, match=message):
        CorporaOptions(root=tmp_path, topics={}, **{option: value})


def test_the_default_options_are_those_of_the_running_python():
    options = CorporaOptions.of_this_python()
    assert options.root == harvest.standard_library()
    assert "while" in options.topics


def test_prose_is_written_by_the_public_builder(tmp_path, options, monkeypatch):
    lengths = []
    real = IndexedDatasetBuilder.add_document

    def add_document(self, document, sizes):
        lengths.append((len(document), list(sizes)))
        return real(self, document, sizes)

    monkeypatch.setattr(IndexedDatasetBuilder, "add_document", add_document)
    built = build(tmp_path / "out", options, quietly)
    assert len(lengths) == built.prose_documents
    assert all(sizes == [size] for size, sizes in lengths)
