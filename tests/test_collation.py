from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError, ConfigTypeError
from zephon.types import SampleBatch, SampleMeta, SampleRecord


def batch(*rows: list[list[int]], length: int = 8) -> SampleBatch:
    """A batch by hand: a row is a list of documents, padded with 9 to ``length``."""
    records = []
    for row in rows:
        real = [token for document in row for token in document]
        padding = length - len(real)
        runs = [*map(len, row), padding]
        meta = SampleMeta((0, 0, 0), 0, 0, tags={"_packing_metadata": {"padding_length": padding}})
        payload = {
            "tokens": np.array(real + [9] * padding, np.int32),
            "positions": np.concatenate([np.arange(n, dtype=np.int32) for n in runs]),
        }
        records.append(SampleRecord(meta, payload))
    return SampleBatch(records)


TWO = batch([[1, 2, 3], [4, 5, 6, 7, 8]], [[1, 2], [9, 9]])


def test_inputs_and_labels_are_shifted_against_each_other() -> None:
    out = TWO.to_training(return_labels=True, return_padding_mask=True, return_document_ids=True)
    assert out["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 7], [1, 2, 9, 9, 9, 9, 9]]
    assert out["labels"].tolist() == [[2, 3, 4, 5, 6, 7, 8], [2, 9, 9, -100, -100, -100, -100]]
    assert out["positions"].tolist() == [[0, 1, 2, 0, 1, 2, 3], [0, 1, 0, 1, 0, 1, 2]]
    assert out["document_ids"].tolist() == [[1, 1, 1, 2, 2, 2, 2], [1, 1, 2, 2, 0, 0, 0]]
    assert out["padding_mask"].tolist() == [[False] * 7, [False] * 4 + [True] * 3]
    assert {out[n].dtype for n in ("input_ids", "labels", "positions")} == {torch.int64}
    assert out["padding_mask"].dtype == torch.bool
    assert out["ids"] == [(0, 0, 0)] * 2
    assert out["texts"] == ["", ""]


def test_without_labels_the_rows_are_whole() -> None:
    out = TWO.to_training()
    assert set(out) == {"ids", "texts", "input_ids", "positions"}
    assert out["input_ids"].shape == (2, 8)


def test_masks_and_counts_are_about_labels() -> None:
    out = TWO.to_training(return_labels=True, return_loss_mask=True, return_num_valid_tokens=True)
    assert out["loss_mask"].dtype == torch.float32
    assert out["loss_mask"].tolist() == (out["labels"] != -100).float().tolist()
    assert out["num_valid_tokens"] == 10
    for option in ("return_loss_mask", "return_num_valid_tokens"):
        with pytest.raises(ConfigError, match=f"{option} requires return_labels=True"):
            TWO.to_training(**{option: True})


def test_cumulative_lengths_end_with_the_row_and_agree_with_the_positions() -> None:
    out = TWO.to_training(return_labels=True, return_cu_seqlens=True)
    assert out["cu_seqlens"].tolist() == [[0, 3, 7, 7], [0, 2, 4, 7]]
    assert out["cu_seqlens"].dtype == torch.int32
    assert out["max_seqlen"].tolist() == [4, 3]
    flat = TWO.to_training(return_labels=True, return_cu_seqlens=True, flatten=True)
    assert flat["cu_seqlens"].tolist() == [0, 3, 7, 9, 11, 14]
    assert flat["max_seqlen"] == 4
    assert flat["input_ids"].shape == (14,)
    zeros = (flat["positions"] == 0).nonzero().flatten().tolist()
    assert [*zeros, 14] == flat["cu_seqlens"].tolist()


def test_a_last_token_that_is_only_a_label_adds_no_boundary() -> None:
    out = batch([[1, 2, 3, 4, 5, 6, 7], [8]]).to_training(
        return_labels=True, return_cu_seqlens=True
    )
    assert out["cu_seqlens"].tolist() == [[0, 7]]


DOCUMENTS = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5), min_size=1, max_size=4)


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_boundaries_masks_and_positions_tell_the_same(rows: list[list[list[int]]]) -> None:
    out = batch(*rows, length=21).to_training(
        return_labels=True,
        return_cu_seqlens=True,
        return_padding_mask=True,
        return_document_ids=True,
        dtype=np.int64,
    )
    for b, row in enumerate(rows):
        starts = np.flatnonzero(out["positions"][b] == 0)
        cu = np.unique(out["cu_seqlens"][b])
        assert cu.tolist() == [*starts.tolist(), 20]
        assert out["max_seqlen"][b] == np.diff(cu).max()
        real = sum(map(len, row))
        assert (~out["padding_mask"][b]).sum() == min(real, 20)
        assert (out["document_ids"][b] == 0).tolist() == out["padding_mask"][b].tolist()
        assert (out["labels"][b] != -100).sum() == real - 1


