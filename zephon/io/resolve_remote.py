"""From URLs (of an object, a folder or a pattern) to shards of one format."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from zephon.errors import DataError
from zephon.io.object_store import ObjectStore, RemoteObject
from zephon.io.options import StoreOptions
from zephon.io.parallel import in_order
from zephon.io.remote import RemoteShard, matching
from zephon.io.shard import Format

_HEAD = 4096


def open_remote(
    name: str, urls: Sequence[str], wanted: Sequence[Format], options: StoreOptions
) -> tuple[Format, list[str], list[RemoteShard]]:
    """The format of dataset ``name``, the URLs of its shards in a fixed order, and the shards."""
    stores: dict[str, ObjectStore] = {}
    found: dict[str, tuple[ObjectStore, RemoteObject]] = {}
    for url in urls:
        base = "/".join(url.split("/")[:3])
        store = stores.setdefault(base, ObjectStore(url, options))
        for one in _expand(name, url, store, wanted):
            found.setdefault(one.url, (store, one))
    shards: dict[str, tuple[Format, ObjectStore, list[RemoteObject]]] = {}
    for store, one in found.values():
        fmt = _kind(name, one, store, wanted)
        objects = _pair(one, store) if fmt.name == "bin" else [one]
        shards.setdefault(objects[0].url, (fmt, store, objects))
    kinds = {fmt.name for fmt, _, _ in shards.values()}
    if len(kinds) > 1:
        raise DataError(
            f"dataset {name!r} mixes the formats {', '.join(sorted(kinds))}: make one dataset "
            "of each, or choose with fmt="
        )
    opened = in_order(
        lambda entry: RemoteShard(entry[0], entry[2], entry[1], options), list(shards.values())
    )
    return next(iter(shards.values()))[0], list(shards), opened


def _expand(
    name: str, url: str, store: ObjectStore, wanted: Sequence[Format]
) -> list[RemoteObject]:
    if glob.has_magic(url):
        parts = url.split("/")
        magic = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        hits = matching(url, store.list("/".join(parts[: max(magic, 3)])))
        if not hits:
            raise DataError(f"dataset {name!r}: no object matches the pattern", file=url)
        return _sorted(hits)
    if (one := store.ask(url)) is not None:
        return [one]
    if url.startswith(("http://", "https://")):
        raise DataError(f"dataset {name!r}: there is no such object", file=url)
    suffixes = tuple(suffix for fmt in wanted for suffix in fmt.suffixes)
    below = store.list(url)
    known = [
        one
        for one in below
        if one.url.lower().endswith(suffixes)
        and not any(part.startswith(".") for part in one.url.split("/")[3:])
    ]
    if not known:
        there = ", ".join(one.url.rpartition("/")[2] for one in below[:5])
        what = f"holds no object of a known kind. Found: {there}" if below else "is not there"
        raise DataError(
            f"dataset {name!r}: {what}; looked for: {', '.join(sorted(suffixes))}", file=url
        )
    return _sorted(known)


def _sorted(objects: list[RemoteObject]) -> list[RemoteObject]:
    return sorted(objects, key=lambda one: one.url.split("/"))  # as files of a folder are


def _kind(name: str, one: RemoteObject, store: ObjectStore, wanted: Sequence[Format]) -> Format:
    if len(wanted) == 1:
        return wanted[0]
    for fmt in wanted:
        if one.url.lower().endswith(fmt.suffixes):
            return fmt
    head = store.read(one, 0, min(one.size, _HEAD))
    for fmt in wanted:
        if head.startswith(fmt.signatures) or fmt.recognises(Path(one.url), head):
            return fmt
    kinds = ", ".join(f"{fmt.name} ({', '.join(fmt.suffixes)})" for fmt in wanted)
    raise DataError(
        f"dataset {name!r}: unknown kind of object (it begins with {head[:8]!r}); "
        f"known kinds: {kinds}. Name one with fmt= if its suffix is unusual",
        file=one.url,
    )


def _pair(one: RemoteObject, store: ObjectStore) -> list[RemoteObject]:
    """Index and tokens of the pair that ``one`` belongs to."""
    prefix = one.url.removesuffix(".bin").removesuffix(".idx")
    pair = []
    for url in (f"{prefix}.idx", f"{prefix}.bin"):
        if (half := one if one.url == url else store.ask(url)) is None:
            raise DataError("the other half of the pair is there and this one is not", file=url)
        pair.append(half)
    return pair
