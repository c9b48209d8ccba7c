from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.io.shard import Place
from zephon.ops.tokenize import TextTokenizer, TokenizeOptions


def place(index: int) -> Place:
    return Place("file.jsonl", index + 1, 10 * index)


def make(source: Any, **options: Any) -> TextTokenizer:
    return TextTokenizer(source, TokenizeOptions(field="text", **options))


def ids(tokenizer: TextTokenizer, *texts: str) -> list[list[int]]:
    tokens, lengths = tokenizer.encode([{"text": text} for text in texts], place)
    assert tokens.dtype == np.int32
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [("bos_eos", [0], [1]), ("bos", [0], []), ("eos", [], [1]), ("none", [], [])],
)
def test_each_document_gets_the_special_tokens_asked_for(
    tokenizer_folder: Path, mode: str, before: list[int], after: list[int]
) -> None:
    plain = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    texts = ["the quick fox", "über 😀", "x"]
    expected = [before + plain.encode(text, add_special_tokens=False).ids + after for text in texts]
    assert ids(make(tokenizer_folder, special_tokens=mode), *texts) == expected
    from_file = make(
        tokenizer_folder / "tokenizer.json", special_tokens=mode, bos_token_id=0, eos_token_id=1
    )
    assert ids(from_file, *texts) == expected
    assert from_file.identity == make(tokenizer_folder, special_tokens=mode).identity


def test_text_that_spells_a_special_token_stays_text(tokenizer_folder: Path) -> None:
    [found] = ids(make(tokenizer_folder, special_tokens="none"), "a<eos>b<bos>")
    assert 0 not in found
    assert 1 not in found
    plain = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    assert plain.decode(found) == "a<eos>b<bos>"


def test_the_tokenizer_passed_in_is_not_changed(tokenizer_folder: Path) -> None:
    mine = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    mine.enable_truncation(2)
    mine.enable_padding(length=9)
    before = mine.to_str()
    [found] = ids(make(mine, special_tokens="none"), "the quick brown fox")
    assert len(found) > 2
    assert mine.to_str() == before
    assert 1 in mine.encode("a<eos>b").ids


def test_empty_text_gives_a_document_without_tokens(tokenizer_folder: Path) -> None:
    _, lengths = make(tokenizer_folder).encode([{"text": ""}, {"text": "x"}], place)
    assert lengths[0] == 0
    assert lengths[1] > 0
    tokens, lengths = make(tokenizer_folder).encode([{"text": ""}], place)
    assert len(tokens) == 0
    assert lengths.tolist() == [0]


def test_a_missing_field_is_an_error_or_an_empty_document(tokenizer_folder: Path) -> None:
    strict = make(tokenizer_folder)
    with pytest.raises(
        DataError, match="file.jsonl, record 2, byte 10: the field 'text' is missing; keys: body, n"
    ):
        strict.encode([{"text": "x"}, {"body": "x", "n": 1}], place)
    with pytest.raises(DataError, match="record 1, byte 0: the field 'text' is null"):
        strict.encode([{"text": None}], place)
    lenient = make(tokenizer_folder, missing_field="empty")
    _, lengths = lenient.encode([{"text": None}, {"body": "x"}, {"text": "x"}], place)
    assert (lengths > 0).tolist() == [False, False, True]


@pytest.mark.parametrize("value", [42, ["a"], {"a": 1}, True, 1.5])
def test_text_of_another_type_is_an_error(tokenizer_folder: Path, value: object) -> None:
    with pytest.raises(DataError, match="the field 'text' holds .* expected a string"):
        make(tokenizer_folder, missing_field="empty").encode([{"text": value}], place)


def test_text_that_the_tokenizer_fails_on_is_named_by_its_place() -> None:
    from tokenizers import models

    strict = make(Tokenizer(models.WordLevel({"x": 0})), special_tokens="none")
    assert ids(strict, "x", "x") == [[0], [0]]
    with pytest.raises(DataError, match="file.jsonl, record 3, byte 20: the tokenizer fails on"):
        ids(strict, "x", "x", "y", "x")


def test_the_vocabulary_counts_to_the_greatest_id(tokenizer_folder: Path) -> None:
    plain = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    assert make(tokenizer_folder).vocab_size == 1 + max(plain.get_vocab().values())


def test_the_identity_tells_everything_that_changes_ids(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    identities = {
        make(tokenizer_folder).identity,
        make(tokenizer_folder, special_tokens="eos").identity,
        make(tokenizer_folder, eos_token_id=7).identity,
        make(tokenizer_folder, missing_field="empty").identity,
        TextTokenizer(tokenizer_folder, TokenizeOptions(field="body")).identity,
    }
    copy = shutil.copytree(tokenizer_folder, tmp_path / "copy")
    assert make(copy).identity in identities
    definition = json.loads((copy / "tokenizer.json").read_text())
    definition["model"]["merges"].pop()
    (copy / "tokenizer.json").write_text(json.dumps(definition))
    identities.add(make(copy).identity)
    assert len(identities) == 6


def test_things_that_are_no_tokenizer_are_refused(tmp_path: Path, tokenizer_folder: Path) -> None:
    with pytest.raises(DataError, match="tokenizer.json: there is no tokenizer here"):
        make(tmp_path)
    with pytest.raises(DataError, match="gpt2: there is no tokenizer here.*never downloaded"):
        make("gpt2")
    (tmp_path / "tokenizer.json").write_text('{"not": "one"}')
    with pytest.raises(DataError, match=r"tokenizer.json: is not a tokenizer file"):
        make(tmp_path)
    with pytest.raises(ConfigTypeError, match="tokenizer is a int, expected a path"):
        make(3)
    for content, message in (("{", "is not valid JSON"), ("[]", "holds no JSON object")):
        shutil.copy(tokenizer_folder / "tokenizer.json", tmp_path)
        (tmp_path / "tokenizer_config.json").write_text(content)
        with pytest.raises(DataError, match=f"tokenizer_config.json: {message}"):
            make(tmp_path)


def test_special_tokens_that_nobody_names_are_asked_for(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    file = shutil.copy(tokenizer_folder / "tokenizer.json", tmp_path)
    with pytest.raises(ConfigError, match="needs a BOS token, but the tokenizer names none: pass"):
        make(file)
    with pytest.raises(ConfigError, match="needs a EOS token"):
        make(file, special_tokens="eos")
    (tmp_path / "special_tokens_map.json").write_text('{"bos_token": "<start>"}')
    with pytest.raises(ConfigError, match="the tokenizer names '<start>', which it has not"):
        make(tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"special_tokens": "all"},
            ConfigError,
            "special_tokens is 'all', expected one of bos_eos",
        ),
        ({"missing_field": "skip"}, ConfigError, "missing_field is 'skip', expected one of error"),
        ({"field": ""}, ConfigError, "field is empty"),
        ({"field": 3}, ConfigTypeError, "field is 3, expected the name"),
        (
            {"bos_token_id": 5000},
            ConfigError,
            "bos_token_id is 5000, outside the tokenizer's vocab",
        ),
        ({"eos_token_id": -1}, ConfigError, "eos_token_id is -1, outside"),
        ({"eos_token_id": True}, ConfigTypeError, "eos_token_id is True, expected an int"),
    ],
)
def test_options_out_of_range_are_named(
    tokenizer_folder: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TextTokenizer(tokenizer_folder, TokenizeOptions(**{"field": "text", **options}))


def test_without_the_tokenizers_package_the_extra_is_named(
    tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ConfigError, match="needs the package tokenizers.*extra 'tokenizers'"):
        make(tokenizer_folder)
