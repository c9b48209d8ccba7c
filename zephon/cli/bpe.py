"""A small byte-level BPE tokenizer, made for the demo from its own text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zephon.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"


def sample(documents: Sequence[str], characters: int) -> list[str]:
    """Evenly spread documents of about ``characters`` characters in all, in their order."""
    total = sum(map(len, documents))
    step = max(1, -(-total // characters))
    return list(documents[::step])


def train(documents: Sequence[str], vocabulary: int) -> Tokenizer:
    """Train on ``documents``; the result has at most ``vocabulary`` entries.

    The same documents give the same tokenizer, whatever the number of threads.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        documents,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[BOS, EOS, PAD],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def load(folder: Path) -> Tokenizer:
    """Read what :func:`save` wrote.

    Raises
    ------
    DataError
        When the file is missing or not a tokenizer.
    """
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing narrower
        raise DataError(
            f"not a tokenizer ({error}); remove it, and the demo makes another", file=file
        ) from error


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Id of a special token, which :func:`train` put there."""
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ConfigError(f"the tokenizer has no token {token}; it is not the demo's")
    return found


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` to ``folder``, which is made."""
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
