"""All operators of a pipeline, in their order, on a block of draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._lineage import lineage_code
from zephon.block import Entries
from zephon.errors import ConfigError
from zephon.ops.mixture import EnsureMixture
from zephon.ops.operator import MOST_DRAWS, Context, Item, Operator
from zephon.work.base import WorkSource

Step = Callable[[Sequence[Item], Context], list[Item]]
Around = Callable[[int, Operator, int], AbstractContextManager[Any]]


def not_around(number: int, operator: Operator, items: int) -> AbstractContextManager[Any]:
    """Nothing is measured or bounded."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Operators before and after tokenizing.

    Attributes
    ----------
    before, after : tuple of Operator
        In the order of their calls; all are ``before`` if nothing tokenizes.
    seed : int
        Of the keys that functions are given.
    """

    before: tuple[Operator, ...] = ()
    after: tuple[Operator, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.unit > MOST_DRAWS:
            sizes = ", ".join(f"{op.call} {op.window}" for op in self.operators if op.window > 1)
            raise ConfigError(
                f"the windows of the operators ({sizes} draws) begin together only every "
                f"{self.unit:,} draws, more than {MOST_DRAWS:,}: choose sizes that divide each "
                "other, such as powers of two"
            )

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All of them."""
        return (*self.before, *self.after)

    @property
    def unit(self) -> int:
        """Draws that are worked on together: a multiple of every window."""
        return math.lcm(*(operator.window for operator in self.operators))

    @property
    def touches_tokens(self) -> bool:
        """Whether documents that are tokens already do not just pass."""
        return any(operator.touches_tokens for operator in self.operators)

    @property
    def follows_shares(self) -> bool:
        """Whether an operator orders documents by the shares of the work source."""
        return any(isinstance(one, EnsureMixture) and one.follows_shares for one in self.operators)

    @property
    def is_plain(self) -> bool:
        """Whether every pass makes the same of a document, whatever comes before it."""
        return not any(one.sees_windows or one.is_random for one in self.operators)

    def bound(self, work: WorkSource) -> Chain:
        """The same for a certain work source, whose shares and seed some operators need."""
        names = [dataset.name for dataset in work.datasets]
        by_tokens = work.token_estimation is not None
        mixture = getattr(work, "mixture", None)
        weights = (
            [float(weight) for weight in work.weights]
            if mixture is None
            else [float(mixture.weights.get(name, 0.0)) for name in names]  # 0: was taken out
        )

        def bind(operators: Sequence[Operator]) -> tuple[Operator, ...]:
            return tuple(
                operator.bound(names, weights, by_tokens)
                if isinstance(operator, EnsureMixture)
                else operator
                for operator in operators
            )

        return Chain(before=bind(self.before), after=bind(self.after), seed=work.seed)

    def shaping(self, tokenizes: bool) -> dict[str, Any]:
        """What decides what comes out, for the fingerprint of a state; operators by name."""
        found: dict[str, Any] = {}
        names = [*self.before, *(["tokenize"] if tokenizes else []), *self.after]
        for number, operator in enumerate(names):
            said = operator.shaping() if isinstance(operator, Operator) else {}
            found[f"{number} {operator}"] = said
        return found

    def run(
        self,
        items: list[Item],
        context: Context,
        tokenize: Step | None,
        around: Around = not_around,
    ) -> list[Item]:
        """What becomes of the documents of a block; what is left out is noted in ``context``."""
        for number, operator in enumerate(self.before):
            with around(number, operator, len(items)):
                items = _apply(operator, items, context, number)
        if tokenize is not None:
            items = tokenize(items, context)
        for number, operator in enumerate(self.after, len(self.before)):
            with around(number, operator, len(items)):
                items = _apply(operator, items, context, number)
        return items


def _apply(operator: Operator, items: list[Item], context: Context, number: int) -> list[Item]:
    if not items or (not operator.touches_tokens and all(item.tokens for item in items)):
        return items
    if not operator.sees_windows:
        return operator.run(items, context, number)
    return [
        item
        for _, window in groupby(items, key=lambda item: item.draw // operator.window)
        for item in operator.run(list(window), context, number)
    ]


def entries(items: Sequence[Item], context: Context) -> tuple[Entries, NDArray[np.int64]]:
    """The table of what came out and what was left out, in the order of draws.

    Returns
    -------
    entries : Entries
    which : int64 ``[m]``
        The item of each entry, -1 for what was left out.
    """
    rows = sorted(_rows(items, context), key=lambda row: (row[0], row[1] >= 0))
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)  # draw, item, origin, lineage
    draw = np.ascontiguousarray(table[:, 0])
    begins = np.flatnonzero(np.diff(draw, prepend=-1))
    counts = np.diff(begins, append=len(draw))
    final = np.zeros(len(draw), dtype=np.bool_)
    final[begins + counts - 1] = True
    return (
        Entries(
            draw=draw,
            child=np.arange(len(draw)) - np.repeat(begins, counts),
            final=final,
            origin=np.ascontiguousarray(table[:, 2]),
            lineage=np.ascontiguousarray(table[:, 3]),
            filtered=table[:, 1] < 0,
        ),
        np.ascontiguousarray(table[:, 1]),
    )


def _rows(items: Sequence[Item], context: Context) -> Iterator[tuple[int, int, int, int]]:
    for draw, origin in context.left_out:
        yield draw, -1, origin, 0
    for at, item in enumerate(items):
        yield item.draw, at, item.origin, lineage_code(item.lineage)
