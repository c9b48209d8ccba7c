"""Megatron's samples as rows of a stream: the same order, and a position of one integer.

Megatron's sequential sampler deals micro-batches of consecutive samples to the
data-parallel ranks in turn. A run of R lanes does the same: lane-batch q is of
lane q mod R and has the samples q * m to (q + 1) * m - 1, for micro-batches of m.
So whatever the number of ranks, all lane-batches together are the dataset in its
order, and rank r of G sees what Megatron's rank r of G sees.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError, ConfigTypeError
from zephon.io.dataset import Dataset
from zephon.io.indexed import IndexedShard
from zephon.megatron.blended_dataset import BlendedDataset
from zephon.megatron.gpt_dataset import GPTDataset
from zephon.megatron.sample_segments import SampleSegments, Segments
from zephon.options import check_int
from zephon.rows import Rows
from zephon.work.base import Draws, LaneOrder, WorkSource
from zephon.work.mixture import integer_weights

_PROBES = 4096  # entries of each index that the fingerprint looks at
_CHUNK = 1 << 22  # samples counted at a time
_WINDOW = 256  # samples of a lane that are looked up at a time


class MegatronWorkSource(WorkSource):
    """A Megatron dataset or blend as the source of a pipeline.

    Its rows come ready made: a sample is a row of ``row_length`` tokens, made of
    segments of its sequences, so nothing is tokenized or packed. What a segment
    is, positions, masks and document ids follow from the sequences' lengths and
    never from the value of a token; labels are those of the dataset itself.

    Parameters
    ----------
    dataset : GPTDataset or BlendedDataset
        Its samples, in its order.
    consumed_samples : int
        Samples at the beginning to leave out: where a run of Megatron's own
        loader stood, to go on with this one at any batch size.

    Attributes
    ----------
    row_length : int
        ``sequence_length + 1``: inputs are a row without its last token, labels a
        row without its first.

    Raises
    ------
    ConfigError
        The dataset masks by token value (``eod_mask_loss``), or no sample is left.
    """

    row_length: int

    def __init__(self, dataset: GPTDataset | BlendedDataset, *, consumed_samples: int = 0) -> None:
        if not isinstance(dataset, (GPTDataset, BlendedDataset)):
            raise ConfigTypeError(
                f"dataset is a {type(dataset).__name__}, expected a GPTDataset or BlendedDataset "
                "of zephon.megatron"
            )
        check_int("consumed_samples", consumed_samples, 0, 2**62)
        if consumed_samples >= len(dataset):
            raise ConfigError(
                f"consumed_samples is {consumed_samples}, but {dataset!r} has {len(dataset)} "
                "samples: none is left"
            )
        self._members = [dataset] if isinstance(dataset, GPTDataset) else dataset.datasets
        self._blend = dataset if isinstance(dataset, BlendedDataset) else None
        for member in self._members:
            if member.config.eod_mask_loss:
                raise ConfigError(
                    f"eod_mask_loss masks by the value of tokens, which rows do not: build "
                    f"{member!r} without it"
                )
        lengths = {member.config.sequence_length for member in self._members}
        if len(lengths) > 1:
            raise ConfigError(
                f"the datasets have sequence_length {' and '.join(map(str, sorted(lengths)))}, "
                "expected one for all"
            )
        self.row_length = lengths.pop() + 1
        self.consumed_samples = consumed_samples
        self._total = len(dataset)
        self._segments = [SampleSegments(member) for member in self._members]
        self.datasets = _as_datasets(self._members)
        self.weights = integer_weights(self._shares())

    def __len__(self) -> int:
        """Samples that are left behind ``consumed_samples``."""
        return self._total - self.consumed_samples

    def lane(self, lane: int, lanes: int, run: int = 0) -> MegatronLane:
        """Lane ``lane`` of ``lanes`` for micro-batches of one sample; the same in each run."""
        return self.lane_rows(lane, lanes, 1)

    def lane_rows(
        self, lane: int, lanes: int, microbatch_size: int, *, vocab_size: int = 0
    ) -> MegatronLane:
        """The rows of lane ``lane`` of ``lanes`` for micro-batches of ``microbatch_size``.

        The order of a run depends on ``microbatch_size`` as it does in Megatron:
        it is a part of what a saved position means.
        """
        check_int("lanes", lanes, 1, 2**31 - 1)
        check_int("lane", lane, 0, lanes - 1)
        check_int("microbatch_size", microbatch_size, 1, 2**20)
        return MegatronLane(self, lane, lanes, microbatch_size, vocab_size)

    def options(self) -> dict[str, Any]:
        """What decides the order: sizes, and a digest over probes of every index."""
        return {
            "kind": "megatron",
            "samples": self._total,
            "consumed_samples": self.consumed_samples,
            "sequence_length": self.row_length - 1,
            "index": self._index_digest,
        }

    @cached_property
    def _index_digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        indices = [] if self._blend is None else _arrays(self._blend)
        for member in self._members:
            indices += [member.document_index, member.sample_index, member.shuffle_index]
        for index in indices:
            digest.update(np.int64(len(index)).tobytes())
            at = np.unique(np.linspace(0, max(0, len(index) - 1), _PROBES).astype(np.int64))
            digest.update(index[at].astype("<i8").tobytes() if len(index) else b"")
        return digest.hexdigest()

    def locate(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Dataset of each sample and its number in that, both int64 ``[n]``."""
        if self._blend is None:
            return np.zeros(len(samples), np.int64), samples
        return (
            self._blend.dataset_index[samples].astype(np.int64),
            self._blend.dataset_sample_index[samples],
        )

    def rows(self, samples: NDArray[np.int64], *, vocab_size: int = 0) -> Rows:
        """Samples of the whole dataset (int64 ``[B]``, from 0) as rows, in that order."""
        members, numbers = self.locate(samples)
        found: list[tuple[int, NDArray[np.int64], Segments]] = []
        for member in np.unique(members).tolist():
            mine = np.flatnonzero(members == member)
            found.append((member, mine, self._segments[member].find(numbers[mine])))
        sizes = [len(segments.length) for _, _, segments in found]
        sample = np.concatenate([mine[segments.sample] for _, mine, segments in found])
        order = np.argsort(sample, kind="stable")

        def joined(name: str) -> NDArray[np.int64]:
            parts = [getattr(segments, name) for _, _, segments in found]
            return np.ascontiguousarray(np.concatenate(parts)[order], np.int64)

        return Rows(
            buffers=tuple(self._segments[member].tokens for member, _, _ in found),
            buffer=np.repeat(np.arange(len(found), dtype=np.int32), sizes)[order],
            start=joined("start"),
            length=joined("length"),
            offset=joined("offset"),
            source=np.repeat([member for member, _, _ in found], sizes)[order].astype(np.int64),
            row=joined("document"),
            splits=np.searchsorted(sample[order], np.arange(len(samples) + 1)).astype(np.int64),
            row_length=self.row_length,
            vocab_size=vocab_size,
        )

    def _shares(self) -> list[int]:
        """Samples of each dataset; at least 1, since weights are not 0."""
        if self._blend is None:
            return [1]
        counts = np.zeros(len(self._members), np.int64)
        for first in range(0, self._total, _CHUNK):
            chunk = self._blend.dataset_index[first : first + _CHUNK]
            counts += np.bincount(chunk, minlength=len(counts))
        return [max(1, int(count)) for count in counts]


