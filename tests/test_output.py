import pytest
import torch
from hypothesis import given, settings

from oracles import packed_sequences
from oracles.collated import IGNORED, collate, row_lengths
from oracles.thd_consumer import UNUSED, consume
from zephon.errors import ConfigError
from zephon.output import convert_batch_output


def membership(rows, length):
    batch = collate(rows, length)
    batch["attention_document_ids"] = batch.pop("document_ids")
    return batch


def with_ids(ids):
    ids = torch.tensor(ids)
    return {
        "input_ids": torch.arange(ids.numel()).view(ids.shape),
        "labels": torch.arange(ids.numel()).view(ids.shape),
        "position_ids": torch.zeros_like(ids),
        "padding_mask": ids == 0,
        "attention_document_ids": ids,
    }


def test_batched_output_is_the_batch_itself():
    batch = membership([[2, 1]], 4)
    before = dict(batch)
    assert convert_batch_output(batch) is batch
    assert convert_batch_output(batch, "batched") is batch
    assert batch == before


def test_thd_output_of_rows_padded_in_the_middle_of_the_batch():
    batch = convert_batch_output(membership([[3, 2], [6]], 6), "thd")
    assert batch["seq_lens"].tolist() == [[3, 2], [6, UNUSED]]
    assert batch["seq_lens_padded"].tolist() == [[3, 3], [6, UNUSED]]
    assert batch["qkv_format"] == "thd"
    model = consume(batch)
    assert model["cu_seqlens"] == [0, 3, 5, 11]
    assert model["cu_seqlens_padded"] == [0, 3, 6, 12]
    assert model["max_seqlen"] == 6


def test_thd_output_of_a_batch_padded_at_its_end():
    batch = convert_batch_output(membership([[3, 3], [4]], 6), "thd")
    assert batch["seq_lens"].tolist() == [[3, 3], [4, UNUSED]]
    assert batch["seq_lens_padded"].tolist() == [[3, 3], [6, UNUSED]]
    model = consume(batch)
    assert model["cu_seqlens"] == [0, 3, 6, 12]
    assert "cu_seqlens_padded" not in model


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths())
def test_the_consumer_finds_every_document_where_it_was(rows_and_length):
    batch = membership(*rows_and_length)
    given_fields, before = dict(batch), {name: value.clone() for name, value in batch.items()}
    assert convert_batch_output(batch, "thd") is batch
    for name in ("seq_lens", "seq_lens_padded"):
        assert batch[name].dtype == torch.int64
        assert len(batch[name]) == len(rows_and_length[0])
    for name, value in given_fields.items():
        assert batch[name] is value
        assert torch.equal(value, before[name])

    model = consume(batch)
    starts = model.get("cu_seqlens_padded", model["cu_seqlens"])
    assert starts[-1] == batch["input_ids"].numel()
    assert model["padding_mask"] == before["padding_mask"].flatten().tolist()
    assert model["input_ids"] == before["input_ids"].flatten().tolist()
    assert model["labels"] == before["labels"].flatten().tolist()
    expected = [
        before["input_ids"][row][columns].tolist()
        for row, ids in enumerate(before["attention_document_ids"].tolist())
        for columns in packed_sequences.documents_of_row(ids)
    ]
    assert [
        model["input_ids"][start : start + len(document)]
        for start, document in zip(starts, expected, strict=False)
    ] == expected
    assert len(starts) == len(expected) + 1


def test_documents_need_contiguous_numbers_but_no_particular_ones():
    batch = convert_batch_output(with_ids([[7, 7, 3, 0], [1, 4, 4, 9]]), "thd")
    assert batch["seq_lens"].tolist() == [[2, 1, UNUSED], [1, 2, 1]]
    assert batch["seq_lens_padded"].tolist() == [[2, 2, UNUSED], [1, 2, 1]]


def test_joined_documents_are_one_document_with_its_positions_untouched():
    batch = with_ids([[1, 1, 1, 0]])
    batch["position_ids"] = torch.tensor([[0, 1, 2, 3]])
    convert_batch_output(batch, "thd")
    assert batch["seq_lens"].tolist() == [[3]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3]]


