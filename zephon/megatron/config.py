"""Options of Megatron's datasets, under Megatron's names."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron.splits import (
    Split,
    SplitMatrix,
    convert_split_vector_to_split_matrix,
    parse_and_normalize_split,
)

Blend: TypeAlias = "tuple[list[str], list[float] | None]"


@dataclass(frozen=True, kw_only=True)
class BlendedMegatronDatasetConfig:
    """What a blend of datasets is made of and how it is divided.

    Exactly one of ``blend`` (with ``split``) and ``blend_per_split`` is given.

    Raises
    ------
    ConfigError, ConfigTypeError
        Naming the field and its value.
    """

    random_seed: int
    """Of every shuffle, 0 to 2**32 - 1."""

    sequence_length: int
    """Tokens of a sample, at least 2."""

    blend: Blend | None = None
    """Path prefixes and their weights or None, as ``get_blend_from_list`` returns."""

    blend_per_split: Sequence[Blend | None] | None = None
    """A blend for each of train, valid and test, or None for a split that is not wanted."""

    split: str | None = None
    """Shares of train, valid and test, such as ``"99,1,0"``; with ``blend`` only."""

    split_matrix: SplitMatrix | None = field(init=False, default=None)
    """The interval of each split, computed from ``split``."""

    num_dataset_builder_threads: int = 1
    """How many datasets of a blend are built at a time."""

    path_to_cache: str | os.PathLike[str] | None = None
    """Folder to read indices from and write them to; else ``ZEPHON_CACHE_DIR``, else none."""

    mmap_bin_files: bool = True
    """Map ``.bin`` files; with False read them, for file systems that do not map well."""

    tokenizer: Any = None
    """Gives the ids of end of document and padding, and a name for the cache.

    Read are ``eod`` or ``eos_token_id``, ``pad`` or ``pad_token_id``, and
    ``unique_identifiers`` or ``name_or_path``.
    """

    mid_level_dataset_surplus: float = 0.005
    """How many more samples than its share each dataset of a weighted blend is built with."""

    def __post_init__(self) -> None:
        _check_integer("random_seed", self.random_seed, 0, 2**32 - 1)
        _check_integer("sequence_length", self.sequence_length, 2, 2**31 - 1)
        _check_integer("num_dataset_builder_threads", self.num_dataset_builder_threads, 1, 2**16)
        if not isinstance(self.mmap_bin_files, bool):
            raise ConfigTypeError(f"mmap_bin_files must be a bool, got {self.mmap_bin_files!r}")
        if self.path_to_cache is not None and not isinstance(
            self.path_to_cache, (str, os.PathLike)
        ):
            raise ConfigTypeError(f"path_to_cache must be a path, got {self.path_to_cache!r}")
        surplus = self.mid_level_dataset_surplus
        if not isinstance(surplus, (int, float)) or isinstance(surplus, bool):
            raise ConfigTypeError(f"mid_level_dataset_surplus must be a number, got {surplus!r}")
        if not (math.isfinite(surplus) and surplus >= 0):
            raise ConfigError(
                f"mid_level_dataset_surplus must be finite and not negative, got {surplus}"
            )
        self._check_blends()
        if self.split is not None:
            matrix = convert_split_vector_to_split_matrix(parse_and_normalize_split(self.split))
            object.__setattr__(self, "split_matrix", matrix)

    def _check_blends(self) -> None:
        per_split = self.blend_per_split
        if per_split is None:
            if self.blend is not None:
                _check_blend("blend", self.blend)
                if self.split is None:
                    raise ConfigError("blend needs split, such as split='99,1,0'")
            return
        if self.blend is not None or self.split is not None:
            other = "blend" if self.blend is not None else "split"
            raise ConfigError(
                f"blend_per_split and {other} exclude each other: every split has its own blend"
            )
        if len(per_split) != len(Split):
            raise ConfigError(
                f"blend_per_split must have {len(Split)} entries, for train, valid and test, got "
                f"{per_split!r}"
            )
        for split, blend in zip(Split, per_split, strict=True):
            if blend is not None:
                _check_blend(f"blend_per_split[{split.value}]", blend)


@dataclass(frozen=True, kw_only=True)
class GPTDatasetConfig(BlendedMegatronDatasetConfig):
    """The same, and what a sample of :class:`~zephon.megatron.GPTDataset` looks like."""

    reset_position_ids: bool = False
    """Position ids start again after each end of document."""

    reset_attention_mask: bool = False
    """With ``create_attention_mask``: no attention across an end of document."""

    eod_mask_loss: bool = False
    """No loss where the input is the end of a document."""

    create_attention_mask: bool = False
    """Emit ``attention_mask``, bool ``[1, sequence_length, sequence_length]``, True = masked.

    Its size is the square of ``sequence_length``, so it is off unless asked for.
    """

    drop_last_partial_validation_sequence: bool = True
    """Drop the tokens of validation that do not fill a sample, or pad them."""

    add_extra_token_to_sequence: bool = True
    """Read one token more per sample, so that the last one has a label."""

    flavour: Literal["megatron", "automodel"] = "megatron"
    """Names and length: Megatron-LM's ``tokens`` and ``position_ids`` and every whole sample
    of the last epoch, or NeMo AutoModel's ``input_ids`` and no more than was asked for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (
            "reset_position_ids",
            "reset_attention_mask",
            "eod_mask_loss",
            "create_attention_mask",
            "drop_last_partial_validation_sequence",
            "add_extra_token_to_sequence",
        ):
            if not isinstance(getattr(self, name), bool):
                raise ConfigTypeError(f"{name} must be a bool, got {getattr(self, name)!r}")
        if self.flavour not in ("megatron", "automodel"):
            raise ConfigError(f"flavour must be 'megatron' or 'automodel', got {self.flavour!r}")
        if self.reset_attention_mask and not self.create_attention_mask:
            raise ConfigError("reset_attention_mask needs create_attention_mask=True")
        if self.reset_position_ids and self.flavour == "automodel":
            raise ConfigError("flavour='automodel' emits no position ids to reset_position_ids of")
        needing = [
            name
            for name in ("reset_position_ids", "reset_attention_mask", "eod_mask_loss")
            if getattr(self, name)
        ]
        if needing and end_of_document(self.tokenizer) is None:
            raise ConfigError(
                f"{needing[0]} needs a tokenizer that names its end of document (eod or "
                f"eos_token_id), got {self.tokenizer!r}"
            )


