import dataclasses
import pickle

import pytest

from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron import BlendedMegatronDatasetConfig, GPTDatasetConfig

REQUIRED = {"random_seed": 1234, "sequence_length": 16}


@pytest.mark.parametrize("cls", [BlendedMegatronDatasetConfig, GPTDatasetConfig])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"random_seed": -1}, ConfigError, "random_seed must be from 0 to 4294967295, got -1"),
        ({"random_seed": 2**32}, ConfigError, "random_seed must be from 0"),
        ({"random_seed": 1.0}, ConfigTypeError, "random_seed must be an integer, got 1.0"),
        ({"sequence_length": 1}, ConfigError, "sequence_length must be from 2 .*, got 1"),
        ({"sequence_length": True}, ConfigTypeError, "sequence_length must be an integer"),
        ({"num_dataset_builder_threads": 0}, ConfigError, "num_dataset_builder_threads must be"),
        ({"mmap_bin_files": 1}, ConfigTypeError, "mmap_bin_files must be a bool, got 1"),
        ({"path_to_cache": 5}, ConfigTypeError, "path_to_cache must be a path, got 5"),
        ({"mid_level_dataset_surplus": -0.1}, ConfigError, "surplus must be finite .*, got -0.1"),
        ({"mid_level_dataset_surplus": float("nan")}, ConfigError, "surplus must be finite"),
        ({"mid_level_dataset_surplus": "1"}, ConfigTypeError, "surplus must be a number, got '1'"),
        ({"split": "-1,2,3"}, ConfigError, "split '-1,2,3' has '-' in it"),
        ({"blend": (["a"], None)}, ConfigError, "blend needs split"),
        ({"blend": ["a", "b", "c"], "split": "1"}, ConfigTypeError, "blend must be .prefixes, wei"),
        ({"blend": ("a", None), "split": "1"}, ConfigTypeError, "begin with a list of path prefix"),
        ({"blend": ([], None), "split": "1"}, ConfigError, "blend has no path prefix"),
        ({"blend": (["a"], [1, 2]), "split": "1"}, ConfigError, "1 prefixes but 2 weights"),
        ({"blend": (["a"], ["1"]), "split": "1"}, ConfigTypeError, "weight of a is not a number"),
        ({"blend": (["a"], [-1]), "split": "1"}, ConfigError, "weight of a is -1; it must be"),
        ({"blend": (["a"], [float("nan")]), "split": "1"}, ConfigError, "weight of a is nan"),
        ({"blend": (["a"], [0]), "split": "1"}, ConfigError, "every weight is 0"),
        ({"blend_per_split": [None, None]}, ConfigError, "must have 3 entries"),
        (
            {"blend_per_split": [None] * 3, "split": "1"},
            ConfigError,
            "and split exclude each other",
        ),
        (
            {"blend_per_split": [None] * 3, "blend": (["a"], None)},
            ConfigError,
            "and blend exclude each other",
        ),
        (
            {"blend_per_split": [None, (["a"], [-1]), None]},
            ConfigError,
            r"blend_per_split\[1\]: the weight of a is -1",
        ),
    ],
)
def test_wrong_values_are_named_with_their_field(cls, changes, error, message):
    with pytest.raises(error, match=message):
        cls(**{**REQUIRED, **changes})


class Eod:
    eod = 0


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"reset_position_ids": 1}, ConfigTypeError, "reset_position_ids must be a bool, got 1"),
        ({"eod_mask_loss": None}, ConfigTypeError, "eod_mask_loss must be a bool, got None"),
        ({"flavour": "gpt"}, ConfigError, "flavour must be 'megatron' or 'automodel', got 'gpt'"),
        (
            {"reset_attention_mask": True, "tokenizer": Eod()},
            ConfigError,
            "reset_attention_mask needs create_attention_mask",
        ),
        ({"eod_mask_loss": True}, ConfigError, "eod_mask_loss needs a tokenizer that names"),
        ({"reset_position_ids": True}, ConfigError, "reset_position_ids needs a tokenizer"),
        (
            {"reset_position_ids": True, "flavour": "automodel", "tokenizer": Eod()},
            ConfigError,
            "emits no position ids",
        ),
    ],
)
def test_what_a_sample_looks_like_is_checked_too(changes, error, message):
    with pytest.raises(error, match=message):
        GPTDatasetConfig(**{**REQUIRED, **changes})


def test_the_matrix_comes_from_the_split():
    config = GPTDatasetConfig(**REQUIRED, split="99,1,0")
    assert config.split_matrix == [(0, 0.99), (0.99, 1.0), None]
    assert GPTDatasetConfig(**REQUIRED).split_matrix is None


def test_a_config_is_frozen_and_keyword_only_and_pickles():
    config = GPTDatasetConfig(**REQUIRED, split="1", path_to_cache="here")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.random_seed = 5
    with pytest.raises(TypeError, match="positional"):
        GPTDatasetConfig(1234, 16)
    assert pickle.loads(pickle.dumps(config)) == config
    assert dataclasses.replace(config, split="1,1").split_matrix == [(0, 0.5), (0.5, 1.0), None]
