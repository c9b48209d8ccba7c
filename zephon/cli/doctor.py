"""``zephon doctor``: what this installation is made of, and what is wrong with it."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Show what zephon finds here; exit with 1 and advice if something is wrong."""
    from zephon.diagnosis import diagnose

    found = diagnose()
    typer.echo(json_format.dumps(found.as_dict(), indent=2) if json else str(found))
    if found.problems:
        raise typer.Exit(1)
