"""The demo's second process: goes on from a saved state and prints a hash for each batch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from zephon.cli.stream import DemoStream, digest
from zephon.errors import ZephonError


def demo_resume(
    folder: Annotated[Path, typer.Option()],
    state: Annotated[Path, typer.Option()],
    batches: Annotated[int, typer.Option(min=1)],
    seed: Annotated[int, typer.Option()],
    batch_size: Annotated[int, typer.Option(min=1)],
    sequence_length: Annotated[int, typer.Option(min=2)],
    debug: Annotated[bool, typer.Option("--debug")] = False,
) -> None:
    """Go on from a state of the demo and print the SHA-256 of every further batch."""
    stream = DemoStream(
        folder=folder, seed=seed, batch_size=batch_size, sequence_length=sequence_length
    )
    with stream.loader() as loader:
        loader.load_state_dict({"zephon": state.read_bytes()})
        for _ in range(batches):
            print(digest(next(loader)), flush=True)


def resumed_digests(stream: DemoStream, state: Path, batches: int) -> Iterator[str]:
    """Run :func:`demo_resume` in a new process and yield its hashes as they come.

    Raises
    ------
    ZephonError
        When that process fails or prints another number of them.
    """
    command = [
        sys.executable,
        "-P",  # the installed package, not a source tree that happens to be the working directory
        "-m",
        "zephon.cli",
        "demo-resume",
        f"--folder={stream.folder}",
        f"--state={state}",
        f"--batches={batches}",
        f"--seed={stream.seed}",
        f"--batch-size={stream.batch_size}",
        f"--sequence-length={stream.sequence_length}",
    ]
    count = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                count += 1
                yield line.strip()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0 or count != batches:
        raise ZephonError(
            f"the process that goes on from {state} ended with code {process.returncode} after "
            f"{count} of {batches} batches; its own message is above"
        )
