"""Rows that hold documents of one dataset, or of one group of them."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zephon
from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops import DomainGroups

GROUPS = {"prose": ["a", "c"], "code": ["b"]}


def pipeline(lengths: list[list[int]], *, lanes: int = 1, **options: Any) -> zephon.Pipeline:
    datasets = [
        zephon.Dataset.from_dict(
            name,
            {
                0: zephon.InMemoryShard(
                    [{"tokens": 10**6 * i + 1000 * j + np.arange(n)} for j, n in enumerate(some)]
                )
            },
        )
        for i, (name, some) in enumerate(zip("abc", lengths, strict=True))
    ]
    source = zephon.StaticMixtureWorkSource(
        datasets, dict.fromkeys("abc", 1.0), exhausted_policy="redistribute", chunk_size=8
    )
    return (
        zephon.Pipeline(source)
        .pack_flat(12, drop_oversized=False, **options)
        .batch(1)
        .options(canonical_replicas=lanes, end="filler")
        .prefetch(0)
    )


def contents(batch: Any) -> list[tuple[int, ...]]:
    return [
        tuple(record.payload["input_ids"][: 12 - record.meta.padding_length].tolist())
        for record in batch.records
        if record.meta.sample_id[0] >= 0  # none of a filler
    ]


LENGTHS = st.lists(st.lists(st.integers(1, 15), min_size=1, max_size=20), min_size=3, max_size=3)


@given(
    LENGTHS,
    st.sampled_from(["first_fit", "best_fit"]),
    st.sampled_from(["group", "full", "none"]),
    st.integers(1, 3),
    st.sampled_from([None, 1, 2]),
)
def test_rows_hold_documents_of_one_group(
    lengths: list[list[int]], algorithm: str, homogeneity: str, lanes: int, cap: int | None
) -> None:
    groups = GROUPS if homogeneity == "group" else None
    options: dict[str, Any] = {
        "algorithm": algorithm,
        "homogeneity": homogeneity,
        "groups": groups,
        "max_sequences_per_bin": cap,
        "lanes": lanes,
    }
    found = [contents(batch) for batch in pipeline(lengths, **options)]
    tokens = [token for rows in found for row in rows for token in row]
    assert sorted(tokens) == sorted(
        10**6 * i + 1000 * j + k
        for i, some in enumerate(lengths)
        for j, n in enumerate(some)
        for k in range(n)
    )
    group = {"group": [0, 1, 0], "full": [0, 1, 2], "none": [0, 0, 0]}[homogeneity]
    for rows in found:
        for row in rows:
            assert len({group[token // 10**6] for token in row}) <= 1
    stop = len(found) // 2
    first = pipeline(lengths, **options)
    begun = [contents(batch) for batch in islice(iter(first), stop)]
    first.close()
    rest = pipeline(lengths, **options)
    rest.restore(first.checkpoint())
    assert begun + [contents(batch) for batch in rest] == found


def test_groups_take_turns() -> None:
    stream = pipeline([[12] * 20, [12] * 10, [12] * 10], algorithm="best_fit", homogeneity="full")
    order = [contents(batch)[0][0] // 10**6 for batch in stream]
    for begin in range(0, 40, 4):
        assert sorted(order[begin : begin + 4]) == [0, 0, 1, 2]


def test_a_state_of_other_groups_is_refused() -> None:
    lengths = [[3], [4], [5]]
    state = pipeline(lengths, algorithm="best_fit", homogeneity="full").checkpoint()
    with pytest.raises(zephon.errors.StateError, match="pack.groups"):
        pipeline(lengths, algorithm="best_fit").restore(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homogeneity": "group"}, "homogeneity='group' needs groups="),
        ({"homogeneity": "full", "groups": GROUPS}, "they go with 'group'"),
        ({"groups": GROUPS}, "groups are given with homogeneity='none'"),
        ({"homogeneity": "some"}, "homogeneity is 'some', expected one of none, group, full"),
        (
            {"homogeneity": "group", "groups": {"x": ["a", "b"]}},
            "dataset 'c' is in none of the groups",
        ),
        (
            {"homogeneity": "group", "groups": {"x": ["a", "b", "c", "d"]}},
            "groups names 'd', which is no dataset; there are a, b, c",
        ),
        (
            {"homogeneity": "group", "groups": {"x": ["a", "b"], "y": ["b", "c"]}},
            "dataset 'b' is in the groups 'x' and 'y'",
        ),
        ({"homogeneity": "group", "groups": {"x": "abc"}}, "group 'x' is 'abc', expected names"),
        ({"homogeneity": "group", "groups": {"x": []}}, "group 'x' has no dataset"),
        ({"homogeneity": "group", "groups": {}}, "groups is empty"),
        ({"homogeneity": "group", "groups": 3}, "groups is a int, expected a mapping"),
        (
            {"homogeneity": "full", "algorithm": "wrap"},
            "homogeneity does not apply to 'wrap'.*first_fit",
        ),
    ],
)
def test_groups_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    options = {"algorithm": "best_fit", **options}
    with pytest.raises((ConfigError, ConfigTypeError), match=message):
        pipeline([[1], [1], [1]], **options)


def test_groups_say_which_dataset_is_where() -> None:
    groups = DomainGroups({"x": ["a"], "y": ("b", "c")})
    assert groups.to_member_map() == {"a": "x", "b": "y", "c": "y"}
    groups.validate_against("abc")
    with pytest.raises(ConfigError, match="'c', which is no dataset"):
        groups.validate_against("ab")
