import json

import pytest

from zephon.cli import bpe
from zephon.errors import ConfigError, DataError

TEXTS = [f"def f{n}(x):\n    return x + {n}  # naïve — 字\n" for n in range(200)]


def test_a_sample_is_spread_evenly_and_keeps_the_order():
    assert bpe.sample(["aa"] * 4 + ["bb"] * 4, 8) == ["aa"] * 2 + ["bb"] * 2


def test_a_sample_larger_than_the_text_is_all_of_it():
    assert bpe.sample(["a", "b"], 100) == ["a", "b"]


def test_every_text_survives_encoding_and_decoding():
    tokenizer = bpe.train(TEXTS[:10], 400)
    for text in ["", " ", "\t\n", "zß水🍌", TEXTS[150]]:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_training_twice_gives_the_same_tokenizer():
    assert bpe.train(TEXTS, 400).to_str() == bpe.train(TEXTS, 400).to_str()


def test_the_saved_folder_names_the_special_tokens(tmp_path):
    bpe.save(bpe.train(TEXTS, 400), tmp_path / "tokenizer")
    config = json.loads((tmp_path / "tokenizer" / "tokenizer_config.json").read_text())
    tokenizer = bpe.load(tmp_path / "tokenizer")
    ids = [bpe.token_id(tokenizer, config[f"{name}_token"]) for name in ("bos", "eos", "pad")]
    assert ids == [0, 1, 2]


def test_a_token_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"no token <\|nothing\|>; it is not the demo's"):
        bpe.token_id(bpe.train(TEXTS, 400), "<|nothing|>")


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\x00\xff"])
def test_a_file_that_is_not_a_tokenizer_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer \(.*remove it"):
        bpe.load(tmp_path)
