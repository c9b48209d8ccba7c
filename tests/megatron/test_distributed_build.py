"""Two real processes with a process group, with and without a folder in common."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RANK = """
import json, sys
import torch.distributed as dist
from zephon.errors import DataError
from zephon.megatron import *

rank, rendezvous, caches, prefixes, seed_step = int(sys.argv[1]), *map(json.loads, sys.argv[2:])
dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
config = GPTDatasetConfig(
    random_seed=7 + rank * seed_step,
    sequence_length=8,
    split="80,20,0",
    blend=(prefixes, [0.6, 0.4]),
    path_to_cache=caches[rank],
)
datasets = BlendedMegatronDatasetBuilder(GPTDataset, [300, 30, 0], lambda: True, config).build()
try:
    check_ranks_agree(datasets)
    agreed = True
except DataError as error:
    agreed = str(error)
train = datasets[0]
tokens = [item["tokens"].tolist() for item in train.__getitems__(list(range(len(train))))]
print(json.dumps([agreed, tokens]))
dist.destroy_process_group()
"""


@pytest.fixture
def prefixes(write_pair):
    random = np.random.default_rng(0)
    return [
        write_pair(name, [random.integers(1, 500, 20).tolist() for _ in range(60)])
        for name in ("a", "b")
    ]


def run_ranks(tmp_path, caches, prefixes, seed_step=0):
    rendezvous = tmp_path / "rendezvous"
    rendezvous.unlink(missing_ok=True)
    if caches[0] is not None:
        caches = [str(cache) for cache in caches]
    arguments = [json.dumps(value) for value in (str(rendezvous), caches, prefixes, seed_step)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", RANK, str(rank), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for rank in range(2)
    ]
    finished = [rank.communicate(timeout=120) for rank in ranks]
    for rank, (_, errors) in zip(ranks, finished, strict=True):
        assert rank.returncode == 0, errors
    return [json.loads(output) for output, _ in finished]


def test_ranks_that_share_a_folder_build_at_once_without_a_barrier(tmp_path, prefixes):
    cold = run_ranks(tmp_path, [tmp_path / "cache"] * 2, prefixes)
    assert [agreed for agreed, _ in cold] == [True, True]
    assert cold[0][1] == cold[1][1]
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    assert not [path for path in written if "partial" in Path(path).name]
    warm = run_ranks(tmp_path, [tmp_path / "cache"] * 2, prefixes)
    assert warm == cold
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == written


def test_nodes_that_share_nothing_build_the_same(tmp_path, prefixes):
    apart = run_ranks(tmp_path, [tmp_path / "node0", tmp_path / "node1"], prefixes)
    assert [agreed for agreed, _ in apart] == [True, True]
    assert apart[0][1] == apart[1][1]
    names = [{path.name for path in (tmp_path / f"node{n}").iterdir()} for n in range(2)]
    assert names[0] == names[1]


def test_ranks_that_differ_are_named_on_every_rank(tmp_path, prefixes):
    differing = run_ranks(tmp_path, [None, None], prefixes, seed_step=1)
    for agreed, _ in differing:
        assert "dataset 0 of ranks [1] is not that of rank 0" in agreed