def end_of_document(tokenizer: Any) -> int | None:
    """The id that ends a document; None if the tokenizer has none."""
    return _token_id(tokenizer, "eod", "eos_token_id")


def padding(tokenizer: Any) -> int | None:
    """The id that fills a sample up; None if the tokenizer has none."""
    return _token_id(tokenizer, "pad", "pad_token_id")


def _token_id(tokenizer: Any, *names: str) -> int | None:
    for name in names:
        try:
            value = getattr(tokenizer, name, None)
        except NotImplementedError:  # Megatron's tokenizers, for what they lack
            continue
        if value is not None:
            return int(value)
    return None


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigTypeError(f"{name} must be an integer, got {value!r}")
    if not low <= value <= high:
        raise ConfigError(f"{name} must be from {low} to {high}, got {value}")


def _check_blend(name: str, blend: object) -> None:
    if not isinstance(blend, (tuple, list)) or len(blend) != 2:
        raise ConfigTypeError(f"{name} must be (prefixes, weights or None), got {blend!r}")
    prefixes, weights = blend
    if not isinstance(prefixes, (tuple, list)) or not all(isinstance(p, str) for p in prefixes):
        raise ConfigTypeError(f"{name} must begin with a list of path prefixes, got {prefixes!r}")
    if not prefixes:
        raise ConfigError(f"{name} has no path prefix")
    if weights is None:
        return
    if len(weights) != len(prefixes):
        raise ConfigError(f"{name} has {len(prefixes)} prefixes but {len(weights)} weights")
    for prefix, weight in zip(prefixes, weights, strict=True):
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            raise ConfigTypeError(f"{name}: the weight of {prefix} is not a number: {weight!r}")
        if not (math.isfinite(weight) and weight >= 0):
            raise ConfigError(
                f"{name}: the weight of {prefix} is {weight}; it must be finite and not negative"
            )
    if not sum(weights) > 0:
        raise ConfigError(f"{name}: every weight is 0, so there is nothing to blend")
