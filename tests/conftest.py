"""Small real inputs that many tests share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import zephon
from zephon.ops import pack

# A machine that is busy with something else makes no test fail. (In CI hypothesis chooses a
# profile of its own, which has no deadline either.)
if "CI" not in os.environ:
    settings.register_profile("zephon", deadline=None)
    settings.load_profile("zephon")


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer of 300 ids, with BOS and EOS, as trainers store it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<bos>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the quick brown fox jumps over the lazy dog"] * 8, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<bos>", "eos_token": {"content": "<eos>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def memory_dataset() -> Callable[..., zephon.Dataset]:
    """A dataset of token documents of given lengths; token values tell document and place."""

    def make(name: str, lengths: list[int], *, base: int = 0, shards: int = 1) -> zephon.Dataset:
        rows = [
            {"tokens": base + 1000 * i + np.arange(n, dtype=np.int64)}
            for i, n in enumerate(lengths)
        ]
        parts = np.array_split(np.arange(len(rows)), shards)
        return zephon.Dataset.from_dict(
            name, {k: zephon.InMemoryShard([rows[i] for i in part]) for k, part in enumerate(parts)}
        )

    return make


@pytest.fixture(scope="module")
def small_windows() -> Iterator[None]:
    """Windows of packing that a few documents fill."""
    before = pack.WINDOW_DOCUMENTS, pack.WINDOW_ROWS
    pack.WINDOW_DOCUMENTS, pack.WINDOW_ROWS = 6, 3
    yield
    pack.WINDOW_DOCUMENTS, pack.WINDOW_ROWS = before


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, texts: list[object], **more: object) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps({"text": t, **more}) + "\n" for t in texts))
        return path

    return write
