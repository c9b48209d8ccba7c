"""What lies in a tokenizer's folder: definition, names of special tokens, chat template."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zephon.errors import ConfigError, ConfigTypeError, DataError


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer and what was found beside it.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer
        The caller's own object if one was given: copy it before changing it.
    names : mapping
        Strings of the special tokens, by ``bos_token``, ``eos_token`` and the like.
    chat_template : str or None
        The Jinja template that came with it.
    """

    tokenizer: Any
    names: Mapping[str, str] = field(default_factory=dict)
    chat_template: str | None = None


def load_tokenizer(tokenizer: Any) -> LoadedTokenizer:
    """From what a user names to a tokenizer; reads files, never a network.

    Parameters
    ----------
    tokenizer : str, PathLike, tokenizers.Tokenizer or a fast tokenizer of transformers
        A ``tokenizer.json``, a folder that holds one, or the object itself.

    Raises
    ------
    DataError
        The file is missing or damaged.
    ConfigError
        The package tokenizers is missing.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise ConfigError(
            "tokenizing needs the package tokenizers: install zephon with its extra 'tokenizers' "
            "(pip install './zephon[tokenizers]') or tokenizers itself"
        ) from error
    if isinstance(tokenizer, LoadedTokenizer):
        return tokenizer
    if isinstance(tokenizer, tokenizers.Tokenizer):
        return LoadedTokenizer(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if isinstance(backend, tokenizers.Tokenizer):
        return LoadedTokenizer(backend, _names_of(tokenizer), _template_of(tokenizer))
    if not isinstance(tokenizer, (str, os.PathLike)):
        raise ConfigTypeError(
            f"tokenizer is a {type(tokenizer).__name__}, expected a path to tokenizer.json or its "
            "folder, a tokenizers.Tokenizer, or a fast tokenizer of transformers"
        )
    path = Path(tokenizer)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(
            "there is no tokenizer here: expected a tokenizer.json or a folder that holds one. "
            "Tokenizers are read from disk only, never downloaded",
            file=file,
        )
    try:
        text = file.read_text(encoding="utf-8")
        loaded = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises bare Exception for what it cannot parse
        raise DataError(
            f"is not a tokenizer file of the tokenizers library ({error}). Save one with "
            "Tokenizer.save or save_pretrained",
            file=file,
        ) from error
    _check_added_tokens(loaded, text, file)
    folder = file.parent
    return LoadedTokenizer(loaded, special_token_names(folder), _template_in(folder))


def _check_added_tokens(tokenizer: Any, text: str, file: Path) -> None:
    """The library numbers added tokens without a gap, whatever ids the file gives them."""
    for token in json.loads(text).get("added_tokens") or []:
        wanted, found = token.get("id"), tokenizer.token_to_id(token.get("content"))
        if wanted != found:
            raise DataError(
                f"gives the added token {token.get('content')!r} the id {wanted}, but the "
                f"tokenizers library makes it {found}, since ids between are not used: fill the "
                "gap with placeholder tokens, or give the id that the model was trained with",
                file=file,
            )


def _json(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"is not valid JSON ({error})", file=path) from error
    if not isinstance(content, dict):
        raise DataError("holds no JSON object, expected one of token names", file=path)
    return content


def special_token_names(folder: Path) -> dict[str, str]:
    """Strings of the special tokens, as the files beside a tokenizer name them."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if not (folder / file).is_file():
            continue
        for key, value in _json(folder / file).items():
            if not key.endswith("_token"):
                continue
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                names[key] = value
    return names


def _names_of(tokenizer: Any) -> dict[str, str]:
    names = ("bos_token", "eos_token", "pad_token", "unk_token")
    found = {name: getattr(tokenizer, name, None) for name in names}
    return {name: str(value) for name, value in found.items() if value is not None}


def _template_of(tokenizer: Any) -> str | None:
    template = getattr(tokenizer, "chat_template", None)
    return template if isinstance(template, str) else _default_template(template)


def _template_in(folder: Path) -> str | None:
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    if not config.is_file():
        return None
    template = _json(config).get("chat_template")
    return template if isinstance(template, str) else _default_template(template)


def _default_template(templates: Any) -> str | None:
    """Of several templates with names, the one that is called default."""
    named: dict[str, Any] = {}
    if isinstance(templates, Mapping):
        named = dict(templates)
    elif isinstance(templates, list):
        found = [one for one in templates if isinstance(one, dict)]
        named = {str(one.get("name")): one.get("template") for one in found}
    default = named.get("default")
    return default if isinstance(default, str) else None
