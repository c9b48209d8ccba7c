"""``zephon describe STATEFILE``: what a saved position says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def describe(
    statefile: Annotated[
        Path, typer.Argument(metavar="STATEFILE", help="A file that holds a saved state.")
    ],
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Verify a saved loader state and print what it says."""
    from zephon.state import describe as describe_state

    typer.echo(describe_state(statefile.read_bytes()))