def test_changing_one_document_changes_nothing_of_the_others() -> None:
    options: dict[str, Any] = {"return_labels": True, "dtype": np.int64}
    one = batch([[1, 2, 3], [4, 5], [6, 7, 8]]).to_training(**options)
    other = batch([[1, 2, 3], [70, 71], [6, 7, 8]]).to_training(**options)
    assert np.flatnonzero(one["input_ids"][0] != other["input_ids"][0]).tolist() == [3, 4]
    assert np.flatnonzero(one["labels"][0] != other["labels"][0]).tolist() == [2, 3]
    assert (one["positions"] == other["positions"]).all()


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("auto", torch.int64),
        (torch.int32, torch.int32),
        (np.int32, np.int32),
        ("uint16", np.uint16),
    ],
)
def test_the_dtype_decides_container_and_type(dtype: Any, kind: Any) -> None:
    out = TWO.to_training(return_labels=True, dtype=dtype, return_padding_mask=True, ignore_index=0)
    assert out["input_ids"].dtype == kind
    assert out["labels"].tolist()[1][:3] == [2, 9, 9]
    assert str(out["padding_mask"].dtype).endswith("bool")


def test_lists_and_impossible_types() -> None:
    assert TWO.to_training(dtype=None)["input_ids"] == TWO.to_training()["input_ids"].tolist()
    with pytest.raises(ConfigTypeError, match="dtype is 'tensor', expected 'auto', a torch dtype"):
        TWO.to_training(dtype="tensor")


def test_fields_are_renamed_swapped_and_left_out() -> None:
    out = TWO.to_training(
        rename_fields={"input_ids": "input", "positions": "position_ids"},
        exclude_fields=("ids", "texts", "absent"),
    )
    assert set(out) == {"input", "position_ids"}
    plain = TWO.to_training()
    swapped = TWO.to_training(rename_fields={"input_ids": "positions", "positions": "input_ids"})
    assert torch.equal(swapped["positions"], plain["input_ids"])
    with pytest.raises(ConfigError, match="names 'labels', which the batch has not: it has ids"):
        TWO.to_training(rename_fields={"labels": "targets"})
    for names in ({"input_ids": "positions"}, {"input_ids": "x", "positions": "x"}):
        with pytest.raises(ConfigError, match="would give two fields the name"):
            TWO.to_training(rename_fields=names)
    with pytest.raises(ConfigTypeError, match="exclude_fields is the str 'ids'"):
        TWO.to_training(exclude_fields="ids")


def test_the_token_field_is_found_in_a_fixed_order_or_named() -> None:
    meta = SampleMeta((0, 0, 0), 0, 0)
    payload = {"ids": [1, 1], "token_ids": [2, 2], "tokens": [3, 3], "input_ids": [4, 4]}
    for expected, name in enumerate(("ids", "token_ids", "tokens", "input_ids"), start=1):
        some = SampleBatch([SampleRecord(meta, payload)])
        assert some.to_training(tokens_field=name)["input_ids"].tolist() == [[expected] * 2]
    assert some.to_training()["input_ids"].tolist() == [[4, 4]]
    with pytest.raises(ConfigError, match="looked for bytes, found ids, token_ids"):
        some.to_training(tokens_field="bytes")
