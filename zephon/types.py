"""Samples, batches and what is made of them for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zephon._document_fields import DocumentFields
from zephon._memory import TensorPool
from zephon._row_records import (
    count_by_source,
    field_names,
    row_meta,
    row_payload,
    sample_ids,
)
from zephon._sample import (
    ChunkId,
    ChunkOffset,
    ComponentId,
    ContributorRef,
    DatasetId,
    LaneId,
    LineageIndex,
    LineagePath,
    LocalSampleId,
    SampleCursor,
    SampleCursorKey,
    SampleId,
    SampleMeta,
    SampleNumeric,
    SamplePayload,
    SamplePayloadArray,
    SamplePayloadAtom,
    SamplePayloadDict,
    SampleRecord,
    ShardId,
)
from zephon._training_batch import TrainingBatch
from zephon._training_options import IndexDtype, PositionMode, TrainingOptions
from zephon.aligned import MASK_FIELD
from zephon.block import SharedBuffers
from zephon.collation import to_training
from zephon.errors import DataError
from zephon.records import (
    POSITION_FIELD,
    TEXT_FIELD,
    as_mappings,
    is_text,
    payload_field,
    rows_from_payloads,
)
from zephon.rows import Rows

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset

__all__ = [
    "ChunkId",
    "ChunkOffset",
    "ComponentId",
    "ContributorRef",
    "DatasetId",
    "LaneId",
    "LineageIndex",
    "LineagePath",
    "LocalSampleId",
    "SampleBatch",
    "SampleCursor",
    "SampleCursorKey",
    "SampleId",
    "SampleMeta",
    "SampleNumeric",
    "SamplePayload",
    "SamplePayloadArray",
    "SamplePayloadAtom",
    "SamplePayloadDict",
    "SampleRecord",
    "ShardId",
    "StreamItem",
    "TensorPool",
    "TrainingBatch",
]


class SampleBatch:
    """Rows of packed documents, on their way to becoming tensors.

    Made by a pipeline, or of records by hand. A batch of a pipeline keeps its
    tokens where they were read; records are made only if somebody looks.

    Parameters
    ----------
    records : sequence of SampleRecord
        Payloads hold unshifted token ids under ``input_ids``, ``tokens``,
        ``token_ids`` or ``ids`` and, for rows of several documents,
        ``positions`` that restart at 0 at each; or they are arrays of token ids.
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
        batch = cls.__new__(cls)
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
            self._records = self._make_records(self._rows)
        return self._records

    @property
    def ids(self) -> tuple[SampleId, ...]:
        """``sample_id`` of each row."""
        if self._rows is None:
            return tuple(record.meta.sample_id for record in self.records)
        return sample_ids(self._rows, self._datasets)

    @property
    def lineage_paths(self) -> tuple[LineagePath, ...]:
        """Lineage of each row; empty for packed ones."""
        if self._rows is None:
            return tuple(record.meta.lineage for record in self.records)
        return ((),) * len(self)

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
            return count_by_source(self._rows.source, self._rows.length)
        total: dict[int, int] = {}
        for record in self.records:
            for source, tokens in (record.meta.component_token_counts or {}).items():
                total[source] = total.get(source, 0) + tokens
        return total

    def document_counts(self) -> dict[int, int]:
        """Documents that begin in the batch by dataset number."""
        if self._rows is not None:
            begins = self._rows.offset == 0
            return count_by_source(self._rows.source[begins], np.ones(int(begins.sum()), np.int64))
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
        ragged: bool = False,
    ) -> Rows:
        """The segment table; made of the records' payloads if the batch is made by hand.

        ``row_length`` and ``pad_token_id`` pad rows that were not packed; ``ragged``
        allows payloads of different lengths.
        """
        if self._rows is not None:
            return self._rows
        return rows_from_payloads(
            [record.payload for record in self.records],
            tokens_field=tokens_field,
            padding=[record.meta.padding_length for record in self.records],
            row_length=row_length,
            pad_token_id=pad_token_id,
            ragged=ragged,
        )

    def texts(self) -> list[str]:
        """Text of each row's payload; empty for packed rows and payloads without."""
        if self._rows is not None:
            return [""] * len(self)
        payloads = [record.payload for record in self.records]
        found = [p.get(TEXT_FIELD) if isinstance(p, Mapping) else None for p in payloads]
        return [text if isinstance(text, str) else "" for text in found]

    def is_text(self) -> bool:
        """Whether all payloads hold text, and nothing that could be tokens."""
        return self._rows is None and all(
            isinstance(record.payload, Mapping) and is_text(record.payload)
            for record in self.records
        )

    def has_field(self, name: str) -> bool:
        """Whether rows carry a field: packed ones have ``positions`` and perhaps ``loss_mask``."""
        if self._rows is None:
            payload = self.records[0].payload
            return isinstance(payload, Mapping) and payload.get(name) is not None
        if name == POSITION_FIELD:
            return True
        return name == MASK_FIELD and self._rows.has_mask()

    def documents(self, row: int) -> DocumentFields:
        """What the documents of a packed row have besides tokens: strings, numbers, nulls.

        One mapping for each segment of the row, read from the dataset when it is
        looked at. Of a batch made by hand there are none.
        """
        rows = self._rows
        if rows is None:
            return DocumentFields((), (), ())
        part = slice(int(rows.splits[row]), int(rows.splits[row + 1]))
        return DocumentFields(self._datasets, rows.source[part].tolist(), rows.row[part].tolist())

    def field(self, name: str, rows: Rows, width: int) -> NDArray[Any]:
        """Per-token values of a field that goes along with the tokens, ``[B, width]``.

        ``rows`` are those of :meth:`rows`. Integers come as int64, bool and floats as
        they are; padding of packed rows is 0, a missing ``loss_mask`` 1.

        Raises
        ------
        DataError
            A document has no such field with one number for each of its tokens.
        ConfigError
            The same of a payload.
        """
        if self._rows is None:
            records = as_mappings([record.payload for record in self.records], "auto")
            values = [
                payload_field(record, name, i, len(tokens))
                for i, (record, tokens) in enumerate(zip(records, rows.buffers, strict=True))
            ]
            whole = np.arange(len(values) + 1, dtype=np.int64)  # a payload is one run
            return replace(rows, splits=whole).spread(values, width)
        values = []
        for segment, length in enumerate(rows.length.tolist()):
            if rows.source[segment] < 0:  # not of any document
                values.append(np.zeros(length, dtype=np.uint8))
                continue
            try:
                values.append(rows.field(name, segment))
            except DataError as error:
                raise self._data_error(rows, segment, error.message) from None
        return rows.spread(values, width)

    def collate(self, rows: Rows, **given: Any) -> None:
        """:meth:`Rows.collate` as it is ``given``, with a bad token told by its document.

        Padding that payloads made by hand come with stays what it is.
        """
        if isinstance(rows.buffers, SharedBuffers):
            rows.buffers.check(rows.buffer)
        else:
            for source in set(rows.source.tolist()) - {-1}:
                self._datasets[source].check(rows.row[rows.source == source])
        bad = rows.collate(**given)
        if bad is not None:
            segment, at, token = bad
            at += int(rows.offset[segment])
            told = (
                f"outside the vocabulary of {rows.vocab_size} ids. Was it made with another "
                "tokenizer? Tokenize it anew, or set vocab_size to what the model has"
            )
            if token < 0:
                told = "but ids are not negative: was it written with too small an integer type?"
            raise self._data_error(rows, segment, f"token {at} is {token}, {told}")
        if self._rows is None and given.get("input_ids") is not None:
            inputs = np.asarray(given["input_ids"])
            for row, (tokens, real) in enumerate(
                zip(rows.buffers, rows.lengths().tolist(), strict=True)
            ):
                part = inputs[row, real : len(tokens)]
                part[:] = tokens[real : real + len(part)]

    def to_training(
        self,
        *,
        tokens_field: str = "auto",
        return_labels: bool = False,
        dtype: Any = "auto",
        extra_fields: Sequence[str] = (),
        ignore_index: int = -100,
        rename_fields: Mapping[str, str] | None = None,
        flatten: bool = False,
        exclude_fields: Sequence[str] = (),
        return_num_valid_tokens: bool = False,
        return_loss_mask: bool = False,
        return_cu_seqlens: bool = False,
        return_padding_mask: bool = False,
        return_document_ids: bool = False,
        eos_mask_loss: bool = False,
        eos_token_id: int | None = None,
        mask_segment_starts: bool = False,
        position_mode: PositionMode = "preserve",
        index_dtype: IndexDtype | None = None,
        pool: TensorPool | None = None,
        pin_memory: bool = False,
    ) -> dict[str, Any]:
        """Tensors for training.

        With ``B`` rows of ``L`` tokens, ``W = L - 1`` if labels are asked for (inputs
        are the tokens without the last, labels those without the first) and ``W = L``
        otherwise. Padding is one trailing segment, known by place and never by id: its
        positions run from 0, its document id is 0, its labels are ignored.

        A ``loss_mask`` that came with the tokens masks labels and is used up by that.
        Without labels it comes out, input-aligned, where a row of the batch has one; as
        an extra field it does so in any case, 1 for documents without. Payloads of
        different lengths are shifted each for itself and need ``flatten`` or lists.

        Parameters
        ----------
        tokens_field : str
            Field of hand-made payloads that holds the tokens; ``"auto"`` takes the first
            of ``input_ids``, ``tokens``, ``token_ids``, ``ids``.
        return_labels : bool
            Add ``labels`` int64 ``[B, W]``, shifted.
        dtype : torch.dtype, NumPy dtype, "auto" or None
            Of token ids, labels, positions, document ids and integer extra fields.
            ``"auto"`` is ``torch.int64``; a NumPy dtype gives arrays instead of
            tensors; None lists.
        extra_fields : sequence of str
            Further per-token fields ``[B, W]``, aligned with the inputs; 0 at the padding
            of packed rows. Fields that the call makes cannot be among them.
        ignore_index : int
            Label of targets that are padding or masked.
        rename_fields : mapping, optional
            New names of fields; every source must exist, no target may be taken. Fields
            may swap names.
        flatten : bool
            ``[B * W]`` instead of ``[B, W]``.
        exclude_fields : sequence of str
            Fields to leave out, by their names after renaming.
        return_num_valid_tokens : bool
            Add ``num_valid_tokens``, an int: labels that are not ``ignore_index``.
        return_loss_mask : bool
            Add ``loss_mask`` float32: 1 where a label is not ``ignore_index``.
        return_cu_seqlens : bool
            Add ``cu_seqlens`` int32 ``[B, K]``, padded with the row's length, and
            ``max_seqlen`` int32 ``[B]``; flattened, one vector and an int.
        return_padding_mask : bool
            Add ``padding_mask`` bool, True at padding.
        return_document_ids : bool
            Add ``document_ids``: 1, 2, ... by segment of the row, 0 at padding.
        eos_mask_loss : bool
            Ignore every label whose input is ``eos_token_id``.
        eos_token_id : int, optional
            What ``eos_mask_loss`` looks for.
        mask_segment_starts : bool
            Do not learn the first token of a document from the document before it. Goes
            by the segments; of payloads, every restart of positions begins a document.
        position_mode : {"preserve", "sequence"}
            Positions that restart with each segment, or 0 to ``W - 1`` through the row.
            Boundaries are told by the segments in both.
        index_dtype : {"int64", "int32"}, optional
            Of positions and document ids, written so in the first place; as ``dtype``
            if not given.
        pool : TensorPool, optional
            Where tensors take their memory from, rather than fresh from torch.
        pin_memory : bool
            Take it pinned, for asynchronous copies to a CUDA device.

        Returns
        -------
        dict
            ``ids`` (list of sample ids), ``texts`` (list of str), ``input_ids``, ``positions``
            (if the rows have boundaries, as packed ones do) and what was asked for. Of no
            rows: the lists, and empty values of what was asked for.

        Raises
        ------
        DataError
            A token id is outside the vocabulary, or a document lacks an extra field.
        ConfigError
            Options that do not go together; payloads without tokens, of different
            lengths, or with positions that do not restart at 0.
        """
        return to_training(
            self,
            TrainingOptions(
                tokens_field=tokens_field,
                return_labels=return_labels,
                dtype=dtype,
                extra_fields=extra_fields,
                ignore_index=ignore_index,
                rename_fields=rename_fields,
                flatten=flatten,
                exclude_fields=exclude_fields,
                return_num_valid_tokens=return_num_valid_tokens,
                return_loss_mask=return_loss_mask,
                return_cu_seqlens=return_cu_seqlens,
                return_padding_mask=return_padding_mask,
                return_document_ids=return_document_ids,
                eos_mask_loss=eos_mask_loss,
                eos_token_id=eos_token_id,
                mask_segment_starts=mask_segment_starts,
                position_mode=position_mode,
                index_dtype=index_dtype,
                pool=pool,
                pin_memory=pin_memory,
            ),
        )

    def _data_error(self, rows: Rows, segment: int, message: str) -> DataError:
        """``message`` about the document of a segment, with its place."""
        source, document = int(rows.source[segment]), int(rows.row[segment])
        if source < 0:
            return DataError(f"segment {segment} of the batch: {message}")
        dataset = self._datasets[source]
        return DataError(
            f"dataset {dataset.name!r}, document {document}: {message}",
            **dataset.place(document).as_kwargs(),
        )

    def _make_records(self, rows: Rows) -> tuple[SampleRecord, ...]:
        names = field_names(rows)
        fields = {name: self.field(name, rows, rows.row_length) for name in names}
        return tuple(
            SampleRecord(
                row_meta(
                    rows,
                    row,
                    self._datasets,
                    lane=self._lane,
                    number=self._number,
                    documents=self.documents(row),
                ),
                {**row_payload(rows, row), **{name: fields[name][row] for name in names}},
            )
            for row in range(len(self))
        )


StreamItem: TypeAlias = SampleRecord | SampleBatch
"""What a pipeline hands from one operator to the next."""
