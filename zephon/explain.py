"""What a pipeline will do, in words and numbers, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from zephon.description import Description
from zephon.estimate import tokens_per_row
from zephon.ops.operator import Operator
from zephon.options import divisors
from zephon.runtime.places import are_placed
from zephon.work.base import WorkSource
from zephon.work.lengths import SourceLengths
from zephon.work.mixture import WEIGHT_TOTAL
from zephon.work.plan import Piece

MOST = 32
"""Sources, and pieces of a plan, that are listed one by one."""


def explain(
    description: Description,
    work: WorkSource,
    lengths: Sequence[SourceLengths] | None,
    steps: int | None,
) -> str:
    """The text of :meth:`zephon.Pipeline.explain`; ``steps`` asks for ``lengths``."""
    sections = [
        ("stages", _stages(description, work)),
        ("sources", _sources(description, work, lengths)),
        ("lanes", _lanes(description, work)),
        ("plan", _plan(description, work)),
    ]
    if steps is not None and lengths is not None:
        title = f"expected after {steps:,} steps"
        sections.append((title, _passes(description, work, lengths, steps)))
    sections.append(("compatibility", (text for _, text in description.compatibility(work))))
    lines = []
    for title, content in sections:
        found = list(content)
        if found:
            lines += [title, *(f"  {line}" for line in found)]
    return "\n".join(lines)


def _stages(description: Description, work: WorkSource) -> Iterator[str]:
    tokenizer, pack = description.tokenizer, description.pack
    yield from map(_operator, description.operators)
    if tokenizer is not None:
        yield (
            f"{tokenizer.call:10} {_said(tokenizer.options)}, vocabulary "
            f"{tokenizer.vocab_size:,} ids, computed by {tokenizer.engine}"
        )
    yield from map(_operator, description.token_operators)
    if pack is None:
        yield "pack_flat  is missing: the pipeline is not complete"
    else:
        yield f"pack_flat  {_said(pack)}"
    if description.shuffle is not None:
        yield f"shuffle    {_said(description.shuffle)}"
    if description.microbatch_size is None:
        yield "batch      is missing: rows come out one by one, as records"
    else:
        yield (
            f"batch      microbatch_size={description.microbatch_size}, "
            f"drop_last={description.drop_last}"
        )
    yield from (f"{function}: each batch" for function in description.batch_functions)
    prefetch = description.reading()
    threads = prefetch.threads if prefetch.buffer_size else 0
    who = "processes" if description.options.runner == "process" else "threads"
    does = f"{threads} {who} read and tokenize"
    chained = description.operators or description.token_operators
    if not chained and tokenizer is None and work.row_length is None and are_placed(work.datasets):
        does = "token files are packed without threads, and read from the disk ahead"
    yield f"prefetch   {_said(prefetch)}: {does}"
    yield f"options    {_said(description.options)}"


def _operator(operator: Operator) -> str:
    window = f", in windows of {operator.window:,} draws" if operator.window > 1 else ""
    return f"{operator}{window}"


def _said(options: Any) -> str:
    values = ((field.name, getattr(options, field.name)) for field in fields(options))
    return ", ".join(f"{name}={value!r}" for name, value in values if value is not None)


def _sources(
    description: Description, work: WorkSource, lengths: Sequence[SourceLengths] | None
) -> Iterator[str]:
    if work.requires_token_priming:
        yield "the weights below are shares of tokens; those of documents are found before the"
        yield "first batch, from the lengths of documents"
    policy = work.options().get("exhausted_policy")
    factors = work.decode_factors(description.options.lanes)
    tokens = None if lengths is None else _token_shares(work, lengths)
    for i, dataset in enumerate(work.datasets[:MOST]):
        weight = work.weights[i]
        yield (
            f"{dataset.name}: {weight}/2**32 = {weight / WEIGHT_TOTAL:.4%} of "
            f"{'tokens' if work.requires_token_priming else 'draws'}, {dataset.total():,} "
            f"documents in {dataset.shard_count():,} shards, {dataset.format}"
        )
        details = [f"each document decoded {factors[i]:.2f} times a pass"]
        one = policy.get(dataset.name) if isinstance(policy, Mapping) else policy
        if one is not None:
            details.insert(0, f"policy {one}")
        if lengths is not None and tokens is not None:
            error = lengths[i].relative_error
            sure = "exact" if lengths[i].exact else f"+- {error:.1%}"
            details.append(f"{lengths[i].mean:,.1f} tokens a draw ({sure})")
            details.append(f"{tokens[i]:.2%} of tokens")
        yield "  " + ", ".join(details)
    yield from _more(len(work.datasets), "sources")


def _token_shares(work: WorkSource, lengths: Sequence[SourceLengths]) -> list[float]:
    tokens = [weight * one.mean for weight, one in zip(work.weights, lengths, strict=True)]
    return [part / (sum(tokens) or 1.0) for part in tokens]


def _lanes(description: Description, work: WorkSource) -> Iterator[str]:
    options = description.options
    legal = ", ".join(map(str, divisors(options.lanes)))
    yield (
        f"{options.lanes:,} lanes, fixed for the run; this is rank {options.dp_group_id} of "
        f"{options.dp_degree}"
    )
    yield f"legal data-parallel sizes: {legal}"
    if work.chunk_size is not None:
        yield (
            f"chunks of {work.chunk_size:,} draws of a lane: at the end of each every source has "
            "its share to within a document"
        )


def _plan(description: Description, work: WorkSource) -> Iterator[str]:
    if work.requires_token_priming:
        return
    lanes = description.options.lanes
    plan = work.plan(lanes)
    shortest, longest = (work.lane(lane, lanes).length() for lane in (lanes - 1, 0))
    if longest is None or shortest is None:
        yield "the stream has no end"
    else:
        passes = work.options().get("stop_after_passes")
        if passes is not None:
            yield f"ends when every source has been gone through {passes:,} times"
        yield (
            f"a pass has {_range(shortest, longest)} documents in each lane and ends by "
            f"end={description.options.end!r}"
        )
    if plan is None:
        yield "order: " + json.dumps(work.options(), sort_keys=True)
        return
    for number, piece in enumerate(plan.pieces[:MOST]):
        size = "without end" if piece.draws is None else f"{piece.draws:,} documents in each lane"
        yield (
            f"piece {number + 1}: {size}, chunks of {piece.chunk_size:,}: {_mixture(work, piece)}"
        )
    yield from _more(len(plan.pieces), "pieces")
    if len(plan.tail_sources):
        yield f"tail: {len(plan.tail_sources):,} documents, dealt to the lanes in turn"


def _mixture(work: WorkSource, piece: Piece) -> str:
    first = zip(piece.sources[:8].tolist(), piece.weights[:8].tolist(), strict=True)
    shares = [f"{work.datasets[source].name} {w / piece.total:.2%}" for source, w in first]
    left = len(piece.sources) - len(shares)
    return ", ".join(shares) + (f" and {left} more" if left else "")


def _passes(
    description: Description, work: WorkSource, lengths: Sequence[SourceLengths], steps: int
) -> Iterator[str]:
    options, pack = description.options, description.packing()
    rows = steps * options.dp_degree * (description.microbatch_size or 1)
    tokens = rows * tokens_per_row(description, work, lengths)
    yield (
        f"{rows:,} rows of {pack.max_length:,} tokens on {options.dp_degree} ranks, of which about "
        f"{tokens:,.0f} are no padding"
    )
    means = np.array([one.mean for one in lengths])
    plan = work.plan(options.lanes)
    if plan is None:
        shares = np.array(work.weights) / WEIGHT_TOTAL
        taken = tokens / float(shares @ means) * shares
    else:
        taken = plan.expected(tokens, means)
        if tokens > float(taken @ means) * (1 + 1e-9):
            yield "the pass ends before that; what it gives is"
    for i, dataset in enumerate(work.datasets[:MOST]):
        yield f"{dataset.name}: {taken[i] / dataset.total():.2f} passes, {taken[i]:,.0f} documents"
    yield from _more(len(work.datasets), "sources")


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _more(count: int, what: str) -> Iterator[str]:
    if count > MOST:
        yield f"and {count - MOST:,} more {what}"
