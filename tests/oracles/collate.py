"""What collation means, one token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Segment:
    """A run of tokens; ``targets`` says which of them may be learnt."""

    tokens: list[int]
    targets: list[bool]
    mask_start: bool = False


@dataclass
class Rows:
    input_ids: list[list[int]] = field(default_factory=list)
    labels: list[list[int]] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)
    document_ids: list[list[int]] = field(default_factory=list)
    padding_mask: list[list[bool]] = field(default_factory=list)
    row_ids: list[list[int]] = field(default_factory=list)
    columns: list[list[int]] = field(default_factory=list)


def collate(
    rows: Sequence[Sequence[Segment]],
    *,
    row_length: int,
    shift: bool,
    pad_id: int,
    ignore_index: int,
    joined: bool = False,
) -> Rows:
    """Rows of ``row_length`` tokens, then cut to inputs and labels."""
    result = Rows()
    for row in rows:
        ids: list[int] = []
        targets: list[int] = []  # what each token is as a target
        positions: list[int] = []
        documents: list[int] = []
        padding: list[bool] = []
        for number, segment in enumerate(row, start=1):
            for position, (token, is_target) in enumerate(
                zip(segment.tokens, segment.targets, strict=True)
            ):
                masked = not is_target or (position == 0 and segment.mask_start)
                ids.append(token)
                targets.append(ignore_index if masked else token)
                positions.append(position)
                documents.append(number)
                padding.append(False)
        for position in range(row_length - len(ids)):
            ids.append(pad_id)
            targets.append(ignore_index)
            positions.append(position)
            documents.append(0)
            padding.append(True)
        width = row_length - 1 if shift else row_length
        result.input_ids.append(ids[:width])
        result.labels.append(targets[1:] if shift else [])
        result.positions.append(list(range(width)) if joined else positions[:width])
        result.document_ids.append(documents[:width])
        result.padding_mask.append(padding[:width])
        result.row_ids.append([0 if pad else 1 for pad in padding[:width]])
        result.columns.append([-1 if pad else i for i, pad in enumerate(padding[:width])])
    return result


def first_outside(
    rows: Sequence[Sequence[Segment]], vocab_size: int
) -> tuple[int, int, int] | None:
    """(segment of the batch, place in it, id) of the first id outside the vocabulary."""
    segments = [segment for row in rows for segment in row]
    for number, segment in enumerate(segments):
        for offset, token in enumerate(segment.tokens):
            if vocab_size > 0 and not 0 <= token < vocab_size:
                return number, offset, token
    return None


def cu_seqlens(lengths: Sequence[int], *, width: int, include_padding: bool) -> list[int]:
    """Every column of one row in which something begins or ends, ascending."""
    boundaries = {0}
    for i in range(1, len(lengths) + 1):
        boundaries.add(min(sum(lengths[:i]), width))
    if include_padding:
        boundaries.add(width)
    return sorted(boundaries)


def documents(lengths: Sequence[int], *, width: int, joined: bool) -> list[int]:
    """Columns of each document of one row; of all of them together if ``joined``."""
    ends = cu_seqlens(lengths, width=width, include_padding=False)
    if joined and len(ends) > 1:
        ends = [0, ends[-1]]
    return [end - start for start, end in pairwise(ends)]


def slots(documents: Sequence[int], *, width: int) -> list[int]:
    """Columns of each document of one row, with the padding after the last."""
    return [*documents[:-1], width - sum(documents[:-1])] if documents else []
