"""Text and columns as sources: beside the bare tokenizer, the bare parser and pyarrow.

What this version of zephon does not have yet is found out by asking for it and
stands in the report as such.
"""

from __future__ import annotations

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads are counted here, not there
os.environ["RAYON_NUM_THREADS"] = "1"

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from harness import (
    BATCH,
    ROW,
    TOKENS,
    Row,
    Settings,
    Spread,
    Table,
    absent,
    alternate,
    ratios,
    seconds,
)

import zephon
from zephon.errors import ZephonError
from zephon.loader import convert_text_batch

KINDS = ("code", "prose", "multilingual")
VERIFYING = 12
"""Batches within which the fast engine encodes all documents with the reference too."""
ABSENT = (ZephonError, TypeError, ValueError, ImportError, AttributeError)


def measure(settings: Settings) -> list[Table]:
    folder = corpus.text(settings)
    return [readers(settings, folder), text(settings, folder), columns(settings)]


def texts_of(folder: Path, kind: str) -> list[str]:
    lines = (folder / f"{kind}.jsonl").read_text().splitlines()
    return [json.loads(line)["text"] for line in lines]


def stream(
    folder: Path, kind: str, *, ahead: int = 0, threads: int | None = None, **said: Any
) -> zephon.Pipeline:
    source = zephon.Dataset.from_path(kind, folder / f"{kind}.jsonl")
    work = zephon.StaticMixtureWorkSource(
        [source], {kind: 1.0}, shuffle_block_size="auto", exhausted_policy="repeat"
    )
    made = zephon.Pipeline(work).tokenize(tokenizer_id=folder / "tokenizer", field="text", **said)
    return made.pack_flat(ROW, algorithm="wrap").batch(BATCH).prefetch(ahead, threads)


def rate(pipeline: zephon.Pipeline, limit: float, before: int = 1) -> float:
    """Tokens a second, behind ``before`` batches that do not count."""
    iterator = iter(pipeline)
    for _ in range(before):
        convert_text_batch(next(iterator))
    began, tokens = time.perf_counter(), 0
    for batch in iterator:
        convert_text_batch(batch)
        tokens += TOKENS
        if time.perf_counter() - began > limit:
            break
    found = tokens / (time.perf_counter() - began)
    pipeline.close()
    return found


