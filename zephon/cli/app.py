"""The command line: its subcommands and ``--version``."""

from __future__ import annotations

from typing import Annotated

import typer

from zephon._version import __version__
from zephon.cli.demo import demo
from zephon.cli.demo_resume import demo_resume
from zephon.cli.describe import describe
from zephon.cli.doctor import doctor

app = typer.Typer(
    name="zephon",
    help="Blended document collections to packed training batches for language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"zephon {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Blended document collections to packed training batches for language models."""


app.command()(demo)
app.command(hidden=True)(demo_resume)
app.command()(describe)
app.command()(doctor)
