"""What the gate runs of every native entry point: fixed inputs, some million instructions each.

A case is named after the entry point that it calls, ``module.function`` or
``module.Class.method``, and after a slash what is special about it. An entry point
without a case, or a reason in ``EXEMPT``, fails tests/benchmarks/test_gate.py.

Inputs are made before anything is counted: a case returns the call to be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zephon._native import (
    collate,
    cursors,
    gather,
    helpers_cpp,
    mersenne,
    order,
    packing,
    places,
    sentence_mapping,
    text,
)

Call = Callable[[], object]
CASES: dict[str, Callable[[], Call]] = {}

EXEMPT = {
    "cursors.encode_cursors": "reads attributes of Python objects; there is no kernel in it",
    "helpers_cpp.blend_kernel": "tells what was found out when the module was loaded",
    "places.TokenPlaces.read_ahead": "calls of the system, whose number depends on its page cache",
    "order.fold_key": "two multiplications; runs at set-up alone",
    "order.sequence_scratch": "arithmetic on two numbers",
    "packing.best_fit_wrap_room": "arithmetic on two numbers",
}


def case(name: str) -> Callable[[Callable[[], Call]], Callable[[], Call]]:
    def keep(make: Callable[[], Call]) -> Callable[[], Call]:
        assert name not in CASES, name
        CASES[name] = make
        return make

    return keep


def random() -> np.random.Generator:
    return np.random.default_rng(20)


def lengths(count: int, mean: int = 800) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Lognormal, as web text has them."""
    drawn = random().lognormal(np.log(mean) - 0.5, 1.0, count)
    return np.maximum(1, drawn).astype(np.int64)


# --- collate -------------------------------------------------------------------------------

ROWS, ROW = 8, 4097


def segments() -> dict[str, Any]:
    """The table of a batch of full rows out of documents that lie about in a buffer."""
    rng = random()
    taken = np.minimum(lengths(200), ROW)
    ends = np.cumsum(taken)
    borders = ROW * np.arange(ROWS + 1)
    cuts = np.unique(np.concatenate((borders, ends[ends < borders[-1]])))
    length = np.diff(cuts)
    room = np.concatenate(([0], np.cumsum(length + rng.integers(0, 500, len(length)))))
    start = room[:-1][np.argsort(rng.random(len(length)), kind="stable")]
    return {
        "seg_buffer": np.zeros(len(length), np.int32),
        "seg_start": start.astype(np.int64),
        "seg_length": length.astype(np.int64),
        "row_splits": np.searchsorted(cuts, borders).astype(np.int64),
        "tokens": int(room[-1]) + 2 * ROW,
    }


def collation(dtype: type, names: tuple[str, ...], **more: Any) -> Call:
    table = segments()
    source = random().integers(0, 50_000, table.pop("tokens"), dtype=dtype)
    out: dict[str, Any] = {
        name: np.zeros((ROWS, ROW - 1), bool if name == "padding_mask" else np.int64)
        for name in names
    }
    said = {"row_length": ROW, "shift": True, "pad_id": 0, "ignore_index": -100}

    def run() -> None:
        assert collate.collate_rows([source], **table, **said, **more, **out) is None

    return run


FULL = ("input_ids", "labels", "positions", "document_ids", "padding_mask")
for width in (np.uint16, np.int32):
    for label, names in (("full", FULL), ("ids + labels", FULL[:2])):
        case(f"collate.collate_rows/{width.__name__}, {label}")(
            lambda width=width, names=names: collation(width, names, vocab_size=50_000)
        )


@case("collate.collate_rows/uint16, masked")
def _masked() -> Call:
    tokens = segments()["tokens"]
    mask = random().integers(0, 2, tokens, dtype=np.uint8)
    return collation(np.uint16, FULL, vocab_size=50_000, loss_mask=[mask])


@case("collate.collate_rows/uint16, joined, metadata")
def _joined() -> Call:
    names = ("input_ids", "labels", "positions", "padding_mask", "row_ids", "columns")
    ends = np.zeros((ROWS, 2), np.int32)
    more = {"joined": True, "slots": 1, "cu_seqlens": ends}
    return collation(np.uint16, names, vocab_size=50_000, **more)


