"""torchtune: PackedDataset, which packs all documents when it is made, then a DataLoader."""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, SHARES, Documents, main

ABOUT = {
    "name": "torchtune PackedDataset",
    "package": "torchtune",
    "variants": {"packed": "packed beforehand, inside the time to the first batch"},
    "emits": "ids, labels, positions, sequence lengths",
    "blended": "once, when it packs",
    "shuffled": "rows",
    "resumable": "by the sampler",
}
DOCUMENTS = 2000


class Mixed:
    """Documents of both sources in the shares."""

    def __init__(self, corpus: Path) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        self.sources = [Documents(corpus, name) for name in "ab"]
        self.order = rng.permutation(
            [
                (which, i)
                for which, share in enumerate(SHARES)
                for i in range(round(DOCUMENTS * share))
            ]
        )

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, Any]:
        which, at = self.order[index]
        ids = self.sources[which][at].tolist()
        return {"tokens": ids, "labels": ids}


class StandIn(types.ModuleType):
    """Takes the place of torchao, of which no release fits both torchtune and this PyTorch.

    It quantizes weights; torchtune imports it, and no packing uses it.
    """

    __path__: list[str] = []  # noqa: RUF012
    __version__ = "0.18.0"

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.split(".")[0] == "torchao" else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    from torch.utils.data import DataLoader

    sys.meta_path.insert(0, Finder())
    from torchtune.datasets import PackedDataset

    packed = PackedDataset(Mixed(corpus), max_seq_len=ROW - 1, split_across_pack=True)

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        return {
            name: torch.stack([row[name] for row in rows])
            for name in ("tokens", "labels", "input_pos")
        }

    for _ in itertools.count():
        loader = DataLoader(packed, BATCH, shuffle=True, drop_last=True, collate_fn=collate)
        for batch in loader:
            yield batch["labels"].numel()


if __name__ == "__main__":
    main(build)
