from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import zephon
from zephon.errors import ConfigError, DataError
from zephon.io.shard import Place
from zephon.ops import engines
from zephon.ops.tokenize import TextTokenizer, TokenizeOptions

TEXT = ["the quick brown fox jumps over the lazy dog", "über naïve 東京 123 don't"] * 8


def place(index: int) -> Place:
    return Place("file.jsonl", index + 1)


def make(source: Any, **options: Any) -> TextTokenizer:
    return TextTokenizer(source, TokenizeOptions(field="text", **options))


def both(source: Any, texts: Sequence[str], **options: Any) -> tuple[Any, Any]:
    records = [{"text": text} for text in texts]
    return tuple(
        make(source, engine=engine, **options).encode(records, place) for engine in engines.ENGINES
    )  # type: ignore[return-value]


def byte_level(*, normalizer: Any = None, split: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    tokenizer.pre_tokenizer = level if split is None else pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<bos>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


KINDS = {
    "gpt2": byte_level(),
    "nfc": byte_level(normalizer=normalizers.NFC()),
    "digits": byte_level(
        split=pre_tokenizers.Split(
            Regex(r"\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"), "isolated"
        )
    ),
}


PAIRS = {
    kind: [make(tokenizer, special_tokens="none", engine=engine) for engine in engines.ENGINES]
    for kind, tokenizer in KINDS.items()
}


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(st.text(max_size=40), max_size=6))
def test_both_engines_make_the_same_ids(kind: str, texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    records = [{"text": text} for text in texts]
    (ids, lengths), (other, others) = (made.encode(records, place) for made in PAIRS[kind])
    assert ids.dtype == other.dtype == np.int32
    np.testing.assert_array_equal(ids, other)
    np.testing.assert_array_equal(lengths, others)


def test_both_engines_leave_text_that_spells_a_special_token(tokenizer_folder: Path) -> None:
    texts = ["a<eos>b", "<bos>", "< bos ><eos"]
    (ids, _), (other, _) = both(tokenizer_folder, texts, special_tokens="none")
    assert not {0, 1} & set(ids.tolist())
    np.testing.assert_array_equal(ids, other)


def test_both_engines_make_control_tokens_of_text_if_asked(tokenizer_folder: Path) -> None:
    (ids, _), (other, _) = both(
        tokenizer_folder, ["a<eos>b", "<bos>"], special_tokens="none", split_special_tokens=False
    )
    assert {0, 1} <= set(ids.tolist())
    np.testing.assert_array_equal(ids, other)


def test_the_engine_is_no_part_of_the_identity(tokenizer_folder: Path) -> None:
    reference, fast = make(tokenizer_folder), make(tokenizer_folder, engine="fastokens")
    assert reference.identity == fast.identity
    assert reference.engine.startswith("tokenizers ")
    assert fast.engine.startswith("fastokens ")
    other = make(tokenizer_folder, split_special_tokens=False)
    assert other.identity != reference.identity


def test_an_engine_that_differs_on_the_probes_is_refused(
    tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = engines.FastEngine._encode

    def wrong(self: engines.FastEngine, texts: Sequence[str]) -> engines.Flat:
        ids, lengths = encode(self, texts)
        changed = ids.copy()
        changed[-1] += 1
        return changed, lengths

    monkeypatch.setattr(engines.FastEngine, "_encode", wrong)
    with pytest.raises(
        ConfigError,
        match="engine='fastokens' differs from the tokenizers library: of '.* it makes .* tokens "
        "and not .*, the first other one is number .*. Leave engine= out",
    ):
        make(tokenizer_folder, engine="fastokens")


def test_an_engine_that_differs_on_a_first_document_is_refused_later_ones_are_not_compared(
    tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = engines.FastEngine._encode

    def wrong(self: engines.FastEngine, texts: Sequence[str]) -> engines.Flat:
        if "bad" not in texts:
            return encode(self, texts)
        return encode(self, ["good" if text == "bad" else text for text in texts])

    monkeypatch.setattr(engines.FastEngine, "_encode", wrong)
    fast = make(tokenizer_folder, engine="fastokens")
    with pytest.raises(ConfigError, match="of 'bad' it makes . tokens and not .*number 0"):
        fast.encode([{"text": "fine"}, {"text": "bad"}], place)
    fast = make(tokenizer_folder, engine="fastokens")
    fast.encode([{"text": "fine"}] * engines.VERIFIED_DOCUMENTS, place)
    fast.encode([{"text": "bad"}], place)


def test_a_tokenizer_that_the_fast_engine_cannot_take_is_named() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(
        ConfigError, match="engine='fastokens' cannot take this tokenizer .*: leave engine= out"
    ):
        make(words, engine="fastokens", special_tokens="none")


def test_without_the_fast_engine_its_extra_is_named(
    tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    with pytest.raises(ConfigError, match=r"needs the package fastokens: .*fast-tokenizers"):
        make(tokenizer_folder, engine="fastokens")


def test_an_unknown_engine_is_named(tokenizer_folder: Path) -> None:
    with pytest.raises(ConfigError, match="engine is 'x', expected one of tokenizers, fastokens"):
        make(tokenizer_folder, engine="x")


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_truncation_keeps_the_special_tokens(tokenizer_folder: Path, engine: str) -> None:
    whole, lengths = make(tokenizer_folder).encode([{"text": TEXT[0]}, {"text": "a"}], place)
    cut = make(tokenizer_folder, max_length=9, truncation=True, engine=engine)
    tokens, counts = cut.encode([{"text": TEXT[0]}, {"text": "a"}, {"text": ""}], place)
    assert counts.tolist() == [9, 3, 0]
    assert tokens[:9].tolist() == [*whole[:8].tolist(), 1]
    assert tokens[9:].tolist() == whole[lengths[0] :].tolist()
    assert cut.identity != make(tokenizer_folder).identity


def test_truncation_needs_a_length_with_room_for_text(tokenizer_folder: Path) -> None:
    with pytest.raises(ConfigError, match="truncation=True needs max_length="):
        make(tokenizer_folder, truncation=True)
    with pytest.raises(ConfigError, match="max_length is 2, and the special tokens alone are 2"):
        make(tokenizer_folder, truncation=True, max_length=2)


def test_the_tokenizers_own_template_gives_its_special_tokens(tokenizer_folder: Path) -> None:
    from tokenizers import processors

    own = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    own.post_processor = processors.TemplateProcessing(
        single="<bos> <bos> $A <eos>", special_tokens=[("<bos>", 0), ("<eos>", 1)]
    )
    made = make(own, special_tokens="tokenizer_default")
    assert made.start_ids == (0, 0)
    assert made.end_ids == (1,)
    tokens, _ = made.encode([{"text": "the fox"}], place)
    assert tokens.tolist() == own.encode("the fox").ids


def test_an_added_token_whose_id_leaves_a_gap_is_refused(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    content = json.loads((tokenizer_folder / "tokenizer.json").read_text())
    added = {**content["added_tokens"][0], "content": "<extra>", "id": 900}
    content["added_tokens"].append(added)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(
        DataError,
        match=r"tokenizer.json: gives the added token '<extra>' the id 900, but .* makes it 290",
    ):
        make(tmp_path)


def test_a_stream_is_the_same_with_either_engine_and_resumes_with_the_other(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "text.jsonl"
    file.write_text("".join(json.dumps({"text": f"{i} {TEXT[i % 2]}"}) + "\n" for i in range(200)))

    def pipeline(engine: str) -> zephon.Pipeline:
        work = zephon.StaticMixtureWorkSource(
            [zephon.Dataset.from_path("t", file)], {"t": 1}, shuffle_within_shard=True
        )
        made = zephon.Pipeline(work).tokenize(
            tokenizer_folder,
            field="text",
            engine=engine,  # type: ignore[arg-type]
        )
        return made.pack_flat(64).batch(2)

    def rows(stream: Any) -> list[Any]:
        return [batch.to_training()["input_ids"].tolist() for batch in stream]

    first = pipeline("tokenizers")
    expected = rows(first)
    half = pipeline("fastokens")
    begun = []
    for batch in half:
        begun.append(batch.to_training()["input_ids"].tolist())
        if len(begun) == 7:
            break
    half.close()
    rest = pipeline("tokenizers")
    rest.restore(half.checkpoint())
    assert begun + rows(rest) == expected


@pytest.mark.parametrize("padding", [True, "max_length"])
def test_padding_of_documents_is_refused(tokenizer_folder: Path, padding: Any) -> None:
    work = zephon.StaticMixtureWorkSource(
        [zephon.Dataset.from_dict("t", {0: zephon.InMemoryShard([{"text": "a"}])})], {"t": 1}
    )
    with pytest.raises(ConfigError, match="padding is .*, expected False: .*pack_flat"):
        zephon.Pipeline(work).tokenize(tokenizer_folder, field="text", padding=padding)
