"""Blends in files: which datasets to read and in what shares, beside the code that trains."""

from __future__ import annotations

import difflib
import logging
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from zephon.errors import ConfigError, ConfigTypeError
from zephon.io.dataset import Dataset
from zephon.work.mixture import MixtureSpec

BlendEntry = str | float | os.PathLike[str]

_log = logging.getLogger(__name__)

_KEYS = ("path", "weight", "format")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # not a path of this machine


class Blend(NamedTuple):
    """Datasets and their shares, as :class:`StaticMixtureWorkSource` takes them."""

    datasets: tuple[Dataset, ...]
    mixture: MixtureSpec


def load_blend(blend: str | os.PathLike[str] | Sequence[BlendEntry]) -> Blend:
    """Open the datasets of a blend.

    Parameters
    ----------
    blend : str, PathLike, or a list
        A TOML or YAML file with a table ``datasets`` in which each dataset, by its name,
        has a ``path`` (a file, folder, pattern or prefix, or a list of them; relative
        ones from the folder of the file), a ``weight`` and maybe a ``format``. Or a text
        file with ``weight path weight path ...`` or paths alone, as Megatron's data path
        arguments are. Or such a list itself, whose relative paths are from the
        working directory; it names datasets by their paths.

        Weights are in any unit; either all datasets have one or none. Without weights
        every document is as likely as any other.

    Returns
    -------
    Blend
        ``datasets`` and ``mixture``.

    Raises
    ------
    ConfigError
        An unknown key (with the nearest known one), a missing path, a weight that is none,
        a file that is neither TOML nor YAML.
    DataError
        A dataset cannot be opened.

    Examples
    --------
    >>> datasets, mixture = load_blend("blend.toml")  # doctest: +SKIP
    >>> work = StaticMixtureWorkSource(datasets, mixture, seed=1)  # doctest: +SKIP
    """
    where = "blend"
    if isinstance(blend, (str, os.PathLike)):
        where = os.fspath(blend)
        members = _from_file(Path(blend))
    elif isinstance(blend, Sequence) and not isinstance(blend, (bytes, bytearray)):
        members = _from_list(blend, Path(), "blend")
    else:
        raise ConfigTypeError(
            f"blend is {blend!r}, expected the path of a file, or a list of weights and paths"
        )
    given = {member.name: member.weight for member in members if member.weight is not None}
    try:
        mixture = MixtureSpec(given) if given else None
    except ConfigError as error:
        raise type(error)(f"{where}: {error}") from None
    datasets = tuple(Dataset.from_path(m.name, m.paths, fmt=m.format) for m in members)
    if mixture is None:
        mixture = MixtureSpec({dataset.name: float(dataset.total()) for dataset in datasets})
    return Blend(datasets, mixture)


class _Member(NamedTuple):
    name: str
    paths: str | list[str]
    weight: float | None
    format: str | None


def _from_file(file: Path) -> list[_Member]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: the blend cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: the blend is not UTF-8 text ({error.reason})") from error
    kind = file.suffix.lower()
    if kind == ".toml":
        try:
            return _from_table(tomllib.loads(text), file)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file}: is not valid TOML: {error}") from error
    if kind in (".yaml", ".yml"):
        return _from_table(_load_yaml(text, file), file)
    if kind == ".txt":
        return _from_list(text.split(), file.parent, str(file))
    raise ConfigError(
        f"{file}: a blend is a file that ends in .toml, .yaml, .yml or .txt, not in {file.suffix!r}"
    )


def _from_table(table: object, file: Path) -> list[_Member]:
    top = _table(table, f"{file}: the blend")
    _check_keys(top, ("datasets",), f"{file}")
    datasets = _table(top.get("datasets", {}), f"{file}: 'datasets'")
    if not datasets:
        raise ConfigError(f"{file}: the table 'datasets' is missing or empty")
    members = []
    for name, value in datasets.items():
        where = f"{file}: dataset {name!r}"
        said = _table(value, where)
        _check_keys(said, _KEYS, where)
        if "path" not in said:
            raise ConfigError(f"{where} has no 'path'")
        weight = said.get("weight")
        if weight is not None and (isinstance(weight, bool) or not isinstance(weight, Real)):
            raise ConfigTypeError(f"{where}: weight is {weight!r}, expected a number")
        kind = said.get("format")
        if not (kind is None or isinstance(kind, str)):
            raise ConfigTypeError(f"{where}: format is {kind!r}, expected the name of a format")
        paths = _paths(said["path"], file.parent, where)
        members.append(_Member(str(name), paths, None if weight is None else float(weight), kind))
    without = [member.name for member in members if member.weight is None]
    if 0 < len(without) < len(members):
        raise ConfigError(
            f"{file}: dataset {without[0]!r} has no weight and others have: give one to all or "
            "to none"
        )
    return members


def _from_list(blend: Sequence[BlendEntry], folder: Path, where: str) -> list[_Member]:
    from zephon.megatron.blend import get_blend_from_list  # needs this package while it loads

    try:
        found = get_blend_from_list(blend)
    except ConfigError as error:
        raise type(error)(f"{where}: {error}" if where != "blend" else str(error)) from None
    assert found is not None
    paths, weights = found
    members = []
    for i, path in enumerate(paths):
        weight = None if weights is None else weights[i]
        if weight == 0:
            _log.info("%s: %r has weight 0 and is left out", where, path)
            continue
        members.append(_Member(path, _paths(path, folder, where), weight, None))
    if not members:
        raise ConfigError(f"{where}: all weights are 0")
    for i, member in enumerate(members):
        if member.name in [other.name for other in members[:i]]:
            raise ConfigError(f"{where}: {member.name!r} is there twice: add up its weights")
    return members


def _paths(value: object, folder: Path, where: str) -> str | list[str]:
    if isinstance(value, str):
        return value if not value or _ELSEWHERE.match(value) else str(folder / value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [str(_paths(one, folder, where)) for one in value]
    raise ConfigTypeError(f"{where}: path is {value!r}, expected a string or a list of strings")


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigTypeError(f"{where} is {value!r:.60}, expected a table of names and values")
    return value


def _check_keys(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ConfigError(
                f"{where} has the unknown key {key!r}{hint}; known: {', '.join(known)}"
            )


def _load_yaml(text: str, file: Path) -> object:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            f"{file}: reading YAML needs the package pyyaml: install zephon with its extra 'yaml' "
            "(pip install './zephon[yaml]') or pyyaml itself, or write the blend as TOML"
        ) from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader, which takes the last of several equal keys, but for that."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
        for i, key in enumerate(keys):
            if key in keys[:i]:
                raise ConfigError(f"{file}: the key {key!r} is there twice")
        return {
            key: loader.construct_object(value, deep=True)
            for key, (_, value) in zip(keys, node.value, strict=True)
        }

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: is not valid YAML: {error}") from error
