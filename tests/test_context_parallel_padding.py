import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.collated import collate, row_lengths
from oracles.thd_consumer import UNUSED, consume
from zephon.errors import ConfigError, ConfigTypeError
from zephon.output import convert_batch_output, pad_documents_for_context_parallel

PAD, IGNORED = 9, -1


def thd(rows, length):
    batch = collate(rows, length)
    batch["attention_document_ids"] = batch["document_ids"].clone()
    return convert_batch_output(batch, "thd")


def padded(batch, size):
    return pad_documents_for_context_parallel(batch, size, PAD, IGNORED)


def used(table):
    return [[length for length in row if length != UNUSED] for row in table.tolist()]


def test_documents_of_5_3_and_1_tokens_over_two_ranks():
    batch = padded(thd([[5, 3, 1]], 9), 2)
    assert batch["seq_lens"].tolist() == [[5, 3, 1]]
    assert batch["seq_lens_padded"].tolist() == [[8, 4, 4]]
    assert batch["input_ids"].tolist() == [
        [100, 101, 102, 103, 104, PAD, PAD, PAD, 105, 106, 107, PAD, 108, PAD, PAD, PAD]
    ]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 2, 3]]
    assert batch["document_ids"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 2, 0, 3, 0, 0, 0]]
    assert batch["labels"].tolist() == [
        [101, 102, 103, 104, 105, *[IGNORED] * 3, 106, 107, 108, IGNORED, -100, *[IGNORED] * 3]
    ]
    model = consume(batch)
    assert model["cu_seqlens"] == [0, 5, 8, 9]
    assert model["cu_seqlens_padded"] == [0, 8, 12, 16]


def test_rows_become_as_long_as_the_longest_and_their_last_slot_takes_the_rest():
    batch = padded(thd([[5, 3, 1], [2]], 10), 2)
    assert batch["seq_lens_padded"].tolist() == [[8, 4, 4], [16, UNUSED, UNUSED]]
    assert batch["input_ids"].shape == (2, 16)
    assert batch["position_ids"][1].tolist() == list(range(16))


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths(), st.integers(2, 4))
def test_every_slot_can_be_split_and_every_document_survives(rows_and_length, size):
    rows, _ = rows_and_length
    before = thd(*rows_and_length)
    kept = {name: v.clone() for name, v in before.items() if isinstance(v, torch.Tensor)}
    batch = padded(before, size)
    assert batch is not before
    for name, value in kept.items():
        assert torch.equal(before[name], value)
        assert batch[name].dtype == value.dtype

    length = batch["input_ids"].shape[1]
    assert used(batch["seq_lens"]) == rows
    for row in range(len(rows)):
        old_start = new_start = 0
        slots = used(batch["seq_lens_padded"])[row]
        assert all(slot % (2 * size) == 0 for slot in slots)
        assert sum(slots) == length
        for number, (tokens, slot) in enumerate(zip(rows[row], slots, strict=True), start=1):
            old, new = slice(old_start, old_start + tokens), slice(new_start, new_start + tokens)
            rest = slice(new_start + tokens, new_start + slot)
            for name in ("input_ids", "labels", "position_ids"):
                assert torch.equal(batch[name][row][new], before[name][row][old])
            assert batch["position_ids"][row][new_start : rest.stop].tolist() == list(range(slot))
            assert set(batch["attention_document_ids"][row][new].tolist()) == {number}
            for name, pad in (
                ("input_ids", PAD),
                ("labels", IGNORED),
                ("document_ids", 0),
                ("attention_document_ids", 0),
            ):
                assert set(batch[name][row][rest].tolist()) <= {pad}
            old_start, new_start = old_start + tokens, new_start + slot
    assert torch.equal(batch["padding_mask"], batch["document_ids"] == 0)
    assert consume(batch)["padding_mask"] == batch["padding_mask"].flatten().tolist()


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths(), st.integers(2, 3))
def test_padding_a_padded_batch_changes_nothing(rows_and_length, size):
    once = padded(thd(*rows_and_length), size)
    again = padded(once, size)
    assert again.keys() == once.keys()
    for name, value in once.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(again[name], value), name


def test_positions_of_several_axes_count_on_along_each():
    batch = thd([[2, 1]], 3)
    batch["position_ids"] = torch.tensor([[[0, 1, 0]], [[5, 5, 7]]])
    assert padded(batch, 2)["position_ids"].tolist() == [
        [[0, 1, 2, 3, 0, 1, 2, 3]],
        [[5, 5, 6, 7, 7, 8, 9, 10]],
    ]


def test_fields_without_a_token_axis_are_passed_on():
    batch = thd([[3]], 3)
    batch["pixel_values"] = pixels = torch.ones(7, 3)
    assert padded(batch, 2)["pixel_values"] is pixels
    assert padded(batch, 2)["qkv_format"] == "thd"


def test_one_rank_needs_no_padding():
    batch = thd([[3]], 3)
    assert padded(batch, 1) is batch


def test_a_token_field_of_unknown_padding_is_refused():
    batch = thd([[3]], 3)
    batch["weights"] = torch.ones(1, 3)
    with pytest.raises(ConfigError, match="field 'weights' has a value per token"):
        padded(batch, 2)


def test_rows_instead_of_lengths_are_refused():
    with pytest.raises(ConfigError, match="qkv_format None, expected 'thd'"):
        padded(collate([[3]], 3), 2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 0, -100), ConfigError, "context_parallel_size is 0, expected at least 1"),
        ((2.0, 0, -100), ConfigTypeError, "context_parallel_size is 2.0, expected an int"),
        ((2, None, -100), ConfigTypeError, "pad_token_id is None, expected an int"),
        ((2, 0, True), ConfigTypeError, "ignore_index is True, expected an int"),
        ((2**30, 0, -100), ConfigError, f"the padded batch has {2**31} places"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        pad_documents_for_context_parallel(thd([[3]], 3), *arguments)
