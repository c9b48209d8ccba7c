import copy
import json
import logging
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, default_collate

from oracles.gpt_sample import gpt_sample
from zephon.errors import ConfigError, ConfigTypeError, DataError
from zephon.megatron import GPTDataset, IndexedDataset, Split

DOCUMENTS = [[11, 12, 13, 9], [21, 9], [], [31, 32, 33, 34, 35, 9], [41, 42, 43, 9], [51, 9]]


def make(prefix, config, samples=None, split=Split.train):
    low_level = IndexedDataset(prefix, mmap=config.mmap_bin_files)
    return GPTDataset(low_level, prefix, np.arange(len(low_level)), samples, split, config)


@pytest.fixture
def prefix(write_pair):
    return write_pair("data", DOCUMENTS)


def lists(item):
    return {name: value.tolist() for name, value in item.items()}


def same(one, other):
    return [lists(item) for item in one] == [lists(item) for item in other]


def texts(dataset):
    """The real tokens of each sample, by way of the public indices."""
    sequences = [dataset.dataset[i].tolist() for i in range(len(dataset.dataset))]
    stream = [token for at in dataset.document_index for token in sequences[at]]
    length = dataset.config.sequence_length
    extra = int(dataset.config.add_extra_token_to_sequence)
    return [stream[k * length : (k + 1) * length + extra] for k in dataset.shuffle_index.tolist()]