@case("collate.count_documents")
def _documents() -> Call:
    length = np.tile(np.array([3, 1, 4, 1, 5, 2], np.int64), 40_000)
    splits = np.arange(0, len(length) + 1, 6, dtype=np.int64)
    return lambda: collate.count_documents(length, splits, width=16, joined=False)


@case("collate.row_cu_seqlens")
def _cu_seqlens() -> Call:
    length = np.tile(np.array([3, 1, 4, 1, 5, 2], np.int64), 4000)
    splits = np.arange(0, len(length) + 1, 6, dtype=np.int64)
    out, most = np.zeros((4000, 8), np.int32), np.zeros(4000, np.int32)
    return lambda: collate.row_cu_seqlens(
        length, splits, width=16, include_padding=True, fill=-1, cu_seqlens=out, max_seqlen=most
    )


# --- gather --------------------------------------------------------------------------------


def sample_reader(width: int) -> tuple[gather.SampleGather, int]:
    """Over 1,000 documents of 16-bit tokens; and the number of its samples."""
    sizes = lengths(1000).astype(np.int32)
    starts = np.concatenate(([0], np.cumsum(sizes[:-1], dtype=np.int64)))
    tokens = random().integers(0, 50_000, int(sizes.sum()), dtype=np.uint16)
    documents = random().permutation(1000).astype(np.int32)
    index = helpers_cpp.build_sample_idx_int32(
        sizes, documents, width, 1, int(sizes.sum()), True, 1
    )
    samples = len(index) - 1
    reader = gather.SampleGather(
        tokens, starts, sizes, documents, index, np.arange(samples, dtype=np.uint32),
        sequence_length=width, add_extra_token=True, eod_id=7, mask_eod=True,
    )  # fmt: skip
    return reader, samples


@case("gather.SampleGather.gather")
def _gather() -> Call:
    width = 1024
    reader, samples = sample_reader(width)
    chosen = np.arange(min(samples, 64), dtype=np.int64)
    shape = (len(chosen), width)
    ids, labels, positions = (np.zeros(shape, np.int64) for _ in range(3))
    loss = np.zeros(shape, np.float32)
    return lambda: reader.gather(chosen, chosen, ids, labels, loss, positions)


@case("gather.SampleGather.gather_one")
def _gather_one() -> Call:
    reader, _ = sample_reader(4096)
    block = np.zeros(3 * 4096 + 2048, np.int64)
    return lambda: reader.gather_one(3, block)


# --- helpers of Megatron -------------------------------------------------------------------


def sample_index(name: str) -> Call:
    sizes = lengths(50_000).astype(np.int32)
    documents = random().permutation(50_000).astype(np.int32)
    build, total = getattr(helpers_cpp, name), int(sizes.sum())
    return lambda: build(sizes, documents, 2048, 1, total, True, 1)


for bits in (32, 64):
    case(f"helpers_cpp.build_sample_idx_int{bits}")(
        lambda bits=bits: sample_index(f"build_sample_idx_int{bits}")
    )


def blend(name: str, datasets: int, size: int, dtype: type) -> Call:
    weights = random().lognormal(0, 1, datasets)
    weights /= weights.sum()
    ids, samples = np.zeros(size, dtype), np.zeros(size, np.int64)
    build = getattr(helpers_cpp, name)
    return lambda: build(ids, samples, weights, datasets, size, False)


for datasets, size in ((2, 200_000), (16, 100_000), (512, 30_000)):
    case(f"helpers_cpp.build_blending_indices/{datasets} datasets")(
        lambda datasets=datasets, size=size: blend(
            "build_blending_indices", datasets, size, np.int16
        )
    )
case("helpers_cpp.build_blending_indices_int32")(
    lambda: blend("build_blending_indices_int32", 16, 100_000, np.int32)
)


@case("helpers_cpp.build_blending_indices_counted")
def _counted() -> Call:
    weights = np.full(16, 1 / 16)
    size = 50_000
    ids, samples = np.zeros(size, np.int16), np.zeros(size, np.int64)
    return lambda: helpers_cpp.build_blending_indices_counted(
        ids, samples, weights, 16, size, False
    )


