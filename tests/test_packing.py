import subprocess
import sys
from types import SimpleNamespace

import pytest

from zephon.errors import ConfigError, ConfigTypeError
from zephon.packing import (
    DEFAULT_PACKED_SEQUENCE_CONTRACT,
    PackingContract,
    check_output_format,
    read_packing_contract,
    resolve_packing_contract,
)


def test_importing_the_contract_does_not_import_torch():
    code = "import sys, zephon.packing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def test_the_default_contract_asks_for_a_block_causal_mask_and_nothing_else():
    assert PackingContract(
        packed_mask_type="block_causal",
        return_packed_sequence_metadata=False,
        return_document_ids=False,
        max_sequence_length=None,
    ) == (DEFAULT_PACKED_SEQUENCE_CONTRACT)


def test_a_contract_cannot_be_changed():
    with pytest.raises(AttributeError):
        DEFAULT_PACKED_SEQUENCE_CONTRACT.packed_mask_type = "document_ids"


@pytest.mark.parametrize(
    ("given", "metadata"),
    [
        (SimpleNamespace(packed_mask_type="document_ids"), False),
        (
            SimpleNamespace(
                packed_mask_type="document_ids", requires_packed_sequence_metadata=True
            ),
            True,
        ),
        (
            SimpleNamespace(packed_mask_type="document_ids", return_packed_sequence_metadata=True),
            True,
        ),
        (
            SimpleNamespace(
                packed_mask_type="document_ids",
                return_packed_sequence_metadata=False,
                requires_packed_sequence_metadata=True,
            ),
            False,
        ),
    ],
    ids=["neither", "older", "newer", "newer wins"],
)
def test_either_spelling_of_the_metadata_request_is_read(given, metadata):
    contract = read_packing_contract(given)
    assert contract.return_packed_sequence_metadata is metadata
    assert contract.requires_packed_sequence_metadata is metadata
    assert contract.packed_mask_type == "document_ids"


def test_all_requests_of_a_foreign_contract_are_read():
    foreign = SimpleNamespace(
        packed_mask_type="block_causal", return_document_ids=True, max_sequence_length=8
    )
    assert read_packing_contract(foreign) == PackingContract(
        return_document_ids=True, max_sequence_length=8
    )


def test_an_object_without_a_mask_type_is_no_contract():
    with pytest.raises(ConfigTypeError, match="packing_contract is 3, expected an object with"):
        read_packing_contract(3)


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        (
            "packed_mask_type",
            "causal",
            ConfigError,
            "packed_mask_type is 'causal', expected one of 'block_causal', 'document_ids'",
        ),
        ("return_document_ids", 1, ConfigTypeError, "return_document_ids is 1, expected a bool"),
        (
            "return_packed_sequence_metadata",
            "yes",
            ConfigTypeError,
            "return_packed_sequence_metadata is 'yes', expected a bool",
        ),
        (
            "max_sequence_length",
            True,
            ConfigTypeError,
            "max_sequence_length is True, expected an int or None",
        ),
        (
            "max_sequence_length",
            0,
            ConfigError,
            "max_sequence_length is 0, expected at least 1",
        ),
    ],
)
def test_a_wrong_field_of_a_contract_is_named(field, value, error, message):
    with pytest.raises(error, match=message):
        PackingContract(**{field: value})
    foreign = SimpleNamespace(**{"packed_mask_type": "block_causal", field: value})
    with pytest.raises(error, match=message):
        read_packing_contract(foreign)


def test_a_given_contract_is_used_and_the_default_stands_in_for_none():
    contract = PackingContract(packed_mask_type="document_ids")
    assert resolve_packing_contract(contract) is contract
    assert resolve_packing_contract() is DEFAULT_PACKED_SEQUENCE_CONTRACT


@pytest.mark.parametrize(
    ("name", "mask_type"),
    [
        ("flash_attention_2", "document_ids"),
        ("flash_attention_3", "document_ids"),
        ("flash_attention_4", "document_ids"),
        ("sdpa", "block_causal"),
        ("eager", "block_causal"),
    ],
)
def test_the_deprecated_attention_keyword_warns_and_picks_the_mask(name, mask_type):
    with pytest.warns(DeprecationWarning, match="give a packing_contract"):
        contract = resolve_packing_contract(attn_implementation=name)
    assert contract == PackingContract(packed_mask_type=mask_type)


def test_a_contract_and_the_deprecated_keyword_exclude_each_other():
    with pytest.raises(ConfigError, match="attn_implementation='sdpa' were both given"):
        resolve_packing_contract(PackingContract(), "sdpa")


def test_an_unknown_output_format_is_refused_with_the_known_ones():
    check_output_format("batched")
    check_output_format("thd")
    with pytest.raises(ConfigError, match="'bshd', expected one of 'batched', 'thd'"):
        check_output_format("bshd")