@given(
    documents=st.lists(st.lists(st.integers(0, 6), max_size=9), min_size=1, max_size=9),
    samples=st.none() | st.integers(1, 20),
    length=st.integers(2, 8),
    eod=st.integers(0, 6),
    pad=st.integers(-1, 6),
    flags=st.fixed_dictionaries(
        {
            name: st.booleans()
            for name in (
                "eod_mask_loss",
                "reset_position_ids",
                "add_extra_token_to_sequence",
                "drop_last_partial_validation_sequence",
                "mmap_bin_files",
            )
        }
    ),
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_item_equals_the_oracle(
    write_pair, config, make_tokenizer, documents, samples, length, eod, pad, flags
):
    if sum(map(len, documents)) < 2:
        documents = [*documents, [1, 2]]
    dataset = make(
        write_pair("any", documents),
        config(sequence_length=length, tokenizer=make_tokenizer(eod, pad), **flags),
        samples,
        Split.valid,
    )
    batch = dataset.__getitems__(list(range(len(dataset))))
    assert same(batch, [dataset[i] for i in range(len(dataset))])
    for item, text in zip(batch, texts(dataset), strict=True):
        tokens, labels, loss, positions, _ = gpt_sample(
            text,
            length,
            pad=None if pad == eod else pad,
            eod=eod,
            mask_eod=flags["eod_mask_loss"],
            restart=flags["reset_position_ids"],
        )
        assert lists(item) == {
            "tokens": tokens,
            "labels": labels,
            "loss_mask": loss,
            "position_ids": positions,
        }


def test_fields_have_the_dtypes_and_shapes_of_the_reference(prefix, config):
    item = make(prefix, config(create_attention_mask=True))[0]
    assert {name: (value.dtype, tuple(value.shape)) for name, value in item.items()} == {
        "tokens": (torch.int64, (4,)),
        "labels": (torch.int64, (4,)),
        "loss_mask": (torch.float32, (4,)),
        "position_ids": (torch.int64, (4,)),
        "attention_mask": (torch.bool, (1, 4, 4)),
    }


def test_an_attention_mask_is_not_made_unless_asked_for(prefix, config):
    assert "attention_mask" not in make(prefix, config())[0]


@pytest.mark.parametrize("flavour", ["megatron", "automodel"])
@pytest.mark.parametrize("reset", [True, False])
def test_an_attention_mask_looks_back_and_not_across_ends_of_documents(
    prefix, config, make_tokenizer, flavour, reset
):
    dataset = make(
        prefix,
        config(
            tokenizer=make_tokenizer(9),
            create_attention_mask=True,
            reset_attention_mask=reset,
            flavour=flavour,
            sequence_length=6,
        ),
    )
    batch = dataset.__getitems__(list(range(len(dataset))))
    for item in (*batch, *(dataset[i] for i in range(len(dataset)))):
        tokens = item["tokens" if flavour == "megatron" else "input_ids"].tolist()
        for query in range(6):
            for key in range(6):
                crosses = reset and 9 in tokens[key:query]
                assert item["attention_mask"][0, query, key].item() == (key > query or crosses)


def test_a_real_token_that_is_zeroed_as_padding_is_no_end_of_document(
    write_pair, config, make_tokenizer
):
    """Tokens equal to the pad id become 0, which may be the id of end of document."""
    dataset = make(
        write_pair("zero", [[5, 7, 6, 4, 3]]),
        config(
            tokenizer=make_tokenizer(0, 7),
            create_attention_mask=True,
            reset_attention_mask=True,
            reset_position_ids=True,
            eod_mask_loss=True,
        ),
    )
    item = dataset[0]
    assert item["tokens"].tolist() == [5, 0, 6, 4]
    assert item["labels"].tolist() == [0, 6, 4, 3]
    assert item["loss_mask"].tolist() == [0, 1, 1, 1]
    assert item["position_ids"].tolist() == [0, 1, 2, 3]
    assert torch.equal(item["attention_mask"][0], torch.ones(4, 4, dtype=torch.bool).triu(1))


def test_where_pad_and_end_of_document_are_one_id_only_padding_loses_its_loss(
    write_pair, config, make_tokenizer
):
    """By its place: the reference masks both true ends of this row."""
    dataset = make(
        write_pair("ends", [[5, 6, 0], [7, 8, 9, 0]]),
        config(
            tokenizer=make_tokenizer(0, 0),
            sequence_length=10,
            drop_last_partial_validation_sequence=False,
        ),
        split=Split.valid,
    )
    item = dataset[0]
    assert sorted(item["tokens"].tolist()) == [0, 0, 0, 0, 0, 5, 6, 7, 8, 9]
    assert item["loss_mask"].tolist() == [1] * 6 + [0] * 4
    assert item["position_ids"].tolist() == list(range(10))


@pytest.mark.parametrize("batched", [True, False])
def test_a_loss_mask_that_a_consumer_changes_is_not_seen_again(prefix, config, batched):
    """The reference hands out one tensor, so masks decay while it is iterated."""
    dataset = make(prefix, config())

    def read():
        return dataset.__getitems__([0, 1]) if batched else [dataset[0], dataset[1]]

    for item in read():
        assert item["loss_mask"].tolist() == [1, 1, 1, 1]
        item["loss_mask"].zero_()
        item["position_ids"].zero_()
    for item in read():
        assert item["loss_mask"].tolist() == [1, 1, 1, 1]
        assert item["position_ids"].tolist() == [0, 1, 2, 3]


def test_padding_of_one_sample_does_not_reach_another(prefix, config):
    dataset = make(
        prefix,
        config(drop_last_partial_validation_sequence=False, sequence_length=5),
        split=Split.valid,
    )
    before = [lists(dataset[i]) for i in range(len(dataset))]
    assert sum(0 in item["loss_mask"] for item in before) == 1
    assert [lists(dataset[i]) for i in range(len(dataset))] == before


def test_the_index_none_is_the_first_sample_without_loss(prefix, config):
    dataset = make(prefix, config())
    padding, first = dataset[None], dataset[0]
    assert padding["tokens"].tolist() == first["tokens"].tolist()
    assert padding["loss_mask"].tolist() == [0, 0, 0, 0]
    assert same(dataset.__getitems__([None, 1]), [padding, dataset[1]])


def test_a_negative_index_counts_from_the_end_and_has_no_loss(prefix, config):
    dataset = make(prefix, config())
    last = dataset[len(dataset) - 1]
    for padding in (dataset[-1], dataset.__getitems__([0, -1])[1]):
        assert padding["tokens"].tolist() == last["tokens"].tolist()
        assert padding["labels"].tolist() == last["labels"].tolist()
        assert padding["loss_mask"].tolist() == [0, 0, 0, 0]
    assert last["loss_mask"].tolist() == [1, 1, 1, 1]


def test_indices_beyond_the_samples_are_refused(prefix, config):
    dataset = make(prefix, config())
    assert len(dataset) == 4
    for idx in (4, -5):
        with pytest.raises(IndexError, match=rf"sample {idx} is out of range: .*4 samples of 4"):
            dataset[idx]
        with pytest.raises(IndexError, match=f"sample {idx} is out of range"):
            dataset.__getitems__([0, idx])
    with pytest.raises(ConfigTypeError, match="named by an integer or None, got slice"):
        dataset[:2]


def test_a_dataset_without_a_sample_has_length_0_and_refuses_none(write_pair, config):
    dataset = make(write_pair("short", [[1, 2]]), config())
    assert len(dataset) == 0
    assert list(dataset) == []
    with pytest.raises(IndexError, match="out of range"):
        dataset[None]


def test_samples_of_an_empty_split_are_an_error_that_says_how_it_came_to_be(prefix, config):
    low_level = IndexedDataset(prefix)
    with pytest.raises(DataError, match=r"data\.idx: 3 samples are wanted.*: the test split has 0"):
        GPTDataset(low_level, prefix, np.arange(0), 3, Split.test, config())


def test_length_is_capped_in_the_automodel_flavour_alone(prefix, config):
    assert len(make(prefix, config(), 5)) == 8
    assert len(make(prefix, config(flavour="automodel"), 5)) == 5
    assert len(make(prefix, config(flavour="automodel"))) == 4
    with pytest.raises(IndexError, match="sample 5 is out of range"):
        make(prefix, config(flavour="automodel"), 5)[5]


def test_float_items_are_refused(write_pair, config):
    with pytest.raises(DataError, match="items are float32, but tokens must be of an integer"):
        make(write_pair("floats", [[1, 2, 3, 4, 5]], np.float32), config())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64])
