"""Counts what a batch costs in calls and allocations on each Python path. Started by gate.py.

One thread and fixed inputs, so the counts are the same in every run. Calls are those
of native entry points, of Python functions and of PyTorch operations; each kind is
counted in a stream of its own, since counting one adds to another. Prints JSON.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import zephon
from zephon._native import _EXTENSIONS
from zephon.loader import convert_text_batch
from zephon.megatron.builder import IndexedDatasetBuilder

BATCHES, BEFORE = 100, 40
ROW, BATCH, VOCABULARY = 513, 8, 5000
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def token_sources(folder: Path) -> list[zephon.Dataset]:
    made = []
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        lengths = np.maximum(1, rng.lognormal(np.log(60), 1.0, 8000)).astype(int)
        builder = IndexedDatasetBuilder(f"{folder / name}.bin", dtype=np.uint16)
        for length in lengths.tolist():
            builder.add_document(rng.integers(1, VOCABULARY, length, dtype=np.uint16), [length])
        builder.finalize(f"{folder / name}.idx")
        made.append(zephon.Dataset.from_path(name, folder / name))
    return made


def text_sources(folder: Path) -> list[zephon.Dataset]:
    made = []
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        path = folder / f"{name}.jsonl"
        with path.open("w") as file:
            for _ in range(8000):
                words = rng.choice(WORDS, int(rng.integers(5, 120)))
                file.write(json.dumps({"text": " ".join(words)}) + "\n")
        made.append(zephon.Dataset.from_path(name, path))
    return made


def tokenizer(folder: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(("<unk>", "<s>", "</s>", *WORDS))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["<s>", "</s>"])
    path = folder / "tokenizer"
    path.mkdir()
    made.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    )
    return path


def paths(folder: Path) -> dict[str, Callable[[], zephon.Pipeline]]:
    tokens, text = token_sources(folder), text_sources(folder)
    words = tokenizer(folder)

    def work(sources: list[zephon.Dataset]) -> zephon.StaticMixtureWorkSource:
        return zephon.StaticMixtureWorkSource(
            sources, {"a": 0.7, "b": 0.3}, shuffle_block_size="auto", exhausted_policy="repeat"
        )

    def packed(algorithm: str) -> zephon.Pipeline:
        stream = zephon.Pipeline(work(tokens)).pack_flat(ROW, algorithm=algorithm).batch(BATCH)
        return stream.prefetch(0).options(vocab_size=VOCABULARY)

    def tokenized() -> zephon.Pipeline:
        stream = zephon.Pipeline(work(text)).tokenize(tokenizer_id=words, field="text")
        return stream.pack_flat(ROW, algorithm="wrap").batch(BATCH).prefetch(0)

    made: dict[str, Callable[[], zephon.Pipeline]] = {
        f"tokens, {name}": functools.partial(packed, name)
        for name in ("wrap", "first_fit", "best_fit", "best_fit_wrap")
    }
    made["text, wrap"] = tokenized
    return made


class Operations(TorchDispatchMode):
    """Counts what reaches PyTorch's dispatcher."""

    count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


native_calls = 0


def count_native() -> None:
    """Put a counting function in the place of every native one, wherever it was imported."""

    def counted(function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            global native_calls
            native_calls += 1
            return function(*args, **named)

        return call

    replaced = {}
    for name in _EXTENSIONS:
        module = sys.modules.get(f"zephon._native.{name}")
        for label, value in vars(module).items() if module else ():
            if type(value).__name__ == "cython_function_or_method" and label[0] != "_":
                replaced[id(value)] = value, counted(value)
    for name, module in list(sys.modules.items()):
        if name.startswith("zephon") and isinstance(module, ModuleType):
            for label, value in list(vars(module).items()):
                if id(value) in replaced and replaced[id(value)][0] is value:
                    setattr(module, label, replaced[id(value)][1])


def batches(stream: zephon.Pipeline) -> Iterator[None]:
    """Advance the stream by a batch at each step, the first of them uncounted."""
    iterator = iter(stream)
    for batch in islice(iterator, BEFORE):
        convert_text_batch(batch)
    gc.collect()
    yield
    for batch in islice(iterator, BATCHES):
        convert_text_batch(batch)
    yield
    stream.close()


def costs(make: Callable[[], zephon.Pipeline], made: Callable[[], int]) -> dict[str, int]:
    told: dict[str, int] = {}

    steps = batches(make())
    next(steps)
    gc.disable()
    before = made()
    next(steps)
    told["allocations"] = made() - before
    gc.enable()
    next(steps, None)

    steps = batches(make())
    next(steps)
    calls = 0

    def on_event(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(on_event)
    next(steps)
    sys.setprofile(None)
    told["Python calls"] = calls
    next(steps, None)

    steps = batches(make())
    next(steps)
    with Operations() as operations:
        next(steps)
    told["PyTorch operations"] = operations.count
    next(steps, None)
    return told


def main() -> None:
    assert (zephon.__file__ or "").startswith(sys.argv[2]), zephon.__file__
    counter = ctypes.CDLL(sys.argv[1])
    counter.allocations_made.restype = ctypes.c_long
    torch.set_num_threads(1)
    global native_calls
    with tempfile.TemporaryDirectory() as name:
        made = paths(Path(name))
        found = {label: costs(make, counter.allocations_made) for label, make in made.items()}
        count_native()
        for label, make in made.items():
            steps = batches(make())
            next(steps)
            native_calls = 0
            next(steps)
            found[label]["native calls"] = native_calls
            next(steps, None)
            if native_calls == 0:
                sys.exit(f"{label}: no native call was seen")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
