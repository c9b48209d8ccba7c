"""Operators that property tests choose among, as tuples of a name and its arguments."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import user_functions as functions
import zephon

WINDOWS = st.sampled_from([1, 2, 3, 4, 6, 12])
STEP = st.one_of(
    st.tuples(st.just("drop_every"), st.sampled_from([3000, 7000])),
    st.tuples(st.just("cut"), st.integers(2, 9)),
    st.tuples(st.just("backwards"), WINDOWS),
    st.tuples(st.just("hold_one"), WINDOWS),
    st.tuples(st.just("ensure_mixture"), WINDOWS, st.sampled_from([None, 0, 2, 5])),
)
EITHER = st.one_of(
    st.tuples(st.just("shout")),
    st.tuples(st.just("backwards"), WINDOWS),
    st.tuples(st.just("hold_one"), WINDOWS),
    st.tuples(st.just("ensure_mixture"), WINDOWS, st.sampled_from([None, 0, 2])),
)
"""What can be done to text and to tokens."""
STEPS = st.lists(STEP, min_size=1, max_size=4)


def add(stream: zephon.Pipeline, step: tuple[Any, ...]) -> None:
    name, *arguments = step
    if name == "drop_every":
        stream.map_transform(functions.DropEvery(*arguments))
    elif name == "cut":
        stream.map_transform(functions.Cut(*arguments))
    elif name == "noise":
        stream.map_transform(functions.add_noise)
    elif name == "shout":
        stream.map_transform(functions.upper_of_text)
    elif name == "backwards":
        stream.map_batch(functions.backwards, size=arguments[0])
    elif name == "hold_one":
        stream.stateful_transform(
            "hold",
            init_state=functions.no_documents,
            push=functions.hold_one,
            flush=functions.what_is_held,
            window=arguments[0],
        )
    else:
        stream.ensure_mixture(window=arguments[0], max_buffer_size=arguments[1])
