"""``zephon demo``: the whole product in small, on real text."""

from __future__ import annotations

import copy
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import track

from zephon.cli import bpe, report, trace
from zephon.cli.corpora import Corpora, CorporaOptions, build, reuse
from zephon.cli.demo_resume import resumed_digests
from zephon.cli.excerpt import Excerpt, excerpt
from zephon.cli.failure import require
from zephon.cli.stream import DemoStream, digest
from zephon.cli.tally import Tally

if TYPE_CHECKING:
    from zephon.types import TrainingBatch

STATE = "stopped.state"


def demo(
    folder: Annotated[
        Path, typer.Option(file_okay=False, help="Where the corpora are built and kept.")
    ] = Path("demo"),
    batches: Annotated[int, typer.Option(min=2, help="How many batches to load.")] = 200,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Of the order and of the place to stop.")
    ] = 0,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT.png", help="Draw mixture and packing over time."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows in a batch.")] = 8,
    sequence_length: Annotated[int, typer.Option(min=2, help="Tokens in a row.")] = 2048,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Blend two real corpora, pack, load, stop anywhere and go on exactly."""
    require("tokenizers")
    if trace_file is not None:
        trace.check(trace_file)
    console = Console()
    corpora = _corpora(folder, console)
    stream = DemoStream(
        folder=folder, seed=seed, batch_size=batch_size, sequence_length=sequence_length
    )

    tally, shown, seconds = _load(stream, batches, corpora, console)
    report.show_speed(console, stream, tally, seconds)
    report.show_mixture(console, tally, stream.work())
    report.show_packing(console, tally)
    if shown is not None:
        report.show_excerpt(console, shown)
    if trace_file is not None:
        trace.draw(trace_file, tally, stream.work())
        console.print(f"Trace drawn to {trace_file}", highlight=False, soft_wrap=True)

    _stop_and_resume(stream, tally.digests, console)


def _corpora(folder: Path, console: Console) -> Corpora:
    """Build the corpora, or find them built."""
    options = CorporaOptions.of_this_python()
    corpora = reuse(folder, options)
    if corpora is not None:
        report.show_corpora(console, corpora, how="found")
        return corpora
    began = time.perf_counter()
    with console.status("building the corpora") as status:
        corpora = build(folder, options, lambda step: status.update(f"{step} ..."))
    report.show_corpora(console, corpora, how=f"built in {time.perf_counter() - began:.1f} s")
    return corpora


def _load(
    stream: DemoStream, batches: int, corpora: Corpora, console: Console
) -> tuple[Tally, Excerpt | None, float]:
    """Load ``batches`` batches without a stop; also returns an excerpt and the seconds taken."""
    tokenizer = bpe.load(corpora.tokenizer)
    tally = Tally(bos=bpe.token_id(tokenizer, bpe.BOS))
    first: TrainingBatch | None = None
    with stream.loader() as loader:
        began = time.perf_counter()
        for _ in track(range(batches), "loading", console=console):
            batch = next(loader)
            if first is None:
                first = copy.deepcopy(batch)  # the loader may use its memory again
            tally.add(batch, digest(batch), loader.component_tokens)
        seconds = time.perf_counter() - began
    if first is None:
        return tally, None, seconds

    work = stream.work()
    draws = work.lane(0, 1).draws(0, tally.started[0])
    source_of = [work.datasets[number].name for number in draws.sources.tolist()]

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=False)

    return tally, excerpt(first, tally.bos, source_of, decode), seconds


def _stop_and_resume(stream: DemoStream, expected: list[str], console: Console) -> None:
    """Stop at a random batch, go on in a new process and compare every batch.

    Raises
    ------
    typer.Exit
        With code 1 when a batch differs.
    """
    stop = random.Random(stream.seed).randrange(1, len(expected))
    with stream.loader() as loader:
        before = [
            digest(next(loader)) for _ in track(range(stop), "again, to the stop", console=console)
        ]
        state = loader.state_dict()["zephon"]
    _compare(before, expected[:stop], first=0, console=console)
    path = stream.folder / STATE
    path.write_bytes(state)
    console.print(
        f"Stopped after batch {stop} of {len(expected)} (chosen by --seed {stream.seed}); "
        f"saved {path}: {len(state):,} bytes",
        highlight=False,
        soft_wrap=True,
    )

    rest = expected[stop:]
    after = list(
        track(
            resumed_digests(stream, path, len(rest)),
            "going on in a new process",
            total=len(rest),
            console=console,
        )
    )
    _compare(after, rest, first=stop, console=console)
    console.print(
        f"The remaining {len(rest)} batches are identical (SHA-256 of all tensors of each; "
        f"the last is {rest[-1][:16]}...)",
        style="bold green",
        highlight=False,
        soft_wrap=True,
    )


def _compare(found: list[str], expected: list[str], *, first: int, console: Console) -> None:
    """Compare digests one by one; ``first`` is the number of batches before them."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True), first + 1):
        if ours != theirs:
            console.print(
                f"Batch {number} differs: {theirs} without a stop, {ours} with one. "
                "This is a fault of zephon.",
                style="bold red",
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(1)
