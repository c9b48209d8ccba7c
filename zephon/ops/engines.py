"""Engines that turn text into token ids: the reference, and a faster one checked against it.

Hugging Face ``tokenizers`` says what is right. ``fastokens`` computes the same ids
many times faster; that it does is not believed but verified, on a set of awkward
strings when it is made and on the first documents that pass through it, and any
difference is an error.
"""

from __future__ import annotations

import importlib.metadata
import json
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zephon.errors import ConfigError

EngineName = Literal["tokenizers", "fastokens"]
ENGINES = ("tokenizers", "fastokens")

VERIFIED_DOCUMENTS = 256
"""Documents, the first of each process, that both engines encode."""

Flat = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""Ids of all texts end to end, ``[T]``, and how many each has, int64 ``[n]``."""


class Engine(ABC):
    """Texts to ids, without special tokens; may be called by several threads.

    Attributes
    ----------
    name : str
        The package and its version, as a state records it.
    """

    name: str

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Flat:
        """Token ids of ``texts``."""


class ReferenceEngine(Engine):
    """Hugging Face ``tokenizers``.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        Used as it is; not changed.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.name = f"tokenizers {importlib.metadata.version('tokenizers')}"

    def encode(self, texts: Sequence[str]) -> Flat:
        """Token ids of ``texts``; the library gives lists, which become one array here."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32), lengths


class FastEngine(Engine):
    """``fastokens``, compared with ``reference`` wherever that is cheap.

    Parameters
    ----------
    definition : str
        The content of a ``tokenizer.json``.
    reference : ReferenceEngine
        Of the same definition.
    split_special_tokens : bool
        Whether text that spells a special token stays text.

    Raises
    ------
    ConfigError
        The package is missing, cannot take the tokenizer, or gives other ids.
    """

    def __init__(
        self, definition: str, reference: ReferenceEngine, *, split_special_tokens: bool
    ) -> None:
        try:
            import fastokens
        except ImportError as error:
            raise ConfigError(
                "engine='fastokens' needs the package fastokens: install zephon with its extra "
                "'fast-tokenizers' (pip install './zephon[fast-tokenizers]'), or leave engine= out"
            ) from error
        try:
            self._tokenizer = fastokens.Tokenizer.from_json_str(definition)
        except Exception as error:  # the library raises what its parts raise
            raise ConfigError(
                f"engine='fastokens' cannot take this tokenizer ({error}): leave engine= out, and "
                "the tokenizers library encodes it"
            ) from error
        self.name = f"fastokens {importlib.metadata.version('fastokens')}"
        self._split = split_special_tokens
        self._reference = reference
        self._lock = threading.Lock()
        self._unverified = VERIFIED_DOCUMENTS
        probes = probe_texts(special_strings(definition))
        self._compare(probes, self._encode(probes))

    def encode(self, texts: Sequence[str]) -> Flat:
        """Token ids of ``texts``; those of the first documents are compared."""
        found = self._encode(texts)
        if self._unverified:
            with self._lock:
                count = min(self._unverified, len(texts))
                self._unverified -= count
            ends = int(found[1][:count].sum())
            self._compare(texts[:count], (found[0][:ends], found[1][:count]))
        return found

    def _encode(self, texts: Sequence[str]) -> Flat:
        ids, offsets = self._tokenizer.encode_batch_flat(
            list(texts), add_special_tokens=False, split_special_tokens=self._split
        )
        ends = np.frombuffer(offsets, dtype="<u8").astype(np.int64)
        return np.frombuffer(ids, dtype="<u4"), np.diff(ends)

    def _compare(self, texts: Sequence[str], found: Flat) -> None:
        ids, lengths = self._reference.encode(texts)
        if np.array_equal(lengths, found[1]) and np.array_equal(ids, found[0]):
            return
        starts, others = np.cumsum(lengths) - lengths, np.cumsum(found[1]) - found[1]
        for i, text in enumerate(texts):
            right = ids[starts[i] : starts[i] + lengths[i]]
            other = found[0][others[i] : others[i] + found[1][i]]
            if not np.array_equal(right, other):
                same = min(len(right), len(other))
                at = int(np.argmax(np.append(right[:same] != other[:same], True)))
                raise ConfigError(
                    f"engine='fastokens' differs from the tokenizers library: of {text!r:.60} it "
                    f"makes {len(other)} tokens and not {len(right)}, the first other one is "
                    f"number {at}. Leave engine= out for this tokenizer"
                )


def make_engine(
    name: str, tokenizer: Any, definition: str, *, split_special_tokens: bool
) -> Engine:
    """The engine called ``name`` for a ``tokenizers.Tokenizer`` and its definition."""
    reference = ReferenceEngine(tokenizer)
    if name == "tokenizers":
        return reference
    return FastEngine(definition, reference, split_special_tokens=split_special_tokens)


def special_strings(definition: str) -> list[str]:
    """Contents of the added tokens of a ``tokenizer.json``."""
    added = json.loads(definition).get("added_tokens") or []
    return [token["content"] for token in added]


_SCRIPTS = (
    (0x00, 0x7F), (0x80, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF),
    (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x206F), (0x3040, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFB00, 0xFDFF), (0x1F300, 0x1FAFF), (0x300, 0x36F),
)  # fmt: skip
"""Ranges of code points that strings are drawn from: scripts, spaces, emoji, combining marks."""


def probe_texts(specials: Sequence[str]) -> list[str]:
    """Strings on which tokenizers tend to differ; always the same for the same ``specials``."""
    texts = [
        "a", " ", "  ", "\n", "\r\n", "\t\t", " \n \n  x", "x \n", "\0", "a\0b", "\ufeffbom",
        "don't I'LL we'Re they'd 'tis", "1 12 123 1234 12345 1,234.50", "0x7fF_1e-9", "x" * 5000,
        " " * 3000 + "x", "ab " * 1000, "é e\u0301 \u1e9b\u0323 ﬁ Å", "a\u200db\u00adc\u2060",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "İı ß ẞ ǅ",
        "\u3000全角　空白",
        "def f(x):\n    return x**2  # ok\n\n\n", "<|>", "<s></s><unk>", "https://a.b/c?d=e&f#g",
        "\u2028line\u2029", "\x1b[0m", "ᄀ\u1161\u11a8 각", "นี่คือ",
        "हिन्दी में", "שלום", "مرحبا",
    ]  # fmt: skip
    for special in specials[:64]:
        texts += [special, f"a{special}b", f" {special} ", special[:-1], special + special]
    draw = random.Random(20261130)
    for low, high in _SCRIPTS:
        for length in (1, 2, 3, 8, 40, 200):
            points = [draw.randint(low, high) for _ in range(length)]
            texts.append("".join(map(chr, points)))
    for _ in range(200):
        points = [draw.randint(*draw.choice(_SCRIPTS)) for _ in range(draw.randint(1, 60))]
        texts.append("".join(map(chr, points)))
    return texts
