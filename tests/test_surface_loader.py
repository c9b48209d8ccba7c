"""Names and signatures of the loader's modules are those that code elsewhere is written for.

``data/public_surface_loader.json`` is a copy of that surface. Every parameter of it is taken by
ours under the same name, in the same place and with the same default; ours may have more, which
must be optional. What is left out on purpose stands here, with the reason.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surface import parse

SURFACE = json.loads((Path(__file__).parent / "data" / "public_surface_loader.json").read_text())

WITHOUT = {
    "zephon.options.IpcTransport": "no process is started, so nothing is sent between processes",
    "zephon.validation.Issue.doc_link": "a link to the other package's pages",
    "zephon.validation.ValidationReport.issues": "cannot be changed, so it is a tuple, () if empty",
}
"""Names, or parameters of a name, that ours has not or has otherwise, and why."""

OF_PROCESSES = re.compile(
    r"runner|per_stage|mp_|mtp_|worker|prefetch|queue|ipc_|shm_|mixture_config|io_options|flush|"
    r"shutdown|auto_validation|mapping_strategy|serializer|compressor|tracking|sink|deterministic|"
    r"allow_latency"
)
"""Options of the other package's worker processes, which there are none of here. Those that recipes
pass all the same are taken by ``Pipeline.options``; see there."""

OWN_DEFAULTS = {
    "run_id": None,  # must differ between starts: a default would let runs meet
    "aggregate_timeout": 300.0,
    "world_size": None,  # the data-parallel ones
    "global_rank": None,
    "dp_degree": 1,
    "dp_group_id": 0,
}


def entries() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for module, names in SURFACE.items():
        for name, entry in names.items():
            yield module, name, entry


def compare(ours: Any, signature: str, what: str) -> None:
    parameters = {
        name: one
        for name, one in inspect.signature(ours).parameters.items()
        if name not in ("self", "cls")
    }
    wanted = parse(signature)
    for place, (name, (kind, default)) in enumerate(wanted.items()):
        if f"{what}.{name}" in WITHOUT:
            continue
        assert name in parameters, f"{what} has no parameter {name!r}"
        mine = parameters[name]
        if kind == "placed":
            assert mine.kind is not mine.KEYWORD_ONLY, f"{what}: {name!r} is by keyword only"
            assert list(parameters).index(name) == place, f"{what}: {name!r} is at another place"
        if default not in (None, "..."):
            assert repr(mine.default) == default, f"{what}: default of {name!r}"
    for name, mine in parameters.items():
        if name not in wanted:
            assert mine.default is not mine.empty, f"{what}: {name!r} is required"


@pytest.mark.parametrize(
    ("module", "name", "entry"), [pytest.param(*one, id=f"{one[0]}.{one[1]}") for one in entries()]
)
def test_each_name_is_there_and_takes_what_it_should(
    module: str, name: str, entry: dict[str, Any]
) -> None:
    what = f"{module}.{name}"
    if what in WITHOUT:
        assert not hasattr(importlib.import_module(module), name)
        return
    ours = getattr(importlib.import_module(module), name)
    if what == "zephon.options.RuntimeOptions":
        return  # compared field by field below
    signature = entry.get("signature")
    if signature and "*args" not in signature and ours is not int:
        compare(ours, signature, what)
    for member, taken in entry.get("members", {}).items():
        if member == "__init__" or taken is None:
            continue
        mine = inspect.getattr_static(ours, member, None)
        assert mine is not None, f"{what} has no {member}"
        if taken != "property":
            compare(getattr(ours, member), taken, f"{what}.{member}")


def test_runtime_options_are_those_of_a_stream_that_there_are_without_worker_processes() -> None:
    from zephon.options import RuntimeOptions, StreamOptions

    assert RuntimeOptions is StreamOptions
    signature = SURFACE["zephon.options"]["RuntimeOptions"]["signature"]
    mine = inspect.signature(RuntimeOptions).parameters
    for name, (_, default) in parse(signature).items():
        name = {"aggregate_timeout_s": "aggregate_timeout"}.get(name, name)
        if OF_PROCESSES.search(name):
            continue
        assert name in mine, name
        if name in OWN_DEFAULTS:
            assert mine[name].default == OWN_DEFAULTS[name]
        elif default != "...":
            assert repr(mine[name].default) == default


def test_what_is_left_out_is_said_in_words() -> None:
    assert all(len(reason) > 20 for reason in WITHOUT.values())


def test_a_changed_default_a_lost_and_a_new_parameter_are_noticed() -> None:
    def ours(a: int, b: int = 1) -> None: ...

    compare(ours, "(a: 'int', b: int = 1) -> None", "ours")
    for signature, message in (
        ("(a, b=2)", "default of 'b'"),
        ("(a, b=1, c=3)", "no parameter 'c'"),
        ("(b=1)", "at another place"),
    ):
        with pytest.raises(AssertionError, match=message):
            compare(ours, signature, "ours")

    def more(a: int, b: int) -> None: ...

    with pytest.raises(AssertionError, match="'b' is required"):
        compare(more, "(a)", "more")
