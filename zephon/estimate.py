"""How many rows, steps and passes a stream has, from the lengths of its documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from zephon.block import TokenBlock, TokenDocuments
from zephon.cursor import DocumentCursor, LaneCursor
from zephon.description import Description
from zephon.errors import ConfigError
from zephon.ops.documents import DocumentStream
from zephon.ops.pack import make_packer
from zephon.runtime.position import Position
from zephon.work.base import LaneOrder, WorkSource
from zephon.work.lengths import SourceLengths

EXACT_DRAWS = 2**23
"""Draws of a pass that are packed on paper to count its rows: a microsecond or two each."""

SAMPLE_DRAWS = 2**16
"""Draws of a lane from which the rest of it is judged."""

MOST_ADDED_DRAWS = 2**27
"""Draws of a pass whose lengths are added up: a fraction of a microsecond each."""

_BEGIN = DocumentCursor()
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


def known_rounds(
    description: Description,
    work: WorkSource,
    lengths: Sequence[SourceLengths],
    position: Position,
) -> int:
    """Rounds of lanes that the pass ``position`` stands in has until a lane cannot fill one.

    What ranks would agree on round by round, from the lengths of the documents that are
    left: packs them on paper, a microsecond or two each, or only adds them up where rows
    are cut without a cap. Every rank computes the same.

    Raises
    ------
    ConfigError
        A length is not known, or the pass is too long for that.
    """
    lanes = description.options.lanes
    if work.row_length is not None:
        return _ready_rounds(description, work, position)
    unknown = [one.name for one in lengths if not one.exact]
    if unknown:
        raise ConfigError(
            "end='known' needs the length of every document before the first batch, and those of "
            f"{', '.join(map(repr, unknown))} are not known: use end='agree', or tokenize into "
            ".bin/.idx first"
        )
    chain = description.chain(work)
    adds = _cuts_anywhere(description)
    if chain.touches_tokens:
        raise ConfigError(
            "end='known' needs the length of every document before the first batch, and this "
            "pipeline has functions that may change it: use end='agree'"
        )
    orders = [work.lane(lane, lanes, position.passes) for lane in range(lanes)]
    draws = sum(order.length() or 0 for order in orders)
    most = MOST_ADDED_DRAWS if adds else EXACT_DRAWS
    if draws > most:
        raise ConfigError(
            f"end='known' would go through the lengths of all {draws:,} documents of a pass before "
            f"the first batch, the most is {most:,}: use end='agree'"
        )
    count = _rows_of_tokens if adds else _rows_from
    rounds = []
    for lane, (order, cursor) in enumerate(zip(orders, position.cursors, strict=True)):
        rows = count(description, order, lengths, cursor.documents)
        rows -= cursor.rows + cursor.shuffled
        done = len(range(lane, position.delivered, lanes))
        rounds.append(done + _batches(description, rows))
    return min(rounds)


def _ready_rounds(description: Description, work: WorkSource, position: Position) -> int:
    """The same for a work source that gives rows, of which it knows how many."""
    lanes, size = description.options.lanes, description.microbatch_size or 1
    rounds = []
    for lane, cursor in enumerate(position.cursors):
        rows = work.lane_rows(lane, lanes, size).length()
        assert rows is not None, "a lane without end in a pass that ends"
        done = len(range(lane, position.delivered, lanes))
        left = rows - cursor.documents.draw - cursor.shuffled
        rounds.append(done + _batches(description, left))
    return min(rounds)


def _rows_from(
    description: Description,
    order: LaneOrder,
    lengths: Sequence[SourceLengths],
    cursor: DocumentCursor,
) -> int:
    """Rows that a lane packs from a position on."""
    return count_rows(description, order, lengths, None, cursor)


def _rows_of_tokens(
    description: Description,
    order: LaneOrder,
    lengths: Sequence[SourceLengths],
    cursor: DocumentCursor,
) -> int:
    """The same where documents are cut wherever a row is full."""
    blocks = _blocks(order, lengths, None, cursor)
    tokens = sum(int(block.documents.length.sum()) for block in blocks)
    rows, rest = divmod(tokens, description.packing().max_length)
    return rows + bool(rest and description.pads_tail())


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
    begin: DocumentCursor = _BEGIN,
) -> int:
    """Rows that the first ``draws`` of a lane, or all of them, are packed into.

    From ``begin`` on: where a packing window begins.

    The packer itself packs documents of these lengths, whose tokens it does not
    look at. A length that was not counted is taken from the sample of its source.
    """
    pack = description.packing()
    documents = DocumentStream(
        _blocks(order, lengths, draws, begin),
        DocumentCursor(begin.draw),
        check=b"",
        longest=pack.max_length,
        drop_oversized=False,  # such documents have length 0 here
        split=not pack.wraps,  # with operators what is too long is a sum of several
        names=[one.name for one in lengths],
        patience=2**62,
    )
    packer = make_packer(
        documents,
        pack,
        LaneCursor(),
        pad_tail=description.pads_tail(),
        vocab_size=0,
        names=[one.name for one in lengths],
    )
    total = 0
    while (rows := packer.take(_ROWS)) is not None:
        total += len(rows)
    return total


def _blocks(
    order: LaneOrder,
    lengths: Sequence[SourceLengths],
    draws: int | None,
    begin: DocumentCursor = _BEGIN,
) -> Iterator[TokenBlock]:
    """Documents of the right lengths, and of no tokens; of the first one what is left."""
    counted = np.array([len(one.lengths) for one in lengths], dtype=np.int64)
    first = np.cumsum(counted) - counted
    every = np.concatenate([one.lengths for one in lengths])
    buffers = (np.empty(0, dtype=np.int32),)
    at, end = begin.draw, math.inf if draws is None else draws
    while at < end:
        drawn = order.draws(at, int(min(_DRAWS, end - at)))
        count = len(drawn)
        if count == 0:
            return
        length = every[first[drawn.sources] + drawn.rows % counted[drawn.sources]]
        if at == begin.draw:
            length[0] -= begin.token
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
    batches = [_batches(description, n) for n in rows]
    rounds = max(batches) if description.options.end == "filler" else min(batches)
    return rounds * len(rows) // description.options.dp_degree


def _batches(description: Description, rows: int) -> int:
    """Batches of a lane with so many rows."""
    size = description.microbatch_size or 1
    return rows // size if description.drop_last else -(-rows // size)
