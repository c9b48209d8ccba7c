import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import packed_sequences as oracle
from zephon._packed_sequences import check_document_ids
from zephon.errors import ConfigError, ConfigTypeError
from zephon.packing import (
    build_block_causal_mask,
    build_packed_sequence_metadata,
    flatten_packed_sequence_metadata,
    get_seqlens_in_batch,
    get_unpad_data,
    is_indexed_packed_mask,
)

EXAMPLE = [[1, 1, 2, 2, 2, 0], [1, 2, 2, 3, 3, 3]]


@st.composite
def sequence_masks(draw):
    """Rows of documents with gaps in their numbers and exclusions anywhere."""
    length = draw(st.integers(1, 9))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        row, number = [], 1
        for _ in range(length):
            number += draw(st.sampled_from([0, 0, 1, 2]))
            row.append(draw(st.sampled_from([0, number, number])) if number <= length else 0)
        rows.append(row)
    return rows


def has_token(rows):
    return any(number > 0 for row in rows for number in row)


def test_the_lengths_of_the_worked_example():
    lengths = get_seqlens_in_batch(torch.tensor(EXAMPLE))
    assert lengths.tolist() == [2, 3, 1, 2, 3]
    assert lengths.dtype == torch.int64


def test_the_gather_indices_of_the_worked_example():
    indices, cu_seqlens, longest = get_unpad_data(torch.tensor(EXAMPLE))
    assert indices.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert cu_seqlens.tolist() == [0, 2, 5, 6, 8, 11]
    assert longest == 3
    assert type(longest) is int
    assert (indices.dtype, cu_seqlens.dtype) == (torch.int64, torch.int32)


def test_the_metadata_of_the_worked_example():
    metadata = build_packed_sequence_metadata(torch.tensor([[1, 1, 2, 2, 0], [1, 2, 2, 0, 0]]))
    assert metadata["packed_token_indices"].tolist() == [[0, 1, 2, 3, -1], [0, 1, 2, -1, -1]]
    assert metadata["cu_seqlens"].tolist() == [[0, 2, 4], [0, 1, 3]]
    assert metadata["max_seqlen"] == 2
    assert type(metadata["max_seqlen"]) is int
    assert metadata["packed_token_indices"].dtype == torch.int64
    assert metadata["cu_seqlens"].dtype == torch.int32


def test_a_row_without_a_token_has_a_single_boundary():
    metadata = build_packed_sequence_metadata(torch.tensor([[0, 0, 0], [1, 2, 2]]))
    assert metadata["cu_seqlens"].tolist() == [[0, -1, -1], [0, 1, 3]]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8])
def test_each_row_of_a_padding_mask_that_has_tokens_is_one_document(dtype):
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=dtype)
    assert get_seqlens_in_batch(mask).tolist() == [2, 2]
    indices, cu_seqlens, longest = get_unpad_data(mask)
    assert (indices.tolist(), cu_seqlens.tolist(), longest) == ([0, 1, 6, 8], [0, 2, 4], 2)
    metadata = build_packed_sequence_metadata(mask)
    assert metadata["cu_seqlens"].tolist() == [[0, 2], [0, -1], [0, 2]]


def test_a_number_that_does_not_occur_is_no_document():
    mask = torch.tensor([[1, 3, 3, 0]])
    assert get_seqlens_in_batch(mask).tolist() == [1, 2]
    assert build_packed_sequence_metadata(mask)["cu_seqlens"].tolist() == [[0, 1, 3, -1]]


def test_descending_numbers_are_listed_as_they_stand():
    assert get_seqlens_in_batch(torch.tensor([[5, 5, 5, 2]])).tolist() == [3, 1]


