"""Reading the documents of a lane: from draws to tokens."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
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
from zephon.ops.chain import Chain, entries
from zephon.ops.operator import Context, Item, Operator, has_tokens, no_mark
from zephon.ops.tokenize import DocumentTokenizer
from zephon.records import TOKEN_FIELDS, as_tokens, token_field
from zephon.runtime.metrics import PACK, READ, Metrics
from zephon.work.base import Draws, LaneOrder

NO_OPERATORS = Chain()
_IDS = TOKEN_FIELDS[0]


class DocumentReader:
    """From draws to tokenized documents; a function of its arguments, for any thread.

    Parameters
    ----------
    datasets : tuple of Dataset
        The sources that draws name.
    tokenizer : DocumentTokenizer or None
        What makes tokens of text.
    chain : Chain
        The operators before and after it.
    metrics : Metrics, optional
        Where work is counted.
    """

    def __init__(
        self,
        datasets: tuple[Dataset, ...],
        tokenizer: DocumentTokenizer | None,
        chain: Chain = NO_OPERATORS,
        metrics: Metrics | None = None,
    ) -> None:
        field = None if tokenizer is None else tokenizer.options.field
        self.datasets = (
            datasets if field is None else tuple(dataset.as_text(field) for dataset in datasets)
        )
        self.chain = chain
        self.lane = 0
        self.metrics = Metrics() if metrics is None else metrics
        self.mark: Callable[[int, int], None] = no_mark
        self._tokenizer = tokenizer
        self._copies = False  # all tokens, so that they can be sent to another process
        self._turns = _turns(chain)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_turns": {}, "mark": no_mark, "_copies": True}

    def of_lane(self, lane: int) -> DocumentReader:
        """The same for the draws of one lane."""
        made = DocumentReader.__new__(DocumentReader)
        made.__dict__.update(self.__dict__, lane=lane)
        return made

    @property
    def tokenizes(self) -> bool:
        """Whether text becomes tokens here."""
        return self._tokenizer is not None

    def read(self, draws: Draws) -> TokenBlock:
        """The documents of ``draws``, in their order, as the operators leave them."""
        if self.chain or self._copies:
            return self._operate(draws)
        begin = time.perf_counter()
        parts: list[TokenDocuments] = []
        picks: list[NDArray[np.integer[Any]]] = []
        text = _Picked()
        tokens = _Picked()
        for documents, pick in self._documents(draws):
            if isinstance(documents, RecordDocuments):
                self._pick(documents.records, pick.tolist(), draws, text, tokens)
            else:
                parts.append(documents)
                picks.append(pick)
        self.metrics.add("read", READ, items=len(draws), working=time.perf_counter() - begin)
        if text.records:
            parts.append(self._tokens(text.records, lambda i: self._place(draws, text.where[i])))
            picks.append(np.array(text.where))
        if tokens.records:
            parts.append(_joined(tokens.records, lambda i: self._place(draws, tokens.where[i])))
            picks.append(np.array(tokens.where))
        documents = interleave(parts, picks, len(draws))
        return TokenBlock(draws.first, draws.sources, draws.rows, documents)

    def records(self, draws: Draws) -> list[Mapping[str, Any]]:
        """The documents of ``draws`` as they are read: fields by name, tokens as ``input_ids``."""
        return [item.payload for item in self._items(draws)]

    def _documents(
        self, draws: Draws
    ) -> Iterator[tuple[RecordDocuments | TokenDocuments, NDArray[np.intp]]]:
        """What each source gives, and where among the draws it belongs."""
        for source in np.unique(draws.sources).tolist():
            pick = np.flatnonzero(draws.sources == source)
            yield self.datasets[source].read(draws.rows[pick]), pick

    def _operate(self, draws: Draws) -> TokenBlock:
        """The same with operators: document by document."""
        with self.metrics.working("read", READ, len(draws)):
            items = self._items(draws)
        context = Context(draws, self.lane, self.datasets, self.chain.seed, mark=self.mark)
        tokenize = None if self._tokenizer is None else self._tokenize
        items = self.chain.run(items, context, tokenize, self._around)
        table, which = entries(items, context)
        out = [items[at] for at in which[which >= 0].tolist()]
        documents = self._collect(out, context)
        empty = np.zeros(len(which), np.int64)
        start, length = empty.copy(), empty.copy()
        start[which >= 0], length[which >= 0] = documents.start, documents.length
        return TokenBlock(
            draws.first,
            draws.sources[table.origin],
            draws.rows[table.origin],
            TokenDocuments(
                documents.buffers, empty.astype(np.int32), start, length, documents.aligned
            ),
            len(draws),
            table,
        )

    def _items(self, draws: Draws) -> list[Item]:
        found: list[Item | None] = [None] * len(draws)
        for documents, pick in self._documents(draws):
            memory = self.datasets[draws.sources[pick[0]]].format == "memory"
            for at, origin in enumerate(pick.tolist()):
                if isinstance(documents, RecordDocuments):
                    payload = dict(documents.records[at])
                    if self._tokenizer is None:
                        tokens = has_tokens(payload)
                    else:
                        tokens = memory and self._are_tokens(payload)
                else:
                    payload, tokens = _payload(documents, at), True
                found[origin] = Item(payload, draws.first + origin, origin, (), tokens)
        return [item for item in found if item is not None]

    def _pick(
        self,
        records: Sequence[Mapping[str, Any]],
        where: list[int],
        draws: Draws,
        text: _Picked,
        tokens: _Picked,
    ) -> None:
        """Add records of one source to those that are tokenized and to those that are tokens."""
        if self._tokenizer is None:
            tokens.extend(records, where)
        elif self.datasets[draws.sources[where[0]]].format != "memory":
            text.extend(records, where)
        else:
            ready = [self._are_tokens(record) for record in records]
            for some, wanted in ((text, False), (tokens, True)):
                picked = [at for at, one in enumerate(ready) if one is wanted]
                some.extend([records[at] for at in picked], [where[at] for at in picked])

    def _are_tokens(self, record: Mapping[str, Any]) -> bool:
        """Whether a record in memory was given as tokens: it has token ids and no text.

        Of a line that lacks the field that was named nobody asks: more likely it is a slip.
        """
        assert self._tokenizer is not None
        return self._tokenizer.options.field not in record and has_tokens(record)

    def _tokenize(self, items: Sequence[Item], context: Context) -> list[Item]:
        """Tokens of the documents of text; those of tokens pass."""
        assert self._tokenizer is not None
        field = self._tokenizer.options.field
        text = [item for item in items if not item.tokens or field in item.payload]
        if not text:
            return list(items)
        documents = self._tokens(
            [item.payload for item in text], lambda at: context.place(text[at].origin)
        )
        made = {
            id(item): Item(
                _payload(documents, at), item.draw, item.origin, item.lineage, tokens=True
            )
            for at, item in enumerate(text)
        }
        return [made.get(id(item), item) for item in items]

    def _collect(self, items: Sequence[Item], context: Context) -> TokenDocuments:
        """Documents of tokens, end to end in one buffer."""
        if not items:
            none = np.empty(0, dtype=np.int64)
            return TokenDocuments((np.empty(0, np.int32),), none.astype(np.int32), none, none)
        return _joined([item.payload for item in items], lambda at: context.place(items[at].origin))

    def _tokens(
        self, records: list[Mapping[str, Any]], place: Callable[[int], Place]
    ) -> TokenDocuments:
        """Records as documents of tokens that lie end to end; text is tokenized.

        With tokens of text goes what the tokenizer says of each, as a loss mask.
        """
        assert self._tokenizer is not None
        order = READ + 1 + len(self.chain.before)
        with self.metrics.working(self._tokenizer.call, order, len(records)):
            found = self._tokenizer.encode_documents(records, place)
        plain = found.loss_mask is None and not found.fields
        fields = None if plain else ArrayFields(found.fields, found.loss_mask)
        return _end_to_end(found.tokens, found.lengths, fields)

    @contextmanager
    def _around(self, number: int, operator: Operator, items: int) -> Iterator[None]:
        """Wait for the operator's turn, and count its work."""
        order = READ + 1 + number + (number >= len(self.chain.before))
        turn = self._turns.get(number)
        if turn is None:
            with self.metrics.working(str(operator), order, items):
                yield
            return
        begin = time.perf_counter()
        with turn:
            waited = time.perf_counter() - begin
            self.metrics.add(str(operator), order, waiting=waited)
            with self.metrics.working(str(operator), order, items):
                yield

    def _place(self, draws: Draws, index: int) -> Place:
        return self.datasets[int(draws.sources[index])].place(int(draws.rows[index]))


