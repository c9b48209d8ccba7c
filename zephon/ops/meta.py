"""Where samples come from that functions make: of one, of several, or of none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zephon._sample import ContributorRef, SampleCursor, SampleMeta, SampleRecord


def spawn_child(
    parent: SampleMeta,
    child_idx: int,
    *,
    is_last_child: bool = False,
    tags: dict[str, Any] | None = None,
) -> SampleMeta:
    """That of sample ``child_idx`` of those made of one with ``parent``.

    Its lineage is the parent's and its number; its only contributor is itself.

    Parameters
    ----------
    parent : SampleMeta
        Of the sample that it is made of.
    child_idx : int
        Its number, from 0.
    is_last_child : bool
        Whether nothing more is made of that sample.
    tags : dict, optional
        Further tags, besides the parent's.
    """
    child = parent.child(child_idx)
    child.tags.update(tags or {})
    return child.with_contributors([ContributorRef(child.cursor, is_last_child)])


def tombstone_meta(ref: ContributorRef, lane_id: int) -> SampleMeta:
    """That of a sample without content, which stands for one that was taken out."""
    cursor = ref.cursor
    return (
        SampleMeta(
            sample_id=cursor.sample_id,
            lane_id=lane_id,
            chunk_id=cursor.chunk_id,
            chunk_offset=cursor.chunk_offset,
            lineage=cursor.lineage,
        )
        .with_contributors([ref])
        .with_tombstone()
    )


def tombstones_for_record(record: SampleRecord) -> list[SampleRecord]:
    """One sample without content for each contributor of ``record``.

    A function on several records may give them in its place: it is then left out and counted.
    """
    return [
        SampleRecord(tombstone_meta(ref, record.meta.lane_id), None)
        for ref in record.meta.contribution_refs()
    ]


def pack_meta(
    primary_cursor: SampleCursor,
    contributors: Iterable[ContributorRef],
    *,
    lane_id: int,
    component_sample_counts: dict[int, int],
    component_token_counts: dict[int, int] | None = None,
    tags: dict[str, Any] | None = None,
) -> SampleMeta:
    """That of a sample made of several, which stands at the place of the first."""
    return SampleMeta(
        sample_id=primary_cursor.sample_id,
        lane_id=lane_id,
        chunk_id=primary_cursor.chunk_id,
        chunk_offset=primary_cursor.chunk_offset,
        component_sample_counts=dict(component_sample_counts),
        component_token_counts=(
            None if component_token_counts is None else dict(component_token_counts)
        ),
        lineage=primary_cursor.lineage,
        tags=dict(tags or {}),
    ).with_contributors(contributors)
