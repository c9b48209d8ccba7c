"""Fields of packed documents that are no tokens, read when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zephon.aligned import MASK_FIELD, aligned_names, as_numbers
from zephon.block import RecordDocuments
from zephon.records import TOKEN_FIELDS

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset


class DocumentFields(Sequence[Mapping[str, Any]]):
    """One mapping for each segment of a row: what its document has besides tokens.

    A batch holds no more than which documents these are; a mapping is read from the
    dataset each time it is looked at, as it stands there (before anything that a
    pipeline does to records). Tokens and what goes along with them, one number for
    each token, are not in it. Of formats that hold tokens only they
    are empty.

    Parameters
    ----------
    datasets : sequence of Dataset
        Those that the numbers are about.
    sources, rows : sequence of int ``[n]``
        Dataset and document of each segment; -1 if it is of none.
    """

    def __init__(
        self, datasets: Sequence[Dataset], sources: Sequence[int], rows: Sequence[int]
    ) -> None:
        self._datasets, self._sources, self._rows = datasets, sources, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._read(self._sources[index], self._rows[index])

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"DocumentFields({list(self)!r})"

    def _read(self, source: int, row: int) -> Mapping[str, Any]:
        if source < 0:
            return {}
        documents = self._datasets[source].read(np.array([row], dtype=np.int64))
        if not isinstance(documents, RecordDocuments):
            return self._datasets[source].fields(row)
        record = documents.records[0]
        tokens = next((n for n in TOKEN_FIELDS if as_numbers(record.get(n)) is not None), None)
        if tokens is None:
            return dict(record)
        beside = aligned_names(record, tokens, len(record[tokens]))
        return {
            name: value
            for name, value in record.items()
            if name not in (tokens, MASK_FIELD, *beside)
        }
