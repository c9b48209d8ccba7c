"""Real text from a Python installation: the source files and what they say about themselves."""

from __future__ import annotations

import ast
import inspect
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zephon.errors import DataError

# Test data is in part broken on purpose; the topics are prose; the rest is not the library's.
_NOT_SOURCES = frozenset(
    {"test", "tests", "idle_test", "pydoc_data", "site-packages", "dist-packages", "__pycache__"}
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A module of the library: its path relative to the root, with ``/``, and its text."""

    path: str
    text: str


def standard_library() -> Path:
    """Where the running interpreter keeps its standard library."""
    return Path(sysconfig.get_path("stdlib"))


def pydoc_topics() -> dict[str, str]:
    """The texts behind ``help("topic")`` of the running interpreter."""
    from pydoc_data.topics import topics

    return dict(topics)


def source_files(root: Path) -> list[SourceFile]:
    """Every Python file below ``root`` that is UTF-8 text, in the order of its path.

    Raises
    ------
    DataError
        When there is none, as in installations that ship byte code only.
    """
    paths = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in root.rglob("*.py")
        if _NOT_SOURCES.isdisjoint(path.relative_to(root).parts[:-1]) and path.is_file()
    )
    files = []
    for name, path in paths:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except (UnicodeDecodeError, PermissionError):
            continue
        if text.strip():
            files.append(SourceFile(name, text))
    if not files:
        raise DataError(
            "no Python source file here, and the demo's text is made of them; run it with an "
            "interpreter that was installed with its standard library's sources",
            file=root,
        )
    return files


def prose_documents(files: list[SourceFile], topics: Mapping[str, str]) -> Iterator[str]:
    """One document for each module that has docstrings, then one for each topic."""
    for file in files:
        text = "\n\n".join(_docstrings(file.text))
        if text:
            yield f"{file.path}\n\n{text}\n"
    for name in sorted(topics):
        if topics[name].strip():
            yield topics[name].strip() + "\n"


def _docstrings(source: str) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people's code: invalid escapes and the like
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):  # a template of another version, a NUL byte
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "").strip()
            if text:
                yield text
