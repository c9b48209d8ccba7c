"""Where samples come from, as values."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest

import zephon.types
from zephon.types import ContributorRef, SampleBatch, SampleCursor, SampleMeta, SampleRecord

META = SampleMeta((1, 2, 3), lane_id=4, chunk_id=5, chunk_offset=6, tags={"mine": 1})


def test_meta_and_what_it_is_made_of_are_frozen() -> None:
    # 48
    for value in (META, META.cursor, ContributorRef(META.cursor), SampleRecord(META, {})):
        field = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, None)
        assert pickle.loads(pickle.dumps(value)) == value


def test_a_cursor_key_makes_the_cursor_again_also_out_of_json() -> None:
    # 48
    meta = META.with_lineage([2, 4])
    key = meta.as_cursor_key()
    assert key == meta.cursor.as_key() == (5, 6, (2, 4), (1, 2, 3))
    for same in (key, json.loads(json.dumps(key))):
        assert SampleCursor.from_key(same) == meta.cursor
    assert meta.cursor.base_offset == 6


def test_children_extend_the_lineage_and_come_in_order() -> None:
    # 48, 81
    first, second = META.child(0), META.child(0).child(1)
    assert (META.lineage, first.lineage, second.lineage) == ((), (0,), (0, 1))
    assert first.sample_id == META.sample_id
    assert META.cursor < first.cursor < second.cursor < META.child(1).cursor
    assert META.cursor.child(0).child(1) == second.cursor
    assert max(second.cursor, SampleCursor(4, 99, (9, 9, 9))) == second.cursor
    first.tags["added"] = 1
    assert META.tags == {"mine": 1}


def test_a_tombstone_is_a_sentinel_and_can_be_undone() -> None:
    # 81
    def kind(meta: SampleMeta) -> tuple[bool, bool, bool]:
        return meta.tombstone, meta.is_flush_sentinel, meta.is_sentinel

    assert kind(META) == (False, False, False)
    gone = META.with_tombstone()
    assert kind(gone) == (True, False, True)
    assert gone.with_tombstone(False) == META
    flush = dataclasses.replace(META, tags={"_flush_sentinel": True})
    assert kind(flush) == (False, True, True)


def test_contributors_are_the_sample_itself_if_there_are_no_others() -> None:
    # 81
    assert META.contributors is None
    assert META.contribution_refs() == (ContributorRef(META.cursor, is_last_child=True),)
    others = [ContributorRef(SampleCursor(0, i, (0, 0, i)), i == 1) for i in range(2)]
    packed = META.with_contributors(iter(others))
    assert packed.contributors == packed.contribution_refs() == tuple(others)
    assert packed.contribution_cursors() == tuple(ref.cursor for ref in others)
    assert packed.with_contributors(None) == META


def test_padding_is_zero_where_nothing_tells_it() -> None:
    assert META.padding_length == 0
    for tag, expected in (({}, 0), ({"padding_length": None}, 0), ({"padding_length": 3}, 3)):
        assert dataclasses.replace(META, tags={"_packing_metadata": tag}).padding_length == expected


def test_a_batch_exposes_ids_and_lineage() -> None:
    # 48
    batch = SampleBatch(
        records=(SampleRecord(META, {"text": "a"}), SampleRecord(META.child(1), {"text": "b"}))
    )
    assert len(batch) == 2
    assert batch.ids == ((1, 2, 3), (1, 2, 3))
    assert batch.lane_ids == (4, 4)
    assert batch.chunk_ids == (5, 5)
    assert batch.lineage_paths == ((), (1,))
    assert len(batch.documents(0)) == 0


def test_the_names_of_the_public_package_are_there() -> None:
    # 71, for zephon.types
    expected = {
        *("ChunkId", "ChunkOffset", "ComponentId", "ContributorRef", "DatasetId", "LaneId"),
        *("LineageIndex", "LineagePath", "LocalSampleId", "SampleBatch", "SampleCursor"),
        *("SampleCursorKey", "SampleId", "SampleMeta", "SampleNumeric", "SamplePayload"),
        *("SamplePayloadArray", "SamplePayloadAtom", "SamplePayloadDict", "SampleRecord"),
        *("ShardId", "StreamItem"),
    }
    assert expected <= set(zephon.types.__all__)
    assert all(hasattr(zephon.types, name) for name in expected)
    assert isinstance(np.zeros(2), zephon.types.SamplePayloadArray)
    assert not isinstance([0, 0], zephon.types.SamplePayloadArray)
