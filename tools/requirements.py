"""Print what `pip install .[dev]` would, without the package itself, one requirement a line.

The package is then installed by path and without build isolation, so that its build uses
exactly the tools of the environment and asks no registry for anything.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def flatten(extra: str) -> set[str]:
    """Requirements of an extra, with the package's own extras in it resolved."""
    found: set[str] = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(rf"{PROJECT['name']}\[([\w,-]+)\]", requirement)
        if own:
            found.update(*map(flatten, own[1].split(",")))
        else:
            found.add(requirement)
    return found


print(*sorted({*PROJECT["dependencies"], *flatten("dev")}), sep="\n")
