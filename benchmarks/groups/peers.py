"""Streams of tokens: zephon, its peers and the limit, each in a process of its own, in turns."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import corpus
import environments
from harness import Row, Settings, Spread, Table, ratios

ORDER = (
    "limit_loop",
    "ours",
    "litdata_tokens",
    "megatron_core",
    "grain_packing",
    "zephon_public",
    "mosaicml_streaming",
    "hf_datasets",
    "torchdata_nodes",
    "trl_packing",
    "torchtune_packing",
    "datatrove_tokens",
)
AIMS = {"wrap": ">= 0.45"}
OVER = {
    ("litdata_tokens", "blend"): ">= 3.5",
    ("megatron_core", "loader"): ">= 8",
}
MOST_TURNS = 4
TIMEOUT, TO_PREPARE = 240, 1200
"""Seconds that a peer may take for a turn, and once for files of its own format."""

Result = dict[str, float]


def about(name: str) -> dict[str, Any]:
    """What a peer's script says of it, without importing the peer."""
    tree = ast.parse((environments.PEERS / f"{name}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ABOUT":
            told: dict[str, Any] = ast.literal_eval(node.value)
            return told
    raise LookupError(f"{name}.py says nothing about itself")


class Peer:
    """A script, the interpreter that runs it, and why it cannot if so."""

    def __init__(self, name: str, settings: Settings, data: Path) -> None:
        self.name, self.about, self.data = name, about(name), data
        self.cache = settings.work / "cache" / f"{name}-{settings.documents}"
        self.seconds = settings.seconds
        self.fault = ""
        self.python = Path(sys.executable)
        try:
            if self.about["package"]:
                self.python = environments.python_of(name)
        except RuntimeError as error:
            self.fault = f"does not install here: {error}"
            return
        try:
            self.run("prepare")
        except RuntimeError as error:
            self.fault = f"does not run: {error}"

    def run(self, variant: str) -> Result | None:
        script = environments.PEERS / f"{self.name}.py"
        command = [self.python, "-P", script, self.data, self.cache, variant, str(self.seconds)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        limit = TO_PREPARE if variant == "prepare" else TIMEOUT
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=environment,
                cwd=self.data,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"more than {limit} s") from None
        if ran.returncode:
            lines = [line for line in ran.stderr.splitlines() if line.strip()] or ["no message"]
            raise RuntimeError(lines[-1][:200])
        told = [line for line in ran.stdout.splitlines() if line.startswith('{"tokens_per')]
        return json.loads(told[-1]) if told else None

    @property
    def version(self) -> str:
        package = self.about["package"]
        if not package:
            return ""
        pins = (environments.PEERS / f"{self.name}.txt").read_text().splitlines()
        return next(pin.split("==")[1] for pin in pins if pin.split("==")[0] == package)


def measure(settings: Settings) -> list[Table]:
    data = corpus.tokens(settings)
    names = ORDER[:2] if settings.quick else ORDER
    peers = [Peer(name, settings, data) for name in names]
    found: dict[tuple[str, str], list[Result]] = {}
    faults: dict[tuple[str, str], str] = {}
    turns = min(settings.turns, MOST_TURNS)
    for turn in range(turns):
        for peer in peers:
            for variant in peer.about["variants"]:
                key = peer.name, variant
                if peer.fault:
                    faults[key] = peer.fault
                if key in faults:
                    continue
                try:
                    result = peer.run(variant)
                except RuntimeError as error:
                    faults[key] = f"does not run: {error}"
                    continue
                assert result is not None, key
                found.setdefault(key, []).append(result)
        print(f"peers: turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
    for key, fault in faults.items():
        if key[0] in ORDER[:2]:
            sys.exit(f"{key}: {fault}")
        found.pop(key, None)
    return [
        throughput(peers, found, faults),
        first_batches(peers, found, faults),
        memory(peers, found),
        work(peers),
    ]


def label(peer: Peer, variant: str) -> str:
    return f"{peer.about['name']}: {peer.about['variants'][variant]}"


def throughput(
    peers: list[Peer], found: dict[tuple[str, str], list[Result]], faults: dict[Any, str]
) -> Table:
    def rates(key: tuple[str, str]) -> list[float]:
        return [result["tokens_per_second"] for result in found[key]]

    limit, ours = rates(("limit_loop", "full")), rates(("ours", "wrap"))
    rows = []
    for peer in peers:
        for variant in peer.about["variants"]:
            key, what = (peer.name, variant), label(peer, variant)
            if key in faults:
                rows.append(Row(what=what, note=faults[key]))
                continue
            value = Spread.of(rates(key)).median / 1e6
            if peer.name == "limit_loop":
                rows.append(Row(what=what, value=value, unit="Mtok/s", kind="limit"))
            elif peer.name == "ours":
                rows.append(
                    Row(
                        what=what, value=value, unit="Mtok/s", kind="share",
                        ratio=ratios(rates(key), limit), of="plain C loop, full batch",
                        aim=AIMS.get(variant, ""),
                    )
                )  # fmt: skip
            else:
                rows.append(
                    Row(
                        what=what, value=value, unit="Mtok/s", kind="peer",
                        ratio=ratios(ours, rates(key)), of="zephon, wrap, prefetch(0), over it",
                        aim=OVER.get(key, ""),
                    )
                )  # fmt: skip
    return Table(
        id="peers",
        title="A stream of tokens, beside its peers",
        text=(
            "Two sources of lognormal documents, mean 800 tokens, 16 bits, 0.7 to 0.3; rows of "
            "4,097, batches of 8, one process, everything in the page cache. Each line is a "
            "process of its own in each turn, so all of them meet the machine's moods alike. "
            "Tokens are those with a label; padding does not count. Shares are of the plain C "
            "loop, ratios are zephon's speed over the peer's in the same turn."
        ),
        rows=rows,
    )


def first_batches(
    peers: list[Peer], found: dict[tuple[str, str], list[Result]], faults: dict[Any, str]
) -> Table:
    ours = [r["first_batch_seconds"] for r in found["ours", "ahead"]]
    rows = []
    for peer in peers:
        if peer.name == "limit_loop":
            continue
        for variant in peer.about["variants"]:
            key, what = (peer.name, variant), label(peer, variant)
            if key in faults:
                continue
            values = [r["first_batch_seconds"] for r in found[key]]
            rows.append(
                Row(
                    what=what, value=Spread.of(values).median, unit="s",
                    kind="peer" if peer.name != "ours" else "plain",
                    ratio=ratios(values, ours) if peer.name != "ours" else None,
                    of="the time of zephon's default" if peer.name != "ours" else "",
                )
            )  # fmt: skip
    return Table(
        id="first-batch",
        title="Time to the first batch, from the start of the interpreter's first import",
        text=(
            "Imports, opening or building indices, and one batch as tensors. What a peer writes "
            "beforehand (litdata's and mosaicml-streaming's formats, megatron-core's index "
            "caches) is there already. Ratios are its time over that of zephon."
        ),
        rows=rows,
    )


def memory(peers: list[Peer], found: dict[tuple[str, str], list[Result]]) -> Table:
    rows = [
        Row(
            what=label(peer, variant),
            value=Spread.of([r["peak_mb"] for r in found[peer.name, variant]]).median,
            unit="MB",
        )
        for peer in peers
        for variant in peer.about["variants"]
        if (peer.name, variant) in found and peer.name != "limit_loop"
    ]
    return Table(
        id="peers-memory",
        title="Memory of the process at its greatest",
        text="With libraries, PyTorch where it is imported, and the pages of mapped files.",
        rows=rows,
    )


def work(peers: list[Peer]) -> Table:
    rows = [
        Row(
            what=f"{peer.about['name']} {peer.version}".strip(),
            note=(
                f"emits {peer.about['emits']}; blended: {said(peer.about['blended'])}; "
                f"shuffled: {peer.about['shuffled']}; resumable: {said(peer.about['resumable'])}"
            ),
        )
        for peer in peers
    ]
    return Table(
        id="peers-work", title="What each of them does", text="Not all of them do as much.",
        rows=rows,
    )  # fmt: skip


def said(value: object) -> str:
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )
