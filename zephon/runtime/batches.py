"""Functions on whole batches, behind packing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from zephon.errors import ConfigTypeError, DataError, OperatorError
from zephon.ops.identity import asked_for, check_function, check_version, identity_of, name_of
from zephon.runtime.metrics import PACK, Metrics
from zephon.types import SampleBatch
from zephon.work.order import derive_key


@dataclass(frozen=True, kw_only=True)
class BatchFunction:
    """A function from a batch to a batch, or to None.

    Attributes
    ----------
    function : callable
        Of a SampleBatch and, if it asks for them, ``key`` and ``rng``.
    drop_none : bool
        Whether None leaves the batch out; else it is an error.
    version : str, int or None
        Stands for the function in a state, in place of its code.
    """

    function: Callable[..., Any]
    drop_none: bool = True
    version: str | int | None = None

    def __post_init__(self) -> None:
        check_function("map_batch", "transform_fn", self.function)
        if not isinstance(self.drop_none, bool):
            raise ConfigTypeError(f"drop_none is {self.drop_none!r}, expected True or False")
        check_version("map_batch", self.version)

    def __str__(self) -> str:
        return f"map_batch({name_of(self.function)})"

    def shaping(self) -> dict[str, Any]:
        """Which function, and what None means."""
        return {**identity_of(self.function, self.version), "drop_none": self.drop_none}

    def __call__(self, batch: SampleBatch, key: int) -> SampleBatch | None:
        """What the function makes of a batch."""
        asked = asked_for(self.function, 1)
        more: dict[str, Any] = {"key": key} if "key" in asked else {}
        if "rng" in asked:
            more["rng"] = np.random.default_rng(key)
        made = self.function(batch, **more)
        if made is None and self.drop_none:
            return None
        if not isinstance(made, SampleBatch):
            raise TypeError(f"the function gave a {type(made).__name__}, expected a SampleBatch")
        return made


@dataclass(frozen=True)
class BatchFunctions:
    """Functions on batches, one after the other."""

    functions: tuple[BatchFunction, ...] = ()
    seed: int = 0

    def run(self, batch: SampleBatch, number: int, metrics: Metrics) -> SampleBatch | None:
        """What they make of lane-batch ``number``; None if one of them leaves it out."""
        made: SampleBatch | None = batch
        for at, function in enumerate(self.functions):
            if made is None:
                break
            try:
                with metrics.working(str(function), PACK, 1):
                    made = function(made, derive_key(self.seed, "batch", number, at))
            except Exception as error:
                told = error.message if isinstance(error, DataError) else str(error)
                raise OperatorError(
                    f"{function} failed on lane-batch {number}, whose rows begin with documents "
                    f"{', '.join(map(str, batch.ids[:4]))} (dataset, shard, number): "
                    f"{type(error).__name__}: {told}",
                    operator=str(function),
                ) from error
        return made

    def shaping(self) -> dict[str, Any]:
        """What decides what comes out, for the fingerprint of a state."""
        return {
            f"{at} {function}": function.shaping() for at, function in enumerate(self.functions)
        }
