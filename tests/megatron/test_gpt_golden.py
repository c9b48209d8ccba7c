"""Everything that the reference left on disk and returned, for three small corpora."""

import filecmp
import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from zephon.megatron import (
    BlendedMegatronDatasetBuilder,
    GPTDataset,
    GPTDatasetConfig,
    Split,
)

DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "gpt" / "index.json").read_text())
ITEMS = [
    (case, split)
    for case in CASES
    for split in Split
    if list((DATA / "gpt").glob(f"{case['tag']}_{split.name}_first*.npz"))
]
# Ours are named after an option that the reference's names leave out.
OTHER_NAMES = ("keep_partial", "noextra")


@pytest.fixture(autouse=True)
def in_data_folder(monkeypatch):
    monkeypatch.chdir(DATA)  # the recorded names hold relative paths


def build(case, tokenizer, **options):
    config = GPTDatasetConfig(
        random_seed=case["seed"],
        sequence_length=case["sequence_length"],
        tokenizer=tokenizer,
        **case["config"],
        **options,
    )
    return BlendedMegatronDatasetBuilder(GPTDataset, case["sizes"], lambda: True, config).build()


def recorded_items(case, split):
    (path,) = (DATA / "gpt").glob(f"{case['tag']}_{split.name}_first*.npz")
    with np.load(path) as arrays:
        return dict(arrays)


def by_tag(cases, *tags):
    return [case for case in cases if case["tag"] in tags]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["tag"])
def test_lengths_are_those_of_the_reference(case, golden_tokenizer):
    datasets = build(case, golden_tokenizer)
    lengths = [None if dataset is None else len(dataset) for dataset in datasets]
    # Where the reference fails over a corpus without a test sample, ours leaves it out.
    assert lengths == case.get("lengths", [90, 10, 5])


@pytest.mark.parametrize(
    ("case", "split"), ITEMS, ids=[f"{case['tag']}-{split.name}" for case, split in ITEMS]
)
@pytest.mark.parametrize("mmap_bin_files", [True, False])
def test_first_samples_equal_the_reference_field_by_field(
    case, split, golden_tokenizer, mmap_bin_files
):
    dataset = build(case, golden_tokenizer, mmap_bin_files=mmap_bin_files)[split.value]
    recorded = recorded_items(case, split)
    count = len(recorded["tokens"])
    batch = dataset.__getitems__(list(range(count)))
    for items in (batch, [dataset[i] for i in range(count)]):
        for at, item in enumerate(items):
            assert set(item) == set(recorded)
            for field, values in recorded.items():
                found = np.asarray(item[field])
                assert found.dtype == values.dtype
                np.testing.assert_array_equal(found, values[at], err_msg=field)


@pytest.mark.parametrize(
    ("case", "split"), ITEMS, ids=[f"{case['tag']}-{split.name}" for case, split in ITEMS]
)
def test_the_automodel_flavour_has_the_same_samples_under_its_names(case, split, golden_tokenizer):
    dataset = build(case, golden_tokenizer, flavour="automodel")[split.value]
    recorded = recorded_items(case, split)
    size = case["sizes"][split.value]
    if size is not None and "dataset_id" not in recorded:
        assert len(dataset) == min(size, case["lengths"][split.value])
    count = min(len(dataset), len(recorded["tokens"]))
    for at, item in enumerate(dataset.__getitems__(list(range(count)))):
        assert set(item) - {"dataset_id"} == {"input_ids", "labels", "loss_mask"}
        assert item["input_ids"].tolist() == recorded["tokens"][at].tolist()
        for field in ("labels", "loss_mask"):
            assert item[field].tolist() == recorded[field][at].tolist()


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["tag"] not in OTHER_NAMES],
    ids=lambda case: case["tag"],
)
def test_caches_are_written_byte_for_byte_as_the_reference_does(case, golden_tokenizer, tmp_path):
    build(case, golden_tokenizer, path_to_cache=tmp_path)
    for name in case["cache_files"]:
        recorded = DATA / "gpt" / f"cache_{case['tag']}" / name
        assert filecmp.cmp(recorded, tmp_path / name, shallow=False), name


