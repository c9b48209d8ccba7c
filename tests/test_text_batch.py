from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

import zephon
from oracles.collated import collate, row_lengths
from oracles.thd_consumer import UNUSED, consume
from zephon.attention import adapt_model_inputs, enable_xdoc_attention
from zephon.errors import ConfigError, ConfigTypeError
from zephon.loader import convert_text_batch
from zephon.output import convert_batch_output
from zephon.packing import PackingContract, flatten_packed_sequence_metadata, get_unpad_data
from zephon.types import SampleBatch, SampleMeta, SampleRecord

BLOCK_CAUSAL = PackingContract()
DOCUMENT_IDS = PackingContract(packed_mask_type="document_ids")
METADATA = PackingContract(packed_mask_type="document_ids", return_packed_sequence_metadata=True)


def adapt(
    fields, *, packing_contract, allow_cross_document_attention=False, output_format="batched"
):
    """The two steps that make a batch of any fields."""
    batch = dict(fields)
    if allow_cross_document_attention:
        enable_xdoc_attention(batch)
    if packing_contract is None:
        if output_format == "batched":
            return batch
        packing_contract = PackingContract(return_document_ids=True)
    adapt_model_inputs(batch, packing_contract, output_format=output_format)
    return convert_batch_output(batch, output_format)


class TinyModel:
    """One attention head over random token and position embeddings of 4 numbers each."""

    def __init__(self):
        generator = torch.Generator().manual_seed(3)
        self.embedding = torch.randn(1000, 4, generator=generator, dtype=torch.float64)
        self.position = torch.randn(100, 4, generator=generator, dtype=torch.float64)

    def embed(self, input_ids, position_ids):
        return self.embedding[input_ids] + self.position[position_ids]

    def dense(self, batch):
        hidden = self.embed(batch["input_ids"], batch["position_ids"])[:, None]  # one head
        mask = batch["attention_mask"]
        return scaled_dot_product_attention(hidden, hidden, hidden, attn_mask=mask)[:, 0]

    def varlen(self, hidden, places, ends):
        """Attention over the segments of a stream ``[places, 4]``, each for itself."""
        out = torch.zeros_like(hidden)
        for start, end in ends:
            segment = hidden[places[start:end]][None, None]
            attended = scaled_dot_product_attention(segment, segment, segment, is_causal=True)
            out[places[start:end]] = attended[0, 0]
        return out

    def flash(self, batch, places, cu_seqlens):
        hidden = self.embed(batch["input_ids"], batch["position_ids"]).flatten(0, 1)
        bounds = cu_seqlens.tolist()
        out = self.varlen(hidden, places, pairwise(bounds))
        return out.view(*batch["input_ids"].shape, -1)

    def thd(self, batch):
        model = consume(batch)
        hidden = self.embed(torch.tensor(model["input_ids"]), torch.tensor(model["position_ids"]))
        starts = model.get("cu_seqlens_padded", model["cu_seqlens"])
        lens = batch["seq_lens"][batch["seq_lens"] != UNUSED].tolist()
        ends = [(start, start + n) for start, n in zip(starts, lens, strict=False)]
        out = self.varlen(hidden, torch.arange(len(hidden)), ends)
        return out.view(*batch["input_ids"].shape, -1)


def run(fields, form, xdoc):
    model = TinyModel()
    contract = {"block_causal": BLOCK_CAUSAL, "document_ids": DOCUMENT_IDS}.get(form, METADATA)
    batch = adapt(
        fields,
        packing_contract=contract,
        allow_cross_document_attention=xdoc,
        output_format="thd" if form == "thd" else "batched",
    )
    if form == "block_causal":
        return model.dense(batch)
    if form == "document_ids":
        places, cu_seqlens, _ = get_unpad_data(batch["attention_mask"])
        return model.flash(batch, places, cu_seqlens)
    if form == "metadata":
        rows, length = batch["input_ids"].shape
        flat = flatten_packed_sequence_metadata(
            batch["packed_token_indices"],
            batch["cu_seqlens"],
            batch_size=rows,
            sequence_length=length,
        )
        return model.flash(batch, *flat)
    return model.thd(batch)


