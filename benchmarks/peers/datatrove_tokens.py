"""datatrove: its reader of tokenized files, with positions, behind a DataLoader."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from common import BATCH, ROW, Documents, main

ABOUT = {
    "name": "datatrove DatatroveFileDataset",
    "package": "datatrove",
    "variants": {"file": "one file, blocks of a row in order, a DataLoader without workers"},
    "emits": "ids, positions (labels are views of the ids)",
    "blended": False,
    "shuffled": "no: it reads in order what was shuffled when it was written",
    "resumable": "by index",
}


def prepare(corpus: Path, cache: Path) -> None:
    source = Documents(corpus, "a")
    (cache / "a.ds").write_bytes(source.path.read_bytes())
    (cache / "a.ds.index").write_bytes(source.ends[1:].astype("<u8").tobytes())


def build(corpus: Path, cache: Path, variant: str) -> Iterator[int]:
    from datatrove.utils.dataset import DatatroveFileDataset
    from torch.utils.data import DataLoader

    data = DatatroveFileDataset(
        str(cache / "a.ds"), seq_len=ROW - 1, token_size=2, return_positions=True
    )
    for _ in itertools.count():
        for batch in DataLoader(data, batch_size=BATCH, drop_last=True):
            yield batch["input_ids"][:, 1:].numel()


if __name__ == "__main__":
    main(build, prepare)
