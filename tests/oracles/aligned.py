"""What should come out of a stream whose tokens tell document and place, one token at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def masked_labels(
    labels: Sequence[Sequence[int]], mask: Mapping[int, int], ignore_index: int
) -> list[list[int]]:
    """Labels of a stream without masks, less those whose token is masked."""
    return [
        [ignore_index if label == ignore_index or not mask[label] else label for label in row]
        for row in labels
    ]


def field_of_inputs(
    inputs: Sequence[Sequence[int]],
    padding: Sequence[Sequence[bool]],
    values: Mapping[int, float],
) -> list[list[float]]:
    """The value of each input token, 0 where there is padding."""
    return [
        [0 if pad else values[token] for token, pad in zip(row, pads, strict=True)]
        for row, pads in zip(inputs, padding, strict=True)
    ]
