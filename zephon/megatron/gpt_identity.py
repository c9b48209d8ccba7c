"""What the index of a GPT dataset is named after, here and in the references."""

from __future__ import annotations

from typing import Any

from zephon.megatron.config import GPTDatasetConfig
from zephon.megatron.index_cache import describe
from zephon.megatron.splits import Split

# Megatron leaves these out, so its caches of different indices have one name.
_NOT_IN_MEGATRONS = {
    "add_extra_token_to_sequence": True,
    "drop_last_partial_validation_sequence": True,
}


def identifiers(
    class_name: str,
    dataset_path: str | None,
    num_samples: int | None,
    split: Split,
    config: GPTDatasetConfig,
) -> dict[str, Any]:
    """Megatron-LM's identifiers, and the options it leaves out where they are not the default."""
    changed = {
        name: getattr(config, name)
        for name, default in _NOT_IN_MEGATRONS.items()
        if getattr(config, name) != default
    }
    return {
        "class": class_name,
        "dataset_path": dataset_path,
        "num_samples": num_samples,
        "index_split": split.name,
        "random_seed": config.random_seed,
        "sequence_length": config.sequence_length,
        "split": config.split,
        "split_matrix": config.split_matrix,
        "tokenizer": _tokenizer_name(config.tokenizer),
        **changed,
    }


def foreign_descriptions(ours: dict[str, Any], config: GPTDatasetConfig) -> list[str]:
    """The same index as Megatron-LM and NeMo AutoModel describe it, where that differs."""
    megatron = {name: value for name, value in ours.items() if name not in _NOT_IN_MEGATRONS}
    found = [describe(megatron)]
    name = getattr(config.tokenizer, "name_or_path", None)
    if name is not None:  # AutoModel has it before the seed
        entries = list(megatron.items())
        found.append(describe(dict([*entries[:4], ("tokenizer", name), *entries[4:-1]])))
    return [text for text in found if text != describe(ours)]


def _tokenizer_name(tokenizer: Any) -> Any:
    if tokenizer is None:
        return None
    for attribute in ("unique_identifiers", "name_or_path"):
        name = getattr(tokenizer, attribute, None)
        if name is not None:
            return name
    return f"{type(tokenizer).__module__}.{type(tokenizer).__qualname__}"