class MegatronLane(LaneOrder):
    """The samples of one lane; a draw is a sample.

    Made by :meth:`MegatronWorkSource.lane_rows`. Any stretch can be taken at any
    time, so the number of the next sample is all that a position needs.
    """

    def __init__(
        self,
        source: MegatronWorkSource,
        lane: int,
        lanes: int,
        microbatch_size: int,
        vocab_size: int,
    ) -> None:
        self._source = source
        self._lane = lane
        self._lanes = lanes
        self._size = microbatch_size
        self._vocab_size = vocab_size
        rounds, left = divmod(len(source), lanes * microbatch_size)
        in_last = min(max(left - lane * microbatch_size, 0), microbatch_size)
        self._length = rounds * microbatch_size + in_last
        self._window: tuple[int, Rows] | None = None  # its first sample, and its rows

    def length(self) -> int:
        """Samples of this lane, those of a last short micro-batch included."""
        return self._length

    def samples(self, first: int, count: int) -> NDArray[np.int64]:
        """Numbers in the dataset of samples ``first`` to ``first + count - 1`` of the lane.

        Fewer at the end of the lane.
        """
        own = np.arange(first, max(first, min(first + count, self._length)), dtype=np.int64)
        batch, place = np.divmod(own, self._size)
        number = batch * self._lanes + self._lane  # lane-batch of the run
        return self._source.consumed_samples + number * self._size + place

    def take(self, first: int, count: int) -> Rows:
        """Samples ``first`` to ``first + count - 1`` of the lane as rows, fewer at its end."""
        count = min(count, self._length - first)
        if first < 0 or count < 1:
            raise ConfigError(
                f"sample {first} of lane {self._lane} is past its end: it has {self._length}"
                if first >= self._length
                else f"first is {first} and count {count}, expected at least 0 and 1"
            )
        # One look-up serves many batches: it costs about as much for 8 samples as for 80.
        window = self._window
        if window is None or not window[0] <= first <= first + count <= window[0] + len(window[1]):
            samples = self.samples(first, max(count, _WINDOW))
            window = first, self._source.rows(samples, vocab_size=self._vocab_size)
            self._window = window
        return window[1].part(first - window[0], first - window[0] + count)

    def draws(self, first: int, count: int) -> Draws:
        """The document that each sample begins in, as what it draws."""
        samples = self.samples(first, count)
        empty = np.empty(0, np.int64)
        documents = empty
        if len(samples):
            rows = self._source.rows(samples)
            documents = rows.row[rows.splits[:-1]]
        sources, _ = self._source.locate(samples)
        return Draws(first, sources.astype(np.int32), documents, np.zeros(len(samples), np.int64))


def _arrays(blend: BlendedDataset) -> list[NDArray[Any]]:
    return [blend.dataset_index, blend.dataset_sample_index]


def _as_datasets(members: list[GPTDataset]) -> tuple[Dataset, ...]:
    """The files of the members, each under its path; a path that comes again is numbered."""
    made: list[Dataset] = []
    times: dict[str, int] = {}
    for member in members:
        prefix = member.dataset.path_prefix
        name = str(member.dataset_path or prefix)
        times[name] = times.get(name, 0) + 1
        label = name if times[name] == 1 else f"{name} ({times[name]})"
        made.append(Dataset(label, "bin", [IndexedShard(Path(prefix))]))
    return tuple(made)
