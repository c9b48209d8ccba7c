"""A data loader in the shape of a trainer whose batches are flat: one axis of ``B * S`` tokens.

Written against names that both packages called zephon have. Its state is a dict with the pickled
checkpoint under one key, as such trainers hand it to a distributed checkpoint.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from zephon import Pipeline
from zephon.io import CacheOptions, Dataset, StoreOptions
from zephon.work import MixtureSpec, StaticMixtureWorkSource, TokenEstimation


class FlatLoader:
    """Yields (inputs, labels) as the trainer takes them; iteration is begun by the first step."""

    def __init__(
        self,
        sources: Mapping[str, tuple[str, float]],
        tokenizer: str,
        *,
        seq_len: int,
        local_batch_size: int,
        algorithm: str = "wrap",
        max_sequences_per_bin: int | None = None,
        num_bins: int | None = None,
        dp_degree: int = 1,
        dp_rank: int = 0,
        world_size: int = 1,
        global_rank: int = 0,
        canonical_replicas: int = 2,
        aggregate_dir: str | None = None,
        run_id: str = "run",
        infinite: bool = True,
        token_estimation: bool = True,
        seed: int = 0,
    ) -> None:
        datasets = [Dataset.from_path(name, path) for name, (path, _) in sources.items()]
        work = StaticMixtureWorkSource(
            datasets,
            MixtureSpec({name: weight for name, (_, weight) in sources.items()}),
            chunk_size=16,
            seed=seed,
            shuffle_shards=True,
            shuffle_within_shard=False,
            shuffle_block_size="auto",
            exhausted_policy="repeat" if infinite else None,
            token_estimation=TokenEstimation() if token_estimation else None,
        )
        length = seq_len + 1
        self.pipeline = (
            Pipeline(work)
            .prefetch(buffer_size=64, parallelism=2)
            .fetch_parallelism(2)
            .tokenize(
                tokenizer_id=tokenizer,
                field="text",
                add_attention_mask=False,
                max_length=length,
                split_long_samples=True,
                special_tokens="bos_eos",
                parallelism=2,
            )
            .pack_flat(
                max_length=length,
                algorithm=algorithm,  # type: ignore[arg-type]
                emit_positions=True,
                pad_token_id=1,
                num_bins=num_bins,
                max_sequences_per_bin=max_sequences_per_bin,
                parallelism=1,
            )
            .shuffle(seed=seed, buffer_size=8, parallelism=1)
            .batch(local_batch_size, drop_last=True)
            .options(
                deterministic=True,
                runner="threads",
                mtp_mode=False,
                dp_degree=dp_degree,
                dp_group_id=dp_rank,
                world_size=world_size,
                global_rank=global_rank,
                canonical_replicas=canonical_replicas,
                io_options=StoreOptions(cache=CacheOptions.from_any("50gb")),
            )
        )
        if aggregate_dir is not None:
            self.pipeline.options(aggregate_dir=aggregate_dir, run_id=run_id)
        self.pipeline.preflight_tokenizers()
        self._batches: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
        return self

    def __next__(self) -> tuple[dict[str, Any], torch.Tensor]:
        if self._batches is None:
            self._batches = iter(self.pipeline)
        made = next(self._batches).to_training(
            return_labels=True,
            dtype=torch.long,
            flatten=True,
            return_padding_mask=True,
            return_num_valid_tokens=True,
            rename_fields={"input_ids": "input"},
            exclude_fields=("ids", "texts"),
        )
        labels = made.pop("labels")
        return made, labels

    def close(self) -> None:
        """Stop the threads."""
        self.pipeline.close()
        self._batches = None

    def state_dict(self) -> dict[str, Any]:
        """The position, as opaque bytes."""
        return {"zephon": pickle.dumps(self.pipeline.checkpoint())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; nothing is read before the next step."""
        if not state.get("zephon"):
            raise ValueError("the checkpoint holds no position of the data")
        try:
            self.pipeline.restore(pickle.loads(state["zephon"]))
        except Exception as error:
            raise ValueError(f"the position of the data cannot be restored: {error}") from error
