"""Which samples each data-parallel rank takes, in micro-batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal


class BaseMegatronSampler(ABC):
    """What the two samplers have in common.

    Parameters
    ----------
    total_samples : int
        Samples of the dataset.
    micro_batch_size : int
        Samples of a micro-batch on one rank.
    data_parallel_rank, data_parallel_size : int
        This rank, and how many there are.
    drop_last : bool
        Drop samples that do not fill a micro-batch on every rank.
    global_batch_size : int, optional
        Samples of one step on all ranks; then the length counts whole steps.
    pad_samples_to_global_batch_size : bool
        Without ``drop_last``: fill the last global batch with padding.
    consumed_samples : int
        Where to go on: samples that all ranks together have taken so far.

    Raises
    ------
    RuntimeError
        The numbers do not fit each other (the type that Megatron's samplers raise).
    """

    def __init__(
        self,
        total_samples: int,
        micro_batch_size: int,
        data_parallel_rank: int,
        data_parallel_size: int,
        drop_last: bool = True,
        global_batch_size: int | None = None,
        pad_samples_to_global_batch_size: bool = False,
        *,
        consumed_samples: int = 0,
    ) -> None:
        for name, value in (
            ("total_samples", total_samples),
            ("micro_batch_size", micro_batch_size),
            ("data_parallel_size", data_parallel_size),
        ):
            if value <= 0:
                raise RuntimeError(f"{name} must be at least 1, got {value}")
        if not 0 <= data_parallel_rank < data_parallel_size:
            raise RuntimeError(
                f"data_parallel_rank must be from 0 to data_parallel_size - 1 = "
                f"{data_parallel_size - 1}, got {data_parallel_rank}"
            )
        stride = micro_batch_size * data_parallel_size
        if global_batch_size is not None and (global_batch_size <= 0 or global_batch_size % stride):
            raise RuntimeError(
                f"global_batch_size must be a multiple of micro_batch_size * data_parallel_size = "
                f"{stride}, got {global_batch_size}"
            )
        if pad_samples_to_global_batch_size and global_batch_size is None:
            raise RuntimeError("pad_samples_to_global_batch_size needs global_batch_size")
        if consumed_samples < 0:
            raise RuntimeError(f"consumed_samples must not be negative, got {consumed_samples}")
        self.total_samples = total_samples
        self.micro_batch_size = micro_batch_size
        self.data_parallel_rank = data_parallel_rank
        self.data_parallel_size = data_parallel_size
        self.micro_batch_times_data_parallel_size = stride
        self.drop_last = drop_last
        self.global_batch_size = global_batch_size
        self.pad_samples_to_global_batch_size = pad_samples_to_global_batch_size
        self.consumed_samples = consumed_samples
        self._check()

    def _check(self) -> None:  # noqa: B027 - the random sampler has nothing to add here
        """Refuse numbers that do not fit this kind of sampler."""

    def _micro_batches(self, samples: int) -> int:
        """Micro-batches in ``samples``, in whole global batches if their size is known."""
        step = self.global_batch_size or self.micro_batch_times_data_parallel_size
        steps = samples // step if self.drop_last else -(-samples // step)
        return steps * (step // self.micro_batch_times_data_parallel_size)

    @abstractmethod
    def __iter__(self) -> Iterator[list[int]]:
        """Samples of each micro-batch of this rank."""


class MegatronPretrainingSampler(BaseMegatronSampler):
    """Samples in the order of the dataset, each micro-batch cut into one slice per rank.

    With ``pad_samples_to_global_batch_size`` the last global batch ends with the
    ids -1, -2, ...: :class:`~zephon.megatron.GPTDataset` gives those no loss.
    Without it and without ``drop_last`` the last slice of a rank may be shorter
    or empty.
    """

    def _check(self) -> None:
        if self.consumed_samples >= self.total_samples:
            raise RuntimeError(
                f"no samples left to consume: {self.consumed_samples} of {self.total_samples} are"
            )

    def __len__(self) -> int:
        """Micro-batches that are left, in whole global batches if their size is known.

        Without a global batch size a last incomplete micro-batch is counted even
        if it is dropped, as in NeMo AutoModel.
        """
        left = self.total_samples - self.consumed_samples
        if self.global_batch_size is None:
            return -(-left // self.micro_batch_times_data_parallel_size)
        return self._micro_batches(left)

    def get_start_end_idx(self) -> tuple[int, int]:
        """Where the slice of this rank begins and ends."""
        start = self.data_parallel_rank * self.micro_batch_size
        return start, start + self.micro_batch_size

    def __iter__(self) -> Iterator[list[int]]:
        stride = self.micro_batch_times_data_parallel_size
        start, end = self.get_start_end_idx()
        begin, stop = self.consumed_samples, self.total_samples
        if not self.drop_last and self.pad_samples_to_global_batch_size:
            assert self.global_batch_size is not None
            stop = begin - (begin - stop) // self.global_batch_size * self.global_batch_size
        for first in range(begin, stop, stride):
            if first + stride > stop and self.drop_last:
                return
            yield [
                at if at < self.total_samples else self.total_samples - at - 1
                for at in range(first + start, min(first + end, stop))
            ]


class MegatronPretrainingRandomSampler(BaseMegatronSampler):
    """Samples of each rank's own part of the dataset, shuffled anew each epoch.

    One iteration is what is left of one epoch; ``consumed_samples`` advances with
    it, so the next iteration is the next epoch. The order of epoch ``e`` is
    ``torch.randperm`` seeded with ``seed + e``.
    """

    def __init__(
        self,
        total_samples: int,
        micro_batch_size: int,
        data_parallel_rank: int,
        data_parallel_size: int,
        drop_last: bool = True,
        global_batch_size: int | None = None,
        pad_samples_to_global_batch_size: bool = False,
        seed: int = 0,
        *,
        consumed_samples: int = 0,
    ) -> None:
        super().__init__(
            total_samples,
            micro_batch_size,
            data_parallel_rank,
            data_parallel_size,
            drop_last,
            global_batch_size,
            pad_samples_to_global_batch_size,
            consumed_samples=consumed_samples,
        )
        stride = self.micro_batch_times_data_parallel_size
        if pad_samples_to_global_batch_size:
            raise RuntimeError(
                "the random sampler has no last batch to pad: leave "
                "pad_samples_to_global_batch_size False"
            )
        if not drop_last and stride > 1:
            raise RuntimeError(
                "the random sampler needs drop_last=True unless micro_batch_size * "
                f"data_parallel_size is 1, got {stride}"
            )
        if total_samples < stride:
            raise RuntimeError(
                f"total_samples is {total_samples}, fewer than the {stride} of one micro-batch on "
                "every rank"
            )
        if consumed_samples % stride:
            raise RuntimeError(
                f"consumed_samples must be a multiple of micro_batch_size * data_parallel_size = "
                f"{stride}, got {consumed_samples}"
            )
        self.seed = seed
        self._active = total_samples - total_samples % stride

    def __len__(self) -> int:
        """Micro-batches left in this epoch, in whole global batches if their size is known."""
        return self._micro_batches(self._active - self.consumed_samples % self._active)

    def __iter__(self) -> Iterator[list[int]]:
        import torch

        epoch, done = divmod(self.consumed_samples, self._active)
        bucket = self._active // self.data_parallel_size
        generator = torch.Generator().manual_seed(self.seed + epoch)
        order = torch.randperm(bucket, generator=generator).tolist()
        first = self.data_parallel_rank * bucket
        for at in range(done // self.data_parallel_size, bucket, self.micro_batch_size):
            self.consumed_samples += self.micro_batch_times_data_parallel_size
            yield [first + sample for sample in order[at : at + self.micro_batch_size]]


def create_megatron_sampler(
    dataset_len: int,
    micro_batch_size: int,
    global_batch_size: int,
    dataloader_type: Literal["single", "cyclic"] = "single",
    drop_last: bool = True,
    pad_samples_to_global_batch_size: bool = False,
    rank: int = 0,
    world_size: int = 1,
) -> BaseMegatronSampler:
    """A sampler by the name of its kind: ``"single"`` in order, ``"cyclic"`` random.

    As in NeMo AutoModel, the random one counts micro-batches, not global
    batches, and has seed 0.

    Raises
    ------
    ValueError
        Another kind.
    RuntimeError
        As :class:`BaseMegatronSampler`.
    """
    if dataloader_type == "single":
        return MegatronPretrainingSampler(
            dataset_len,
            micro_batch_size,
            rank,
            world_size,
            drop_last,
            global_batch_size,
            pad_samples_to_global_batch_size,
        )
    if dataloader_type == "cyclic":
        return MegatronPretrainingRandomSampler(
            dataset_len,
            micro_batch_size,
            rank,
            world_size,
            drop_last,
            pad_samples_to_global_batch_size=pad_samples_to_global_batch_size,
        )
    raise ValueError(f"dataloader_type must be 'single' or 'cyclic', got {dataloader_type!r}")
