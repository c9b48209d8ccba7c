import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zephon.attention
from oracles import packed_sequences as oracle
from oracles.collated import collate, row_lengths
from zephon._training_batch import TrainingBatch
from zephon.attention import (
    adapt_model_inputs,
    enable_xdoc_attention,
    require_supported_packing_contract,
)
from zephon.errors import ConfigError, ConfigTypeError
from zephon.packing import PackingContract

DOCUMENT_IDS = PackingContract(packed_mask_type="document_ids")
EVERYTHING = PackingContract(
    packed_mask_type="document_ids", return_packed_sequence_metadata=True, return_document_ids=True
)


def unchanged(tensors, before):
    return all(torch.equal(tensors[name], before[name]) for name in before)


def cloned(tensors):
    return {name: tensor.clone() for name, tensor in tensors.items()}


def test_the_type_of_a_batch_is_found_here_and_needs_no_torch():
    assert zephon.attention.TrainingBatch is TrainingBatch
    code = "import sys, zephon._training_batch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def test_four_fields_are_in_every_batch():
    assert TrainingBatch.__required_keys__ == {
        "input_ids",
        "labels",
        "position_ids",
        "padding_mask",
    }
    assert "_packed_seq_ids" in TrainingBatch.__optional_keys__


def test_cross_document_attention_joins_membership_and_positions_of_the_worked_example():
    batch = collate([[4, 3]], 8)
    labels = batch["labels"].clone()
    enable_xdoc_attention(batch)
    assert batch["attention_document_ids"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 0]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert batch["document_ids"].tolist() == [[1, 1, 1, 1, 2, 2, 2, 0]]
    assert torch.equal(batch["labels"], labels)


def test_cross_document_attention_keeps_tokens_out_that_take_no_part():
    batch = collate([[2, 2]], 4)
    batch["attention_document_ids"] = torch.tensor([[1, 0, 2, 2]])
    enable_xdoc_attention(batch)
    assert batch["attention_document_ids"].tolist() == [[1, 0, 1, 1]]


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths(empty_rows=True), st.booleans())
def test_adapting_writes_into_no_tensor_and_shares_none(rows_and_length, xdoc):
    fields = collate(*rows_and_length)
    before = cloned(fields)
    batch = dict(fields)
    if xdoc:
        assert enable_xdoc_attention(batch) is batch
    contract = EVERYTHING if any(rows_and_length[0]) else DOCUMENT_IDS
    assert adapt_model_inputs(batch, contract) is batch
    assert unchanged(fields, before)
    tensors = [value for value in batch.values() if isinstance(value, torch.Tensor)]
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)


@pytest.mark.parametrize("shape", [(3, 1, 4), (4,)])
def test_positions_of_several_axes_cannot_be_joined(shape):
    batch = collate([[4]], 4)
    batch["position_ids"] = torch.zeros(shape, dtype=torch.int64)
    with pytest.raises(ConfigError, match=r"position_ids have shape .* text positions only"):
        enable_xdoc_attention(batch)


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths(empty_rows=True))
def test_a_block_causal_contract_gets_the_dense_mask(rows_and_length):
    batch = collate(*rows_and_length)
    ids = batch["document_ids"].tolist()
    adapt_model_inputs(batch, PackingContract())
    assert batch["attention_mask"].tolist() == oracle.block_causal(ids)
    assert batch["_packed_seq_ids"].tolist() == ids
    assert batch["attention_document_ids"].tolist() == ids
    assert batch.keys().isdisjoint(
        {"document_ids", "packed_token_indices", "cu_seqlens", "max_seqlen"}
    )


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths())
def test_a_contract_that_asks_for_everything_gets_ids_and_metadata(rows_and_length):
    batch = collate(*rows_and_length)
    ids = batch["document_ids"].tolist()
    adapt_model_inputs(batch, EVERYTHING)
    for name in ("attention_mask", "_packed_seq_ids", "attention_document_ids", "document_ids"):
        assert batch[name].tolist() == ids
        assert batch[name].dtype == torch.int64
    assert (
        batch["packed_token_indices"].tolist(),
        batch["cu_seqlens"].tolist(),
        batch["max_seqlen"],
    ) == oracle.metadata(ids)


