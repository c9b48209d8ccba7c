"""What packing is asked to do, and the sizes of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from zephon.errors import ConfigError, ConfigTypeError
from zephon.options import check_int

PackingAlgorithm = Literal["wrap", "first_fit", "best_fit", "best_fit_wrap"]
ALGORITHMS = ("wrap", "first_fit", "best_fit", "best_fit_wrap")
WRAPPING = ("wrap", "best_fit_wrap")

WINDOW_DOCUMENTS = 1024
"""Documents that first_fit and best_fit choose among, if num_bins is not more: padding of lognormal
lengths is below half a percent then (1.3 % with 256)."""
WINDOW_ROWS = 64
"""Rows that best_fit_wrap fills at a time."""


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """How documents become rows.

    Attributes
    ----------
    max_length : int
        Tokens per row, one more than the model's input length: inputs and labels
        are the row without its last and its first token.
    algorithm : {"wrap", "first_fit", "best_fit", "best_fit_wrap"}
        How documents are laid out.
    num_bins : int or None
        For first_fit and best_fit: they choose among at least so many documents.
    max_sequences_per_bin : int or None
        Documents that a row holds at most; it is padded if they do not fill it.
    pad_token_id : int
        What padding is filled with.
    drop_oversized : bool or None
        Whether documents longer than a row are left out and counted. None: first_fit
        and best_fit do, the others cut them. False with first_fit or best_fit: they
        are split into parts of a row.
    min_sequence_length : int or None
        Documents with fewer tokens are left out, and counted with those that have none.
    groups : tuple of (dataset, group), or None
        Only documents of one group come into a row; for first_fit and best_fit, which pack
        each group of a window by itself. None: documents of all datasets are mixed.
    """

    max_length: int
    algorithm: PackingAlgorithm = "wrap"
    num_bins: int | None = None
    max_sequences_per_bin: int | None = None
    pad_token_id: int = 0
    drop_oversized: bool | None = None
    min_sequence_length: int | None = None
    groups: tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_length, bool) or not isinstance(self.max_length, int):
            raise ConfigTypeError(f"max_length is {self.max_length!r}, expected an int")
        if not 2 <= self.max_length < 2**31:
            raise ConfigError(
                f"max_length is {self.max_length}, expected 2 to 2**31 - 1 tokens: a row gives "
                "max_length - 1 inputs and as many labels"
            )
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(
                f"Unknown algorithm {self.algorithm!r}, expected one of {', '.join(ALGORITHMS)}"
            )
        if self.num_bins is not None:
            if self.algorithm in WRAPPING:
                raise ConfigError(
                    f"num_bins does not apply to {self.algorithm!r}, which fills one row after "
                    "the other: leave it out"
                )
            if not isinstance(self.num_bins, int) or isinstance(self.num_bins, bool):
                raise ConfigTypeError(f"num_bins is {self.num_bins!r}, expected an int")
            if not 1 <= self.num_bins <= 2**20:
                raise ConfigError(
                    f"num_bins must be positive and at most 2**20, it is {self.num_bins}"
                )
        if self.max_sequences_per_bin is not None:
            check_int("max_sequences_per_bin", self.max_sequences_per_bin, 1, 2**31)
        check_int("pad_token_id", self.pad_token_id, 0, 2**31)
        if not (self.drop_oversized is None or isinstance(self.drop_oversized, bool)):
            raise ConfigTypeError(
                f"drop_oversized is {self.drop_oversized!r}, expected True, False or None"
            )
        if self.min_sequence_length is not None:
            check_int("min_sequence_length", self.min_sequence_length, 1, 2**31)
        if self.shortest > self.max_length and self.drops_oversized:
            raise ConfigError(
                f"min_sequence_length is {self.min_sequence_length}, more than max_length "
                f"{self.max_length}: no document would be packed"
            )
        if self.groups and self.wraps:
            raise ConfigError(
                f"homogeneity does not apply to {self.algorithm!r}, which fills rows with whatever "
                "comes next: use algorithm='first_fit' or 'best_fit', or a pipeline for each group"
            )

    @property
    def wraps(self) -> bool:
        """Whether documents may be cut to fill rows."""
        return self.algorithm in WRAPPING

    @property
    def shortest(self) -> int:
        """Tokens that a document has at least, to be packed."""
        return self.min_sequence_length or 1

    @property
    def drops_oversized(self) -> bool:
        """Whether documents longer than a row are left out."""
        return not self.wraps if self.drop_oversized is None else self.drop_oversized

    @property
    def pads_tail(self) -> bool:
        """Whether the last row of a lane is padded rather than dropped, if not told."""
        return self.algorithm != "wrap" or self.max_sequences_per_bin is not None

    def shaping(self) -> dict[str, Any]:
        """What decides the rows, for the fingerprint of a state."""
        return {
            "max_length": self.max_length,
            "algorithm": self.algorithm,
            "window": max(WINDOW_DOCUMENTS, self.num_bins or 0)
            if not self.wraps
            else (WINDOW_ROWS if self.algorithm == "best_fit_wrap" else 1),
            "max_sequences_per_bin": self.max_sequences_per_bin,
            "drop_oversized": self.drops_oversized,
            # Only where they are used: states of before know nothing of them.
            **({} if self.shortest == 1 else {"min_sequence_length": self.shortest}),
            **({"groups": [list(one) for one in self.groups]} if self.groups else {}),
        }
