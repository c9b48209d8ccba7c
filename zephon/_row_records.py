"""Packed rows as records, for those who look at single samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zephon._lineage import lineage_path
from zephon._sample import ContributorRef, SampleCursor, SampleId, SampleMeta
from zephon.aligned import MASK_FIELD
from zephon.records import POSITION_FIELD
from zephon.rows import Rows

if TYPE_CHECKING:
    from zephon._document_fields import DocumentFields
    from zephon.io.dataset import Dataset

_TOKENS = "input_ids"


def sample_id(rows: Rows, datasets: Sequence[Dataset], segment: int) -> SampleId:
    """Dataset, shard and document of a segment; -1 if it is of none."""
    if segment == len(rows.source) or rows.source[segment] < 0:
        return -1, -1, -1  # a row of padding
    source, row = int(rows.source[segment]), int(rows.row[segment])
    return source, *datasets[source].sample_id(row)


def sample_ids(rows: Rows, datasets: Sequence[Dataset]) -> tuple[SampleId, ...]:
    """:func:`sample_id` of the first segment of each row."""
    sources, documents = [*rows.source.tolist(), -1], [*rows.row.tolist(), -1]
    return tuple(
        (-1, -1, -1)
        if (source := sources[first]) < 0
        else (source, *datasets[source].sample_id(documents[first]))
        for first in rows.splits[:-1].tolist()
    )


def row_meta(
    rows: Rows,
    row: int,
    datasets: Sequence[Dataset],
    *,
    lane: int,
    number: int,
    documents: DocumentFields,
) -> SampleMeta:
    """Where a row of lane-batch ``number`` comes from."""
    first, last = int(rows.splits[row]), int(rows.splits[row + 1])
    segments = slice(first, last)
    length = int(rows.length[segments].sum())
    begins = rows.offset[segments] == 0
    contributors = [
        ContributorRef(
            SampleCursor(
                number,
                row,
                sample_id(rows, datasets, segment),
                () if rows.lineage is None else lineage_path(int(rows.lineage[segment])),
            ),
            rows.last is None or bool(rows.last[segment]),
        )
        for segment in range(first, last)
    ]
    return SampleMeta(
        sample_id=sample_id(rows, datasets, first),
        lane_id=lane,
        chunk_id=number,
        chunk_offset=row,
        component_sample_counts=count_by_source(
            rows.source[segments][begins], np.ones(int(begins.sum()), np.int64)
        ),
        component_token_counts=count_by_source(rows.source[segments], rows.length[segments]),
        tags={
            "_packing_metadata": {
                "num_sequences": last - first,
                "total_length": length,
                "packing_efficiency": length / rows.row_length,
                "padding_length": rows.row_length - length,
            },
            "_contributors": tuple(contributors),
            "documents": documents,
        },
    )


def row_payload(rows: Rows, row: int) -> dict[str, NDArray[Any]]:
    """Token ids int64 and positions int32 of a row with its padding, both ``[row_length]``."""
    first, last = int(rows.splits[row]), int(rows.splits[row + 1])
    lengths = rows.length[first:last].tolist()
    padding = rows.row_length - sum(lengths)
    pieces = [np.asarray(rows.tokens(segment), np.int64) for segment in range(first, last)]
    tokens = np.concatenate([*pieces, np.full(padding, rows.pad_token_id, np.int64)])
    positions = np.concatenate([np.arange(run, dtype=np.int32) for run in (*lengths, padding)])
    return {_TOKENS: tokens, POSITION_FIELD: positions}


def field_names(rows: Rows) -> list[str]:
    """Fields that go along with the tokens of every document, and the loss mask if any has one."""
    found: set[str] | None = None
    for segment in np.flatnonzero(rows.source >= 0).tolist() if rows.aligned else ():
        fields = rows.aligned[int(rows.buffer[segment])]
        names = set(() if fields is None else fields.names(int(rows.start[segment])))
        found = names if found is None else found & names
    names = (found or set()) - {_TOKENS, POSITION_FIELD}
    return sorted(names | ({MASK_FIELD} if rows.has_mask() else set()))


def count_by_source(sources: NDArray[np.int64], amounts: NDArray[np.int64]) -> dict[int, int]:
    """Sum of the amounts by source; what comes from none is left out."""
    known = sources >= 0
    totals = np.zeros(int(sources.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(totals, sources[known], amounts[known])
    return {int(source): int(totals[source]) for source in np.unique(sources[known])}
