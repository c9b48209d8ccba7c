"""A small stand-in for the standard library, and the demo's corpora made from it."""

from zephon.cli.corpora import CorporaOptions, build

TOPICS = {"while": "The while statement\n\nRepeats a block.\n", "empty": " \n"}

_MODULE = '''"""Module {name}: does {name} things.

    Indented, as docstrings are.
"""

import os


class Thing{number}:
    """Holds the number {number} — and an umlaut: ü."""

    def value(self):
        """Return {number}."""
        return {number}


async def wait{number}():
    return [{numbers}]
'''


def write_library(root):
    """Write modules that count, modules that must not count, and return ``root``."""
    for number in range(12):
        path = root / ("pkg" if number % 3 else ".") / f"mod{number:02}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = ", ".join(map(str, range(number, number + 20 * number)))
        path.write_text(
            _MODULE.format(name=path.stem, number=number, numbers=numbers), encoding="utf-8"
        )
    (root / "silent.py").write_text("x = 1\n")
    (root / "blank.py").write_text("\n\n")
    (root / "latin.py").write_bytes(b"# caf\xe9\n")
    (root / "broken.py").write_text("def broken(:\n")
    (root / "escape.py").write_text('"""An escape: \\d."""\n')
    for folder in ("test", "pkg/tests", "site-packages/other"):
        (root / folder).mkdir(parents=True)
        (root / folder / "not_ours.py").write_text('"""Not the library."""\n')
    return root


def build_small(folder):
    """Build corpora from such a library in ``folder / "demo"``."""
    library = write_library(folder / "library")
    options = CorporaOptions(root=library, topics=TOPICS, vocabulary=512)
    return build(folder / "demo", options, lambda step: None)
