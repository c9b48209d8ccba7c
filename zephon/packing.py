"""What a model asks of packed batches, and the forms in which it can get document boundaries.

The contract is independent of PyTorch; the functions that make and check metadata import it when
they are called.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

from zephon._flat_metadata import flatten_packed_sequence_metadata
from zephon._packed_sequences import (
    PackedSequenceMetadata,
    build_block_causal_mask,
    build_packed_sequence_metadata,
    get_seqlens_in_batch,
    get_unpad_data,
    is_indexed_packed_mask,
)
from zephon.errors import ConfigError, ConfigTypeError

__all__ = [
    "DEFAULT_PACKED_SEQUENCE_CONTRACT",
    "BatchOutputFormat",
    "PackedMaskType",
    "PackedSequenceContract",
    "PackedSequenceMetadata",
    "PackingContract",
    "build_block_causal_mask",
    "build_packed_sequence_metadata",
    "check_output_format",
    "flatten_packed_sequence_metadata",
    "get_seqlens_in_batch",
    "get_unpad_data",
    "is_indexed_packed_mask",
    "read_packing_contract",
    "resolve_packing_contract",
]

PackedMaskType = Literal["block_causal", "document_ids"]
BatchOutputFormat = Literal["batched", "thd"]

_PACKED_MASK_TYPES = get_args(PackedMaskType)
_BATCH_OUTPUT_FORMATS = get_args(BatchOutputFormat)

_LEGACY_FLASH_ATTENTION_IMPLEMENTATIONS = frozenset(
    {"flash_attention_2", "flash_attention_3", "flash_attention_4"}
)


class PackedSequenceContract(Protocol):
    """Any object that says how a model wants packed rows; frameworks bring their own.

    ``packed_mask_type`` is required. These are read where they exist, and count as False or None
    where they do not: ``return_packed_sequence_metadata`` (or its older spelling
    ``requires_packed_sequence_metadata``, read only without the newer one),
    ``return_document_ids`` and ``max_sequence_length``. :class:`PackingContract` says what each
    means.
    """

    @property
    def packed_mask_type(self) -> PackedMaskType:
        """``"block_causal"`` or ``"document_ids"``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingContract:
    """A packing contract with every request spelled out.

    Raises
    ------
    ConfigError
        If a field has a value that is not listed below; ConfigTypeError for a wrong type.
    """

    packed_mask_type: PackedMaskType = "block_causal"
    """Form of ``attention_mask`` in batched output. A block causal mask takes ``B * S * S`` bytes
    and as much time, so long rows want ``"document_ids"``."""

    return_packed_sequence_metadata: bool = False
    """Add ``packed_token_indices``, ``cu_seqlens`` and ``max_seqlen`` to batched output."""

    return_document_ids: bool = False
    """Keep ``document_ids``, the membership before attention policy, in either output."""

    max_sequence_length: int | None = None
    """Longest row that the model takes, in tokens after the shift; None if there is no limit."""

    def __post_init__(self) -> None:
        if self.packed_mask_type not in _PACKED_MASK_TYPES:
            raise ConfigError(
                f"packed_mask_type is {self.packed_mask_type!r}, "
                f"expected one of {_listed(_PACKED_MASK_TYPES)}"
            )
        for name in ("return_packed_sequence_metadata", "return_document_ids"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ConfigTypeError(f"{name} is {value!r}, expected a bool")
        limit = self.max_sequence_length
        if limit is None:
            return
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise ConfigTypeError(f"max_sequence_length is {limit!r}, expected an int or None")
        if limit < 1:
            raise ConfigError(f"max_sequence_length is {limit}, expected at least 1")

    @property
    def requires_packed_sequence_metadata(self) -> bool:
        """The older spelling of ``return_packed_sequence_metadata``."""
        return self.return_packed_sequence_metadata


DEFAULT_PACKED_SEQUENCE_CONTRACT = PackingContract()
"""A block causal mask and nothing else."""


def read_packing_contract(packing_contract: PackedSequenceContract) -> PackingContract:
    """Spell out and check any contract object, of either generation.

    Raises
    ------
    ConfigTypeError
        If it has no ``packed_mask_type``, or a field of the wrong type.
    ConfigError
        If a field has an unknown value.
    """
    if isinstance(packing_contract, PackingContract):
        return packing_contract
    missing = object()
    mask_type = getattr(packing_contract, "packed_mask_type", missing)
    if mask_type is missing:
        raise ConfigTypeError(
            f"packing_contract is {packing_contract!r}, expected an object with packed_mask_type"
        )
    metadata = getattr(packing_contract, "return_packed_sequence_metadata", missing)
    if metadata is missing:
        metadata = getattr(packing_contract, "requires_packed_sequence_metadata", False)
    return PackingContract(
        packed_mask_type=cast(PackedMaskType, mask_type),
        return_packed_sequence_metadata=cast(bool, metadata),
        return_document_ids=getattr(packing_contract, "return_document_ids", False),
        max_sequence_length=getattr(packing_contract, "max_sequence_length", None),
    )


def resolve_packing_contract(
    packing_contract: PackedSequenceContract | None = None,
    attn_implementation: str | None = None,
) -> PackedSequenceContract:
    """The contract to use, from a contract or from the deprecated attention keyword.

    Parameters
    ----------
    packing_contract : PackedSequenceContract or None
        Returned as it is.
    attn_implementation : str or None
        Deprecated, with a warning: ``flash_attention_2``, ``_3`` and ``_4`` ask for document ids,
        any other name for a block causal mask.

    Raises
    ------
    ConfigError
        If both are given.
    """
    if attn_implementation is None:
        if packing_contract is None:
            return DEFAULT_PACKED_SEQUENCE_CONTRACT
        return packing_contract
    if packing_contract is not None:
        raise ConfigError(
            f"packing_contract and attn_implementation={attn_implementation!r} were both given, "
            "expected the packing_contract alone"
        )
    warnings.warn(
        "attn_implementation is deprecated, give a packing_contract",
        DeprecationWarning,
        stacklevel=2,
    )
    if attn_implementation in _LEGACY_FLASH_ATTENTION_IMPLEMENTATIONS:
        return PackingContract(packed_mask_type="document_ids")
    return DEFAULT_PACKED_SEQUENCE_CONTRACT


def check_output_format(output_format: str) -> None:
    """Refuse an output format that is not a :data:`BatchOutputFormat` with a ConfigError."""
    if output_format not in _BATCH_OUTPUT_FORMATS:
        raise ConfigError(
            f"output_format is {output_format!r}, expected one of {_listed(_BATCH_OUTPUT_FORMATS)}"
        )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
