"""The stream that the demo loads, described once for both of its processes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zephon.loader import ZephonDataLoader
    from zephon.work.base import WorkSource

WEIGHTS = {"code": 0.7, "prose": 0.3}


@dataclass(frozen=True, kw_only=True)
class DemoStream:
    """Two corpora, blended, packed and batched.

    Attributes
    ----------
    folder : Path
        Where :mod:`zephon.cli.corpora` built them.
    seed : int
        Of the order of documents.
    batch_size, sequence_length : int
        ``[B, S]`` of a batch's inputs.
    """

    folder: Path
    seed: int
    batch_size: int
    sequence_length: int

    def work(self) -> WorkSource:
        """The documents and their order."""
        import zephon

        code = zephon.Dataset.from_path("code", self.folder / "code.jsonl")
        prose = zephon.Dataset.from_path("prose", self.folder / "prose")
        return zephon.StaticMixtureWorkSource(
            [code, prose],
            WEIGHTS,
            seed=self.seed,
            shuffle_block_size=256,
            exhausted_policy="repeat",
        )

    def loader(self) -> ZephonDataLoader:
        """A loader at the beginning of the stream."""
        import zephon
        from zephon.loader import ZephonDataLoader, convert_text_batch

        pipeline = (
            zephon.Pipeline(self.work())
            .tokenize(tokenizer_id=self.folder / "tokenizer", field="text")
            .pack_flat(self.sequence_length + 1, algorithm="wrap")  # unshifted length
            .batch(self.batch_size)
        )
        return ZephonDataLoader(pipeline, convert_text_batch)


def digest(batch: Mapping[str, Any]) -> str:
    """SHA-256 of a batch: the names, dtypes, shapes and bytes of all its tensors."""
    import torch

    hasher = hashlib.sha256()
    for name in sorted(batch):
        if isinstance(batch[name], torch.Tensor):
            array = batch[name].contiguous().numpy()
            hasher.update(f"{name} {array.dtype} {array.shape}\n".encode())
            hasher.update(array.reshape(-1).view("uint8"))
    return hasher.hexdigest()