FORMS = ["block_causal", "document_ids", "metadata", "thd"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [[[4, 3], [2, 2, 1]], [[3, 4]], [[1, 1], [5]]])
def test_the_second_document_moves_with_the_first_only_under_cross_document_attention(form, rows):
    fields = collate(rows, 8)
    changed = dict(fields)
    in_first = fields["document_ids"] == 1
    changed["input_ids"] = torch.where(in_first, fields["input_ids"] + 500, fields["input_ids"])
    later = fields["document_ids"] > 1
    for xdoc in (False, True):
        outputs, moved = run(fields, form, xdoc), run(changed, form, xdoc)
        assert not torch.equal(outputs[in_first], moved[in_first])
        assert torch.equal(outputs[later], moved[later]) is not xdoc


@settings(deadline=None)  # the first call into torch takes long
@given(row_lengths(), st.booleans())
def test_all_forms_of_a_batch_give_the_same_outputs(rows_and_length, xdoc):
    fields = collate(*rows_and_length)
    is_token = ~fields["padding_mask"]
    dense = run(fields, "block_causal", xdoc)[is_token]
    for form in FORMS[1:]:
        torch.testing.assert_close(run(fields, form, xdoc)[is_token], dense)


@settings(deadline=None)  # the first call into torch takes long
@given(
    row_lengths(),
    st.booleans(),
    st.sampled_from(["batched", "thd"]),
    st.sampled_from([BLOCK_CAUSAL, DOCUMENT_IDS, METADATA]),
)
def test_the_collated_fields_are_never_changed(rows_and_length, xdoc, output_format, contract):
    fields = collate(*rows_and_length)
    before = {name: value.clone() for name, value in fields.items()}
    batch = adapt(
        fields,
        packing_contract=contract,
        allow_cross_document_attention=xdoc,
        output_format=output_format,
    )
    assert fields.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(fields[name], value)
    for name in ("input_ids", "labels", "padding_mask"):
        assert torch.equal(batch[name], before[name])
    shape = (len(rows_and_length[0]), rows_and_length[1])
    expected = torch.arange(shape[1]).repeat(shape[0], 1) if xdoc else before["position_ids"]
    assert torch.equal(batch["position_ids"], expected)


BASE = {"input_ids", "labels", "position_ids", "padding_mask", "attention_document_ids"}


@pytest.mark.parametrize(
    ("contract", "output_format", "more"),
    [
        (BLOCK_CAUSAL, "batched", {"attention_mask", "_packed_seq_ids"}),
        (DOCUMENT_IDS, "batched", {"attention_mask", "_packed_seq_ids"}),
        (
            METADATA,
            "batched",
            {
                "attention_mask",
                "_packed_seq_ids",
                "packed_token_indices",
                "cu_seqlens",
                "max_seqlen",
            },
        ),
        (METADATA, "thd", {"seq_lens", "seq_lens_padded", "qkv_format"}),
        (
            PackingContract(return_document_ids=True),
            "thd",
            {"seq_lens", "seq_lens_padded", "qkv_format", "document_ids"},
        ),
    ],
)
@pytest.mark.parametrize("rows", [[[2, 3], [1]], [[4], [5]]], ids=["packed", "single documents"])
def test_a_batch_has_exactly_the_fields_asked_for(contract, output_format, more, rows):
    batch = adapt(collate(rows, 5), packing_contract=contract, output_format=output_format)
    assert set(batch) == BASE | more


def test_no_dense_mask_is_built_unless_asked_for():
    fields = collate([[3000] * 10], 2**15)  # its dense mask would take 1 GiB
    for contract, output_format in ((METADATA, "batched"), (BLOCK_CAUSAL, "thd")):
        batch = adapt(fields, packing_contract=contract, output_format=output_format)
        tensors = [value for value in batch.values() if isinstance(value, torch.Tensor)]
        assert max(tensor.numel() for tensor in tensors) == 2**15


