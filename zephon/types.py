"""Samples, batches and what is made of them for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zephon._training_batch import TrainingBatch
from zephon.collation import to_training
from zephon.errors import DataError
from zephon.records import rows_from_payloads
from zephon.rows import Rows

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset

__all__ = ["SampleBatch", "SampleMeta", "SampleRecord", "TrainingBatch"]


@dataclass(frozen=True)
class SampleMeta:
    """Where a sample comes from.

    Attributes
    ----------
    sample_id : tuple of int
        Dataset, shard and document in it; of a packed row, those of its first document.
    lane_id, chunk_id, chunk_offset : int
        Lane, lane-batch of the whole run and row in it.
    component_sample_counts : dict
        Documents of each dataset that begin in the row.
    component_token_counts : dict or None
        Tokens of each dataset in the row; None before packing.
    lineage : tuple of int
        Path through operators that made several samples of one.
    tags : dict
        ``_packing_metadata`` of a packed row: ``num_sequences``, ``total_length``,
        ``packing_efficiency``, ``padding_length``.
    """

    sample_id: tuple[int, int, int]
    lane_id: int
    chunk_id: int
    chunk_offset: int = 0
    component_sample_counts: dict[int, int] = field(default_factory=dict)
    component_token_counts: dict[int, int] | None = None
    lineage: tuple[int, ...] = ()
    tags: dict[str, Any] = field(default_factory=dict)

    @property
    def padding_length(self) -> int:
        """Trailing tokens that are padding."""
        return int(self.tags.get("_packing_metadata", {}).get("padding_length", 0))


@dataclass(frozen=True)
class SampleRecord:
    """A payload and where it comes from."""

    meta: SampleMeta
    payload: Mapping[str, Any]


class SampleBatch:
    """Rows of packed documents, on their way to becoming tensors.

    Made by a pipeline, or of records by hand. A batch of a pipeline keeps its
    tokens where they were read; records are made only if somebody looks.

    Parameters
    ----------
    records : sequence of SampleRecord
        Payloads hold unshifted token ids under ``input_ids``, ``tokens``,
        ``token_ids`` or ``ids`` and, for rows of several documents,
        ``positions`` that restart at 0 at each.
    """

    __slots__ = ("_datasets", "_lane", "_number", "_records", "_rows")

    def __init__(self, records: Sequence[SampleRecord]) -> None:
        self._records: tuple[SampleRecord, ...] | None = tuple(records)
        self._rows: Rows | None = None
        self._datasets: tuple[Dataset, ...] = ()
        self._lane = self._number = 0

    @classmethod
    def from_rows(
        cls, rows: Rows, *, datasets: tuple[Dataset, ...], lane: int, number: int
    ) -> SampleBatch:
        """A batch of packed rows; ``number`` is its place among the run's lane-batches."""
        batch = cls(())
        batch._records, batch._rows = None, rows
        batch._datasets, batch._lane, batch._number = datasets, lane, number
        return batch

    def __len__(self) -> int:
        return len(self._records if self._rows is None else self._rows)  # type: ignore[arg-type]

    @property
    def records(self) -> tuple[SampleRecord, ...]:
        """One record per row: token ids, positions and provenance."""
        if self._records is None:
            assert self._rows is not None
            self._records = tuple(self._record(self._rows, row) for row in range(len(self)))
        return self._records

    @property
    def ids(self) -> list[tuple[int, int, int]]:
        """``sample_id`` of each row."""
        if self._rows is None:
            return [record.meta.sample_id for record in self.records]
        return [self._sample_id(self._rows, int(first)) for first in self._rows.splits[:-1]]

    @property
    def lane_ids(self) -> tuple[int, ...]:
        """Lane of each row."""
        if self._rows is None:
            return tuple(record.meta.lane_id for record in self.records)
        return (self._lane,) * len(self)

    @property
    def chunk_ids(self) -> tuple[int, ...]:
        """Lane-batch of each row, counted over the whole run."""
        if self._rows is None:
            return tuple(record.meta.chunk_id for record in self.records)
        return (self._number,) * len(self)

    def token_counts(self) -> dict[int, int]:
        """Tokens in the batch by dataset number; empty where it is not known."""
        if self._rows is not None:
            return _count(self._rows.source, self._rows.length)
        total: dict[int, int] = {}
        for record in self.records:
            for source, tokens in (record.meta.component_token_counts or {}).items():
                total[source] = total.get(source, 0) + tokens
        return total

    def document_counts(self) -> dict[int, int]:
        """Documents that begin in the batch by dataset number."""
        if self._rows is not None:
            begins = self._rows.offset == 0
            return _count(self._rows.source[begins], np.ones(int(begins.sum()), np.int64))
        total: dict[int, int] = {}
        for record in self.records:
            for source, samples in record.meta.component_sample_counts.items():
                total[source] = total.get(source, 0) + samples
        return total

    def rows(
        self,
        tokens_field: str = "auto",
        *,
        row_length: int | None = None,
        pad_token_id: int = 0,
    ) -> Rows:
        """The segment table; made of the records' payloads if the batch is made by hand.

        ``row_length`` and ``pad_token_id`` pad rows that were not packed.
        """
        if self._rows is not None:
            return self._rows
        return rows_from_payloads(
            [record.payload for record in self.records],
            tokens_field=tokens_field,
            padding=[record.meta.padding_length for record in self.records],
            row_length=row_length,
            pad_token_id=pad_token_id,
        )

    def collate(self, rows: Rows, *, shift: bool, ignore_index: int, **more: Any) -> None:
        """:meth:`Rows.collate`, with a token outside the vocabulary told by its document."""
        bad = rows.collate(shift=shift, ignore_index=ignore_index, **more)
        if bad is None:
            return
        segment, at, token = bad
        at += int(rows.offset[segment])
        source, document = int(rows.source[segment]), int(rows.row[segment])
        message = (
            f"token {at} is {token}, outside the vocabulary of {rows.vocab_size} ids. Was it made "
            "with another tokenizer? Tokenize it anew, or set vocab_size to what the model has"
        )
        if source < 0:
            raise DataError(f"segment {segment} of the batch: {message}")
        dataset = self._datasets[source]
        raise DataError(
            f"dataset {dataset.name!r}, document {document}: {message}",
            **dataset.place(document).as_kwargs(),
        )

    def to_training(self, **options: Any) -> dict[str, Any]:
        """Tensors for training; see :func:`zephon.collation.to_training` for the options."""
        return to_training(self, **options)

    def _sample_id(self, rows: Rows, segment: int) -> tuple[int, int, int]:
        if segment == len(rows.source) or rows.source[segment] < 0:
            return -1, -1, -1  # a row of padding
        source, row = int(rows.source[segment]), int(rows.row[segment])
        return source, *self._datasets[source].sample_id(row)

    def _record(self, rows: Rows, row: int) -> SampleRecord:
        first, last = int(rows.splits[row]), int(rows.splits[row + 1])
        segments = slice(first, last)
        length = int(rows.length[segments].sum())
        padding = rows.row_length - length
        pieces = [np.asarray(rows.tokens(segment), np.int64) for segment in range(first, last)]
        tokens = np.concatenate([*pieces, np.full(padding, rows.pad_token_id, np.int64)])
        runs = [*rows.length[segments].tolist(), padding]
        positions = np.concatenate([np.arange(run, dtype=np.int32) for run in runs])
        begins = rows.offset[segments] == 0
        meta = SampleMeta(
            sample_id=self._sample_id(rows, first),
            lane_id=self._lane,
            chunk_id=self._number,
            chunk_offset=row,
            component_sample_counts=_count(
                rows.source[segments][begins], np.ones(int(begins.sum()), np.int64)
            ),
            component_token_counts=_count(rows.source[segments], rows.length[segments]),
            tags={
                "_packing_metadata": {
                    "num_sequences": last - first,
                    "total_length": length,
                    "packing_efficiency": length / rows.row_length,
                    "padding_length": padding,
                }
            },
        )
        return SampleRecord(meta, {"input_ids": tokens, "positions": positions})


def _count(sources: NDArray[np.int64], amounts: NDArray[np.int64]) -> dict[int, int]:
    known = sources >= 0
    totals = np.zeros(int(sources.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(totals, sources[known], amounts[known])
    return {int(source): int(totals[source]) for source in np.unique(sources[known])}
