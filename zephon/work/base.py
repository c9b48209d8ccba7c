"""What to train on and in what order: the interface of a work source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zephon.errors import LifecycleError, StateError
from zephon.options import check_int
from zephon.work.history import History
from zephon.work.lengths import SourceLengths, TokenEstimation
from zephon.work.plan import Plan

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset
    from zephon.rows import Rows


@dataclass(frozen=True, slots=True)
class Draws:
    """Consecutive draws of one lane.

    Attributes
    ----------
    first : int
        Number of the first draw in its lane.
    sources : int32 ``[n]``
        Which dataset of the work source each draw takes.
    rows : int64 ``[n]``
        Which document of that dataset, counted in file order.
    passes : int64 ``[n]``
        How often that dataset had been gone through before, 0 in its first pass.
    """

    first: int
    sources: NDArray[np.int32]
    rows: NDArray[np.int64]
    passes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


class LaneOrder(ABC):
    """The documents of one lane, as a function of the draw number.

    Any stretch can be asked for in any order at the same cost; asking again
    gives the same answer.
    """

    @abstractmethod
    def draws(self, first: int, count: int) -> Draws:
        """Draws ``first`` to ``first + count - 1`` of this lane, fewer where it ends before."""

    @abstractmethod
    def length(self) -> int | None:
        """Number of draws of this lane, None if it has no end.

        The lanes of a run differ by at most one.
        """


class LaneRows(Protocol):
    """The rows of one lane, as a function of their number."""

    def take(self, first: int, count: int) -> Rows:
        """Rows ``first`` to ``first + count - 1`` of the lane, fewer where it ends before."""
        ...

    def length(self) -> int | None:
        """Number of rows of this lane, None if it has no end."""
        ...


class WorkSource(ABC):
    """Describes which documents a run draws, without holding a position.

    Attributes
    ----------
    datasets : tuple of Dataset
        The sources, in the order that :attr:`Draws.sources` counts.
    weights : tuple of int
        Their effective integer weights; they sum to ``2**32``. While
        :attr:`requires_token_priming`, the shares of tokens that they will give.
    seed : int
        Of the order, where it has one.
    chunk_size : int or None
        Draws of a lane in which each source has its share, where there are chunks.
    token_estimation : TokenEstimation or None
        Given if the weights follow from the lengths of documents.
    history : History or None
        Former mixtures, where sources or weights were changed in the middle of a run.
    """

    datasets: tuple[Dataset, ...]
    weights: tuple[int, ...]
    row_length: int | None = None
    """Tokens of a row, if the source gives rows ready made (:meth:`lane_rows`)."""
    seed: int = 0
    chunk_size: int | None = None
    token_estimation: TokenEstimation | None = None
    history: History | None = None
    accepted: tuple[str, ...] = ()
    """Options that change nothing, and why."""

    @property
    def finds_weights(self) -> bool:
        """Whether the weights are not given but found, or kept by a saved state."""
        return self.token_estimation is not None and self.token_estimation.measures

    def component_ids(self) -> dict[str, int]:
        """Number of each dataset by its name, as sample ids have it."""
        return {dataset.name: number for number, dataset in enumerate(self.datasets)}

    @property
    def dataset_ids(self) -> dict[str, int]:
        """The same as :meth:`component_ids`."""
        return self.component_ids()

    @property
    def datasets_by_id(self) -> dict[int, Dataset]:
        """The datasets by their numbers."""
        return dict(enumerate(self.datasets))

    @property
    def total_samples(self) -> int:
        """Documents of all datasets together."""
        return sum(dataset.total() for dataset in self.datasets)

    def chunk_size_hint(self) -> int | None:
        """Draws of a lane in which each source has its share, where there are chunks."""
        return self.chunk_size

    def continues_after_exhaustion(self) -> frozenset[str]:
        """Names of the datasets that begin again at their end."""
        return frozenset()

    def supports_indexing(self) -> bool:
        """Whether :meth:`sample_id_at` can tell the documents by number."""
        return self.row_length is None and not self.requires_token_priming

    def sample_id_at(self, index: int) -> tuple[int, int, int]:
        """Dataset, shard and number in it of the document that a single lane draws at ``index``.

        Raises
        ------
        LifecycleError
            It cannot be told, see :meth:`supports_indexing`.
        IndexError
            The run ends before.
        """
        if not self.supports_indexing():
            why = "gives rows ready made" if self.row_length else "has not found its weights yet"
            raise LifecycleError(f"documents cannot be told by number: the work source {why}")
        check_int("index", index, 0, 2**62)
        draws = self.lane(0, 1).draws(index, 1)
        if not len(draws):
            raise IndexError(f"index is {index}, the run has {self.lane(0, 1).length()} draws")
        source = int(draws.sources[0])
        shard, number = self.datasets[source].sample_id(int(draws.rows[0]))
        return source, shard, number

    @property
    def requires_token_priming(self) -> bool:
        """Whether the weights still have to be found from the lengths of documents."""
        return False

    def primed(self, lengths: Sequence[SourceLengths]) -> WorkSource:
        """This work source with the weights that ``lengths`` give; itself if it needs none."""
        return self

    def resumed(self, weights: tuple[int, ...]) -> WorkSource:
        """This work source with the ``weights`` of a saved state, which are never found again.

        Itself if its weights do not depend on lengths.
        """
        return self

    def continuing(
        self, history: History, datasets: Sequence[Dataset], weights: tuple[int, ...]
    ) -> WorkSource:
        """This work source behind former mixtures.

        Parameters
        ----------
        history : History
            For ``datasets`` in their order.
        datasets : sequence of Dataset
            The sources of this one, and those that only former mixtures have.
        weights : tuple of int
            From now on; 0 for the latter.
        """
        raise StateError(
            f"{type(self).__name__} has no former mixtures: its sources and shares cannot be "
            "changed in the middle of a run. Build it as it was when the state was saved"
        )

    def plan(self, lanes: int) -> Plan | None:
        """The pieces of a run over ``lanes``, None if it has no such form."""
        return None

    def decode_factors(self, lanes: int) -> tuple[float, ...]:
        """How often each source is decoded in a pass, because ``lanes`` take turns on its units."""
        return (1.0,) * len(self.datasets)

    @abstractmethod
    def lane(self, lane: int, lanes: int, run: int = 0) -> LaneOrder:
        """The order of lane ``lane`` of ``lanes``.

        ``run`` counts how often a work source that ends was gone through before.
        """

    def lane_rows(
        self, lane: int, lanes: int, microbatch_size: int, *, vocab_size: int = 0
    ) -> LaneRows:
        """The rows of a lane, if :attr:`row_length` says that there are any.

        They may depend on ``microbatch_size``, which is then a part of the stream.
        """
        raise NotImplementedError(f"{type(self).__name__} gives documents, not rows")

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Options that shape the stream, as JSON values, for the fingerprint of a state."""