def test_trailing_tokens_that_take_no_part_are_padding_to_the_kernel():
    batch = with_ids([[1, 1, 0, 0]])
    batch["padding_mask"] = torch.tensor([[False, False, False, True]])
    convert_batch_output(batch, "thd")
    assert batch["seq_lens"].tolist() == [[2]]
    assert batch["seq_lens_padded"].tolist() == [[4]]


def test_positions_of_several_axes_and_other_fields_ride_along():
    batch = with_ids([[1, 1, 2, 0]])
    batch["position_ids"] = torch.arange(12).view(3, 1, 4)
    batch["pixel_values"] = pixels = torch.ones(5, 2)
    model = consume(convert_batch_output(batch, "thd"))
    assert model["position_ids"][1] == [[4, 5, 6, 7]]
    assert model["pixel_values"] is pixels
    assert model["attention_document_ids"].tolist() == [[1, 1, 2, 0]]


def test_masks_and_metadata_of_batched_output_are_removed():
    batch = with_ids([[1, 1, 2, 0]])
    batch |= {
        "attention_mask": batch["attention_document_ids"],
        "_packed_seq_ids": batch["attention_document_ids"],
        "packed_token_indices": torch.tensor([[0, 1, 2, -1]]),
        "cu_seqlens": torch.tensor([[0, 2, 3]]),
        "max_seqlen": 2,
    }
    convert_batch_output(batch, "thd")
    assert set(batch) == set(with_ids([[1]])) | {"seq_lens", "seq_lens_padded", "qkv_format"}


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1, 1], [1, 0], [0, 0]], "row 2 of the batch has no token"),
        ([[1, 1, 1], [1, 0, 2]], "row 1 of the batch has an exclusion before the end"),
        ([[1, 0, 1]], "row 0 of the batch has an exclusion before the end"),
        ([[0, 1, 1]], "row 0 of the batch has an exclusion before the end"),
        ([[1, 1, 1], [1, 2, 1]], "document 1 of row 1 on both sides of another document"),
        ([[1, -1, 0]], "holds -1, expected 0 on padding"),
        ([[0, 0], [0, 0]], "is all padding, expected at least one valid token"),
        ([1, 1], r"has shape \(2,\), expected \[batch, sequence\]"),
    ],
)
def test_rows_that_lengths_cannot_describe_are_refused_and_left_alone(ids, message):
    batch = with_ids(ids)
    before = dict(batch)
    with pytest.raises(ConfigError, match=message):
        convert_batch_output(batch, "thd")
    assert batch == before


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        ([[False, False, True, True]], "row 0 of the batch has padding inside a document"),
        ([[False, True, False, True]], "row 0 of the batch has padding before the end of the row"),
        ([[False, True]], r"padding_mask has shape \(1, 2\), expected \(1, 4\)"),
    ],
)
def test_padding_that_contradicts_the_documents_is_refused(padding, message):
    batch = with_ids([[1, 1, 1, 0]])
    batch["padding_mask"] = torch.tensor(padding)
    with pytest.raises(ConfigError, match=message):
        convert_batch_output(batch, "thd")


def test_a_batch_whose_attention_is_not_settled_is_refused():
    batch = collate([[3]], 3)
    with pytest.raises(ConfigError, match="expected adapt_model_inputs to have set them"):
        convert_batch_output(batch, "thd")


def test_an_unknown_format_is_refused():
    with pytest.raises(ConfigError, match="'sbhd', expected one of 'batched', 'thd'"):
        convert_batch_output(membership([[3]], 3), "sbhd")


def test_more_places_than_32_bits_count_are_refused():
    batch = membership([[3]], 3)
    batch["attention_document_ids"] = torch.ones((1, 1), dtype=torch.int64).expand(2**16, 2**15)
    with pytest.raises(ConfigError, match=f"has {2**31} places"):
        convert_batch_output(batch, "thd")


def test_the_last_document_of_a_row_has_no_target_beyond_it():
    batch = convert_batch_output(membership([[2, 1]], 4), "thd")
    assert batch["labels"].tolist()[0][2:] == [IGNORED, IGNORED]