@pytest.mark.parametrize("case", by_tag(CASES, *OTHER_NAMES), ids=lambda case: case["tag"])
def test_arrays_of_other_options_are_the_same_under_another_name(case, golden_tokenizer, tmp_path):
    build(case, golden_tokenizer, path_to_cache=tmp_path)
    arrays = [name for name in case["cache_files"] if name.endswith(".npy")]
    assert arrays
    for name in arrays:
        recorded = DATA / "gpt" / f"cache_{case['tag']}" / name
        (ours,) = tmp_path.glob(f"*-{name.split('-', 1)[1]}")
        assert ours.name != name
        assert filecmp.cmp(recorded, ours, shallow=False), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["tag"])
def test_caches_of_the_reference_are_used_as_they_are(case, golden_tokenizer, tmp_path, caplog):
    folder = tmp_path / "cache"
    shutil.copytree(DATA / "gpt" / f"cache_{case['tag']}", folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with caplog.at_level(logging.INFO, "zephon.megatron"):
        datasets = build(case, golden_tokenizer, path_to_cache=folder)
    assert {path: path.read_bytes() for path in folder.iterdir() if path in before} == before
    if "lengths" in case:  # nothing was built, so nothing was written
        assert set(folder.iterdir()) == set(before)
        assert "samples of 16 tokens" not in caplog.text
        assert [d and len(d) for d in datasets] == case["lengths"]


def test_a_cache_of_other_options_under_the_same_name_is_not_used(
    golden_tokenizer, tmp_path, caplog
):
    """The reference names the caches of both cases alike, though they differ."""
    (with_extra, without) = by_tag(CASES, "single", "noextra")
    folder = tmp_path / "cache"
    shutil.copytree(DATA / "gpt" / "cache_single", folder)
    with caplog.at_level(logging.INFO, "zephon.megatron"):
        datasets = build(without, golden_tokenizer, path_to_cache=folder)
    assert "is of other options" in caplog.text
    assert [len(dataset) for dataset in datasets] == without["lengths"]
    recorded = recorded_items(without, Split.test)
    assert datasets[2][4]["tokens"].tolist() == recorded["tokens"][4].tolist()
    again = build(with_extra, golden_tokenizer, path_to_cache=folder)
    assert [len(dataset) for dataset in again] == with_extra["lengths"]


def test_a_cache_in_the_references_own_place_is_found(golden_tokenizer, tmp_path, caplog):
    """Without a folder the reference keeps them under ``<prefix>/cache``."""
    (case,) = by_tag(CASES, "single")
    home = tmp_path / "gpt"
    home.mkdir()
    for suffix in (".bin", ".idx"):
        shutil.copy(DATA / "gpt" / f"A{suffix}", home / f"A{suffix}")
    shutil.copytree(DATA / "gpt" / "cache_single", home / "A" / "cache" / "GPTDataset_indices")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with caplog.at_level(logging.INFO, "zephon.megatron"):
            datasets = build(case, golden_tokenizer)
    assert [len(dataset) for dataset in datasets] == case["lengths"]
    assert "in memory only" not in caplog.text


def test_automodels_name_for_a_cache_is_found(tmp_path, config, caplog):
    """It has the tokenizer's path before the seed."""
    import hashlib

    class HuggingFace:
        eos_token_id = 0
        pad_token_id = None
        name_or_path = "some/model"

    (case,) = by_tag(CASES, "single_none")
    source = DATA / "gpt" / "cache_single_none"
    for description in source.glob("*-description.txt"):
        digest, rest = description.name.split("-", 1)
        content = json.loads(description.read_text())
        order = {name: content[name] for name in list(content)[:4]}
        order["tokenizer"] = "some/model"
        order |= {name: content[name] for name in list(content)[4:-1]}
        text = json.dumps(order, indent=4)
        renamed = hashlib.md5(text.encode()).hexdigest()
        (tmp_path / f"{renamed}-{rest}").write_text(text)
        for array in source.glob(f"{digest}-*.npy"):
            shutil.copy(array, tmp_path / array.name.replace(digest, renamed))
    before = set(tmp_path.iterdir())
    assert len(before) == 12
    datasets = build(case, HuggingFace(), path_to_cache=tmp_path, flavour="automodel")
    assert [len(dataset) for dataset in datasets] == case["lengths"]
    assert set(tmp_path.iterdir()) == before
