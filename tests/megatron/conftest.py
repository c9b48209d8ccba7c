"""Small datasets and tokenizers for the tests of GPT datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from zephon.megatron import GPTDatasetConfig, IndexedDatasetBuilder


class Tokenizer:
    """What Megatron's datasets ask a tokenizer for."""

    def __init__(self, eod: int | None = 0, pad: int | None = -1) -> None:
        self.eod = eod
        self.pad = pad
        self.unique_identifiers = {"klass": "GoldenTok", "vocab": 1000}


@pytest.fixture
def golden_tokenizer() -> Tokenizer:
    return Tokenizer()


@pytest.fixture
def make_tokenizer() -> type[Tokenizer]:
    return Tokenizer


@pytest.fixture
def write_pair(tmp_path: Path) -> Callable[..., str]:
    """Write documents, one sequence each, as ``.bin/.idx``; the prefix."""

    def write(name: str, documents: list[list[int]], dtype: type = np.uint16) -> str:
        prefix = str(tmp_path / name)
        with IndexedDatasetBuilder(prefix + ".bin", dtype) as builder:
            for document in documents:
                builder.add_item(np.array(document, dtype))
                builder.end_document()
            builder.finalize(prefix + ".idx")
        return prefix

    return write


@pytest.fixture
def config() -> Callable[..., GPTDatasetConfig]:
    def make(**changes: object) -> GPTDatasetConfig:
        options = {
            "random_seed": 1234,
            "sequence_length": 4,
            "split": "1",
            "tokenizer": Tokenizer(),
        }
        return GPTDatasetConfig(**{**options, **changes})

    return make


@pytest.fixture(autouse=True)
def no_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEPHON_CACHE_DIR", raising=False)
