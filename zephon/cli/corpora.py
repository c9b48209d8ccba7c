"""The demo's two corpora and its tokenizer, built once into a folder and reused."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from zephon.cli import bpe, harvest
from zephon.errors import ConfigError

MANIFEST = "manifest.json"
_FORMAT = 1
_FILES = (
    "code.jsonl",
    "prose.bin",
    "prose.idx",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
)


@dataclass(frozen=True, kw_only=True)
class CorporaOptions:
    """What the corpora are made of."""

    root: Path
    """The standard library that the text is taken from."""
    topics: Mapping[str, str]
    """Further documents of prose by name; those of ``pydoc`` by default."""
    vocabulary: int = 8192
    """Most entries the tokenizer may have."""
    sample_characters: int = 4_000_000
    """How much text the tokenizer is trained on."""

    def __post_init__(self) -> None:
        if not 512 <= self.vocabulary <= 65_536:
            raise ConfigError(f"vocabulary is {self.vocabulary}; it must be 512 to 65536")
        if self.sample_characters < 1:
            raise ConfigError(f"sample_characters is {self.sample_characters}; it must be positive")

    @classmethod
    def of_this_python(cls) -> Self:
        """The library and the help topics of the running interpreter."""
        return cls(root=harvest.standard_library(), topics=harvest.pydoc_topics())

    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides what the files hold, as JSON values."""
        import tokenizers

        return {
            "format": _FORMAT,
            "python": sys.version,
            "root": str(self.root),
            "topics": len(self.topics),
            "tokenizers": tokenizers.__version__,
            "vocabulary": self.vocabulary,
            "sample_characters": self.sample_characters,
        }


@dataclass(frozen=True, kw_only=True)
class Corpora:
    """What a folder holds once it is complete."""

    folder: Path
    code_documents: int
    code_bytes: int
    prose_documents: int
    prose_tokens: int
    vocabulary: int

    @property
    def code(self) -> Path:
        """JSONL with the fields ``text`` and ``path``, one source file a line."""
        return self.folder / "code.jsonl"

    @property
    def prose(self) -> Path:
        """Prefix of the ``.bin/.idx`` pair of tokenized docstrings and help topics."""
        return self.folder / "prose"

    @property
    def tokenizer(self) -> Path:
        """Folder of ``tokenizer.json`` and ``tokenizer_config.json``."""
        return self.folder / "tokenizer"


def reuse(folder: Path, options: CorporaOptions) -> Corpora | None:
    """The corpora in ``folder`` if they are complete and made with ``options``, else None."""
    manifest = _read_manifest(folder)
    if (
        manifest is None
        or not manifest.get("complete")
        or manifest.get("fingerprint") != options.fingerprint()
        or manifest.get("bytes") != _sizes(folder)
    ):
        return None
    return Corpora(folder=folder, **manifest["counts"])


def build(folder: Path, options: CorporaOptions, say: Callable[[str], None]) -> Corpora:
    """Write the corpora to ``folder``, which is made, in place of older ones of the demo.

    Nothing outside ``folder`` is written. The files are made in a temporary folder within
    it and renamed; the manifest that declares them complete comes last, so that a build
    which is interrupted is never taken for a finished one.

    Parameters
    ----------
    folder : Path
    options : CorporaOptions
    say : callable
        Is told of each step in a few words.

    Raises
    ------
    ConfigError
        When ``folder`` holds files of the same names that the demo did not write.
    DataError
        When the installation has no sources.
    """
    _refuse_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Named before it is made: an interrupt right behind the making must find it too.
    making = folder / f".building-{secrets.token_hex(4)}"
    try:
        making.mkdir(mode=0o700)
        counts = _write(making, options, say)
        claim: dict[str, Any] = {"made_by": "zephon demo", "complete": False}
        _write_manifest(folder, claim)
        (folder / "tokenizer").mkdir(exist_ok=True)
        for name in _FILES:
            os.replace(making / name, folder / name)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    complete = {
        "complete": True,
        "fingerprint": options.fingerprint(),
        "counts": counts,
        "bytes": _sizes(folder),
    }
    _write_manifest(folder, claim | complete)
    return Corpora(folder=folder, **counts)


def _write(folder: Path, options: CorporaOptions, say: Callable[[str], None]) -> dict[str, int]:
    """Make all of ``_FILES`` in an empty folder and count what they hold."""
    import numpy as np

    from zephon.megatron.builder import IndexedDatasetBuilder

    say(f"reading the standard library in {options.root}")
    files = harvest.source_files(options.root)
    say("collecting docstrings and help topics")
    prose = list(harvest.prose_documents(files, options.topics))
    if not prose:
        raise ConfigError(f"nothing in {options.root} has a docstring, so there is no prose")

    say("training the tokenizer")
    half = -(-options.sample_characters // 2)
    texts = bpe.sample([file.text for file in files], half) + bpe.sample(prose, half)
    tokenizer = bpe.train(texts, options.vocabulary)
    bpe.save(tokenizer, folder / "tokenizer")

    say("writing code as JSONL")
    with (folder / "code.jsonl").open("w", encoding="utf-8", newline="\n") as out:
        for file in files:
            json.dump(asdict(file), out, ensure_ascii=False)
            out.write("\n")

    say("tokenizing prose into .bin/.idx")
    bos, eos = bpe.token_id(tokenizer, bpe.BOS), bpe.token_id(tokenizer, bpe.EOS)
    tokens = 0
    with IndexedDatasetBuilder(folder / "prose.bin", np.uint16) as builder:
        for encoding in tokenizer.encode_batch(prose):
            document = np.array([bos, *encoding.ids, eos], np.uint16)
            builder.add_document(document, [len(document)])
            tokens += len(document)
        builder.finalize(folder / "prose.idx")
    return {
        "code_documents": len(files),
        "code_bytes": (folder / "code.jsonl").stat().st_size,
        "prose_documents": len(prose),
        "prose_tokens": tokens,
        "vocabulary": tokenizer.get_vocab_size(),
    }


def _refuse_foreign(folder: Path) -> None:
    """Never replace a file that only has the same name as one of the demo's."""
    if _read_manifest(folder) is not None:
        return
    for name in (MANIFEST, *_FILES):
        if (folder / name).exists():
            raise ConfigError(
                f"{folder} holds {name}, which the demo did not write; give it another folder "
                "with --folder, or move that file away"
            )


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    ours = isinstance(manifest, dict) and manifest.get("made_by") == "zephon demo"
    return manifest if ours else None


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    part = folder / f".{MANIFEST}-{os.getpid()}"
    part.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    os.replace(part, folder / MANIFEST)


def _sizes(folder: Path) -> dict[str, int] | None:
    try:
        return {name: (folder / name).stat().st_size for name in _FILES}
    except FileNotFoundError:
        return None