def test_every_integer_dtype_reads_the_same(write_pair, config, dtype):
    dataset = make(write_pair(np.dtype(dtype).name, DOCUMENTS, dtype), config())
    found = [item["tokens"].tolist() for item in dataset]
    assert found == [text[:4] for text in texts(dataset)]


def test_a_tokenizer_with_the_names_of_hugging_face_gives_ids_too(prefix, config):
    class HuggingFace:
        eos_token_id = 9
        pad_token_id = None
        name_or_path = "model"

    dataset = make(prefix, config(tokenizer=HuggingFace(), eod_mask_loss=True))
    for item in dataset:
        assert ((item["tokens"] == 9) == (item["loss_mask"] == 0)).all()
    assert dataset.unique_identifiers["tokenizer"] == "model"


def test_a_tokenizer_that_lacks_a_pad_id_by_error_has_none(prefix, config):
    class Megatrons:
        eod = 9
        unique_identifiers = "m"

        @property
        def pad(self):
            raise NotImplementedError

    assert make(prefix, config(tokenizer=Megatrons()))[0]["loss_mask"].tolist() == [1, 1, 1, 1]


def test_no_tokenizer_is_needed_for_plain_samples(prefix, config):
    dataset = make(prefix, config(tokenizer=None))
    assert dataset[0]["loss_mask"].tolist() == [1, 1, 1, 1]
    assert dataset.unique_identifiers["tokenizer"] is None


def test_an_unnamed_tokenizer_is_named_by_its_class(prefix, config):
    class Plain:
        eod = 9

    name = make(prefix, config(tokenizer=Plain())).unique_identifiers["tokenizer"]
    assert name.endswith("Plain")


@pytest.mark.parametrize("mmap_bin_files", [True, False])
def test_an_index_of_other_files_is_an_error_and_not_other_tokens(prefix, config, mmap_bin_files):
    dataset = make(prefix, config(mmap_bin_files=mmap_bin_files))
    dataset.document_index[:] = 99
    with pytest.raises(DataError, match=r"sequence.*; the index of GPTDataset.* is damaged or of"):
        dataset[0]