def exhaustive(name: str, dtype: type) -> Call:
    sizes = (random().lognormal(0, 1, 16) * 3000).astype(np.int64) + 1
    total = int(sizes.sum())
    ids, samples = np.zeros(total, dtype), np.zeros(total, np.int64)
    build = getattr(helpers_cpp, name)
    return lambda: build(ids, samples, sizes, 16)


for suffix, dtype in (("", np.int16), ("_int32", np.int32)):
    case(f"helpers_cpp.build_exhaustive_blending_indices{suffix}")(
        lambda suffix=suffix, dtype=dtype: exhaustive(
            f"build_exhaustive_blending_indices{suffix}", dtype
        )
    )


def sentences() -> tuple[Any, Any, Any]:
    rng = random()
    documents = np.concatenate(([0], np.cumsum(rng.integers(1, 40, 5000)))).astype(np.int64)
    sizes = np.maximum(1, rng.lognormal(np.log(22), 0.6, documents[-1])).astype(np.int32)
    return documents, sizes, rng.integers(1, 20, 5000, dtype=np.int32)


@case("sentence_mapping.build_mapping")
def _mapping() -> Call:
    documents, sizes, _ = sentences()
    return lambda: sentence_mapping.build_mapping(documents, sizes, 1, 2**62, 512, 0.1, 7, False, 2)


@case("sentence_mapping.build_blocks_mapping")
def _blocks() -> Call:
    documents, sizes, titles = sentences()
    return lambda: sentence_mapping.build_blocks_mapping(
        documents, sizes, titles, 1, 2**62, 512, 7, False, False
    )


@case("mersenne.NumpyShuffle.shuffle/32 bits")
def _shuffle32() -> Call:
    values = np.arange(100_000, dtype=np.int32)
    return lambda: mersenne.NumpyShuffle(3).shuffle(values)


@case("mersenne.NumpyShuffle.shuffle/64 bits")
def _shuffle64() -> Call:
    values = np.arange(100_000, dtype=np.int64)
    return lambda: mersenne.NumpyShuffle(3).shuffle(values)


# --- order ---------------------------------------------------------------------------------


def permutation(name: str, size: int) -> Call:
    positions = random().integers(0, size, 20_000).astype(np.int64)
    out = np.zeros_like(positions)
    return lambda: getattr(order, name)(size, 12345, positions, out)


for name in ("permute", "permute_inverse"):
    for size in (200, 10**9):
        case(f"order.{name}/of {size}")(lambda name=name, size=size: permutation(name, size))


