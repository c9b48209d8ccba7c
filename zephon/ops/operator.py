"""Operators on the documents of a lane: what they are given, and what they give.

An operator looks at a *window* of draws, one or more, that begins at a multiple of its size,
and is a function of the documents in it: nothing is carried over to the next window. So a
lane can be entered anywhere at the cost of one window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zephon._sample import LineagePath, SampleMeta, SampleRecord
from zephon.errors import DataError, OperatorError
from zephon.io.shard import Place
from zephon.ops.identity import name_of
from zephon.options import check_int
from zephon.work.order import derive_key, hash_name

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset
    from zephon.work.base import Draws

WINDOW_DRAWS = 1024
"""Draws after which an operator with a memory begins anew, if nothing else is said."""

MOST_DRAWS = 2**16
"""Draws that a window, or the windows of all operators together, may have."""

Payload = Mapping[str, Any]


@dataclass(slots=True)
class Item:
    """A document on its way through the operators.

    Attributes
    ----------
    payload : mapping
        Its fields.
    draw : int
        The draw of the lane at which it comes out; never falls from item to item.
    origin : int
        Which of the block's draws it comes from, counted from 0.
    lineage : tuple of int
        Path through the operators that made several documents of one.
    tokens : bool
        Whether it holds token ids, so that tokenizing passes it on.
    """

    payload: Payload
    draw: int
    origin: int
    lineage: LineagePath = ()
    tokens: bool = False

    def with_payload(self, payload: Payload) -> Item:
        """Another document in its place."""
        return replace(self, payload=payload)

    def child(self, index: int, payload: Payload) -> Item:
        """Document ``index`` of those made of it."""
        return replace(self, payload=payload, lineage=(*self.lineage, index))


def no_mark(origin: int, operator: int) -> None:
    """Nobody wants to know what is being worked on."""


@dataclass(slots=True)
class Context:
    """What operators may ask while they work on a block of draws.

    Attributes
    ----------
    draws : Draws
        The block.
    lane : int
        Whose draws these are.
    datasets : tuple of Dataset
        The sources that the draws name.
    seed : int
        Of the run.
    left_out : list
        Draw and origin of each document that an operator has left out.
    mark : callable
        Told before each call of a user function which document (by origin) it is about
        and which operator calls, for those who survive the process.
    """

    draws: Draws
    lane: int
    datasets: tuple[Dataset, ...]
    seed: int
    left_out: list[tuple[int, int]] = field(default_factory=list)
    mark: Callable[[int, int], None] = no_mark

    def leave_out(self, item: Item) -> None:
        """Count a document that goes no further."""
        self.left_out.append((item.draw, item.origin))

    def last_draw(self, window: int, draw: int) -> int:
        """The last draw of the window that ``draw`` lies in, or of the lane if it ends before."""
        end = self.draws.first + len(self.draws)
        return min((draw // window + 1) * window, end) - 1

    def source(self, origin: int) -> int:
        """Number of the dataset that a document comes from."""
        return int(self.draws.sources[origin])

    def place(self, origin: int) -> Place:
        """Where a document stands."""
        return self.datasets[self.source(origin)].place(int(self.draws.rows[origin]))

    def key(self, item: Item, operator: int) -> int:
        """64 bits for the call of an operator on a document, another one in each pass."""
        return derive_key(
            self.seed,
            "call",
            hash_name(self.datasets[self.source(item.origin)].name),
            int(self.draws.passes[item.origin]),
            int(self.draws.rows[item.origin]),
            operator,
            *item.lineage,
        )

    def window_key(self, operator: int, number: int) -> int:
        """64 bits for the call of an operator on window ``number`` of the lane."""
        return derive_key(self.seed, "window", self.lane, number, operator)

    def record(self, item: Item) -> SampleRecord:
        """A document with where it comes from, as functions on several documents get it."""
        source, row = self.source(item.origin), int(self.draws.rows[item.origin])
        meta = SampleMeta(
            sample_id=(source, *self.datasets[source].sample_id(row)),
            lane_id=self.lane,
            chunk_id=0,
            chunk_offset=self.draws.first + item.origin,
            component_sample_counts={source: 1},
            lineage=item.lineage,
        )
        return SampleRecord(meta, item.payload)

    def item(self, record: object, draw: int, what: str) -> Item:
        """The document that a record stands for, by the draw that its meta names.

        Raises
        ------
        TypeError
            It is no record of this block.
        """
        if not isinstance(record, SampleRecord):
            raise TypeError(f"{what} gave a {type(record).__name__}, expected a SampleRecord")
        origin = record.meta.chunk_offset - self.draws.first
        if not 0 <= origin < len(self.draws):
            raise TypeError(
                f"{what} gave a record with chunk_offset {record.meta.chunk_offset}, which names "
                "no draw that it was given: keep the meta of the record that it was made of"
            )
        payload = check_payload(record.payload, what)
        return Item(payload, draw, origin, tuple(record.meta.lineage), has_tokens(payload))


class Operator(ABC):
    """One stage between reading and packing.

    Attributes
    ----------
    call : str
        The call of the pipeline that added it.
    window : int
        Draws that it looks at together.
    sees_windows : bool
        Whether it is given one window at a time, rather than any number of documents.
    parallelism : int or None
        Threads or processes that may be in it at a time; as many as there are if None.
    touches_tokens : bool
        Whether it does anything to documents that are tokens already.
    """

    call: str
    window: int = 1
    sees_windows: bool = False
    parallelism: int | None = None
    touches_tokens: bool = True

    @property
    def is_random(self) -> bool:
        """Whether it makes something else of a document in each pass."""
        return False

    @abstractmethod
    def run(self, items: Sequence[Item], context: Context, number: int) -> list[Item]:
        """What becomes of the documents of one window, or of any number if it sees no windows.

        ``number`` is the operator's place among those of the pipeline.
        """

    @abstractmethod
    def shaping(self) -> dict[str, Any]:
        """What decides what comes out, as JSON values, for the fingerprint of a state."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user functions that it calls."""
        return ()

    def __str__(self) -> str:
        return f"{self.call}({', '.join(map(name_of, self.functions()))})"

    def guarded(
        self,
        context: Context,
        number: int,
        item: Item,
        function: Callable[..., Any],
        *arguments: Any,
        **more: Any,
    ) -> Any:
        """What a user function returns; its error is told with the document's place."""
        context.mark(item.origin, number)
        try:
            return function(*arguments, **more)
        except Exception as error:
            raise self.error(context, item, error) from error

    def error(self, context: Context, item: Item, error: Exception) -> OperatorError:
        """What went wrong, and with which document."""
        row = int(context.draws.rows[item.origin])
        name = context.datasets[context.source(item.origin)].name
        child = f" (child {'.'.join(map(str, item.lineage))})" if item.lineage else ""
        told = error.message if isinstance(error, DataError) else str(error)
        return OperatorError(
            f"{self} failed on document {row}{child} of dataset {name!r}: "
            f"{type(error).__name__}: {told}",
            operator=str(self),
            **context.place(item.origin).as_kwargs(),
        )

    def extras(
        self, asked: Sequence[str], key: Callable[[], int]
    ) -> dict[str, int | np.random.Generator]:
        """The keyword arguments that a function asks for."""
        if not asked:
            return {}
        value = key()
        made: dict[str, int | np.random.Generator] = {}
        if "key" in asked:
            made["key"] = value
        if "rng" in asked:
            made["rng"] = np.random.default_rng(value)
        return made


def check_payload(payload: object, what: str) -> Payload:
    """``payload`` if it is a mapping with named fields."""
    if not isinstance(payload, Mapping):
        raise TypeError(
            f"{what} gave a {type(payload).__name__}, expected a mapping from field name to value"
        )
    return payload


def has_tokens(payload: Payload) -> bool:
    """Whether a document holds token ids under one of the names for them."""
    from zephon.records import TOKEN_FIELDS

    return any(
        not isinstance(value, (str, bytes)) and hasattr(value, "__len__")
        for name in TOKEN_FIELDS
        if (value := payload.get(name)) is not None
    )


def check_window(call: str, name: str, value: object) -> None:
    """Raise unless it is a number of draws that a window can have."""
    check_int(f"{call}({name}=...)", value, 1, MOST_DRAWS)