def test_joined_documents_are_one_slot_in_thd_and_keep_their_own_ids():
    batch = adapt(
        collate([[4, 3]], 8),
        packing_contract=PackingContract(return_document_ids=True),
        allow_cross_document_attention=True,
        output_format="thd",
    )
    assert batch["seq_lens"].tolist() == [[7]]
    assert batch["seq_lens_padded"].tolist() == [[8]]
    assert batch["document_ids"].tolist() == [[1, 1, 1, 1, 2, 2, 2, 0]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_positions_of_several_axes_stay_as_they_are():
    fields = collate([[2, 2]], 4)
    fields["position_ids"] = torch.arange(12).view(3, 1, 4)
    batch = adapt(fields, packing_contract=DOCUMENT_IDS)
    assert batch["position_ids"] is fields["position_ids"]
    with pytest.raises(ConfigError, match="text positions only"):
        adapt(fields, packing_contract=DOCUMENT_IDS, allow_cross_document_attention=True)


def test_a_batch_of_padding_can_be_batched_without_metadata_only():
    fields = collate([[], []], 3)
    batch = adapt(fields, packing_contract=BLOCK_CAUSAL)
    assert not batch["attention_mask"].any()
    for contract, output_format in ((METADATA, "batched"), (BLOCK_CAUSAL, "thd")):
        with pytest.raises(ConfigError, match="at least one valid token"):
            adapt(fields, packing_contract=contract, output_format=output_format)


def test_a_row_of_padding_can_be_batched_with_metadata_but_not_thd():
    fields = collate([[2], []], 3)
    batch = adapt(fields, packing_contract=METADATA)
    assert batch["cu_seqlens"].tolist() == [[0, 2], [0, -1]]
    with pytest.raises(ConfigError, match="row 1 of the batch has no token"):
        adapt(fields, packing_contract=METADATA, output_format="thd")


def test_tokens_that_take_no_part_are_left_out_of_batched_attention_and_refused_by_thd():
    fields = collate([[3, 2]], 5)
    fields["attention_document_ids"] = torch.tensor([[1, 0, 1, 2, 2]])
    batch = adapt(fields, packing_contract=METADATA)
    assert batch["packed_token_indices"].tolist() == [[0, -1, 2, 3, 4]]
    assert batch["cu_seqlens"].tolist() == [[0, 2, 4]]
    with pytest.raises(ConfigError, match="an exclusion before the end"):
        adapt(fields, packing_contract=METADATA, output_format="thd")


def test_unknown_names_are_refused_with_the_known_ones():
    fields = collate([[3]], 3)
    with pytest.raises(ConfigError, match="expected one of 'batched', 'thd'"):
        adapt(fields, packing_contract=DOCUMENT_IDS, output_format="flat")
    with pytest.raises(ConfigTypeError, match="expected an object with packed_mask_type"):
        adapt(fields, packing_contract="block_causal")


def test_without_a_contract_nothing_is_built_for_attention():
    fields = collate([[3, 2]], 6)
    batch = adapt(fields, packing_contract=None)
    assert set(batch) == set(fields)
    joined = adapt(fields, packing_contract=None, allow_cross_document_attention=True)
    assert set(joined) == {*fields, "attention_document_ids"}
    thd = adapt(fields, packing_contract=None, output_format="thd")
    assert {"document_ids", "attention_document_ids", "seq_lens"} <= set(thd)


CONTRACTS = [None, BLOCK_CAUSAL, DOCUMENT_IDS, METADATA, PackingContract(return_document_ids=True)]


@settings(deadline=None, max_examples=150)
@given(
    rows=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=5), min_size=1, max_size=4),
    padding=st.integers(0, 3),
    contract=st.sampled_from(CONTRACTS),
    xdoc=st.booleans(),
    output_format=st.sampled_from(["batched", "thd"]),
)
def test_the_loader_makes_of_its_segments_what_the_two_steps_make_of_the_tensors(
    rows, padding, contract, xdoc, output_format
):
    length = max(2, *(sum(lengths) for lengths in rows)) + padding
    records = []
    for lengths in rows:
        tokens = np.arange(length)
        positions = np.concatenate([np.arange(n) for n in (*lengths, length - sum(lengths))])
        tags = {"_packing_metadata": {"padding_length": length - sum(lengths)}}
        meta = SampleMeta((0, 0, 0), 0, 0, tags=tags)
        records.append(SampleRecord(meta, {"input_ids": tokens, "positions": positions}))
    sample_batch = SampleBatch(records)
    expected = adapt(
        convert_text_batch(sample_batch),
        packing_contract=contract,
        allow_cross_document_attention=xdoc,
        output_format=output_format,
    )
    batch = convert_text_batch(
        sample_batch,
        contract,
        allow_cross_document_attention=xdoc,
        output_format=output_format,
    )
    assert batch.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert batch[name].dtype == value.dtype, name
            assert torch.equal(batch[name], value), name
        else:
            assert batch[name] == value


