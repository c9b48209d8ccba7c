"""Reading JSONL beside what its parts take alone: the JSON parser, the decompressors, memchr.

Records of a text (50 to 900 words, cut at 4,000 characters), a URL and four small fields, plain,
as one gzip member, as one zstandard frame, and as frames of 4 MiB. One thread; MB of text
for each second of processor time, so that a busy machine matters little. Records are read
256 at a time as a pipeline does, in file order and in a random order of blocks of 16 MiB.

    python benchmarks/jsonl.py [--megabytes 64] [--turns 5] [--json FILE]
        [--write docs/performance.md]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import orjson
import zstandard

from zephon._native import text
from zephon.io.jsonl import JsonlShard
from zephon.io.unit_cache import UNITS

sys.path.insert(0, str(Path(__file__).parent))  # not there with python -P
from report import machine, write_section

BEGIN, END = "<!-- jsonl: written by the benchmark -->", "<!-- jsonl: end -->"
BLOCK = 256  # records that a pipeline asks for at once
SHUFFLED = 16 << 20  # text of the blocks whose order is random
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def corpus(size: int) -> list[bytes]:
    rng = random.Random(0)
    words = [
        "".join(rng.choices(LETTERS, range(26, 0, -1), k=rng.randint(2, 9))) for _ in range(20_000)
    ]
    words += ["the", "of", "and", "\n", '"', "é", "—", "世界"] * 500
    lines: list[bytes] = []
    left = size
    while left > 0:
        record = {
            "id": f"{len(lines):012d}",
            "url": f"https://example.org/{len(lines)}",
            "text": " ".join(rng.choices(words, k=rng.randint(50, 900)))[:4000],
            "lang": "en",
            "score": rng.random(),
            "meta": {"n": [1, 2, 3], "source": None},
        }
        lines.append(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        left -= len(lines[-1])
    return lines


def write(folder: Path, lines: list[bytes]) -> dict[str, Path]:
    whole = b"".join(lines)
    per_frame = max(1, len(lines) * (4 << 20) // len(whole))
    frames = [b"".join(lines[i : i + per_frame]) for i in range(0, len(lines), per_frame)]
    contents = {
        "plain": whole,
        "gzip": gzip.compress(whole, 6),
        "zstd": zstandard.compress(whole, 3),
        "zstd frames": b"".join(zstandard.compress(frame, 3) for frame in frames),
    }
    paths = {}
    for name, content in contents.items():
        paths[name] = folder / name
        paths[name].write_bytes(content)
    return paths


def read(shard: JsonlShard, order: np.ndarray) -> None:
    for begin in range(0, len(order), BLOCK):
        shard.read(order[begin : begin + BLOCK])


def shuffled(shard: JsonlShard) -> np.ndarray:
    size = max(1, len(shard) * SHUFFLED // shard.nbytes)
    rng = np.random.default_rng(0)
    blocks = [np.arange(i, min(i + size, len(shard))) for i in range(0, len(shard), size)]
    return np.concatenate([rng.permutation(blocks[i]) for i in rng.permutation(len(blocks))])


def tasks(folder: Path, megabytes: int) -> tuple[int, dict[str, Callable[[], object]]]:
    lines = corpus(megabytes << 20)
    whole = b"".join(lines)
    bare = [line[:-1] for line in lines]
    paths = write(folder, lines)
    data = np.frombuffer(whole, dtype=np.uint8)
    room = np.empty((3, len(lines)), dtype=np.int64)
    packed = {name: path.read_bytes() for name, path in paths.items()}
    made: dict[str, Callable[[], object]] = {
        "index alone (memchr)": lambda: text.index_records(data, 0, 0, 1, True, room),
        "json.loads alone": lambda: [json.loads(line) for line in bare],
        "orjson alone": lambda: [orjson.loads(line) for line in bare],
        "zlib alone": lambda: zlib.decompress(packed["gzip"], 31),
        "zstandard alone": lambda: zstandard.decompress(packed["zstd"]),
    }
    try:
        from zlib_ng import zlib_ng

        made["zlib-ng alone"] = lambda: zlib_ng.decompress(packed["gzip"], 31)
    except ImportError:
        pass
    for name, path in paths.items():
        shard = JsonlShard(path)
        in_order, at_random = np.arange(len(shard)), shuffled(shard)

        def forget(shard: JsonlShard = shard, order: np.ndarray = in_order) -> None:
            UNITS.start_anew()
            read(shard, order)

        made[f"open {name}"] = lambda path=path: JsonlShard(path)  # type: ignore[misc]
        made[f"read {name}"] = forget
        made[f"read {name}, blocks shuffled"] = lambda f=forget, o=at_random: f(order=o)  # type: ignore[misc]
    return len(whole), made


def measure(megabytes: int, turns: int) -> dict[str, float]:
    """MB of text for each second of processor time, medians."""
    with tempfile.TemporaryDirectory() as folder:
        size, made = tasks(Path(folder), megabytes)
        seconds: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(turns):
            for name, task in made.items():
                begin = time.process_time()
                task()
                seconds[name].append(time.process_time() - begin)
    return {name: size / 1e6 / median(found) for name, found in seconds.items()}


def table(found: dict[str, float]) -> str:
    limit = found["orjson alone"]
    lines = ["| step | MB/s | of orjson alone |", "|---|---|---|"]
    lines += [f"| {name} | {speed:,.0f} | {speed / limit:.2f} |" for name, speed in found.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    given = parser.parse_args()
    found = measure(given.megabytes, given.turns)
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps({"megabytes_per_second": found}, indent=2) + "\n")
    if given.write:
        command = f"python benchmarks/jsonl.py --megabytes {given.megabytes} --turns {given.turns}"
        peers = f", orjson {orjson.__version__}, zstandard {zstandard.__version__}"
        about = machine(peers, given.turns, command)
        title = "## Reading JSONL\n\nMB of text for each second of processor time, one thread.\n"
        write_section(given.write, f"{title}\n{table(found)}\n\n{about}", BEGIN, END)


if __name__ == "__main__":
    main()