def bare(folder: Path, kind: str, limit: float) -> Callable[[], float]:
    """Tokens a second of encode_batch_fast alone, on texts that are there already."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    texts = texts_of(folder, kind)
    parts = [texts[at : at + 64] for at in range(0, len(texts), 64)]

    def run() -> float:
        began, tokens, at = time.perf_counter(), 0, 0
        while time.perf_counter() - began < limit:
            encoded = tokenizer.encode_batch_fast(parts[at % len(parts)], add_special_tokens=False)
            tokens += sum(len(one.ids) for one in encoded)
            at += 1
        return tokens / (time.perf_counter() - began)

    return run


def readers(settings: Settings, folder: Path) -> Table:
    """The JSONL reader beside orjson alone."""
    import orjson

    path = folder / "code.jsonl"
    source = zephon.Dataset.from_path("code", path)
    rows = np.arange(len(source._shards[0]), dtype=np.int64)
    lines = path.read_bytes().splitlines()
    megabytes = path.stat().st_size / 1e6

    def read() -> None:
        for at in range(0, len(rows), 256):
            for record in source.read(rows[at : at + 256]).records:  # type: ignore[union-attr]
                record["text"]

    found = alternate(
        settings.turns,
        {
            "ours": lambda: seconds(read),
            "orjson": lambda: seconds(
                lambda: [None for line in lines if orjson.loads(line) is None]
            ),
            "index": lambda: seconds(lambda: zephon.Dataset.from_path("code", path)),
        },
    )
    made = [
        Row(what="JSONL reader, records by number",
            value=megabytes / Spread.of(found["ours"]).median, unit="MB/s", kind="share",
            ratio=ratios(found["orjson"], found["ours"]),
            of="orjson on the same lines"),
        Row(what="opening a JSONL file (index of lines)",
            value=megabytes / Spread.of(found["index"]).median, unit="MB/s", kind="plain"),
    ]  # fmt: skip
    for suffix, opener in ((".gz", "gzip"), (".zst", "zstandard")):
        made.append(compressed(settings, path, suffix, opener, megabytes, found["ours"]))
    return Table(
        id="jsonl", title="Reading JSONL",
        text="Lines of Python sources with three fields, at most 8,000 characters each.", rows=made,
    )  # fmt: skip


def compressed(
    settings: Settings, path: Path, suffix: str, opener: str, megabytes: float, plain: list[float]
) -> Row:
    import gzip

    what = f"JSONL reader, {suffix}"
    target = path.with_suffix(f".jsonl{suffix}")
    if not target.exists():
        if opener == "gzip":
            target.write_bytes(gzip.compress(path.read_bytes(), 6))
        else:
            try:
                import zstandard
            except ImportError:
                return absent(what, "zstandard is not installed")
            target.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    try:
        source = zephon.Dataset.from_path("code", target)
        rows = np.arange(source.total(), dtype=np.int64)
        source.read(rows[:2])
    except ABSENT:
        return absent(what)

    def read() -> None:
        for at in range(0, len(rows), 256):
            for record in source.read(rows[at : at + 256]).records:  # type: ignore[union-attr]
                record["text"]

    values = alternate(min(3, settings.turns), {"r": lambda: seconds(read)})["r"]
    return Row(
        what=what, value=megabytes / Spread.of(values).median, unit="MB/s of text",
        kind="plain",
    )  # fmt: skip


def text(settings: Settings, folder: Path) -> Table:
    rows = []
    limit = settings.seconds
    for kind in KINDS:
        measures = {
            "bare": bare(folder, kind, limit),
            "ours": lambda kind=kind: rate(stream(folder, kind), limit),
        }
        fast = True
        try:
            next(iter(stream(folder, kind, engine="fastokens")))
        except ABSENT:
            fast = False
        else:
            measures["fast"] = lambda kind=kind: rate(
                stream(folder, kind, engine="fastokens"), limit, VERIFYING
            )
        found = alternate(settings.turns, measures)
        bare_rate = Spread.of(found["bare"]).median / 1e6
        rows += [
            Row(what=f"{kind}: encode_batch_fast alone", value=bare_rate, unit="Mtok/s",
                kind="limit"),
            Row(what=f"{kind}: the stream with that tokenizer, one thread",
                value=Spread.of(found["ours"]).median / 1e6, unit="Mtok/s", kind="share",
                ratio=ratios(found["ours"], found["bare"]), of="encode_batch_fast alone"),
        ]  # fmt: skip
        if fast:
            rows.append(
                Row(what=f"{kind}: the stream with the fast engine, one thread",
                    value=Spread.of(found["fast"]).median / 1e6, unit="Mtok/s", kind="share",
                    ratio=ratios(found["fast"], found["bare"]), of="encode_batch_fast alone",
                    aim=">= 20" if kind != "multilingual" else "")
            )  # fmt: skip
        else:
            rows.append(absent(f"{kind}: the stream with the fast engine, one thread"))
    found = alternate(
        settings.turns,
        {
            str(n): lambda n=n: rate(stream(folder, "code", ahead=64, threads=n), limit)
            for n in (1, 2)
        },
    )
    rows.append(
        Row(what="code: two threads that tokenize", value=Spread.of(found["2"]).median / 1e6,
            unit="Mtok/s", kind="share", ratio=ratios(found["2"], found["1"]),
            of="the speed of one that does")
    )  # fmt: skip
    return Table(
        id="text", title="Text",
        text="A byte-level BPE trained on this text; code and docstrings of the "
        "standard library, and random words in six scripts. The bare tokenizer has its texts "
        "in memory and keeps nothing; the stream reads, parses, shuffles, packs and makes "
        "tensors.",
        rows=rows,
    )  # fmt: skip


def columns(settings: Settings) -> Table:
    """Parquet beside pyarrow, which reads the same columns on one thread."""
    title = "Parquet"
    about = (
        "A column of 32-bit lists, zstd, row groups of 2,000 documents, two files in file order. "
        "pyarrow reads one row group after the other and does nothing with it."
    )
    folder = corpus.tokens(settings) / "parquet"

    def table(*rows: Row) -> Table:
        return Table(id="parquet", title=title, text=about, rows=list(rows))

    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return table(absent("Parquet tokens", "pyarrow is not installed"))
    pa.set_cpu_count(1)
    files = {name: folder / name / "part-00000.parquet" for name in corpus.NAMES}

    def alone() -> float:
        began, tokens = time.perf_counter(), 0
        for file in files.values():
            reader = parquet.ParquetFile(file)
            for group in range(reader.num_row_groups):
                chunk = reader.read_row_group(group, columns=["input_ids"], use_threads=False)
                tokens += sum(len(part.flatten()) for part in chunk["input_ids"].chunks)
                if time.perf_counter() - began > settings.seconds:
                    return tokens / (time.perf_counter() - began)
        return tokens / (time.perf_counter() - began)

    def ours(ahead: bool) -> float:
        sources = [zephon.Dataset.from_path(name, path) for name, path in files.items()]
        work = zephon.StaticMixtureWorkSource(
            sources, corpus.SHARES, shuffle_shards=False, exhausted_policy="repeat"
        )
        made = zephon.Pipeline(work).pack_flat(ROW, algorithm="wrap").batch(BATCH)
        return rate(made if ahead else made.prefetch(0), settings.seconds)

    measures = {"alone": alone}
    try:
        ours(False)
    except ABSENT:
        pass
    else:
        measures |= {"ours": lambda: ours(False), "default": lambda: ours(True)}
    found = alternate(settings.turns, measures)
    limit = Row(
        what="pyarrow reads the column, one thread",
        value=Spread.of(found["alone"]).median / 1e6,
        unit="Mtok/s",
        kind="limit",
    )
    if "ours" not in found:
        return table(limit, absent("Parquet tokens to batches, one thread"))
    told = {
        "ours": "Parquet tokens to batches, prefetch(0): decoding too in the consumer's thread",
        "default": "Parquet tokens to batches, the default: row groups decoded ahead in a thread",
    }
    return table(
        limit,
        *(
            Row(what=what, value=Spread.of(found[name]).median / 1e6, unit="Mtok/s", kind="share",
                ratio=ratios(found[name], found["alone"]), of="pyarrow reading in one thread",
                aim=">= 0.70")
            for name, what in told.items()
        ),
    )  # fmt: skip
