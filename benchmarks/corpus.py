"""The data that everything is measured on, made once and kept under build/bench/corpus.

Tokens: two sources ``a`` and ``b`` of lognormal documents, mean 800 tokens, ids
uniform below 50,000, as Megatron's ``.bin/.idx`` of 16 and of 32 bits and, with a column of
32-bit lists, as Parquet. Text: the sources and docstrings of the running Python's
standard library as ``code.jsonl`` and ``prose.jsonl``, and ``multilingual.jsonl``, random
words in six scripts, with a byte-level BPE tokenizer trained on all three.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from harness import VOCABULARY, Settings
from numpy.typing import NDArray

NAMES = ("a", "b")
SHARES = {"a": 0.7, "b": 0.3}
# First letters of Latin, Cyrillic, Greek, Arabic, Devanagari and CJK words.
SCRIPTS = ((0x61, 26), (0x430, 32), (0x3B1, 24), (0x627, 28), (0x905, 48), (0x4E00, 3000))


def lengths(documents: int, seed: int) -> NDArray[np.int64]:
    """Mean 800: the median is that over exp(1/2)."""
    drawn = np.random.default_rng(seed).lognormal(np.log(800) - 0.5, 1.0, documents)
    return np.maximum(1, drawn).astype(np.int64)


def tokens(settings: Settings) -> Path:
    """The folder with ``a.bin``, ``a.idx``, ... of 16 bits and ``int32/a.bin``, ... of 32."""
    folder = settings.work / "corpus" / f"tokens-{settings.documents}"
    if (folder / "complete").exists():
        return folder
    from zephon.megatron.builder import IndexedDatasetBuilder

    (folder / "int32").mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(NAMES):
        rng = np.random.default_rng(seed + 10)
        length = lengths(settings.documents, seed)
        narrow = IndexedDatasetBuilder(f"{folder / name}.bin", dtype=np.uint16)
        wide = IndexedDatasetBuilder(f"{folder / 'int32' / name}.bin", dtype=np.int32)
        for size in length.tolist():
            ids = rng.integers(1, VOCABULARY - 1, size, dtype=np.uint16)
            narrow.add_document(ids, [size])
            wide.add_document(ids.astype(np.int32), [size])
        narrow.finalize(f"{folder / name}.idx")
        wide.finalize(f"{folder / 'int32' / name}.idx")
        np.save(folder / f"{name}.lengths.npy", length)
    write_parquet(folder)
    (folder / "complete").touch()
    return folder


def write_parquet(folder: Path) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return
    for name in NAMES:
        ids = np.fromfile(folder / "int32" / f"{name}.bin", np.int32)
        ends = np.concatenate(([0], np.cumsum(np.load(folder / f"{name}.lengths.npy"))))
        column = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(ids)).cast(
            pa.list_(pa.int32())
        )
        target = folder / "parquet" / name
        target.mkdir(parents=True, exist_ok=True)
        table = pa.table({"input_ids": column})
        parquet.write_table(
            table, target / "part-00000.parquet", row_group_size=2000, compression="zstd"
        )


def text(settings: Settings) -> Path:
    """The folder with ``code.jsonl``, ``prose.jsonl``, ``multilingual.jsonl`` and ``tokenizer``."""
    size = settings.sized(24_000_000, 600_000)
    folder = settings.work / "corpus" / f"text-{size}"
    if (folder / "complete").exists():
        return folder
    from zephon.cli.harvest import (
        prose_documents,
        pydoc_topics,
        source_files,
        standard_library,
    )

    folder.mkdir(parents=True, exist_ok=True)
    files = source_files(standard_library())
    documents = {
        "code": [file.text for file in files],
        "prose": list(prose_documents(files, pydoc_topics())),
        "multilingual": multilingual(size // 8),
    }
    for name, texts in documents.items():
        kept: list[str] = []
        characters = 0
        for one in texts:
            # Of a length that pages have: a source file of 100 kB is no typical document.
            kept += [one[at : at + 8000] for at in range(0, len(one), 8000)]
            characters += len(one)
            if characters > size:
                break
        with (folder / f"{name}.jsonl").open("w") as file:
            for number, one in enumerate(kept):
                file.write(json.dumps({"text": one, "id": number, "url": f"file:{number}"}) + "\n")
    train(
        settings.sized(32_000, 2000),
        folder,
        [t for texts in documents.values() for t in texts[:400]],
    )
    (folder / "complete").touch()
    return folder


def multilingual(characters: int) -> list[str]:
    rng = np.random.default_rng(5)
    words = [
        "".join(chr(first + int(k)) for k in rng.integers(0, count, int(rng.integers(1, 9))))
        for first, count in SCRIPTS
        for _ in range(4000)
    ]
    made, total = [], 0
    while total < characters:
        script = int(rng.integers(len(SCRIPTS)))
        chosen = np.minimum(rng.zipf(1.2, int(rng.integers(50, 600))), 4000) - 1
        one = " ".join(words[script * 4000 + int(k)] for k in chosen)
        made.append(one)
        total += len(one)
    return made


def train(size: int, folder: Path, texts: list[str]) -> None:
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError:
        return
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    target = folder / "tokenizer"
    target.mkdir(exist_ok=True)
    made.save(str(target / "tokenizer.json"))
    special: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (target / "tokenizer_config.json").write_text(json.dumps(special))
