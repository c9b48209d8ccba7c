"""A work source of fixed shares: datasets, a mixture, and the order they are drawn in."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.work.base import LaneOrder, WorkSource
from zephon.work.exhaustion import Policy, per_source, resolve_exhaustion, uniform
from zephon.work.history import History
from zephon.work.lanes import PlannedLane, check_lane
from zephon.work.lengths import SourceLengths, TokenEstimation
from zephon.work.mixture import (
    DEFAULT_CHUNK_SIZE,
    MAX_CHUNK_SIZE,
    MAX_SOURCES,
    WEIGHT_TOTAL,
    MixtureSpec,
    auto_chunk_size,
    check_rarest,
    effective_chunk_size,
    integer_weights,
    token_weights,
)
from zephon.work.order import check_seed
from zephon.work.plan import Plan
from zephon.work.source_order import BlockSize, SourceOrder, SourceUnits, cut_units, decode_factor

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset

_log = logging.getLogger(__name__)


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
    chunk_size : int or "auto"
        Draws of a lane over which shares are kept exactly; more where the
        rarest dataset would not come in each. A larger chunk takes longer runs
        of neighbouring documents from each dataset; ``"auto"`` takes as large a
        one as lets lanes share what is decoded together (16,384 to ``2**24``).
    seed : int
        0 to ``2**64 - 1``.
    shuffle_shards : bool
        Each pass takes the shards of a dataset in an order of its own.
    shuffle_within_shard : bool
        And the documents of each shard.
    shuffle_block_size : int, "auto", "global" or None
        Instead of shards, shuffle runs of that many documents over the whole
        pass, and the documents inside each run: 16 bytes of memory per run.
        ``"auto"`` takes as many documents as make 8 MiB of data, and whole row
        groups and record batches where data comes in such; ``"global"``
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
    lane_assignment : {"permute", "modulo"}
        Accepted for its callers' sake: every lane has chunks of its own, and none
        is dealt out.
    token_estimation : TokenEstimation or None
        If given, the weights of the mixture are shares of *tokens*: those of
        documents follow from the mean lengths of documents, which the pipeline
        finds before its first batch (:attr:`requires_token_priming`), unless its
        ``primer`` gives them. A saved state keeps weights that were found, and
        resuming never finds them again.

    Attributes
    ----------
    weights : tuple of int
        Effective weights in the order of ``datasets``; they sum to ``2**32``.
        While :attr:`requires_token_priming`, the shares of tokens instead.
    chunk_size : int
        Draws of a chunk in effect.

    Raises
    ------
    ConfigError
        For every argument that cannot work, naming the dataset and the value.
    """

    chunk_size: int

    def __init__(
        self,
        datasets: Sequence[Dataset],
        mixture: MixtureSpec | Mapping[str, float],
        chunk_size: int | Literal["auto"] = DEFAULT_CHUNK_SIZE,
        seed: int = 0,
        shuffle_shards: bool = True,
        shuffle_within_shard: bool = False,
        shuffle_block_size: BlockSize = None,
        exhausted_policy: Policy | Mapping[str, Policy] | None = None,
        reshuffle_on_repeat: bool | Mapping[str, bool] = True,
        max_repeats: int | Mapping[str, int | None] | None = None,
        stop_after_passes: int | None = None,
        lane_assignment: Literal["modulo", "permute"] = "permute",
        token_estimation: TokenEstimation | None = None,
    ) -> None:
        self.datasets = _check_datasets(datasets)
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
        if not (token_estimation is None or isinstance(token_estimation, TokenEstimation)):
            raise ConfigTypeError(
                f"token_estimation is {token_estimation!r}, expected a TokenEstimation or None"
            )
        self.token_estimation = token_estimation
        self.seed = seed
        if lane_assignment not in ("permute", "modulo"):
            raise ConfigError(
                f"lane_assignment is {lane_assignment!r}, expected 'permute' or 'modulo'"
            )
        given = None
        if token_estimation is not None and not token_estimation.measures:
            given = token_estimation.given_means(names)
        self.weights = integer_weights(
            [
                self.mixture.weights[name] / (1.0 if given is None else given[at])
                for at, name in enumerate(names)
            ]
        )
        check_rarest(names, self.weights)
        self._asked_chunk_size = chunk_size
        self._primed = not self.finds_weights
        self.accepted = _accepted(lane_assignment, token_estimation)
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
                decoded=dataset.units(),
            )
            for dataset, value in zip(self.datasets, reshuffle, strict=True)
        ]
        self._order = SourceOrder(units, seed)
        self.chunk_size = self._chunk_size(self.weights)
        blocks = [source.block_size for source in units]
        self._options = {
            "work_source": "static_mixture",
            "seed": seed,
            # With measured weights the size in effect follows from them, and they are in a
            # state beside the options.
            "chunk_size": chunk_size if self.finds_weights else self.chunk_size,
            "shuffle_shards": shuffle_shards,
            "shuffle_within_shard": shuffle_within_shard,
            "shuffle_block_size": uniform(names, blocks),
            "reshuffle_on_repeat": uniform(names, reshuffle),
            **self._exhaustion.options(),
            **({"token_shares": _shares_option(self.weights)} if self.finds_weights else {}),
        }
        in_file_order = [
            source.name
            for source in units
            if shuffle_shards
            and not source.shuffle_rows
            and len(source.first_row) == 2
            and source.documents > 1
        ]
        if in_file_order:
            _log.warning(
                "documents of dataset %r come in file order in every pass, whatever the seed: it "
                "has one shard, and only shards are shuffled. shuffle_within_shard=True or "
                "shuffle_block_size='auto' shuffles documents; shuffle_shards=False says that the "
                "order is meant",
                in_file_order[0],
            )
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
        return PlannedLane(self.plan(lanes), self._order, lane, run)

    def plan(self, lanes: int) -> Plan:
        """The pieces of a run over ``lanes``."""
        if self.requires_token_priming:
            raise LifecycleError(
                "the weights of this work source are shares of tokens, and the lengths of its "
                "documents are not known yet: a pipeline finds them before its first batch, "
                "its attribute ws is the work source that knows"
            )
        plan = self._plans.get(lanes)
        if plan is None and self.history is not None:
            plan = self.history.plan(self.weights, lanes, self.chunk_size)
            self._plans[lanes] = plan
        if plan is None:
            documents = [source.documents for source in self._order.sources]
            plan = self._exhaustion.plan(documents, self.weights, lanes, self.chunk_size)
            self._plans[lanes] = plan
        return plan

    @property
    def requires_token_priming(self) -> bool:
        """Whether the weights still have to be found from the lengths of documents.

        A pipeline does so before its first batch; its attribute ``ws`` is then a
        work source that needs it no more. This one stays as it is.
        """
        return not self._primed

    def primed(self, lengths: Sequence[SourceLengths]) -> StaticMixtureWorkSource:
        """This work source with weights that give its shares in tokens of ``lengths``."""
        if self._primed:
            return self
        names = [dataset.name for dataset in self.datasets]
        shares = self.mixture.normalized_for(names)
        weights = token_weights([shares[name] for name in names], lengths)
        check_rarest(names, weights)
        for one, weight in zip(lengths, weights, strict=True):
            _log.info(
                "dataset %r: %.1f tokens per document (%s), so a share of %.4f of tokens is %.4f "
                "of documents",
                one.name,
                one.mean,
                "exact" if one.exact else f"+- {one.relative_error:.1%}, {len(one.lengths)} read",
                shares[one.name],
                weight / WEIGHT_TOTAL,
            )
        return self._weighted(weights)

    def resumed(self, weights: tuple[int, ...]) -> StaticMixtureWorkSource:
        """This work source with the weights of a saved state, if it would have to find its own."""
        if not self.finds_weights:
            return self
        if len(weights) != len(self.datasets) or sum(weights) != WEIGHT_TOTAL or min(weights) < 1:
            raise StateError(f"the state's weights {weights} are not those of a mixture")
        return self._weighted(weights)

    def _weighted(self, weights: tuple[int, ...], **more: Any) -> StaticMixtureWorkSource:
        made = copy.copy(self)
        made.__dict__.update(weights=weights, _primed=True, _plans={}, **more)
        made.__dict__["chunk_size"] = made._chunk_size(weights)
        return made

    def continuing(
        self, history: History, datasets: Sequence[Dataset], weights: tuple[int, ...]
    ) -> StaticMixtureWorkSource:
        """This work source behind former mixtures, which only one without an end has."""
        if not self._exhaustion.endless:
            raise StateError(
                "the sources or shares of a run that ends cannot be changed in the middle of a "
                "pass: finish the pass with them as they were and change them behind it, or use "
                'exhausted_policy="repeat" from the beginning'
            )
        units = {source.name: source for source in self._order.sources}
        for dataset in datasets:
            units.setdefault(dataset.name, _unit_of_gone(dataset))
        order = SourceOrder([units[dataset.name] for dataset in datasets], self.seed)
        return self._weighted(weights, history=history, datasets=tuple(datasets), _order=order)

    def shares(self) -> dict[str, float]:
        """Exact share of each dataset in the draws: its weight over ``2**32``."""
        total = sum(self.weights)
        return {
            dataset.name: weight / total
            for dataset, weight in zip(self.datasets, self.weights, strict=True)
        }

    def decode_factors(self, lanes: int) -> tuple[float, ...]:
        """How often each dataset is decoded in a pass, because ``lanes`` take turns on its units.

        A unit is what its format decodes together, or what is shuffled together
        if that is more; 1 where every document is read for itself.
        """
        return tuple(
            decode_factor(self._unit(source), self.chunk_size * weight / WEIGHT_TOTAL)
            if lanes > 1 and weight
            else 1.0
            for source, weight in enumerate(self.weights)
        )

    def _chunk_size(self, weights: Sequence[int]) -> int:
        """Draws of a chunk in effect with these weights."""
        asked = self._asked_chunk_size
        if asked == "auto":
            asked = auto_chunk_size([self._unit(i) for i in range(len(weights))], weights)
        assert isinstance(asked, int)
        return effective_chunk_size(asked, weights)

    def _unit(self, source: int) -> float:
        decoded = self.datasets[source].unit_documents()
        units = self._order.sources[source]
        if decoded == 1 or not units.shuffle_rows:
            return decoded
        return max(decoded, units.documents / (len(units.first_row) - 1))

    def continues_after_exhaustion(self) -> frozenset[str]:
        """Names of the datasets that begin again at their end."""
        policies = zip(self._exhaustion.names, self._exhaustion.policies, strict=True)
        return frozenset(name for name, policy in policies if policy == "repeat")

    def options(self) -> dict[str, Any]:
        """Options that shape the stream, as JSON values.

        ``chunk_size`` and ``shuffle_block_size`` are those in effect. An option
        that may be given by dataset is one value if it is the same for all.
        """
        return copy.deepcopy(self._options)


