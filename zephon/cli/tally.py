"""What the demo counts while it loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zephon.work.base import WorkSource


@dataclass(slots=True)
class Tally:
    """Running counts, one entry per batch.

    The demo's documents all begin with the token ``bos`` and no document holds it
    elsewhere, which is how documents are counted here; a batch says where its segments
    lie (``document_ids``), not which of them go on from the row before.

    Attributes
    ----------
    bos : int
        Id of the token that begins every document.
    digests : list of str
        SHA-256 of each batch.
    started : list of int
        Documents that began up to and with each batch.
    tokens : list of dict
        Tokens delivered up to and with each batch, by source.
    filled : list of float
        Share of each batch's slots that hold a token.
    rows, cut_rows : int
        Rows delivered, and how many begin inside a document.
    segments : int
        Runs of one document's tokens, over all rows.
    """

    bos: int
    digests: list[str] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    tokens: list[dict[str, int]] = field(default_factory=list)
    filled: list[float] = field(default_factory=list)
    rows: int = 0
    cut_rows: int = 0
    segments: int = 0

    def add(self, batch: Mapping[str, Any], digest: str, tokens: Mapping[str, int]) -> None:
        """Count one batch; ``tokens`` are those delivered so far, by source."""
        starts = document_starts(batch, self.bos)  # bool [B, S + 1]
        before = self.started[-1] if self.started else 0
        self.digests.append(digest)
        self.started.append(before + int(starts.sum()))
        self.tokens.append(dict(tokens))
        self.filled.append(1.0 - float(batch["padding_mask"].numpy().mean()))
        self.rows += len(starts)
        self.cut_rows += int((~starts[:, 0]).sum())
        self.segments += int(batch["document_ids"].numpy().max(axis=1).sum())

    @property
    def efficiency(self) -> float:
        """Share of all slots that hold a token."""
        return float(np.mean(self.filled))

    def documents(self, work: WorkSource) -> dict[str, list[int]]:
        """Documents begun up to and with each batch, by source."""
        draws = work.lane(0, 1).draws(0, self.started[-1])
        ends = np.array(self.started)
        return {
            dataset.name: np.concatenate([[0], np.cumsum(draws.sources == number)])[ends].tolist()
            for number, dataset in enumerate(work.datasets)
        }


def document_starts(batch: Mapping[str, Any], bos: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where documents begin in the unshifted rows: bool ``[B, S + 1]``."""
    inputs, labels = batch["input_ids"].numpy(), batch["labels"].numpy()  # int64 [B, S]
    whole: np.ndarray[Any, np.dtype[np.bool_]] = np.concatenate([inputs, labels[:, -1:]], 1) == bos
    return whole
