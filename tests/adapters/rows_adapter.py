"""A data loader in the shape of a trainer whose batches are rows: ``[B, S]`` fields.

Written against names that both packages called zephon have. Only data-parallel ranks count; all
of them resume from the file of the first, so its state must be that of the run.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from zephon import Dataset, Pipeline, StaticMixtureWorkSource
from zephon.work import MixtureSpec, TokenEstimation


class RowsLoader:
    """Yields dicts of tensors; built for one data-parallel rank."""

    def __init__(
        self,
        datasets: Sequence[Dataset],
        weights: Mapping[str, float],
        *,
        seq_length: int,
        micro_batch_size: int,
        algorithm: str = "wrap",
        max_sequences_per_bin: int | None = None,
        dp_rank: int = 0,
        dp_size: int = 1,
        canonical_replicas: int = 2,
        variable_length: bool = True,
        aggregate_dir: str | None = None,
        run_id: str = "run",
        seed: int = 0,
    ) -> None:
        self._names = {"input_ids": "tokens", "positions": "position_ids"}
        self._variable_length = variable_length
        work = StaticMixtureWorkSource(
            list(datasets),
            MixtureSpec(weights),
            chunk_size=16,
            seed=seed,
            shuffle_within_shard=True,
            exhausted_policy="repeat",
            token_estimation=TokenEstimation(),
        )
        bins = {} if "wrap" in algorithm else {"num_bins": 8}
        self.pipeline = (
            Pipeline(work)
            .pack_flat(
                max_length=seq_length + 1,
                algorithm=algorithm,  # type: ignore[arg-type]
                max_sequences_per_bin=max_sequences_per_bin,
                emit_positions=True,
                pad_token_id=0,
                drop_oversized=False,
                **bins,  # type: ignore[arg-type]
            )
            .batch(micro_batch_size, drop_last=True)
            .prefetch(buffer_size=32)
            .options(
                deterministic=True,
                dp_degree=dp_size,
                dp_group_id=dp_rank,
                canonical_replicas=canonical_replicas,
                mtp_mode=True,
            )
        )
        if aggregate_dir is not None:
            self.pipeline.options(aggregate_dir=aggregate_dir, run_id=run_id)
        self._batches: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        if self._batches is None:
            self._batches = iter(self.pipeline)
        return next(self._batches).to_training(  # type: ignore[no-any-return]
            return_labels=True,
            return_loss_mask=True,
            return_cu_seqlens=self._variable_length,
            rename_fields=self._names,
            exclude_fields=("ids", "texts"),
        )

    def close(self) -> None:
        """Stop the threads."""
        self.pipeline.close()
        self._batches = None

    def save(self, path: Path) -> None:
        """Write the position; called on every rank, so that all take part."""
        torch.save({"zephon": pickle.dumps(self.pipeline.checkpoint())}, path)

    def load(self, path: Path) -> None:
        """Go on from a file, that of any rank."""
        state = torch.load(path, weights_only=True)
        if not isinstance(state, dict) or not isinstance(state.get("zephon"), bytes):
            raise ValueError(f"{path.name} holds no position of the data")
        try:
            self.pipeline.restore(pickle.loads(state["zephon"]))
        except Exception as error:
            raise ValueError(f"{path.name} cannot be restored: {error}") from error