def _accepted(lane_assignment: str, estimation: TokenEstimation | None) -> tuple[str, ...]:
    """What is to be said of options that change nothing."""
    found = []
    if lane_assignment != "permute":
        found.append(f"lane_assignment={lane_assignment!r}: every lane has chunks of its own")
    fallback = None if estimation is None else estimation.fallback_tokens_per_byte
    if fallback not in (None, TokenEstimation().fallback_tokens_per_byte):
        found.append(
            f"fallback_tokens_per_byte={fallback}: documents that cannot be counted are an error"
        )
    return tuple(found)


def _shares_option(weights: Sequence[int]) -> list[int] | str:
    """Shares of tokens, which a state is compared by; their digest if they are many."""
    if len(weights) <= 64:
        return list(weights)
    packed = b"".join(weight.to_bytes(8, "little") for weight in weights)
    return hashlib.blake2b(packed, digest_size=8).hexdigest()


def _unit_of_gone(dataset: Dataset) -> SourceUnits:
    """Any order will do for documents that are not there."""
    return SourceUnits(
        name=dataset.name,
        first_row=np.array([0, dataset.total()], dtype=np.int64),
        shuffle_units=False,
        shuffle_rows=False,
    )


def _check_datasets(datasets: Iterable[Dataset]) -> tuple[Dataset, ...]:
    # By what is needed of them: others may be datasets as well.
    if hasattr(datasets, "total") or not isinstance(datasets, Iterable):
        raise ConfigTypeError(
            f"datasets is a {type(datasets).__name__}, expected a list of Dataset: [web, books]"
        )
    found = tuple(datasets)
    for number, dataset in enumerate(found):
        if not (hasattr(dataset, "name") and hasattr(dataset, "total")):
            raise ConfigTypeError(
                f"datasets[{number}] is a {type(dataset).__name__}, expected a Dataset, as "
                "Dataset.from_path makes it"
            )
    return found


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
    if chunk_size == "auto":
        return
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int):
        raise ConfigTypeError(f"chunk_size must be an int, not {type(chunk_size).__name__}")
    if not 1 <= chunk_size <= MAX_CHUNK_SIZE:
        raise ConfigError(f"chunk_size is {chunk_size}, expected 1 to {MAX_CHUNK_SIZE}")


def _check_bool(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigTypeError(f"{option} is {value!r}, expected True or False")
