"""The ``zephon`` command.

This package is light: typer, rich and everything heavier are imported when a
command runs, so that ``import zephon.cli`` works without the extra ``cli``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from zephon.cli.failure import explain
from zephon.cli.interrupt import interrupts_kept

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the program's name; those of the process by default.

    Returns
    -------
    int
        0 on success, 1 on an error (one paragraph on stderr), 2 on wrong usage
        and 130 when interrupted. With ``--debug`` an error is raised instead.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with interrupts_kept():
            from zephon.cli.app import app

            app(args=arguments, prog_name="zephon")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # Looked up rather than parsed: the parser itself may be what is missing.
        if "--debug" in arguments:
            raise
        print(explain(error), file=sys.stderr)
        return 1
    return 0
