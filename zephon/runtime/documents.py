"""Reading the documents of a lane: from draws to tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.block import RecordDocuments, TokenBlock, TokenDocuments
from zephon.errors import DataError
from zephon.io.dataset import Dataset
from zephon.io.shard import Place
from zephon.ops.tokenize import TextTokenizer
from zephon.records import as_tokens, token_field
from zephon.work.base import Draws, LaneOrder


class DocumentReader:
    """From draws to tokenized documents; a function of its arguments, for any thread."""

    def __init__(self, datasets: tuple[Dataset, ...], tokenizer: TextTokenizer | None) -> None:
        self._datasets = datasets
        self._tokenizer = tokenizer

    def read(self, draws: Draws) -> TokenBlock:
        """The documents of ``draws``, in their order."""
        count = len(draws)
        buffers: list[NDArray[np.integer[Any]]] = []
        buffer = np.zeros(count, dtype=np.int32)
        start = np.zeros(count, dtype=np.int64)
        length = np.zeros(count, dtype=np.int64)
        records: list[Mapping[str, Any]] = []
        where: list[int] = []  # positions of `records` among the draws
        for source in np.unique(draws.sources).tolist():
            pick = np.flatnonzero(draws.sources == source)
            documents = self._datasets[source].read(draws.rows[pick])
            if isinstance(documents, RecordDocuments):
                records.extend(documents.records)
                where.extend(pick.tolist())
            else:
                buffer[pick] = documents.buffer + np.int32(len(buffers))
                start[pick], length[pick] = documents.start, documents.length
                buffers.extend(documents.buffers)
        if records:
            tokens, lengths = self._tokens(records, lambda i: self._place(draws, where[i]))
            buffer[where] = len(buffers)
            length[where] = lengths
            start[where] = np.cumsum(lengths) - lengths
            buffers.append(tokens)
        return TokenBlock(
            draws.first,
            draws.sources,
            draws.rows,
            TokenDocuments(tuple(buffers), buffer, start, length),
        )

    def _tokens(
        self, records: list[Mapping[str, Any]], place: Callable[[int], Place]
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
        """Token ids of records end to end, and the length of each, int64 ``[n]``."""
        if self._tokenizer is not None:
            return self._tokenizer.encode(records, place)
        parts = []
        for i, record in enumerate(records):
            try:
                field = token_field(record)
                parts.append(as_tokens(record[field], f"the field {field!r}"))
            except DataError as error:
                hint = ". Add .tokenize(...) to the pipeline if these are texts"
                raise DataError(error.message + hint, **place(i).as_kwargs()) from None
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        return np.ascontiguousarray(np.concatenate(parts)), lengths

    def _place(self, draws: Draws, index: int) -> Place:
        return self._datasets[int(draws.sources[index])].place(int(draws.rows[index]))


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