@case("order.locate")
def _locate() -> Call:
    count, units, per, draws = 4, 50, 1000, 20_000
    first = np.tile(np.arange(units + 1, dtype=np.int64) * per, count)
    sources = np.repeat(np.arange(count, dtype=np.int32), draws // count)
    ordinals = np.tile(np.arange(draws // count, dtype=np.int64), count)
    arrays = {
        "units": np.full(count, units, np.int64),
        "begin": np.arange(count, dtype=np.int64) * (units + 1),
        "first_row": first,
        "mode": np.full(count, 7, np.uint8),
        "unit_key": np.arange(count, dtype=np.uint64),
        "row_key": np.arange(9, 9 + count, dtype=np.uint64),
        "prefix": np.zeros(2 * len(first), np.int64),
        "held": np.full(2 * count, -1, np.int64),
        "visit": np.arange(draws, dtype=np.int64),
        "sources": sources,
        "ordinals": ordinals,
        "rows": np.zeros(draws, np.int64),
        "passes": np.zeros(draws, np.int64),
    }
    return lambda: order.locate(*arrays.values())


def chunk(count: int, length: int) -> tuple[Any, ...]:
    weights = random().integers(1, 1000, count).astype(np.int64)
    given, taken, first = (np.zeros(count, np.int64) for _ in range(3))
    return weights, int(weights.sum()), length, given, taken, first


@case("order.chunk_counts")
def _counts() -> Call:
    weights, total, length, *out = chunk(20_000, 10**6)
    return lambda: order.chunk_counts(weights, total, 3, 8, 5 * length, 6 * length, *out)


for count, length in ((2, 16384), (4096, 65536)):

    @case(f"order.chunk_sequence/{count} sources")
    def _sequence(count: int = count, length: int = length) -> Call:
        weights, total, _, given, taken, first = chunk(count, length)
        length = max(length, -(-total // int(weights.min())))
        length = min(length, 2**17)
        order.chunk_counts(weights, total, 0, 1, 0, length, given, taken, first)
        scratch = np.zeros(order.sequence_scratch(count, length), np.uint64)
        out = np.zeros(length, np.uint16)
        return lambda: order.chunk_sequence(weights, total, 0, given, taken, scratch, out)


@case("order.number_draws")
def _number() -> Call:
    sequence = random().integers(0, 64, 500_000, dtype=np.uint16)
    out = np.zeros(len(sequence), np.int64)
    return lambda: order.number_draws(sequence, np.zeros(64, np.int64), out)


@case("order.skip_draws")
def _skip() -> Call:
    sequence = random().integers(0, 64, 500_000, dtype=np.uint16)
    return lambda: order.skip_draws(sequence, np.zeros(64, np.int64))


@case("order.scale")
def _scale() -> Call:
    a = random().integers(0, 10**9, 50_000).astype(np.int64)
    d = np.full(50_000, 10**9 + 7, np.int64)
    quotient, remainder = np.zeros_like(a), np.zeros_like(a)
    return lambda: order.scale(a, 10**6 + 3, d, quotient, remainder)


# --- packing -------------------------------------------------------------------------------


def wrapping(name: str) -> Call:
    length = lengths(20_000)
    rows = int(length.sum()) // ROW + 1
    out = [np.zeros(len(length) + rows, np.int64) for _ in range(3)]
    splits = np.zeros(rows + 1, np.int64)
    said: dict[str, Any] = dict(zip(("document", "offset", "seg_length"), out, strict=True))
    if name == "pack_wrap":
        said |= {"rows": rows, "skip": 0}
    return lambda: getattr(packing, name)(length, row_length=ROW, splits=splits, **said)


for name in ("pack_wrap", "pack_best_fit_wrap"):
    case(f"packing.{name}")(lambda name=name: wrapping(name))

for label, best in (("first fit", False), ("best fit", True)):

    @case(f"packing.pack_decreasing/{label}")
    def _decreasing(best: bool = best) -> Call:
        length = np.minimum(lengths(20_000), ROW)
        document = np.zeros(len(length), np.int64)
        splits = np.zeros(len(length) + 1, np.int64)
        return lambda: packing.pack_decreasing(
            length, row_length=ROW, best_fit=best, document=document, splits=splits
        )


# --- text ----------------------------------------------------------------------------------


def lines() -> Any:
    return np.frombuffer(b"".join(b"x" * int(n) + b"\n" for n in lengths(3000)), np.uint8)


@case("text.count_lines")
def _count_lines() -> Call:
    data = lines()
    return lambda: text.count_lines(data)


@case("text.index_records")
def _index_records() -> Call:
    data, out = lines(), np.zeros((3, 3001), np.int64)
    return lambda: text.index_records(data, 0, 0, 1, True, out)


@case("text.index_lines")
def _index_lines() -> Call:
    data, out = lines(), np.zeros(3001, np.int64)
    return lambda: text.index_lines(data, 0, out)


# --- positions ------------------------------------------------------------------------------


@case("places.TokenPlaces.find")
def _find() -> Call:
    count, asked = 20_000, 10_000
    length = lengths(count)
    start = np.cumsum(length) - length
    tokens = np.zeros(int(length.sum()), np.uint16)
    found = places.TokenPlaces([[(start, length, tokens, False)] for _ in range(2)])
    rng = random()
    sources = rng.integers(0, 2, asked).astype(np.int32)
    rows = rng.integers(0, count, asked)
    out = np.empty(asked, np.int32), np.empty(asked, np.int64), np.empty(asked, np.int64)
    return lambda: found.find(sources, rows, *out)


@case("cursors.hash_tokens")
def _hash_tokens() -> Call:
    parts = [np.arange(1000, dtype=np.uint16) for _ in range(100)]
    return lambda: cursors.hash_tokens(parts)
