"""docs/performance.md and its plots, as a function of results.json and of nothing else.

python benchmarks/report.py       write them again from the results that are there
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not there with python -P
from harness import TREE, Row, Spread
from plots import slope, svg

PAGE = TREE / "docs" / "performance.md"
PLOTS = TREE / "docs" / "performance"

HEAD = """\
# Performance

Written by `{command}` from what it measured; `benchmarks/` says how. Each section names the machine
it was measured on and the day. The machine may be shared, so only ratios within a run mean
something: things that are compared take alternating turns, a ratio is formed of neighbours in time,
and what stands here is the median of the ratios, with the least and the greatest in parentheses.
Absolute figures give the scale and nothing else.
"""


def number(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def spread(ratio: Spread) -> str:
    return f"{number(ratio.median)} ({number(ratio.least)}, {number(ratio.most)})"


def rows_of(table: dict[str, Any]) -> list[Row]:
    return [
        Row(**{**row, "ratio": Spread(**row["ratio"]) if row["ratio"] else None})
        for row in table["rows"]
    ]


def table_lines(table: dict[str, Any]) -> list[str]:
    rows = rows_of(table)
    lines = [f"### {table['title']}", "", table["text"], ""]
    if all(row.value is None and row.ratio is None for row in rows):
        return [*lines, "| | |", "|---|---|", *(f"| {r.what} | {r.note} |" for r in rows), ""]
    lines += ["| what | | ratio | of what | aim |", "|---|---|---|---|---|"]
    for row in rows:
        value = "" if row.value is None else f"{number(row.value)} {row.unit}"
        if row.note:
            value = f"{value}; {row.note}" if value else row.note
        ratio = (
            ""
            if row.ratio is None
            else f"**{number(row.ratio.median)}** "
            + (f"({number(row.ratio.least)}, {number(row.ratio.most)})")
        )
        aim = f"{row.aim}{' missed' if row.missed else ''}"
        lines.append(f"| {row.what} | {value} | {ratio} | {row.of} | {aim} |")
    return [*lines, ""]


def behind(told: dict[str, Any]) -> list[str]:
    """What is slower than a peer, misses its aim or is far from a limit."""
    found = []
    for group in told["groups"].values():
        for table in group["tables"]:
            for row in rows_of(table):
                if row.ratio is None:
                    continue
                where = f"{table['title']}: {row.what}"
                if row.kind == "peer" and row.ratio.median < 1:
                    found.append(f"* {where}: slower than this, {spread(row.ratio)} of its speed.")
                elif row.missed:
                    found.append(f"* {where}: {spread(row.ratio)} of {row.of}, aimed at {row.aim}.")
                elif row.kind == "share" and "loop" in row.of and row.ratio.median < 0.5:
                    found.append(f"* {where}: far from the limit, {spread(row.ratio)} of it.")
    return found


def machine_line(group: dict[str, Any]) -> str:
    m = group["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    return (
        f"{m['date']}, {m['cpu']}, {m['cores']} cores, {m['memory_gb']} GB, load {m['load']}, "
        f"{m['system']}; {versions}; `{group['command']}`"
    )


TITLES = {
    "peers": "Beside its peers",
    "kernels": "Kernels",
    "stream": "The stream",
    "startup": "Import and start-up",
    "state": "State",
    "scaling": "How costs grow",
    "text": "Text and Parquet",
    "megatron": "Megatron's indices and samples",
}


def markdown(told: dict[str, Any]) -> str:
    lines = [HEAD.format(command=told["command"])]
    if any("bench-quick" in group["command"] for group in told["groups"].values()):
        lines += [
            "**Some of this is of `make bench-quick`: one turn of small sizes, which shows that "
            "everything runs and nothing about speed. Run `make bench` on a quiet machine.**",
            "",
        ]
    lines += ["## Where zephon is behind", ""]
    lines += behind(told) or ["Nowhere in what was measured."]
    lines.append("")
    for name, group in told["groups"].items():
        lines += [f"## {TITLES[name]}", "", machine_line(group), ""]
        for table in group["tables"]:
            lines += table_lines(table)
        for plot in group["plots"]:
            lines += [f"### {plot['title']}", ""]
            lines += [f"![{plot['title']}](performance/{plot['id']}.svg)", ""]
            lines += ["| series | slope on logarithmic axes | points |", "|---|---|---|"]
            for label, points in plot["series"].items():
                said = ", ".join(f"{x:g}: {number(y)}" for x, y in points)
                lines.append(f"| {label} | {slope(points):.2f} | {said} |")
            lines += ["", f"Points are {plot['x']}: {plot['y']}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def write(told: dict[str, Any]) -> None:
    PLOTS.mkdir(parents=True, exist_ok=True)
    for old in PLOTS.glob("*.svg"):
        old.unlink()
    for group in told["groups"].values():
        for plot in group["plots"]:
            (PLOTS / f"{plot['id']}.svg").write_text(svg(plot))
    PAGE.write_text(markdown(told))


if __name__ == "__main__":
    write(json.loads((Path(__file__).parent / "results.json").read_text()))
