"""What a user reads when a command fails: one paragraph, no traceback."""

from __future__ import annotations

import importlib
import textwrap

from zephon.errors import ZephonError

_WIDTH = 100
_EXTRA_OF = {
    "typer": "cli",
    "rich": "cli",
    "tokenizers": "tokenizers",
    "matplotlib": "plot",
    "orjson": "jsonl",
}


def explain(error: Exception) -> str:
    """Say in one paragraph what went wrong and, where it is known, the way out."""
    if isinstance(error, ZephonError):
        text = str(error)
    elif isinstance(error, OSError):
        text = _explain_os_error(error)
    elif isinstance(error, ModuleNotFoundError) and _package(error) in _EXTRA_OF:
        # One line, to be copied from: not wrapped.
        return f"zephon: error: {_missing(_package(error))}"
    else:
        text = (
            f"unexpected {type(error).__name__}: {error}. This is a fault of zephon; the same "
            "command with --debug shows where it happened."
        )
    return textwrap.fill(
        f"zephon: error: {text}", _WIDTH, break_long_words=False, break_on_hyphens=False
    )


def require(*modules: str) -> None:
    """Raise an error that names the extra to install when one of ``modules`` is missing.

    Raises
    ------
    ZephonError
        For the first module that cannot be imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise ZephonError(_missing(module)) from error


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]


def _missing(module: str) -> str:
    extra = _EXTRA_OF[module]
    return (
        f"this needs the package {module}, of the extra '{extra}': "
        f"pip install './zephon[{extra}]', where ./zephon is the source"
    )


def _explain_os_error(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    files = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return f"{' -> '.join(files)}: {reason}" if files else reason
