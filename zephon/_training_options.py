"""What a batch is asked for when it becomes tensors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from zephon._memory import TensorPool
from zephon.aligned import MASK_FIELD
from zephon.errors import ConfigError, ConfigTypeError

PositionMode = Literal["preserve", "sequence"]
IndexDtype = Literal["int64", "int32"]

_ABOUT_LABELS = (
    "return_loss_mask",
    "return_num_valid_tokens",
    "eos_mask_loss",
    "mask_segment_starts",
)
_POSITION_MODES = ("preserve", "sequence")
INDEX_DTYPES: dict[str, type[np.generic]] = {"int64": np.int64, "int32": np.int32}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What :meth:`zephon.types.SampleBatch.to_training` is asked for; see there."""

    tokens_field: str = "auto"
    return_labels: bool = False
    dtype: Any = "auto"
    extra_fields: Sequence[str] = ()
    ignore_index: int = -100
    rename_fields: Mapping[str, str] | None = None
    flatten: bool = False
    exclude_fields: Sequence[str] = ()
    return_num_valid_tokens: bool = False
    return_loss_mask: bool = False
    return_cu_seqlens: bool = False
    return_padding_mask: bool = False
    return_document_ids: bool = False
    eos_mask_loss: bool = False
    eos_token_id: int | None = None
    mask_segment_starts: bool = False
    position_mode: PositionMode = "preserve"
    index_dtype: IndexDtype | None = None
    pool: TensorPool | None = None
    pin_memory: bool = False

    def __post_init__(self) -> None:
        # Runs once for every batch, so what was not asked for is not looked at.
        for name, value in (
            ("exclude_fields", self.exclude_fields),
            ("extra_fields", self.extra_fields),
        ):
            if isinstance(value, str):
                raise ConfigTypeError(
                    f"{name} is the str {value!r}, expected a sequence of names, not a string"
                )
        for name in _ABOUT_LABELS if not self.return_labels else ():
            if getattr(self, name):
                raise ConfigError(f"{name} requires return_labels=True: it is about labels")
        if self.position_mode not in _POSITION_MODES:
            raise ConfigError(
                f"position_mode must be 'preserve' or 'sequence', it is {self.position_mode!r}"
            )
        if self.index_dtype is not None and self.index_dtype not in INDEX_DTYPES:
            raise ConfigError(
                f"index_dtype is {self.index_dtype!r}, expected 'int64', 'int32' or None"
            )
        if self.eos_token_id is not None or self.eos_mask_loss:
            self._check_eos()
        if self.extra_fields:
            self._check_extra_fields()

    def _check_eos(self) -> None:
        value = self.eos_token_id
        if value is None:
            raise ConfigError(
                "eos_mask_loss needs eos_token_id: the id is not guessed from the tokens"
            )
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ConfigError(f"eos_token_id must be a nonnegative integer, it is {value!r}")
        if not self.eos_mask_loss:
            # Called by the dataclass, by to_training and by the user: it is the user's line.
            warnings.warn(
                "eos_token_id is ignored without eos_mask_loss=True", UserWarning, stacklevel=5
            )

    def _check_extra_fields(self) -> None:
        generated = {
            "ids": True,
            "texts": True,
            "input_ids": True,
            "labels": self.return_labels,
            "num_valid_tokens": self.return_num_valid_tokens,
            "cu_seqlens": self.return_cu_seqlens,
            "max_seqlen": self.return_cu_seqlens,
            "padding_mask": self.return_padding_mask,
            "document_ids": self.return_document_ids,
        }
        for name in self.extra_fields:
            if generated.get(name):
                raise ConfigError(
                    f"extra_fields cannot include {name!r}: they cannot overwrite generated field "
                    f"{name!r}"
                )
        if self.return_labels and MASK_FIELD in self.extra_fields:
            raise ConfigError(
                f"extra_fields cannot include {MASK_FIELD!r} with return_labels=True: extra fields "
                "are input-aligned, not label-aligned. The mask is in the labels already; "
                "return_loss_mask=True gives it beside them"
            )

    def about_tokens(self) -> list[str]:
        """The options in use that a batch without tokens cannot serve."""
        names = [name for name in self.__dataclass_fields__ if name.startswith("return_")]
        return [n for n in (*names, "extra_fields", "flatten") if getattr(self, n)]
