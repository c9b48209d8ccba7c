"""A work source of fixed shares: datasets, a mixture, and the order they are drawn in."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zephon.errors import ConfigError, ConfigTypeError, LifecycleError
from zephon.work.base import LaneOrder, WorkSource
from zephon.work.exhaustion import Policy, per_source, resolve_exhaustion, uniform
from zephon.work.lanes import PlannedLane, check_lane
from zephon.work.mixture import (
    MAX_SOURCES,
    MixtureSpec,
    check_rarest,
    effective_chunk_size,
    integer_weights,
)
from zephon.work.order import check_seed
from zephon.work.plan import Plan
from zephon.work.source_order import BlockSize, SourceOrder, cut_units

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset

_log = logging.getLogger(__name__)

MAX_CHUNK_SIZE = 2**24


class StaticMixtureWorkSource(WorkSource):
    """Datasets drawn in fixed shares, each in an order of its own.

    Nothing can be changed after construction, and nothing here is a position:
    the order is a function of these arguments, the lane and the draw.

    Parameters
    ----------
    datasets : sequence of Dataset
        At most 65,536, with different names, none without documents.
    mixture : MixtureSpec or mapping from name to weight
        A weight for each dataset and for nothing else.
    chunk_size : int
        Draws of a lane over which shares are kept exactly; more where the
        rarest dataset would not come in each. A larger chunk takes longer runs
        of neighbouring documents from each dataset.
    seed : int
        0 to ``2**64 - 1``.
    shuffle_shards : bool
        Each pass takes the shards of a dataset in an order of its own.
    shuffle_within_shard : bool
        And the documents of each shard.
    shuffle_block_size : int, "auto", "global" or None
        Instead of shards, shuffle runs of that many documents over the whole
        pass, and the documents inside each run: 16 bytes of memory per run.
        ``"auto"`` takes as many documents as make 8 MiB of data, ``"global"``
        shuffles all documents with no locality and no memory.
    exhausted_policy : str, mapping from name to str, or None
        What happens when a dataset has been gone through. ``"repeat"``: it
        begins again. ``"redistribute"``: the others go on in their ratios, and
        each document is drawn exactly once. ``"stop"``: the run ends with it.
        None: the run ends when the dataset that takes longest has been gone
        through ``stop_after_passes`` times, and others repeat meanwhile. A
        mapping names a policy for each dataset.
    reshuffle_on_repeat : bool or mapping from name to bool
        Every pass over a dataset has another order.
    max_repeats : int, mapping from name to int or None, or None
        With ``"repeat"``: how many passes a dataset gives in all before it
        leaves, as with ``"redistribute"``.
    stop_after_passes : int or None
        With None or ``"repeat"``: the run ends when each dataset has been gone
        through this many times; 1 if the policy is None.

    Attributes
    ----------
    weights : tuple of int
        Effective weights in the order of ``datasets``; they sum to ``2**32``.

    Raises
    ------
    ConfigError
        For every argument that cannot work, naming the dataset and the value.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        mixture: MixtureSpec | Mapping[str, float],
        chunk_size: int = 16384,
        seed: int = 0,
        shuffle_shards: bool = True,
        shuffle_within_shard: bool = False,
        shuffle_block_size: BlockSize = None,
        exhausted_policy: Policy | Mapping[str, Policy] | None = None,
        reshuffle_on_repeat: bool | Mapping[str, bool] = True,
        max_repeats: int | Mapping[str, int | None] | None = None,
        stop_after_passes: int | None = None,
    ) -> None:
        self.datasets = tuple(datasets)
        names = _check_names(self.datasets)
        check_seed(seed)
        _check_chunk_size(chunk_size)
        for option, value in (
            ("shuffle_shards", shuffle_shards),
            ("shuffle_within_shard", shuffle_within_shard),
        ):
            _check_bool(option, value)
        self.mixture = mixture if isinstance(mixture, MixtureSpec) else MixtureSpec(mixture)
        self.mixture.validate_for(names)
        self.weights = integer_weights([self.mixture.weights[name] for name in names])
        check_rarest(names, self.weights)
        self.chunk_size = effective_chunk_size(chunk_size, self.weights)
        self._exhaustion = resolve_exhaustion(
            names, exhausted_policy, max_repeats, stop_after_passes
        )
        reshuffle = per_source("reshuffle_on_repeat", names, reshuffle_on_repeat)
        for name, value in zip(names, reshuffle, strict=True):
            _check_bool(f"reshuffle_on_repeat of {name!r}", value)
        units = [
            cut_units(
                dataset.name,
                dataset.counts(),
                dataset.raw_bytes(),
                shuffle_shards=shuffle_shards,
                shuffle_within_shard=shuffle_within_shard,
                shuffle_block_size=shuffle_block_size,
                reshuffle=value,
            )
            for dataset, value in zip(self.datasets, reshuffle, strict=True)
        ]
        self._order = SourceOrder(units, seed)
        blocks = [source.block_size for source in units]
        self._options = {
            "work_source": "static_mixture",
            "seed": seed,
            "chunk_size": self.chunk_size,
            "shuffle_shards": shuffle_shards,
            "shuffle_within_shard": shuffle_within_shard,
            "shuffle_block_size": uniform(names, blocks),
            "reshuffle_on_repeat": uniform(names, reshuffle),
            **self._exhaustion.options(),
        }
        self._plans: dict[int, Plan] = {}
        self._frozen = True
        if shuffle_block_size is not None and (shuffle_shards or shuffle_within_shard):
            _log.info(
                "shuffle_shards and shuffle_within_shard have no effect with shuffle_block_size=%r:"
                " blocks are shuffled over the whole pass, and documents inside them",
                shuffle_block_size,
            )

    def __setattr__(self, name: str, value: object) -> None:
        if self.__dict__.get("_frozen", False):
            raise LifecycleError(
                f"{name} cannot be changed: the order depends on it; make another work source"
            )
        super().__setattr__(name, value)

    def lane(self, lane: int, lanes: int, run: int = 0) -> LaneOrder:
        """The order of lane ``lane`` of ``lanes`` (1 to 65,536) in a run.

        A work source that ends can be gone through again: ``run`` counts how
        often it was before, and each run begins new passes over the datasets.
        """
        check_lane(lane, lanes)
        plan = self._plans.get(lanes)
        if plan is None:
            documents = [source.documents for source in self._order.sources]
            plan = self._exhaustion.plan(documents, self.weights, lanes, self.chunk_size)
            self._plans[lanes] = plan
        return PlannedLane(plan, self._order, lane, run)

    def shares(self) -> dict[str, float]:
        """Exact share of each dataset in the draws: its weight over ``2**32``."""
        total = sum(self.weights)
        return {
            dataset.name: weight / total
            for dataset, weight in zip(self.datasets, self.weights, strict=True)
        }

    def options(self) -> dict[str, Any]:
        """Options that shape the stream, as JSON values.

        ``chunk_size`` and ``shuffle_block_size`` are those in effect. An option
        that may be given by dataset is one value if it is the same for all.
        """
        return copy.deepcopy(self._options)


def _check_names(datasets: Sequence[Dataset]) -> list[str]:
    if not 1 <= len(datasets) <= MAX_SOURCES:
        raise ConfigError(f"datasets has {len(datasets)} elements, expected 1 to {MAX_SOURCES}")
    names = [dataset.name for dataset in datasets]
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"two datasets are named {name!r}; names tell them apart")
        seen.add(name)
    return names


def _check_chunk_size(chunk_size: object) -> None:
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int):
        raise ConfigTypeError(f"chunk_size must be an int, not {type(chunk_size).__name__}")
    if not 1 <= chunk_size <= MAX_CHUNK_SIZE:
        raise ConfigError(f"chunk_size is {chunk_size}, expected 1 to {MAX_CHUNK_SIZE}")


def _check_bool(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigTypeError(f"{option} is {value!r}, expected True or False")
