"""Batches made by hand, as users of the public package know them.

The number at a test is that of a behaviour that such a user relies on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from zephon.errors import ConfigError, ConfigTypeError
from zephon.types import SampleBatch, SampleMeta, SampleRecord

KINDS = [None, np.int64, torch.int64]


def batch(*payloads: Any, padding: dict[int, int] | None = None) -> SampleBatch:
    """A batch of payloads; ``padding`` says how many trailing tokens of which are padding."""
    records = []
    for i, payload in enumerate(payloads):
        tags = {}
        if padding and i in padding:
            tags["_packing_metadata"] = {"padding_length": padding[i]}
        records.append(SampleRecord(SampleMeta((0, 0, i), 0, 0, tags=tags), payload))
    return SampleBatch(records)


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


PADDED = batch(
    {"tokens": [5, 6, 7, 8, 9, 9], "positions": [0, 1, 0, 1, 0, 1]},
    {"tokens": [9, 5, 9, 6, 7, 9], "positions": [0, 1, 2, 0, 1, 0]},
    padding={0: 2, 1: 1},
)


def test_flat_fields_have_one_axis_and_the_count_is_an_int() -> None:
    # 25
    out = PADDED.to_training(
        return_labels=True,
        flatten=True,
        return_padding_mask=True,
        return_num_valid_tokens=True,
        exclude_fields=("ids", "texts"),
    )
    assert set(out) == {"input_ids", "labels", "positions", "padding_mask", "num_valid_tokens"}
    for name in ("input_ids", "labels", "positions", "padding_mask"):
        assert out[name].shape == (10,)
    assert type(out["num_valid_tokens"]) is int


def test_labels_are_the_next_tokens_and_padding_goes_by_place() -> None:
    # 26, 29, 30: 9 is both content and what padding holds
    out = PADDED.to_training(return_labels=True, return_padding_mask=True, dtype=None)
    assert out["input_ids"] == [[5, 6, 7, 8, 9], [9, 5, 9, 6, 7]]
    assert out["labels"] == [[6, 7, 8, -100, -100], [5, 9, 6, 7, -100]]
    assert out["padding_mask"] == [[False] * 4 + [True], [False] * 5]


def test_types_are_those_that_trainers_expect() -> None:
    # 27
    out = PADDED.to_training(
        dtype=torch.long,
        return_labels=True,
        return_padding_mask=True,
        return_loss_mask=True,
        return_cu_seqlens=True,
    )
    longs = {name for name, value in out.items() if getattr(value, "dtype", None) == torch.long}
    assert longs == {"input_ids", "labels", "positions"}
    assert out["padding_mask"].dtype == torch.bool
    assert out["loss_mask"].dtype == torch.float32
    assert out["cu_seqlens"].dtype == out["max_seqlen"].dtype == torch.int32


@pytest.mark.parametrize("ignore", [-100, 9, 6])
def test_valid_tokens_are_the_labels_that_are_not_the_ignore_index(ignore: int) -> None:
    # 28: also where a real token has that value
    out = PADDED.to_training(
        return_labels=True,
        return_num_valid_tokens=True,
        return_loss_mask=True,
        ignore_index=ignore,
    )
    valid = out["labels"] != ignore
    assert out["num_valid_tokens"] == int(valid.sum())
    assert out["loss_mask"].tolist() == valid.float().tolist()


def test_positions_restart_at_documents_and_at_padding_and_agree_with_the_lengths() -> None:
    # 31, 32
    out = PADDED.to_training(return_cu_seqlens=True, dtype=None)
    assert out["positions"] == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 0]]
    assert out["cu_seqlens"] == [[0, 2, 4, 6], [0, 3, 5, 6]]
    assert out["max_seqlen"] == [2, 3]


def test_renaming_is_checked_before_excluding() -> None:
    # 33, 34
    out = PADDED.to_training(rename_fields={"input_ids": "input", "positions": "position_ids"})
    assert set(out) == {"ids", "texts", "input", "position_ids"}
    swapped = batch([1, 2]).to_training(dtype=None, rename_fields={"ids": "texts", "texts": "ids"})
    assert swapped == {"texts": [(0, 0, 0)], "ids": [""], "input_ids": [[1, 2]]}
    for names in (
        {"input_ids": "texts"},
        {"ids": "x", "texts": "x"},
        {"loss_mask": "max_seqlen"},
        {"labels": "num_valid_tokens"},
    ):
        with pytest.raises(ConfigError, match="target keys collide"):
            PADDED.to_training(
                return_labels=True,
                return_loss_mask=True,
                return_cu_seqlens=True,
                return_num_valid_tokens=True,
                rename_fields=names,
                exclude_fields=tuple(names.values()),
            )
    with pytest.raises(ConfigError, match="source keys not in output"):
        PADDED.to_training(rename_fields={"labels": "x"}, exclude_fields=("x",))


def test_an_explicit_token_field_never_falls_back() -> None:
    # 35; the order of detection is tested with collation
    some = batch({"input_ids": [1], "mine": [2]})
    assert some.to_training(dtype=None, tokens_field="mine")["input_ids"] == [[2]]
    with pytest.raises(ConfigError, match="looked for absent, found input_ids, mine"):
        some.to_training(tokens_field="absent")


@pytest.mark.parametrize(
    ("payloads", "kind", "message"),
    [
        ([{"text": "a", "other": [1, 2]}], ConfigError, "payload 0: has no token field"),
        ([{"tokens": [1]}, {"text": "b"}], ConfigError, "payload 1: has no token field"),
        ([{"tokens": [1]}, [2]], ConfigTypeError, "payload 1 is an array and payload 0 is a map"),
        ([np.array([1]), {"tokens": [2]}], ConfigTypeError, "payload 1 is a mapping and payload 0"),
        (["text"], ConfigTypeError, "payload 0 is a str: to_training expects dict or array-like"),
        ([{"tokens": [[1, 2]]}], ConfigError, "payload 0: its field 'tokens' has 2 dimensions"),
        ([{"tokens": [1.5]}], ConfigError, "payload 0: its field 'tokens' holds float64 values"),
    ],
)
def test_payloads_without_tokens_or_of_several_kinds_are_refused(
    payloads: list[Any], kind: type[Exception], message: str
) -> None:
    # 36
    with pytest.raises(kind, match=message):
        batch(*payloads).to_training()


def test_the_dtype_decides_what_comes_out() -> None:
    # 37
    some = batch([1, 2, 3])
    assert some.to_training()["input_ids"].dtype == torch.int64
    assert isinstance(some.to_training(dtype=np.int32)["input_ids"], np.ndarray)
    assert some.to_training(dtype=None)["input_ids"] == [[1, 2, 3]]


EXTRA = batch(
    {"tokens": [1, 2, 3, 4], "attention_mask": [1, 1, 1, 0], "score": [0.5, 1.5, 2.5, 3.5]},
    {"tokens": [5, 6, 7, 8], "attention_mask": [1, 1, 0, 0], "score": [0.0, 0.0, 0.0, 0.25]},
)


@pytest.mark.parametrize("dtype", KINDS)
def test_extra_fields_come_along_aligned_with_the_inputs(dtype: Any) -> None:
    # 38
    names = ("attention_mask", "score")
    out = EXTRA.to_training(return_labels=True, extra_fields=names, dtype=dtype)
    assert plain(out["attention_mask"]) == [[1, 1, 1], [1, 1, 0]]
    assert plain(out["score"]) == [[0.5, 1.5, 2.5], [0.0, 0.0, 0.0]]
    if dtype is not None:
        assert out["attention_mask"].dtype == dtype
        assert str(out["score"].dtype).endswith("float64")
    flat = EXTRA.to_training(extra_fields=names, dtype=dtype, flatten=True)
    assert plain(flat["attention_mask"]) == [1, 1, 1, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("input_ids", {}),
        ("ids", {}),
        ("texts", {}),
        ("labels", {"return_labels": True}),
        ("padding_mask", {"return_padding_mask": True}),
        ("document_ids", {"return_document_ids": True}),
        ("cu_seqlens", {"return_cu_seqlens": True}),
        ("max_seqlen", {"return_cu_seqlens": True}),
        ("num_valid_tokens", {"return_labels": True, "return_num_valid_tokens": True}),
    ],
)
def test_extra_fields_cannot_overwrite_what_is_made(name: str, options: dict[str, Any]) -> None:
    # 38
    for some in (batch(), batch({"tokens": [1, 2], name: [3, 4]})):
        with pytest.raises(ConfigError, match=f"cannot overwrite generated field '{name}'"):
            some.to_training(extra_fields=(name,), **options)


def test_extra_fields_may_bear_the_name_of_what_is_not_made() -> None:
    # 38
    some = batch({"tokens": [1, 2], "labels": [3, 4], "positions": [0, 1]})
    out = some.to_training(dtype=None, extra_fields=("labels", "positions"))
    assert out["labels"] == [[3, 4]]
    assert out["positions"] == [[0, 1]]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"tokens": [1, 2]}, "Extra field 'x' not found in payload 0, which has: tokens"),
        ({"tokens": [1, 2], "x": [1]}, r"x of payload 0 has shape \(1,\), expected \(2,\)"),
        ({"tokens": [1, 2], "x": 3}, r"x of payload 0 has shape \(\), expected \(2,\)"),
        ({"tokens": [1, 2], "x": ["a", "b"]}, "x of payload 0 holds <U1, expected numbers"),
    ],
)
def test_an_extra_field_has_one_number_for_each_token(payload: Any, message: str) -> None:
    # 38
    with pytest.raises(ConfigError, match=message):
        batch(payload).to_training(extra_fields=("x",))
    with pytest.raises(ConfigTypeError, match="extra_fields is the str 'x', expected a sequence"):
        batch(payload).to_training(extra_fields="x")


def test_positions_surface_if_all_rows_have_them() -> None:
    # 39
    assert "positions" not in batch([1, 2]).to_training()
    with pytest.raises(ConfigError, match="'positions' present in some payloads only"):
        batch({"tokens": [1], "positions": [0]}, {"tokens": [1]}).to_training()


MASKED = batch({"tokens": [1, 2, 3, 4], "loss_mask": [0, 1, 0, 1]})


def test_a_loss_mask_masks_targets_and_is_used_up() -> None:
    # 40
    out = MASKED.to_training(return_labels=True, dtype=None)
    assert out["labels"] == [[2, -100, 4]]
    assert "loss_mask" not in out
    out = MASKED.to_training(return_labels=True, return_loss_mask=True, dtype=None)
    assert out["loss_mask"] == [[1.0, 0.0, 1.0]]
    all_one = batch({"tokens": [1, 2, 3, 0], "loss_mask": [1] * 4}, padding={0: 1})
    assert all_one.to_training(return_labels=True, dtype=None)["labels"] == [[2, 3, -100]]


@pytest.mark.parametrize("extra", [(), ("loss_mask",)])
def test_without_labels_the_loss_mask_passes_through(extra: tuple[str, ...]) -> None:
    # 40
    assert MASKED.to_training(dtype=None, extra_fields=extra)["loss_mask"] == [[0, 1, 0, 1]]
    some = batch({"tokens": [1, 2], "loss_mask": np.array([0.0, 0.5])})
    assert some.to_training(dtype=None)["loss_mask"] == [[0.0, 0.5]]


@pytest.mark.parametrize(
    ("payloads", "options", "message"),
    [
        (
            [{"tokens": [1, 2, 3], "loss_mask": [1]}],
            {},
            "payload 0: the field 'loss_mask' has 1 values for 3 tokens",
        ),
        (
            [{"tokens": [1], "loss_mask": "a"}],
            {},
            "payload 0: the field 'loss_mask' holds no row of numbers",
        ),
        (
            [{"tokens": [1], "loss_mask": [1]}, {"tokens": [1]}],
            {},
            "'loss_mask' present in some payloads only",
        ),
        (
            [{"tokens": [1, 2], "loss_mask": [1, 1]}],
            {"return_labels": True, "extra_fields": ["loss_mask"]},
            "input-aligned, not label-aligned",
        ),
    ],
)
def test_a_loss_mask_that_does_not_fit_is_refused(
    payloads: list[Any], options: dict[str, Any], message: str
) -> None:
    # 40
    with pytest.raises(ConfigError, match=message):
        batch(*payloads).to_training(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"return_loss_mask": True}, "return_loss_mask requires return_labels=True"),
        ({"return_num_valid_tokens": True}, "return_num_valid_tokens requires return_labels=True"),
        ({"mask_segment_starts": True}, "mask_segment_starts requires return_labels=True"),
        ({"eos_mask_loss": True, "eos_token_id": 2}, "eos_mask_loss requires return_labels=True"),
        ({"eos_mask_loss": True, "return_labels": True}, "eos_mask_loss needs eos_token_id"),
        ({"position_mode": "document"}, "position_mode must be 'preserve' or 'sequence'"),
        ({"index_dtype": "int16"}, "index_dtype is 'int16', expected 'int64', 'int32' or None"),
        *(
            ({"eos_token_id": value}, "eos_token_id must be a nonnegative integer")
            for value in (-1, 1.5, "2", True)
        ),
        ({"exclude_fields": "ids"}, "sequence of names, not a string"),
    ],
)
def test_options_are_checked_also_for_a_batch_without_rows(
    options: dict[str, Any], message: str
) -> None:
    # 41, 43, 46
    for some in (batch(), batch([1, 2])):
        with pytest.raises(ConfigError, match=message):
            some.to_training(**options)
    assert issubclass(ConfigTypeError, TypeError)


def test_a_batch_without_rows_gives_empty_values_of_what_was_asked_for() -> None:
    # 42
    none = batch()
    assert none.to_training() == none.to_training(return_labels=True) == {"ids": [], "texts": []}
    everything: dict[str, Any] = {
        "return_labels": True,
        "return_loss_mask": True,
        "return_padding_mask": True,
        "return_document_ids": True,
        "return_cu_seqlens": True,
        "return_num_valid_tokens": True,
        "position_mode": "sequence",
        "exclude_fields": ("texts", "sample_ids"),
        "rename_fields": {"ids": "sample_ids", "input_ids": "tokens", "loss_mask": "weights"},
    }
    expected = {"weights": [], "padding_mask": [], "document_ids": [], "positions": []}
    expected["num_valid_tokens"] = 0
    assert none.to_training(**everything) == {**expected, "cu_seqlens": [], "max_seqlen": []}
    flat = none.to_training(**everything, flatten=True)
    assert flat == {**expected, "cu_seqlens": [0], "max_seqlen": 0}
    for names in ({"ids": "texts"}, {"loss_mask": "x", "cu_seqlens": "x"}):
        with pytest.raises(ConfigError, match="target keys collide"):
            none.to_training(**{**everything, "rename_fields": names})
    # A field that is not there is not renamed and takes no name.
    assert none.to_training(rename_fields={"input_ids": "texts"}) == {"ids": [], "texts": []}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("flatten", [False, True])
def test_eos_and_sequence_positions_leave_the_boundaries_alone(dtype: Any, flatten: bool) -> None:
    # 43, 58
    some = batch(
        {"tokens": [1, 7, 2, 1, 8, 2, 0, 0], "positions": [0, 1, 2, 0, 1, 2, 0, 1]},
        {"tokens": [1, 7, 7, 2, 1, 2, 8, 2], "positions": [0, 1, 2, 3, 0, 1, 2, 3]},
        padding={0: 2},
    )
    options: dict[str, Any] = {
        "dtype": dtype,
        "flatten": flatten,
        "return_labels": True,
        "return_cu_seqlens": True,
        "return_num_valid_tokens": True,
    }
    before = some.to_training(**options)
    out = some.to_training(**options, eos_mask_loss=True, eos_token_id=2, position_mode="sequence")
    labels = [[7, 2, -100, 8, 2, -100, -100], [7, 7, 2, -100, 2, -100, 2]]
    positions = [list(range(7)), list(range(7))]
    if flatten:
        labels, positions = [sum(labels, [])], [sum(positions, [])]  # noqa: RUF017
        assert plain(out["labels"]) == labels[0]
        assert plain(out["positions"]) == positions[0]
        assert out["max_seqlen"] == before["max_seqlen"] == 4
    else:
        assert plain(out["labels"]) == labels
        assert plain(out["positions"]) == positions
    assert plain(out["cu_seqlens"]) == plain(before["cu_seqlens"])
    assert out["num_valid_tokens"] == before["num_valid_tokens"] - 3 == 9


def test_every_eos_is_masked_and_zero_is_an_id_like_any_other() -> None:
    # 43
    out = batch([0, 11, 0, 0, 22, 0]).to_training(
        return_labels=True, eos_mask_loss=True, eos_token_id=0, dtype=None
    )
    assert out["labels"] == [[-100, 0, -100, -100, 0]]


def test_an_eos_id_that_nothing_uses_is_warned_about() -> None:
    # 43
    with pytest.warns(UserWarning, match="eos_token_id is ignored") as caught:
        batch([1, 2]).to_training(eos_token_id=2)
    assert caught[0].filename == __file__


def test_sequence_positions_need_no_positions_but_are_no_boundaries() -> None:
    # 43, 45
    some = batch([5, 6, 7], [8, 9, 1])
    out = some.to_training(position_mode="sequence")
    assert out["positions"].tolist() == [[0, 1, 2]] * 2
    out["positions"][0, 0] = 7
    assert out["positions"][1, 0] == 0
    for name in ("return_cu_seqlens", "return_document_ids"):
        with pytest.raises(ConfigError, match=f"{name} requires a 'positions' field"):
            some.to_training(position_mode="sequence", **{name: True})


RAGGED = batch(
    {"tokens": [], "positions": [], "w": []},
    {"tokens": [10, 11], "positions": [0, 0], "w": [1, 2]},
    {"tokens": [20, 21, 0, 0, 0], "positions": [0, 1, 0, 1, 2], "w": [3, 4, 5, 6, 7]},
    {"tokens": [0, 0, 0], "positions": [0, 1, 2], "w": [8, 9, 9]},
    padding={2: 3, 3: 3},
)


@pytest.mark.parametrize("flatten", [False, True])
def test_rows_of_different_lengths_are_handled_each_for_itself(flatten: bool) -> None:
    # 44
    out = RAGGED.to_training(
        dtype=None,
        return_labels=True,
        return_padding_mask=True,
        return_loss_mask=True,
        return_num_valid_tokens=True,
        extra_fields=("w",),
        flatten=flatten,
    )
    expected: dict[str, list[list[Any]]] = {
        "input_ids": [[], [10], [20, 21, 0, 0], [0, 0]],
        "labels": [[], [11], [21, -100, -100, -100], [-100, -100]],
        "padding_mask": [[], [False], [False, False, True, True], [True, True]],
        "loss_mask": [[], [1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0]],
        "positions": [[], [0], [0, 1, 0, 1], [0, 1]],
        "w": [[], [1], [3, 4, 5, 6], [8, 9]],
    }
    for name, rows in expected.items():
        assert out[name] == ([v for row in rows for v in row] if flatten else rows), name
    assert out["num_valid_tokens"] == 2


def test_rows_of_different_lengths_have_boundaries_of_their_own() -> None:
    # 44
    out = RAGGED.to_training(dtype=None, return_cu_seqlens=True)
    assert out["cu_seqlens"] == [[0, 0, 0], [0, 1, 2], [0, 2, 5], [0, 3, 3]]
    assert out["max_seqlen"] == [0, 1, 3, 3]
    flat = RAGGED.to_training(return_cu_seqlens=True, flatten=True)
    assert flat["cu_seqlens"].tolist() == [0, 1, 2, 4, 7, 10]
    assert flat["max_seqlen"] == 3
    assert flat["input_ids"].tolist() == [10, 11, 20, 21, 0, 0, 0, 0, 0, 0]
    with pytest.raises(ConfigError, match=r"payloads have different lengths \(0 to 5\)"):
        RAGGED.to_training()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("tokens", [[], [2]])
def test_rows_that_the_shift_leaves_empty_are_empty(dtype: Any, tokens: list[int]) -> None:
    # 44
    some = batch({"tokens": tokens, "positions": [0] * len(tokens), "loss_mask": tokens})
    out = some.to_training(
        dtype=dtype,
        return_labels=True,
        return_loss_mask=True,
        return_padding_mask=True,
        return_num_valid_tokens=True,
        return_cu_seqlens=True,
    )
    for name in ("input_ids", "labels", "loss_mask", "positions", "padding_mask"):
        assert plain(out[name]) == [[]]
    assert out["num_valid_tokens"] == 0
    assert plain(out["cu_seqlens"]) == [[0]]
    assert plain(out["max_seqlen"]) == [0]
    flat = some.to_training(dtype=dtype, return_labels=True, return_cu_seqlens=True, flatten=True)
    assert plain(flat["cu_seqlens"]) == [0]
    assert flat["max_seqlen"] == 0


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([1, 2, 3], "begins with 1, expected 0"),
        ([0, 1], r"has shape \(2,\), expected \(3,\)"),
        (0, r"has shape \(\), expected"),
        ([[0], [1], [2]], r"has shape \(3, 1\)"),
        ([0, 2, 3], "holds 2 at index 1, expected 1"),
    ],
)
def test_boundaries_need_positions_that_tell_them(positions: Any, message: str) -> None:
    # 45
    with pytest.raises(ConfigError, match=message):
        batch({"tokens": [1, 2, 3], "positions": positions}).to_training(return_cu_seqlens=True)


@pytest.mark.parametrize("padding", [-1, 4])
def test_padding_is_no_more_than_the_row(padding: int) -> None:
    with pytest.raises(ConfigError, match=f"padding_length of payload 0 is {padding}, expected 0 "):
        batch([1, 2, 3], padding={0: padding}).to_training()


def test_text_without_tokens_gives_its_text() -> None:
    # 47
    some = batch({"text": "a", "score": 0.5}, {"text": "b", "url": None})
    assert some.to_training() == {"ids": [(0, 0, 0), (0, 0, 1)], "texts": ["a", "b"]}
    for options in ({"return_labels": True}, {"extra_fields": ("score",)}, {"flatten": True}):
        with pytest.raises(ConfigError, match=f"text without tokens, but {min(options)} asks"):
            some.to_training(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="looked for tokens, found text"):
        some.to_training(tokens_field="tokens")
    both = batch({"text": "a", "tokens": [1]}, {"text": None, "tokens": [2]})
    assert both.to_training()["texts"] == ["a", ""]


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
@pytest.mark.parametrize("dtype", KINDS)
def test_arrays_of_tokens_are_payloads(make: Any, dtype: Any) -> None:
    # 47
    some = batch(make([1, 2, 3]), make([4, 5, 6]))
    out = some.to_training(return_labels=True, dtype=dtype, tokens_field="of no meaning here")
    assert plain(out["input_ids"]) == [[1, 2], [4, 5]]
    assert plain(out["labels"]) == [[2, 3], [5, 6]]
    assert out["texts"] == ["", ""]
    assert "positions" not in out


@pytest.mark.parametrize("dtype", ["auto", np.int64, None])
def test_positions_and_document_ids_can_be_narrow(dtype: Any) -> None:
    options: dict[str, Any] = {"return_labels": True, "return_document_ids": True, "dtype": dtype}
    wide = PADDED.to_training(**options)
    for mode in ("preserve", "sequence"):
        out = PADDED.to_training(**options, index_dtype="int32", position_mode=mode)
        assert plain(out["document_ids"]) == plain(wide["document_ids"])
        if mode == "preserve":
            assert plain(out["positions"]) == plain(wide["positions"])
        if dtype is not None:
            assert str(out["positions"].dtype).endswith("int32")
            assert str(out["document_ids"].dtype).endswith("int32")
            assert str(out["input_ids"].dtype).endswith("int64")


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="return_label"):
        PADDED.to_training(return_label=True)  # type: ignore[call-arg]


def test_conversion_changes_no_payload() -> None:
    payload = {"tokens": np.array([1, 2, 9]), "loss_mask": np.array([1, 0, 1])}
    before = {name: value.copy() for name, value in payload.items()}
    out = batch(payload, padding={0: 1}).to_training(dtype=np.int64)
    out["input_ids"][:] = 0
    out["loss_mask"][:] = 7
    assert all((payload[name] == before[name]).all() for name in payload)