@pytest.mark.parametrize("xdoc", [False, True])
@pytest.mark.parametrize("output_format", ["batched", "thd"])
@pytest.mark.parametrize("contract", [None, DOCUMENT_IDS, METADATA, PackingContract()])
def test_no_tensor_shares_memory_with_one_of_other_values(contract, output_format, xdoc):
    record = SampleRecord(
        SampleMeta((0, 0, 0), 0, 0), {"input_ids": np.arange(5), "positions": [0, 1, 0, 1, 2]}
    )
    batch = convert_text_batch(
        SampleBatch([record] * 2),
        contract,
        allow_cross_document_attention=xdoc,
        output_format=output_format,
    )
    ids = {"attention_document_ids", "_packed_seq_ids", "attention_mask"}
    ids |= set() if xdoc else {"document_ids"}
    tensors = {n: v for n, v in batch.items() if isinstance(v, torch.Tensor)}
    storages = {n: v.untyped_storage() for n, v in tensors.items()}
    for name, value in tensors.items():
        assert value.is_contiguous(), name
        assert storages[name].nbytes() == value.nbytes, name
        same = {n for n in tensors if storages[n].data_ptr() == storages[name].data_ptr()}
        assert same == {name} or same <= ids, name


def test_a_filler_row_of_one_token_is_one_document_of_one_token():
    meta = SampleMeta((0, 0, 0), 0, 0, tags={"_packing_metadata": {"padding_length": 3}})
    record = SampleRecord(meta, {"input_ids": [5, 0, 0, 0], "positions": [0, 0, 1, 2]})
    batch = convert_text_batch(SampleBatch([record]), METADATA)
    assert batch["cu_seqlens"].tolist() == [[0, 1]]
    assert batch["packed_token_indices"].tolist() == [[0, -1, -1]]


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 14), min_size=3, max_size=12),
    row=st.integers(4, 20),
    algorithm=st.sampled_from(["wrap", "first_fit", "best_fit", "best_fit_wrap"]),
    form=st.sampled_from(FORMS),
    which=st.integers(0, 100),
)
def test_no_document_sees_another_whatever_packs_them(lengths, row, algorithm, form, which):
    which %= len(lengths)
    batches = []
    for change in (0, 500):
        rows = [
            {"tokens": 1 + (37 * i + np.arange(n)) % 400 + change * (i == which)}
            for i, n in enumerate(lengths)
        ]
        dataset = zephon.Dataset.from_dict("a", {0: zephon.InMemoryShard(rows)})
        work = zephon.StaticMixtureWorkSource(
            [dataset], {"a": 1}, exhausted_policy="repeat", shuffle_shards=False
        )
        stream = zephon.Pipeline(work)
        whole = {} if "wrap" in algorithm else {"drop_oversized": False}
        stream.pack_flat(row, algorithm=algorithm, **whole).batch(2).prefetch(0)
        iterator = iter(stream)
        batches.append([convert_text_batch(next(iterator)) for _ in range(3)])
        stream.close()
    for one, other in zip(*batches, strict=True):
        moved = one["input_ids"] != other["input_ids"]
        untouched = ~one["padding_mask"]
        for index in range(len(moved)):
            for segment in one["document_ids"][index][moved[index]].unique():
                untouched[index] &= one["document_ids"][index] != segment
        outputs = run(one, form, False)[untouched]
        assert torch.equal(outputs, run(other, form, False)[untouched])
