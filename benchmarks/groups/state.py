"""What a saved position costs: its size, saving and restoring it, and the batch behind it."""

from __future__ import annotations

import time
from itertools import islice

import corpus
from harness import Plot, Row, Settings, Spread, Table, alternate, ratios

import zephon
from groups.stream import datasets, far, make


def saved(stream: zephon.Pipeline, batches: int) -> bytes:
    """The state behind so many batches."""
    iterator = iter(stream)
    for _ in islice(iterator, batches):
        pass
    stream.close()
    return stream.local_state()


def save_seconds(stream: zephon.Pipeline) -> float:
    began = time.perf_counter()
    for _ in range(5):
        stream.checkpoint()
    return (time.perf_counter() - began) / 5


def restore_seconds(stream: zephon.Pipeline, state: bytes) -> float:
    began = time.perf_counter()
    for _ in range(5):
        stream.restore(state)
    return (time.perf_counter() - began) / 5


def go_on_seconds(stream: zephon.Pipeline, state: bytes) -> float:
    """From the bytes to the next batch."""
    began = time.perf_counter()
    stream.restore(state)
    next(iter(stream))
    taken = time.perf_counter() - began
    stream.close()
    return taken


def measure(settings: Settings) -> list[Table | Plot]:
    sources = datasets(corpus.tokens(settings))
    lanes = settings.sized(4, 2)
    plots: dict[str, dict[str, list[tuple[float, float]]]] = {
        "bytes": {"bytes": []},
        "µs": {"save": [], "restore": []},
    }
    for count in [8**k for k in range(lanes + 1)]:
        stream = make(sources, lanes=count)
        state = saved(stream, 2)
        save = alternate(3, {"s": lambda stream=stream: save_seconds(stream)})["s"]
        restore = alternate(
            3, {"r": lambda stream=stream, state=state: restore_seconds(stream, state)}
        )["r"]
        plots["bytes"]["bytes"].append((count, len(state)))
        plots["µs"]["save"].append((count, 1e6 * Spread.of(save).median))
        plots["µs"]["restore"].append((count, 1e6 * Spread.of(restore).median))
    return [
        positions(settings, sources),
        buffers(settings, sources),
        Plot(id="state-bytes", title="Size of a state", x="lanes", y="bytes",
             series=plots["bytes"]),
        Plot(id="state-time", title="Saving and restoring a state", x="lanes", y="µs",
             series=plots["µs"]),
    ]  # fmt: skip


def compare(
    settings: Settings, cases: dict[str, tuple[zephon.Pipeline, bytes]], base: str, what: str
) -> list[Row]:
    rows = []
    for measure_name, function in (
        ("checkpoint()", lambda stream, state: save_seconds(stream)),
        ("restore()", restore_seconds),
        ("from the bytes to the next batch", go_on_seconds),
    ):
        found = alternate(
            settings.turns,
            {
                name: lambda stream=stream, state=state, f=function: f(stream, state)
                for name, (stream, state) in cases.items()
            },
        )
        for name, values in found.items():
            rows.append(
                Row(what=f"{name}: {measure_name}", value=1e6 * Spread.of(values).median,
                    unit="µs", kind="cost", ratio=ratios(values, found[base]), of=what,
                    note=f"{len(cases[name][1]):,} bytes")
            )  # fmt: skip
    return rows


def positions(settings: Settings, sources: list[zephon.Dataset]) -> Table:
    cases = {}
    for draw in (0, 10**3, 10**6, 10**9, 10**12):
        stream = far(make(sources), draw) if draw else make(sources)
        cases[f"draw {draw:g}"] = stream, saved(stream, 3)
    return Table(
        id="state-position", title="Against the position", text="One lane, wrap, two sources.",
        rows=compare(settings, cases, "draw 0", "that at draw 0"),
    )  # fmt: skip


def buffers(settings: Settings, sources: list[zephon.Dataset]) -> Table:
    cases = {}
    for name, algorithm, rows in (
        ("wrap", "wrap", 0),
        ("wrap, rows shuffled in a window of 64", "wrap", 64),
        ("wrap, rows shuffled in a window of 1,024", "wrap", 1024),
        ("best_fit", "best_fit", 0),
        ("best_fit_wrap", "best_fit_wrap", 0),
    ):
        work = zephon.StaticMixtureWorkSource(
            sources, corpus.SHARES, shuffle_block_size="auto", exhausted_policy="repeat"
        )
        stream = zephon.Pipeline(work).pack_flat(4097, algorithm=algorithm)
        if rows:
            stream = stream.shuffle(rows)
        stream = stream.batch(8).prefetch(0)
        cases[name] = stream, saved(stream, 3)
    return Table(
        id="state-buffers", title="Against what is buffered",
        text="A state holds no buffer: windows are computed again, which the next batch waits for.",
        rows=compare(settings, cases, "wrap", "that of wrap"),
    )  # fmt: skip
