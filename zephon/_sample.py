"""Single samples: a payload, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import total_ordering
from typing import Any, Protocol, TypeAlias, runtime_checkable

DatasetId: TypeAlias = int
"""Number of a dataset among those of a work source."""
ComponentId: TypeAlias = int
"""Number of a dataset as part of a mixture; the same as its :data:`DatasetId`."""
ShardId: TypeAlias = int
"""Number of a shard in its dataset."""
LocalSampleId: TypeAlias = int
"""Number of a document in its shard."""
LaneId: TypeAlias = int
"""Number of a lane."""
ChunkId: TypeAlias = int
"""Number of a lane-batch among those of the whole run."""
ChunkOffset: TypeAlias = int
"""Place in a lane-batch."""
LineageIndex: TypeAlias = int
"""Which of several samples that an operator made of one."""

SampleId: TypeAlias = tuple[DatasetId, ShardId, LocalSampleId]
LineagePath: TypeAlias = tuple[LineageIndex, ...]
SampleCursorKey: TypeAlias = tuple[ChunkId, ChunkOffset, LineagePath, SampleId]

SampleNumeric: TypeAlias = int | float | complex


@runtime_checkable
class SamplePayloadArray(Protocol):
    """What NumPy arrays and tensors have in common."""

    @property
    def shape(self) -> Any:
        """Length of each axis."""
        ...

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        ...

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


SamplePayloadAtom: TypeAlias = bytes | memoryview | str | SampleNumeric | SamplePayloadArray | None
SamplePayloadDict: TypeAlias = Mapping[str, Any]
SamplePayload: TypeAlias = SamplePayloadAtom | Sequence[Any] | SamplePayloadDict

_CONTRIBUTORS = "_contributors"
_TOMBSTONE = "_tombstone"
_FLUSH_SENTINEL = "_flush_sentinel"


@total_ordering
@dataclass(frozen=True, slots=True)
class SampleCursor:
    """Where in the run a sample stands; cursors sort in the order of the run.

    Attributes
    ----------
    chunk_id, chunk_offset : int
        Lane-batch and place in it.
    sample_id : tuple of int
        Dataset, shard and document.
    lineage : tuple of int
        Path through operators that made several samples of one.
    """

    chunk_id: ChunkId
    chunk_offset: ChunkOffset
    sample_id: SampleId
    lineage: LineagePath = ()

    def __lt__(self, other: SampleCursor) -> bool:
        return self.as_key() < other.as_key()

    @property
    def base_offset(self) -> ChunkOffset:
        """The place that the sample and all that was made of it share."""
        return self.chunk_offset

    def as_key(self) -> SampleCursorKey:
        """The cursor as a plain tuple: chunk, offset, lineage, sample."""
        return self.chunk_id, self.chunk_offset, self.lineage, self.sample_id

    @staticmethod
    def from_key(key: SampleCursorKey) -> SampleCursor:
        """The cursor that :meth:`as_key` was called on; lists for tuples will do."""
        chunk_id, chunk_offset, lineage, sample_id = key
        dataset, shard, local = sample_id
        return SampleCursor(chunk_id, chunk_offset, (dataset, shard, local), tuple(lineage))

    def child(self, index: LineageIndex) -> SampleCursor:
        """The cursor of sample ``index`` of those made of this one."""
        return replace(self, lineage=(*self.lineage, index))


@dataclass(frozen=True, slots=True)
class ContributorRef:
    """A document that a packed row was made of, or a part of it.

    Attributes
    ----------
    cursor : SampleCursor
        Which one.
    is_last_child : bool
        Whether nothing of it comes after this part.
    """

    cursor: SampleCursor
    is_last_child: bool = True


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
        Of a packed row: ``_packing_metadata`` (``num_sequences``, ``total_length``,
        ``packing_efficiency``, ``padding_length``), ``_contributors`` and
        ``documents``, a sequence with the fields of each segment's document that are
        no tokens and do not go along with them, read when it is looked into.
    """

    sample_id: SampleId
    lane_id: LaneId
    chunk_id: ChunkId
    chunk_offset: ChunkOffset = 0
    component_sample_counts: dict[ComponentId, int] = field(default_factory=dict)
    component_token_counts: dict[ComponentId, int] | None = None
    lineage: LineagePath = ()
    tags: dict[str, Any] = field(default_factory=dict)

    @property
    def padding_length(self) -> int:
        """Trailing tokens that are padding."""
        return int(self.tags.get("_packing_metadata", {}).get("padding_length") or 0)

    @property
    def cursor(self) -> SampleCursor:
        """Where in the run the sample stands."""
        return SampleCursor(self.chunk_id, self.chunk_offset, self.sample_id, self.lineage)

    def as_cursor_key(self) -> SampleCursorKey:
        """:attr:`cursor` as a plain tuple; :meth:`SampleCursor.from_key` reads it."""
        return self.cursor.as_key()

    @property
    def contributors(self) -> tuple[ContributorRef, ...] | None:
        """The documents of a packed row; None for a sample that was made of nothing else."""
        value: tuple[ContributorRef, ...] | None = self.tags.get(_CONTRIBUTORS)
        return value

    def contribution_refs(self) -> tuple[ContributorRef, ...]:
        """:attr:`contributors`, or the sample itself as the only one."""
        found = self.contributors
        return (ContributorRef(self.cursor),) if found is None else found

    def contribution_cursors(self) -> tuple[SampleCursor, ...]:
        """The cursors of :meth:`contribution_refs`."""
        return tuple(ref.cursor for ref in self.contribution_refs())

    @property
    def tombstone(self) -> bool:
        """Whether the sample was taken out and stands only for its place."""
        return bool(self.tags.get(_TOMBSTONE, False))

    @property
    def is_flush_sentinel(self) -> bool:
        """Whether the sample only tells operators to give out what they hold."""
        return bool(self.tags.get(_FLUSH_SENTINEL, False))

    @property
    def is_sentinel(self) -> bool:
        """Whether the sample carries no data."""
        return self.tombstone or self.is_flush_sentinel

    def child(self, index: LineageIndex) -> SampleMeta:
        """That of sample ``index`` of those made of this one."""
        return self.with_lineage((*self.lineage, index))

    def with_lineage(self, path: Iterable[LineageIndex]) -> SampleMeta:
        """A copy with another lineage."""
        return replace(self, lineage=tuple(path), tags=dict(self.tags))

    def with_tombstone(self, value: bool = True) -> SampleMeta:
        """A copy that is a tombstone, or is none."""
        return self._tagged(_TOMBSTONE, True if value else None)

    def with_contributors(self, value: Iterable[ContributorRef] | None) -> SampleMeta:
        """A copy with other contributors; None takes them away."""
        return self._tagged(_CONTRIBUTORS, None if value is None else tuple(value))

    def _tagged(self, name: str, value: object) -> SampleMeta:
        tags = {key: old for key, old in self.tags.items() if key != name}
        if value is not None:
            tags[name] = value
        return replace(self, tags=tags)


@dataclass(frozen=True)
class SampleRecord:
    """A payload and where it comes from.

    A payload that becomes a row of a batch is a mapping with token ids, or an
    array of them.
    """

    meta: SampleMeta
    payload: SamplePayload
