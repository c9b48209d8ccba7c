"""How many rows, steps and passes a stream has, from the lengths of its documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from zephon.block import TokenBlock, TokenDocuments
from zephon.cursor import LaneCursor
from zephon.description import Description
from zephon.ops.documents import DocumentStream
from zephon.ops.pack import make_packer
from zephon.work.base import LaneOrder, WorkSource
from zephon.work.lengths import SourceLengths

EXACT_DRAWS = 2**23
"""Draws of a pass that are packed on paper to count its rows: a microsecond or two each."""

SAMPLE_DRAWS = 2**16
"""Draws of a lane from which the rest of it is judged."""

_ROWS = 4096  # that are packed at a time
_DRAWS = 1024
_SIGMAS = 4.0
_PACKING_ERROR = 0.02  # of rows per document, between windows of the sample and the rest


def estimate_steps(
    description: Description, work: WorkSource, lengths: Sequence[SourceLengths], run: int
) -> tuple[int, int] | None:
    """Least and most batches of a rank in pass ``run``; None if it has no end.

    Equal if the length of every document is known and the pass is not too long
    to be packed on paper.
    """
    lanes = description.options.lanes
    orders = [work.lane(lane, lanes, run) for lane in range(lanes)]
    draws = [order.length() for order in orders]
    if any(count is None for count in draws):
        return None
    known = [count for count in draws if count is not None]
    chain = description.chain(work)
    # What functions make of a document is one document here, and is that of the first pass.
    whole = not chain.touches_tokens or (chain.is_plain and _cuts_anywhere(description))
    if all(one.exact for one in lengths) and sum(known) <= EXACT_DRAWS and whole:
        rows = [count_rows(description, order, lengths, None) for order in orders]
        steps = _steps(description, rows)
        return steps, steps
    low, high = _judge(description, orders[0], lengths, work.weights, max(known))
    if not (whole or _cuts_anywhere(description)):
        # How they fit into rows is not known: at least one of two neighbouring rows is half full.
        high = 2 * high + 2
    # Lanes differ by at most one draw, and which is the longest cannot be said.
    return _steps(description, [low] * lanes), _steps(description, [high] * lanes)


def _cuts_anywhere(description: Description) -> bool:
    """Whether rows depend on the sum of lengths alone."""
    pack = description.packing()
    return pack.algorithm == "wrap" and not pack.max_sequences_per_bin


def tokens_per_row(
    description: Description, work: WorkSource, lengths: Sequence[SourceLengths]
) -> float:
    """Tokens that a row holds on average, judged by the first ones of lane 0."""
    pack = description.packing()
    if pack.wraps and not pack.max_sequences_per_bin:
        return float(pack.max_length)
    order = work.lane(0, description.options.lanes)
    rows = count_rows(description, order, lengths, SAMPLE_DRAWS)
    blocks = _blocks(order, lengths, SAMPLE_DRAWS)
    return sum(int(block.documents.length.sum()) for block in blocks) / max(rows, 1)


def count_rows(
    description: Description,
    order: LaneOrder,
    lengths: Sequence[SourceLengths],
    draws: int | None,
) -> int:
    """Rows that the first ``draws`` of a lane, or all of them, are packed into.

    The packer itself packs documents of these lengths, whose tokens it does not
    look at. A length that was not counted is taken from the sample of its source.
    """
    pack = description.packing()
    documents = DocumentStream(
        _blocks(order, lengths, draws),
        LaneCursor().documents,
        check=b"",
        longest=pack.max_length,
        drop_oversized=False,  # such documents have length 0 here
        split=not pack.wraps,  # with operators what is too long is a sum of several
        names=[one.name for one in lengths],
        patience=2**62,
    )
    packer = make_packer(
        documents, pack, LaneCursor(), pad_tail=description.pads_tail(), vocab_size=0
    )
    total = 0
    while (rows := packer.take(_ROWS)) is not None:
        total += len(rows)
    return total


def _blocks(
    order: LaneOrder, lengths: Sequence[SourceLengths], draws: int | None
) -> Iterator[TokenBlock]:
    """Documents of the right lengths, and of no tokens."""
    counted = np.array([len(one.lengths) for one in lengths], dtype=np.int64)
    first = np.cumsum(counted) - counted
    every = np.concatenate([one.lengths for one in lengths])
    buffers = (np.empty(0, dtype=np.int32),)
    at, end = 0, math.inf if draws is None else draws
    while at < end:
        drawn = order.draws(at, int(min(_DRAWS, end - at)))
        count = len(drawn)
        if count == 0:
            return
        length = every[first[drawn.sources] + drawn.rows % counted[drawn.sources]]
        zero = np.zeros(count, dtype=np.int64)
        documents = TokenDocuments(buffers, zero.astype(np.int32), zero, length)
        yield TokenBlock(at, drawn.sources, drawn.rows, documents)
        at += count


def _judge(
    description: Description,
    order: LaneOrder,
    lengths: Sequence[SourceLengths],
    weights: Sequence[int],
    draws: int,
) -> tuple[int, int]:
    """Least and most rows of a lane of ``draws``, from the first of them."""
    pack = description.packing()
    sample = min(draws, SAMPLE_DRAWS)
    rate = count_rows(description, order, lengths, sample) / sample
    share = np.array(weights) / sum(weights)
    mean = np.array([one.mean for one in lengths])
    error = np.array([one.relative_error if one.mean else 0.0 for one in lengths])
    per_draw = float(share @ mean)
    relative = _SIGMAS * float(np.linalg.norm(share * mean * error)) / max(per_draw, 1e-300)
    if not pack.wraps or pack.max_sequences_per_bin:
        relative += _PACKING_ERROR
    # Which documents a lane happens to draw.
    square = sum(w * _mean_square(one.lengths) for w, one in zip(share, lengths, strict=True))
    deviation = math.sqrt(max(square - per_draw**2, 0.0))
    chance = _SIGMAS * deviation * math.sqrt(draws) * (1 + math.sqrt(draws / sample))
    slack = chance / pack.max_length + 1
    low = math.floor(draws * rate * (1 - relative) - slack)
    return max(low, 0), math.ceil(draws * rate * (1 + relative) + slack)


def _mean_square(lengths: NDArray[np.int64]) -> float:
    return float(np.mean(np.square(lengths, dtype=np.float64)))


def _steps(description: Description, rows: Sequence[int]) -> int:
    """Batches of a rank if the lanes have so many rows each."""
    size = description.microbatch_size or 1
    batches = [n // size if description.drop_last else -(-n // size) for n in rows]
    rounds = max(batches) if description.options.end == "filler" else min(batches)
    return rounds * len(rows) // description.options.dp_degree
