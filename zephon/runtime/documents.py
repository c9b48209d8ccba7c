"""Reading the documents of a lane: from draws to tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.aligned import (
    MASK_FIELD,
    AlignedFields,
    ArrayFields,
    RecordFields,
    loss_mask_of,
)
from zephon.block import RecordDocuments, TokenBlock, TokenDocuments, interleave
from zephon.errors import DataError
from zephon.io.dataset import Dataset
from zephon.io.shard import Place
from zephon.ops.tokenize import DocumentTokenizer
from zephon.records import as_tokens, token_field
from zephon.work.base import Draws, LaneOrder


class DocumentReader:
    """From draws to tokenized documents; a function of its arguments, for any thread."""

    def __init__(self, datasets: tuple[Dataset, ...], tokenizer: DocumentTokenizer | None) -> None:
        self._datasets = datasets
        self._tokenizer = tokenizer

    def read(self, draws: Draws) -> TokenBlock:
        """The documents of ``draws``, in their order."""
        parts: list[TokenDocuments] = []
        picks: list[NDArray[np.integer[Any]]] = []
        records: list[Mapping[str, Any]] = []
        where: list[int] = []  # positions of `records` among the draws
        for source in np.unique(draws.sources).tolist():
            pick = np.flatnonzero(draws.sources == source)
            documents = self._datasets[source].read(draws.rows[pick])
            if isinstance(documents, RecordDocuments):
                records.extend(documents.records)
                where.extend(pick.tolist())
            else:
                parts.append(documents)
                picks.append(pick)
        if records:
            tokens, lengths, fields = self._tokens(records, lambda i: self._place(draws, where[i]))
            parts.append(
                TokenDocuments(
                    (tokens,),
                    np.zeros(len(records), dtype=np.int32),
                    np.cumsum(lengths) - lengths,
                    lengths,
                    (fields,) if fields else (),
                )
            )
            picks.append(np.array(where))
        documents = interleave(parts, picks, len(draws))
        return TokenBlock(draws.first, draws.sources, draws.rows, documents)

    def _tokens(
        self, records: list[Mapping[str, Any]], place: Callable[[int], Place]
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64], AlignedFields | None]:
        """Token ids of records end to end, the length of each, int64 ``[n]``, and what is beside.

        With tokens of text goes what the tokenizer says of each, as a loss mask.
        """
        if self._tokenizer is not None:
            found = self._tokenizer.encode_documents(records, place)
            plain = found.loss_mask is None and not found.fields
            beside = None if plain else ArrayFields(found.fields, found.loss_mask)
            return found.tokens, found.lengths, beside
        parts, names = [], []
        for i, record in enumerate(records):
            try:
                field = token_field(record)
                parts.append(as_tokens(record[field], f"the field {field!r}"))
                names.append(field)
            except DataError as error:
                hint = ". Add .tokenize(...) to the pipeline if these are texts"
                raise DataError(error.message + hint, **place(i).as_kwargs()) from None
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        fields = None
        if any(len(record) > 1 for record in records):
            fields = RecordFields(records, names, lengths, _loss_mask(records, lengths, place))
        return np.ascontiguousarray(np.concatenate(parts)), lengths, fields

    def _place(self, draws: Draws, index: int) -> Place:
        return self._datasets[int(draws.sources[index])].place(int(draws.rows[index]))


def _loss_mask(
    records: list[Mapping[str, Any]], lengths: NDArray[np.int64], place: Callable[[int], Place]
) -> NDArray[np.uint8] | None:
    """Masks of records end to end, uint8 ``[T]``; all ones for those without, None if all are."""
    if all(record.get(MASK_FIELD) is None for record in records):
        return None
    parts = []
    for i, (record, count) in enumerate(zip(records, lengths.tolist(), strict=True)):
        value = record.get(MASK_FIELD)
        try:
            mask = np.ones(count, np.uint8) if value is None else loss_mask_of(value, count)
        except DataError as error:
            raise DataError(error.message, **place(i).as_kwargs()) from None
        parts.append(mask)
    return np.concatenate(parts)


def read_ahead(
    reader: DocumentReader,
    order: LaneOrder,
    first: int,
    *,
    size: int,
    ahead: int,
    executor: Executor | None,
) -> Iterator[TokenBlock]:
    """Blocks of ``size`` documents of a lane from draw ``first`` on, ``ahead`` of them at work.

    Ends where the lane does. Without an executor each block is read when it is asked for.
    """
    if executor is None:
        while len(draws := order.draws(first, size)):
            yield reader.read(draws)
            first += size
        return
    pending: deque[Future[TokenBlock]] = deque()
    while True:
        while len(pending) < ahead and len(draws := order.draws(first, size)):
            pending.append(executor.submit(reader.read, draws))
            first += size
        if not pending:
            return
        yield pending.popleft().result()
