"""One of several processes that read objects through one cache, at random.

python read_objects.py ENDPOINT CACHE_FOLDER TURNS [LIMIT_BYTES]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from zephon.block import RecordDocuments
from zephon.io import CacheOptions, Dataset, StoreOptions


def main(endpoint: str, root: str, turns: str, limit: str = "1gb") -> None:
    cache = CacheOptions.from_any(limit).merge(
        CacheOptions(root=Path(root), download_retry=5, min_slack_bytes=0)
    )
    storage = {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "test",
        "secret_access_key": "test",
    }
    dataset = Dataset.from_path(
        "d", "s3://bucket", io_options=StoreOptions(cache=cache, storage=storage)
    )
    rng = np.random.default_rng(os.getpid())
    for _ in range(int(turns)):
        row = int(rng.integers(dataset.total()))
        documents = dataset.read(np.array([row]))
        assert isinstance(documents, RecordDocuments)
        text = documents.records[0]["text"]
        assert text == f"{row}-" * 500, text[:20]


if __name__ == "__main__":
    main(*sys.argv[1:])
