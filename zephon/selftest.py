"""Whether this installation computes what it must: ``python -m zephon.selftest``.

Runs index helpers, streams and a save and resume on built-in data and compares
SHA-256 digests of the results with those kept here, which hold for every
platform. Needs NumPy alone, writes nothing and takes about a second; where torch
can be imported, tensors are compared with the arrays too.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from zephon.ops.pack_options import PackingAlgorithm
    from zephon.pipeline import Pipeline
    from zephon.types import SampleBatch

__all__ = ["CHECKS", "GOLDEN", "Result", "main", "run"]

GOLDEN: Mapping[str, str] = {
    "sample index": "2185599b603dc5a7af0f2d3ca9f1135b",
    "blend": "faf73e11fe483477b1dd156bee3c1191",
    "exhaustive blend": "fb41d3b0acb7d268ee3dbaeb612f4c2d",
    "sentence mapping": "98d565478b2a87f54f188fb5b1756138",
    "block mapping": "01703d582e88f2ae71aed3a7589201d6",
    "stream wrap": "2a27e6765024592ea3483c251b979096",
    "stream first_fit": "8f94e95baaea2e99fc74beedf4c10902",
    "stream best_fit": "8f94e95baaea2e99fc74beedf4c10902",
    "stream best_fit_wrap": "9b245f0311870b2b4ad2acf9ef9775fd",
    "save and resume": "d6765c33424e5fa787521363a26dfc33",
    "refused states": "0b66add0032b014183a8e65559d6fbf3",
    "tensors": "a02c3e8445e6c81062568921d50b0589",
}
"""What each check must give: the beginning of a SHA-256 in hexadecimal."""

_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Result:
    """What one check gave.

    Attributes
    ----------
    name : str
        A key of :data:`CHECKS`.
    digest : str
        Of everything it computed; empty if it raised.
    error : str
        Why it failed; empty if it passed.
    seconds : float
        How long it took.
    """

    name: str
    digest: str
    error: str
    seconds: float


def run(names: Sequence[str] | None = None) -> list[Result]:
    """Run all checks, or those named, each whatever becomes of the others.

    Raises
    ------
    KeyError
        A name is none of :data:`CHECKS`.
    """
    results = []
    for name in CHECKS if names is None else names:
        check = CHECKS[name]
        began, found, error = time.perf_counter(), "", ""
        try:
            found = _digest(check())
        except Exception as reason:  # a broken installation may raise anything
            error = f"{type(reason).__name__}: {reason}"
        if not error and name in GOLDEN and found != GOLDEN[name]:
            error = f"gave {found}, expected {GOLDEN[name]}"
        results.append(Result(name, found, error, time.perf_counter() - began))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Run all checks, say what they gave and return the exit code: 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m zephon.selftest", description=_first_line())
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    results = run()
    failed = [one for one in results if one.error]
    # Without what depends on torch being there, so that any two installations can be compared.
    common = "".join(one.digest for one in results if one.name != "tensors")
    together = hashlib.sha256(common.encode()).hexdigest()
    if options.json:
        checks = {one.name: {"digest": one.digest, "error": one.error} for one in results}
        print(json.dumps({"passed": not failed, "digest": together, "checks": checks}, indent=2))
        return int(bool(failed))
    for one in results:
        print(f"{'FAILED' if one.error else 'ok':7}{one.name:22}{one.error or one.digest}")
    if failed:
        print(
            f"{len(failed)} of {len(results)} checks failed: do not train with this installation. "
            "`zephon doctor` shows what it is made of; please report both."
        )
    else:
        print(f"all {len(results)} checks passed: {together}")
    return int(bool(failed))


def _first_line() -> str:
    return (__doc__ or "").partition("\n")[0]


def _digest(values: Iterator[NDArray[Any]]) -> str:
    """Of types, shapes and little-endian bytes."""
    digest = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:_DIGITS]


def _lengths(count: int, most: int, *, salt: int = 1) -> NDArray[np.int32]:
    """Numbers from 1 to ``most`` that look random and are the same everywhere."""
    steps = np.arange(1, count + 1, dtype=np.uint64)
    mixed = steps * np.uint64(0x9E3779B97F4A7C15 + 2 * salt)
    return (1 + (mixed >> np.uint64(40)) % np.uint64(most)).astype(np.int32)


def _sample_index() -> Iterator[NDArray[Any]]:
    from zephon.megatron import helpers

    sizes = _lengths(500, 300)
    order = np.concatenate([np.arange(500), np.arange(500)[::-1]]).astype(np.int32)
    tokens = int(sizes.sum())
    for drop in (True, False):
        yield helpers.build_sample_idx(sizes, order, 128, 2, tokens, drop, True)
        yield helpers.build_sample_idx_int64(sizes, order, 33, 2, tokens, drop, False)


def _blend() -> Iterator[NDArray[Any]]:
    from zephon.megatron import helpers

    # Thirds and tenths round: a multiply and add in one rounding would draw otherwise.
    for count in (2, 3, 7, 40, 300):
        shares = _lengths(count, 1000).astype(np.float64)
        weights = shares / shares.sum()
        size = 20_000
        dataset, sample = np.empty(size, np.int16), np.empty(size, np.int64)
        helpers.build_blending_indices(dataset, sample, weights, count, size, False)
        yield dataset
        yield sample


def _exhaustive_blend() -> Iterator[NDArray[Any]]:
    from zephon.megatron import helpers

    for count in (2, 3, 30):
        sizes = _lengths(count, 700).astype(np.int64)
        total = int(sizes.sum())
        dataset, sample = np.empty(total, np.int16), np.empty(total, np.int64)
        helpers.build_exhaustive_blending_indices(dataset, sample, sizes, count)
        yield dataset
        yield sample


def _sentences() -> tuple[NDArray[Any], NDArray[Any]]:
    """Bounds of documents in sentences, and the tokens of each sentence."""
    docs = np.concatenate([[0], np.cumsum(_lengths(120, 12))]).astype(np.int64)
    return docs, _lengths(int(docs[-1]), 60, salt=2)


def _sentence_mapping() -> Iterator[NDArray[Any]]:
    from zephon.megatron import helpers

    docs, sizes = _sentences()
    yield helpers.build_mapping(docs, sizes, 3, 10_000, 128, 0.1, 1234, False, 2)


def _block_mapping() -> Iterator[NDArray[Any]]:
    from zephon.megatron import helpers

    docs, sizes = _sentences()
    titles = _lengths(len(docs) - 1, 9, salt=3)
    yield helpers.build_blocks_mapping(docs, sizes, titles, 2, 10_000, 128, 1234, False, False)


def _pipeline(algorithm: PackingAlgorithm, *, seed: int = 7, ahead: int = 0) -> Pipeline:
    """Two sources of tokens in shares 7 to 3, four lanes, shuffled documents and rows."""
    import zephon

    datasets = []
    for number, (name, count, most) in enumerate((("code", 400, 90), ("prose", 150, 250))):
        rows = [
            {"tokens": (np.arange(n, dtype=np.int64) * 31 + 97 * i + number) % 50_000}
            for i, n in enumerate(_lengths(count, most, salt=number).tolist())
        ]
        shards = {k: zephon.InMemoryShard(rows[k::3]) for k in range(3)}
        datasets.append(zephon.Dataset.from_dict(name, shards))
    work = zephon.StaticMixtureWorkSource(
        datasets,
        {"code": 0.7, "prose": 0.3},
        seed=seed,
        shuffle_block_size="global",
        exhausted_policy="repeat",
        chunk_size=64,
    )
    stream = zephon.Pipeline(work).pack_flat(129, algorithm=algorithm, drop_oversized=False)
    return stream.shuffle(16).batch(3).prefetch(ahead, 2).options(canonical_replicas=4)


def _arrays(batch: SampleBatch) -> Iterator[NDArray[Any]]:
    fields = batch.to_training(
        dtype=np.int64, return_labels=True, return_document_ids=True, return_padding_mask=True
    )
    for name in sorted(fields):
        if isinstance(fields[name], np.ndarray):
            yield fields[name]


def _stream(algorithm: PackingAlgorithm) -> Callable[[], Iterator[NDArray[Any]]]:
    def check() -> Iterator[NDArray[Any]]:
        stream = _pipeline(algorithm)
        for batch in islice(stream, 30):
            yield from _arrays(batch)
        stream.close()

    return check


def _resume() -> Iterator[NDArray[Any]]:
    """Stops, goes on from the saved bytes in another pipeline, now with threads, and compares."""
    whole, first, second = (_pipeline("best_fit_wrap", ahead=ahead) for ahead in (0, 0, 2))
    expected = [_digest(_arrays(batch)) for batch in islice(whole, 24)]
    found = [_digest(_arrays(batch)) for batch in islice(first, 11)]
    state = first.checkpoint()["state"]
    second.restore(state)
    found += [_digest(_arrays(batch)) for batch in islice(second, 13)]
    for stream in (whole, first, second):
        stream.close()
    if found != expected:
        number = next(
            i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]
        )
        raise AssertionError(f"batch {number} of 24 differs; the state was saved behind batch 10")
    yield np.frombuffer("".join(found).encode(), np.uint8)


def _refusals() -> Iterator[NDArray[Any]]:
    """A state with one bit changed, and one of another stream, are refused."""
    from zephon.errors import StateError

    stream = _pipeline("wrap")
    state = stream.checkpoint()["state"]
    damaged = bytearray(state)
    damaged[len(damaged) // 2] ^= 1
    for name, other, data in (
        ("a damaged state", stream, bytes(damaged)),
        ("a state of another seed", _pipeline("wrap", seed=8), state),
    ):
        try:
            other.restore(data)
        except StateError:
            continue
        raise AssertionError(f"{name} was not refused")
    yield np.zeros(0, np.uint8)


def _tensors() -> Iterator[NDArray[Any]]:
    """Tensors hold what the arrays hold."""
    import torch

    from zephon.loader import ZephonDataLoader, convert_text_batch

    arrays = _pipeline("best_fit")
    with ZephonDataLoader(_pipeline("best_fit"), convert_text_batch) as loader:
        for batch, tensors in zip(islice(arrays, 6), loader, strict=False):
            fields = batch.to_training(dtype=np.int64, return_labels=True, return_document_ids=True)
            for name in ("input_ids", "labels", "document_ids"):
                tensor = tensors[name]
                assert isinstance(tensor, torch.Tensor), name
                assert np.array_equal(tensor.numpy(), fields[name]), name
                yield tensor.numpy()
    arrays.close()


CHECKS: dict[str, Callable[[], Iterator[NDArray[Any]]]] = {
    "sample index": _sample_index,
    "blend": _blend,
    "exhaustive blend": _exhaustive_blend,
    "sentence mapping": _sentence_mapping,
    "block mapping": _block_mapping,
    "stream wrap": _stream("wrap"),
    "stream first_fit": _stream("first_fit"),
    "stream best_fit": _stream("best_fit"),
    "stream best_fit_wrap": _stream("best_fit_wrap"),
    "save and resume": _resume,
    "refused states": _refusals,
}
"""What is checked, by name; each yields the arrays it computed."""

if importlib.util.find_spec("torch") is not None:
    CHECKS["tensors"] = _tensors


if __name__ == "__main__":
    sys.exit(main())