@settings(deadline=None)  # the first call into torch takes long
@given(sequence_masks())
def test_lengths_indices_and_metadata_are_the_oracles(rows):
    mask = torch.tensor(rows)
    before = mask.clone()
    assert get_seqlens_in_batch(mask).tolist() == oracle.seqlens(rows)
    check_document_ids(mask, "mask")
    if has_token(rows):
        indices, cu_seqlens, longest = get_unpad_data(mask)
        assert (indices.tolist(), cu_seqlens.tolist(), longest) == oracle.unpad(rows)
        metadata = build_packed_sequence_metadata(mask)
        assert (
            metadata["packed_token_indices"].tolist(),
            metadata["cu_seqlens"].tolist(),
            metadata["max_seqlen"],
        ) == oracle.metadata(rows)
    assert torch.equal(mask, before)


@settings(deadline=None)  # the first call into torch takes long
@given(sequence_masks())
def test_metadata_flattens_to_the_gather_indices(rows):
    if not has_token(rows):
        return
    mask = torch.tensor(rows)
    metadata = build_packed_sequence_metadata(mask)
    size = {"batch_size": len(rows), "sequence_length": len(rows[0])}
    flat = flatten_packed_sequence_metadata(
        metadata["packed_token_indices"], metadata["cu_seqlens"], **size
    )
    indices, cu_seqlens, _ = get_unpad_data(mask)
    assert torch.equal(flat[0], indices)
    assert torch.equal(flat[1], cu_seqlens)
    assert flat[1].dtype == torch.int32
    again = flatten_packed_sequence_metadata(*flat, **size)
    assert again[0] is flat[0]
    assert again[1] is flat[1]


@settings(deadline=None)  # the first call into torch takes long
@given(sequence_masks())
def test_the_block_causal_mask_is_the_oracles(rows):
    mask = build_block_causal_mask(torch.tensor(rows))
    assert mask.dtype == torch.bool
    assert mask.tolist() == oracle.block_causal(rows)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_a_padding_mask_becomes_a_causal_mask_of_its_tokens(dtype):
    mask = build_block_causal_mask(torch.tensor([[1, 1, 0]], dtype=dtype))
    assert mask.tolist() == oracle.block_causal([[1, 1, 0]])


def test_only_a_mask_that_numbers_several_documents_is_indexed():
    assert is_indexed_packed_mask(torch.tensor([[1, 1, 0], [1, 2, 0]]))
    assert not is_indexed_packed_mask(None)
    assert not is_indexed_packed_mask(torch.tensor([[True, False]]))
    assert not is_indexed_packed_mask(torch.tensor([1, 2]))
    assert not is_indexed_packed_mask(torch.tensor([[[1, 2]]]))
    assert not is_indexed_packed_mask(torch.zeros((2, 0), dtype=torch.int64))


def test_rows_of_one_document_cannot_be_told_from_a_padding_mask():
    assert not is_indexed_packed_mask(torch.tensor([[1, 1, 0], [1, 1, 1]]))


FUNCTIONS = [get_seqlens_in_batch, get_unpad_data, build_packed_sequence_metadata]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_mask_that_is_not_rows_of_integers_is_refused(function):
    with pytest.raises(ConfigError, match=r"has shape \(3,\), expected \[batch, sequence\]"):
        function(torch.tensor([1, 1, 2]))
    with pytest.raises(ConfigTypeError, match=r"torch.float32, expected integers or bool"):
        function(torch.tensor([[1.0, 2.0]]))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_document_in_two_pieces_is_refused(function):
    with pytest.raises(ConfigError, match="document 1 of row 1 on both sides of another"):
        function(torch.tensor([[1, 2, 2, 2], [1, 2, 0, 1]]))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_negative_document_number_is_refused(function):
    with pytest.raises(ConfigError, match="holds -1, expected 0 on padding"):
        function(torch.tensor([[-1, 1]]))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_more_places_than_32_bits_count_are_refused(function):
    huge = torch.ones((1, 1), dtype=torch.int64).expand(2**16, 2**15)  # no memory behind it
    with pytest.raises(ConfigError, match=f"has {2**31} places, expected at most {2**31 - 1}"):
        function(huge)


@pytest.mark.parametrize("function", [get_unpad_data, build_packed_sequence_metadata])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
def test_a_mask_without_a_token_is_refused(function, shape):
    with pytest.raises(ConfigError, match="at least one valid token"):
        function(torch.zeros(shape, dtype=torch.int64))