class _Picked:
    """Records, and where each belongs among the draws."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, Any]] = []
        self.where: list[int] = []

    def extend(self, records: Sequence[Mapping[str, Any]], where: Sequence[int]) -> None:
        """Some more."""
        self.records.extend(records)
        self.where.extend(where)


def _turns(chain: Chain) -> dict[int, threading.Semaphore]:
    """For each operator that few threads may be in, what they wait for."""
    return {
        number: threading.Semaphore(operator.parallelism)
        for number, operator in enumerate(chain.operators)
        if operator.parallelism is not None
    }


def _payload(documents: TokenDocuments, at: int) -> dict[str, Any]:
    """A document of tokens as operators get it: its ids, and what goes along with them."""
    payload: dict[str, Any] = {_IDS: documents.tokens(at)}
    buffer, start, length = (
        int(array[at]) for array in (documents.buffer, documents.start, documents.length)
    )
    fields = documents.aligned[buffer] if documents.aligned else None
    if fields is not None and length:
        if fields.loss_mask is not None and fields.has_mask(start):
            payload[MASK_FIELD] = fields.loss_mask[start : start + length]
        for name in fields.names(start):
            payload[name] = fields.take(name, start, length)
    return payload


def _joined(records: list[Mapping[str, Any]], place: Callable[[int], Place]) -> TokenDocuments:
    """Records of tokens as documents that lie end to end, and what is beside."""
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
    return _end_to_end(np.ascontiguousarray(np.concatenate(parts)), lengths, fields)


def _end_to_end(
    tokens: NDArray[np.integer[Any]], lengths: NDArray[np.int64], fields: AlignedFields | None
) -> TokenDocuments:
    return TokenDocuments(
        (tokens,),
        np.zeros(len(lengths), dtype=np.int32),
        np.cumsum(lengths) - lengths,
        lengths,
        (fields,) if fields else (),
    )


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
    most: int = 0,
) -> Iterator[TokenBlock]:
    """Blocks of ``size`` documents of a lane from draw ``first`` on, ``ahead`` of them at work.

    Ends where the lane does. Without an executor each block is read when it is asked for, and
    the blocks grow to ``most`` documents: the first batch waits for the first one.
    """
    metrics = reader.metrics
    if executor is None:
        while len(draws := order.draws(first, size)):
            begin = time.perf_counter()
            block = reader.read(draws)
            metrics.add("pack", PACK, waiting=time.perf_counter() - begin)
            yield block
            first += size
            size = max(size, min(2 * size, most))
        return
    pending: deque[Future[TokenBlock]] = deque()
    metrics.watch("pack", PACK, lambda: sum(one.done() for one in pending.copy()))
    while True:
        while len(pending) < ahead and len(draws := order.draws(first, size)):
            pending.append(executor.submit(reader.read, draws))
            first += size
        if not pending:
            return
        begin = time.perf_counter()
        block = pending.popleft().result()
        metrics.add("pack", PACK, waiting=time.perf_counter() - begin)
        yield block