def test_metadata_follow_attention_and_not_the_original_documents():
    batch = collate([[2, 3], [4]], 6)
    enable_xdoc_attention(batch)
    adapt_model_inputs(batch, EVERYTHING)
    assert batch["cu_seqlens"].tolist() == [[0, 5], [0, 4]]
    assert batch["max_seqlen"] == 5
    assert batch["document_ids"].tolist() == [[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0]]


def test_a_contract_of_the_older_generation_is_understood():
    batch = collate([[2, 3]], 5)
    contract = SimpleNamespace(
        packed_mask_type="document_ids", requires_packed_sequence_metadata=True
    )
    adapt_model_inputs(batch, contract)
    assert batch["cu_seqlens"].tolist() == [[0, 2, 5]]
    assert "document_ids" not in batch


def test_mask_and_metadata_requests_do_not_apply_to_thd_output():
    batch = collate([[2, 3]], 6)
    collated = set(batch)
    adapt_model_inputs(batch, EVERYTHING, output_format="thd")
    assert set(batch) == collated | {"attention_document_ids"}
    batch = collate([[2, 3]], 6)
    adapt_model_inputs(batch, PackingContract(), output_format="thd")
    assert "document_ids" not in batch


def test_rows_without_a_token_attend_to_nothing():
    batch = collate([[], []], 3)
    adapt_model_inputs(batch, PackingContract())
    assert not batch["attention_mask"].any()


def test_metadata_of_a_batch_without_a_token_are_refused():
    with pytest.raises(ConfigError, match="at least one valid token"):
        adapt_model_inputs(collate([[], []], 3), EVERYTHING)


@pytest.mark.parametrize("contract", [PackingContract(), DOCUMENT_IDS, EVERYTHING])
def test_a_document_in_two_pieces_is_refused(contract):
    batch = collate([[3]], 3)
    batch["document_ids"] = torch.tensor([[1, 2, 1]])
    with pytest.raises(ConfigError, match="attention_document_ids has document 1 of row 0"):
        adapt_model_inputs(batch, contract)


def test_memberships_of_two_shapes_are_refused():
    batch = collate([[3]], 3)
    batch["attention_document_ids"] = torch.tensor([[1, 1]])
    with pytest.raises(ConfigError, match=r"shape \(1, 2\), expected \(1, 3\) as document_ids"):
        adapt_model_inputs(batch, DOCUMENT_IDS)


@pytest.mark.parametrize("function", [adapt_model_inputs, enable_xdoc_attention])
def test_a_batch_without_document_ids_is_refused(function):
    batch = collate([[3]], 3)
    del batch["document_ids"]
    arguments = (DOCUMENT_IDS,) if function is adapt_model_inputs else ()
    with pytest.raises(ConfigError, match=f"no document_ids, which {function.__name__} needs"):
        function(batch, *arguments)


def test_an_unknown_output_format_is_refused():
    with pytest.raises(ConfigError, match="expected one of 'batched', 'thd'"):
        adapt_model_inputs(collate([[3]], 3), DOCUMENT_IDS, output_format="flat")


def test_a_supported_contract_is_accepted_once_for_all():
    require_supported_packing_contract(PackingContract())
    require_supported_packing_contract(PackingContract(max_sequence_length=8), 8)
    require_supported_packing_contract(PackingContract(), 10**6)
    require_supported_packing_contract(SimpleNamespace(packed_mask_type="block_causal"), 8)


@pytest.mark.parametrize(
    ("contract", "length", "error", "message"),
    [
        (
            PackingContract(max_sequence_length=7),
            8,
            ConfigError,
            "sequence_length is 8, expected at most 7, the max_sequence_length",
        ),
        (SimpleNamespace(packed_mask_type="dense"), 8, ConfigError, "'dense', expected one of"),
        (PackingContract(), 0, ConfigError, "sequence_length is 0, expected at least 1"),
        (PackingContract(), 8.0, ConfigTypeError, "sequence_length is 8.0, expected an int"),
    ],
)
def test_a_contract_that_cannot_be_met_is_refused(contract, length, error, message):
    with pytest.raises(error, match=message):
        require_supported_packing_contract(contract, length)