def test_building_says_what_it_makes_of_the_tokens(prefix, config, caplog):
    with caplog.at_level(logging.INFO, "zephon.megatron"):
        make(prefix, config(), 7)
    assert "8 samples of 4 tokens (7 needed) from 2 epochs of 18 tokens in 6 seq" in caplog.text
    assert "kept in memory only" in caplog.text
    assert "ZEPHON_CACHE_DIR" in caplog.text


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_a_copy_reads_the_same(prefix, config, tmp_path, cached, again):
    dataset = make(prefix, config(path_to_cache=tmp_path / "cache" if cached else None), 20)
    twin = again(dataset)
    assert len(twin) == len(dataset)
    assert same(twin, dataset)


def test_a_pickle_of_a_cached_dataset_does_not_hold_the_index(write_pair, config, tmp_path):
    prefix = write_pair("large", [[1, 2, 3, 4]] * 50)
    sizes = {
        samples: len(pickle.dumps(make(prefix, config(path_to_cache=tmp_path), samples)))
        for samples in (50, 5000)
    }
    assert sizes[5000] - sizes[50] < 100
    assert len(pickle.dumps(make(prefix, config(), 5000))) > sizes[5000] + 5000 * 12


READ_PICKLE = """
import json, pickle, sys
with open(sys.argv[1], "rb") as file:
    dataset = pickle.load(file)
items = dataset.__getitems__([0, 1, 2])
print(json.dumps([{name: value.tolist() for name, value in item.items()} for item in items]))
"""


@pytest.mark.parametrize("cached", [True, False])
def test_a_new_interpreter_reads_a_pickle_the_same(prefix, config, tmp_path, cached):
    cache = tmp_path / "cache" if cached else None
    dataset = make(prefix, config(path_to_cache=cache, tokenizer=None))
    path = tmp_path / "pickle"
    path.write_bytes(pickle.dumps(dataset))
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ_PICKLE, path], check=True, capture_output=True, timeout=60
    )
    assert json.loads(done.stdout) == [lists(item) for item in dataset.__getitems__([0, 1, 2])]


def read_in_child(dataset, queue):
    queue.put([lists(item) for item in dataset.__getitems__([0, 1, 2])])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_reads_the_same(prefix, config, tmp_path):
    dataset = make(prefix, config(path_to_cache=tmp_path))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=read_in_child, args=(dataset, queue))
    child.start()
    found = queue.get(timeout=60)
    child.join()
    assert found == [lists(item) for item in dataset.__getitems__([0, 1, 2])]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_data_loader_collates_it(prefix, config, workers):
    dataset = make(prefix, config(), 20)
    loader = DataLoader(dataset, batch_size=4, num_workers=workers)
    rows = [row for batch in loader for row in batch["tokens"].tolist()]
    assert rows == [item["tokens"].tolist() for item in dataset]


@pytest.mark.parametrize("attention", [True, False])
def test_a_batch_is_the_collated_items(prefix, config, attention):
    dataset = make(prefix, config(create_attention_mask=attention), 20)
    batch = dataset.batch([3, 0, None, 7, -1])
    collated = default_collate(dataset.__getitems__([3, 0, None, 7, -1]))
    assert list(batch) == list(collated)
    for name, tensor in collated.items():
        assert batch[name].dtype == tensor.dtype
        assert torch.equal(batch[name], tensor)


def test_the_config_must_be_that_of_a_gpt_dataset(prefix):
    low_level = IndexedDataset(prefix)
    with pytest.raises(ConfigTypeError, match="config must be a GPTDatasetConfig, got dict"):
        GPTDataset(low_level, prefix, np.arange(1), None, Split.train, {})


def test_indices_must_be_sequences_of_the_dataset(prefix, config):
    with pytest.raises(ConfigError, match=r"indices must lie in \[0, 6\), got 0 to 6"):
        GPTDataset(IndexedDataset(prefix), prefix, np.arange(7), None, Split.train, config())


def test_low_level_datasets_count_sequences(prefix, config):
    low_level = GPTDataset.build_low_level_dataset(prefix, config())
    assert GPTDataset.numel_low_level_dataset(low_level) == len(DOCUMENTS)
