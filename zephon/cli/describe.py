"""``zephon describe STATEFILE``: what a saved position says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from zephon.errors import StateError


def describe(
    statefile: Annotated[
        Path,
        typer.Argument(
            metavar="STATEFILE",
            help="The bytes of a state, or a checkpoint of torch.save that holds them.",
        ),
    ],
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Verify a saved loader state and print what it says."""
    from zephon.state import describe as describe_state

    typer.echo(describe_state(_state_in(statefile)))


def _state_in(file: Path) -> bytes:
    data = file.read_bytes()
    if data[:2] != b"PK":
        return data
    import torch

    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for what it does not load
        raise StateError(
            f"{file} is an archive that torch.load(weights_only=True) does not read ({error}): "
            "save the loader's state_dict() beside tensors and plain values only"
        ) from error
    found = list(_states(content))
    if len(found) != 1:
        raise StateError(
            f"{file} holds {len(found)} values named 'zephon', expected one: the bytes of a "
            "loader's state_dict()"
        )
    return found[0]


def _states(content: Any) -> Iterator[bytes]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            if name == "zephon" and isinstance(value, bytes):
                yield value
            else:
                yield from _states(value)
