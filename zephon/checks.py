"""The checks of a pipeline before its first batch, each of one thing."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zephon.block import TokenDocuments
from zephon.description import NOT_TOKENIZED, Description
from zephon.errors import ConfigError, DataError, OperatorError, ZephonError
from zephon.io.dataset import Dataset
from zephon.io.shard import Place
from zephon.ops.tokenize import DocumentTokenizer
from zephon.options import divisors
from zephon.runtime.documents import DocumentReader
from zephon.validation import Issue
from zephon.work.base import Draws, WorkSource
from zephon.work.lengths import SourceLengths

SHARDS = 1000
"""Shards of a dataset whose first records are looked at, spread over all of them."""

BLOCK_DOCUMENTS, BLOCK_TOKENS = 64, 2**20
"""Documents at either end of a source whose ids are looked at, and tokens of them at most."""

FACTOR = 2.0
"""How often a document may be decoded in a pass before it is a warning."""

FEW = 2**16
"""Documents of a lane above which it is not asked whether they fill a batch."""

PROBE = "The quick brown fox jumps over the lazy dog."


@dataclass(frozen=True)
class Subject:
    """What is checked."""

    description: Description
    work: WorkSource
    lengths: tuple[SourceLengths, ...] | None
    """Of the documents of each source, None if they could not be found out."""

    estimate: Callable[[], tuple[int, int] | None]
    """Least and most steps of a pass."""


def run_checks(subject: Subject) -> list[Issue]:
    """Everything that any check finds."""
    found: list[Issue] = []
    for check in CHECKS:
        try:
            found += check(subject)
        except ConfigError as error:
            found.append(failure(error))
    return found


def _complete(subject: Subject) -> Iterator[Issue]:
    for call, said in (
        ("pack_flat", subject.description.pack),
        ("batch", subject.description.microbatch_size),
    ):
        if said is None:
            yield Issue(
                "error", "incomplete", call, f"the pipeline is not complete: call {call}(...)"
            )


def _text(subject: Subject) -> Iterator[Issue]:
    for name in subject.description.untokenized(subject.work):
        yield Issue(
            "error",
            "no-tokenizer",
            "tokenize",
            NOT_TOKENIZED.format(name),
        )


def _tokenizer(subject: Subject) -> Iterator[Issue]:
    return tokenizer_issues(subject.description.tokenizer)


def _records(subject: Subject) -> Iterator[Issue]:
    """The first record of each shard, read and tokenized as iterating will."""
    skip = set(subject.description.untokenized(subject.work))
    description, work = subject.description, subject.work
    reader = DocumentReader(work.datasets, description.tokenizer, description.chain(work))
    for source, dataset in enumerate(subject.work.datasets):
        if dataset.name in skip:
            continue
        rows = _first_rows(dataset)
        errors = [error for row in rows if (error := _error(reader, source, row)) is not None]
        if errors:
            about = "work_source" if description.tokenizer is None else "tokenize"
            if isinstance(errors[0], OperatorError):
                about = errors[0].operator.partition("(")[0]
            yield Issue(
                "error",
                "unreadable-record",
                about,
                f"dataset {dataset.name!r}: the first record of {len(errors)} of {len(rows)} "
                f"shards cannot be read, such as {errors[0]}",
            )


def _first_rows(dataset: Dataset) -> list[int]:
    counts = dataset.counts()
    first = (np.cumsum(counts) - counts)[counts > 0]
    if len(first) > SHARDS:
        first = first[np.linspace(0, len(first) - 1, SHARDS).astype(np.int64)]
    return [int(row) for row in first]


def _error(reader: DocumentReader, source: int, row: int) -> DataError | None:
    try:
        _read(reader, source, np.array([row], dtype=np.int64))
    except DataError as error:
        return error
    return None


def _read(reader: DocumentReader, source: int, rows: NDArray[np.int64]) -> TokenDocuments:
    sources = np.full(len(rows), source, dtype=np.int32)
    return reader.read(Draws(0, sources, rows, np.zeros_like(rows))).documents


def _ids(subject: Subject) -> Iterator[Issue]:
    """Token ids at both ends of sources that are not tokenized here."""
    description, work = subject.description, subject.work
    bound = description.vocabulary()
    if description.chain(work).touches_tokens:
        return  # what functions make of tokens is checked when it is delivered
    reader = DocumentReader(work.datasets, None)
    unbounded = []
    for source, dataset in enumerate(work.datasets):
        if dataset.gives_text or (dataset.format == "memory" and description.tokenizer is not None):
            continue  # text, whose ids are the tokenizer's
        if not bound:
            unbounded.append(dataset.name)
        total = dataset.total()
        some = np.arange(min(BLOCK_DOCUMENTS, total), dtype=np.int64)
        try:
            for rows in (some, total - 1 - some):
                if (issue := _outside(dataset, rows, _read(reader, source, rows), bound)) is None:
                    continue
                yield issue
                break
        except DataError:
            continue  # _records tells
    if unbounded:
        yield Issue(
            "info",
            "no-vocabulary",
            "options",
            f"nothing tells the size of the vocabulary, so ids of {_names(unbounded)} are not "
            "compared with it: give options(vocab_size=...)",
        )


def _outside(
    dataset: Dataset, rows: NDArray[np.int64], documents: TokenDocuments, bound: int
) -> Issue | None:
    left = BLOCK_TOKENS
    for i, row in enumerate(rows.tolist()):
        tokens = documents.tokens(i)[: max(left, 0)]
        left -= len(tokens)
        if not len(tokens):
            continue
        worst = int(tokens.min()) if int(tokens.min()) < 0 else int(tokens.max())
        if worst < 0 or (bound and worst >= bound):
            at = int(np.flatnonzero(tokens == worst)[0])
            what = f"outside the vocabulary of {bound:,} ids" if bound else "no token id"
            return Issue(
                "error",
                "token-id",
                "work_source",
                f"dataset {dataset.name!r}: token {at} is {worst}, {what}: "
                f"{DataError('document', **dataset.place(row).as_kwargs())}. Were the tokens made "
                "with another tokenizer, or is vocab_size wrong?",
            )
    return None


def _lengths(subject: Subject) -> Iterator[Issue]:
    if subject.lengths is None:
        return
    pack = subject.description.packing()
    for one, weight in zip(subject.lengths, subject.work.weights, strict=True):
        if one.mean == 0 and weight:  # of a source that was taken out nothing is expected
            left_out = f" or longer than {pack.max_length} tokens" if pack.drops_oversized else ""
            yield Issue(
                "error" if one.exact else "warning",
                "no-tokens",
                "pack_flat" if left_out else "work_source",
                f"dataset {one.name!r}: all of {len(one.lengths):,} documents that were counted "
                f"are empty{left_out}, so it gives nothing. "
                + (
                    "Raise max_length, or split them with drop_oversized=False"
                    if left_out
                    else "Leave it out of the datasets and the mixture"
                ),
            )


def _locality(subject: Subject) -> Iterator[Issue]:
    work, lanes = subject.work, subject.description.options.lanes
    if work.chunk_size is None:
        return
    slow = [
        (factor, dataset.name)
        for factor, dataset in zip(work.decode_factors(lanes), work.datasets, strict=True)
        if factor > FACTOR
    ]
    if not slow:
        return
    worst = max(slow)[0]
    # A unit of U documents costs (U - 1) / d more for d of them in a chunk.
    size = math.ceil(work.chunk_size * (worst - 1) / (FACTOR - 1))
    yield Issue(
        "warning",
        "locality",
        "work_source",
        f"with chunks of {work.chunk_size:,} draws, {lanes} lanes decode documents of "
        f"{_names([name for _, name in slow])} up to {worst:.1f} times a pass; with chunk_size="
        f"{size} it is at most {FACTOR:.0f} times",
    )


def _lanes(subject: Subject) -> Iterator[Issue]:
    options = subject.description.options
    if options.canonical_replicas is None and options.dp_degree > 1:
        yield Issue(
            "info",
            "lanes",
            "options",
            f"the run has as many lanes as ranks, {options.lanes}, so it can go on with "
            f"{', '.join(map(str, divisors(options.lanes)))} ranks only: give canonical_replicas a "
            "multiple of every number of ranks that it may ever have",
        )


def _exchange(subject: Subject) -> Iterator[Issue]:
    work, options = subject.work, subject.description.options
    if options.ranks[1] == 1 or options.aggregate_dir or options.aggregate_store is not None:
        return
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return
    finite = not work.requires_token_priming and work.lane(0, options.lanes).length() is not None
    stuck = finite and options.dp_degree > 1 and options.end != "known"
    yield Issue(
        "error" if stuck else "info",
        "no-exchange",
        "options",
        f"the {options.ranks[1]} ranks have no way to meet yet, so "
        f"{'a pass that ends cannot agree on its end and ' if stuck else ''}checkpoint() cannot "
        "gather the state: call torch.distributed.init_process_group before, or give aggregate_dir "
        "or aggregate_store",
    )


def _end(subject: Subject) -> Iterator[Issue]:
    work, options = subject.work, subject.description.options
    if work.requires_token_priming or work.lane(0, options.lanes).length() is None:
        return
    if subject.lengths is None or subject.description.microbatch_size is None:
        return
    unknown = [one.name for one in subject.lengths if not one.exact]
    if options.end == "known" and unknown:
        yield Issue(
            "error",
            "end-not-known",
            "options",
            f"end='known' needs the length of every document before the first batch, and those of "
            f"{_names(unknown)} are not known: use end='agree', or tokenize into .bin/.idx first",
        )
    if (work.lane(0, options.lanes).length() or 0) > FEW:
        return
    steps = subject.estimate()
    if steps is not None and steps[0] == 0:
        maybe = "no" if steps[1] == 0 else "perhaps no"
        yield Issue(
            "error" if steps[1] == 0 else "warning",
            "no-batches",
            "options",
            f"a pass gives {maybe} batch: {options.lanes} lanes share it, and with end="
            f"{options.end!r} and drop_last={subject.description.drop_last} what does not fill "
            "batches is left out. Use fewer lanes, end='filler', or drop_last=False",
        )


def _padding(subject: Subject) -> Iterator[Issue]:
    tokenizer, pack = subject.description.tokenizer, subject.description.pack
    if tokenizer is not None and pack is not None and pack.pad_token_id in tokenizer.end_ids:
        yield Issue(
            "info",
            "pad-is-eos",
            "pack_flat",
            f"pad_token_id is {pack.pad_token_id}, as is the end of documents: padding is told by "
            "its place and never by its value, so ends of documents stay labels; nothing to do",
        )


def _compatibility(subject: Subject) -> Iterator[Issue]:
    for call, text in subject.description.compatibility(subject.work):
        yield Issue("info", "compatibility", call, text)


CHECKS: Sequence[Callable[[Subject], Iterator[Issue]]] = (
    _complete,
    _text,
    _tokenizer,
    _records,
    _ids,
    _lengths,
    _locality,
    _lanes,
    _exchange,
    _end,
    _padding,
    _compatibility,
)


def failure(error: ZephonError) -> Issue:
    """What kept something from being found out that iterating needs too."""
    return Issue("error", "failed", "work_source", str(error))


def tokenizer_issues(tokenizer: DocumentTokenizer | None) -> Iterator[Issue]:
    """Whether a tokenizer makes tokens of a line of text."""
    if tokenizer is None:
        return
    try:
        ids = tokenizer.encode_documents(
            [tokenizer.probe(PROBE)], lambda _: Place("a probe", 1)
        ).tokens
    except DataError as error:
        yield Issue("error", "tokenizer", "tokenize", f"{PROBE!r}: {error.message}")
        return
    if len(ids) <= len(tokenizer.start_ids) + len(tokenizer.end_ids):
        yield Issue("error", "tokenizer", "tokenize", f"the tokenizer makes no token of {PROBE!r}")


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