def test_a_mask_without_a_token_has_no_lengths():
    assert get_seqlens_in_batch(torch.zeros((2, 3), dtype=torch.int64)).tolist() == []
    assert get_seqlens_in_batch(torch.zeros((2, 0), dtype=torch.int64)).tolist() == []


def test_a_number_above_the_row_length_is_refused_where_it_sets_the_width():
    with pytest.raises(ConfigError, match="document number 7, expected at most 3"):
        build_packed_sequence_metadata(torch.tensor([[1, 7, 7]]))


@pytest.mark.parametrize(
    "ids", [[[1, 2, 1]], [[-1, 0]], [[1, 0, -2]], [[2, 1, 2]], [[1, 0, 2, 0, 1]]]
)
def test_the_quick_check_refuses_what_the_slow_one_refuses(ids):
    with pytest.raises(ConfigError, match=r"^ids (holds|has document)"):
        check_document_ids(torch.tensor(ids), "ids")


@settings(deadline=None)  # the first call into torch takes long
@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-1, 3), min_size=n, max_size=n), min_size=1, max_size=3
        )
    )
)
def test_the_quick_check_and_the_slow_one_agree(rows):
    def is_refused(function, *arguments):
        try:
            function(*arguments)
        except ConfigError:
            return True
        return False

    ids = torch.tensor(rows)
    assert is_refused(check_document_ids, ids, "ids") == is_refused(get_seqlens_in_batch, ids)


@pytest.mark.parametrize(
    ("indices", "cu_seqlens", "message"),
    [
        ([[0, 1, -1]], [[0, 2]], r"shapes \(1, 3\) and \(1, 2\), expected \(2, 3\)"),
        ([0, 1], [[0, 2], [0, -1]], r"shapes \(2,\) and \(2, 2\), expected"),
        ([[0, 1, 3], [0, -1, -1]], [[0, 3], [0, 1]], r"row 0 has .* outside \[-1, 3\)"),
        ([[0, 1, -1], [-2, 0, -1]], [[0, 2], [0, 1]], r"row 1 has .* outside \[-1, 3\)"),
        ([[0, 1, -1], [0, -1, -1]], [[0, 2], [1, -1]], "row 1 has .* do not start at 0"),
        ([[0, 1, -1], [0, -1, -1]], [[0, -2], [0, 1]], "row 0 has cu_seqlens below -1"),
        ([[0, 1, -1], [0, -1, -1]], [[0, -1, 2], [0, 1, -1]], "row 0 has cu_seqlens after a -1"),
        ([[0, 1, -1], [0, 1, -1]], [[0, 2, 2], [0, 2, 1]], "row 1 has cu_seqlens that fall"),
        ([[0, 1, -1], [0, 1, -1]], [[0, 2], [0, 1]], "row 1 has .* its number of packed tokens"),
        ([[-1, -1, -1], [-1, -1, -1]], [[0, -1], [0, -1]], "expected at least one document"),
        ([0, 1], [0], r"cu_seqlens are \[0\], expected values from 0 to 2"),
        ([0, 1], [0, 1], r"cu_seqlens are \[0, 1\], expected values from 0 to 2"),
        ([0, 1], [1, 2], r"cu_seqlens are \[1, 2\], expected values from 0 to 2"),
        ([0, 1], [0, 2, 1, 2], r"cu_seqlens are \[0, 2, 1, 2\], expected no value to fall"),
        ([0, 6], [0, 2], r"go from 0 to 6, expected places in \[0, 6\)"),
        ([0] * 9, [0] * 9 + [8], r"\[0, 0, 0, 0, 0, 0, 0, 0, ...\], expected values from 0 to 9"),
    ],
)
def test_metadata_that_cannot_be_is_refused(indices, cu_seqlens, message):
    with pytest.raises(ConfigError, match=message):
        flatten_packed_sequence_metadata(
            torch.tensor(indices), torch.tensor(cu_seqlens), batch_size=2, sequence_length=3
        )
