"""Run by torchrun from test_elastic.py: some steps of a loader on each rank, then its state.

Arguments: a JSON file of settings; output goes to its folder.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import torch.distributed as dist

import zephon
from zephon.loader import ZephonDataLoader, convert_text_batch
from zephon.types import SampleBatch


def datasets() -> list[zephon.Dataset]:
    rng = np.random.default_rng(7)
    made = []
    for name, count in (("a", 90), ("b", 40)):
        rows = [{"tokens": rng.integers(0, 999, n)} for n in rng.integers(0, 60, count)]
        made.append(zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(rows)}))
    return made


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(sys.argv[1]).parent
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    peers = settings.get("peers", 1)  # model-parallel ranks that share a data rank
    source = zephon.StaticMixtureWorkSource(
        datasets(), {"a": 2, "b": 1}, chunk_size=16, exhausted_policy=settings["policy"]
    )
    pipeline = zephon.Pipeline(source).pack_flat(33, algorithm=settings["algorithm"])
    if settings["shuffle"]:
        pipeline.shuffle(settings["shuffle"])
    pipeline.batch(settings["batch"]).options(
        canonical_replicas=settings["lanes"],
        dp_degree=world // peers,
        dp_group_id=rank // peers,
        world_size=world,
        global_rank=rank,
        aggregate_timeout=60,
        end=settings["end"],
    )
    numbers: list[int] = []

    def convert(batch: SampleBatch) -> zephon.types.TrainingBatch:
        numbers.append(batch.chunk_ids[0])
        return convert_text_batch(batch)

    with ZephonDataLoader(pipeline, convert) as loader:
        saved = folder / "state"
        if saved.exists():
            loader.load_state_dict({"zephon": saved.read_bytes()})
        seen = []
        for batch in islice(loader, settings["steps"]):
            digest = hashlib.sha256()
            for name in sorted(batch):
                digest.update(batch[name].numpy().tobytes())  # type: ignore[literal-required]
            seen.append((numbers[-1], digest.hexdigest()))
        state = loader.state_dict()["zephon"]
    (folder / f"state-{rank}").write_bytes(state)
    (folder / f"seen-{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
