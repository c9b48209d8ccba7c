"""The report is what the results say, and says what README and docs claim."""

import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import plots
import pytest
import report
from harness import Row, Spread, Table, absent, alternate, ratios

TREE = Path(__file__).parents[2]
RESULTS = TREE / "benchmarks" / "results.json"
TOLD = json.loads(RESULTS.read_text())
PAGE = (TREE / "docs" / "performance.md").read_text()
# A figure of speed anywhere else: "3.4 times as fast", "x12", "0.3 of the limit".
CLAIM = re.compile(
    r"\b(\d[\d,]*(?:\.\d+)?)(?: to (\d[\d,]*(?:\.\d+)?))? times (?:as |the )?"
    r"(?:fast|slow|long|speed|quick)|\bx(\d+(?:\.\d+)?)\b(?![-_])|\b(\d+(?:\.\d+)?)x\b"
)


def test_the_page_and_its_plots_are_made_of_the_committed_results():
    assert report.markdown(TOLD) == PAGE
    wanted = {
        f"{plot['id']}.svg": plots.svg(plot)
        for group in TOLD["groups"].values()
        for plot in group["plots"]
    }
    there = {p.name: p.read_text() for p in (TREE / "docs" / "performance").glob("*.svg")}
    assert there == wanted


@pytest.mark.parametrize(
    "path",
    [TREE / "README.md", *sorted((TREE / "docs").glob("*.md"))],
    ids=lambda path: path.name,
)
def test_every_figure_of_speed_is_in_the_report_with_its_spread(path):
    if path.name == "performance.md":
        pytest.skip("the report itself")
    missing = [
        figure
        for claim in CLAIM.finditer(path.read_text())
        for figure in filter(None, claim.groups())
        if f"**{figure}** (" not in PAGE
    ]
    assert not missing, f"{path.name} claims {missing}; quote ratios of docs/performance.md"


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("is 3.4 times as fast as", ["3.4"]),
        ("1.7 to 1.9 times as fast", ["1.7", "1.9"]),
        ("about 12x, or x40", ["12", "40"]),
        ("8 tokens of 4,097 on x86-64, five times a day", []),
    ],
)
def test_figures_of_speed_are_recognised(text, figures):
    assert [f for m in CLAIM.finditer(text) for f in m.groups() if f] == figures


def told(*rows):
    table = dataclasses.asdict(Table(id="t", title="A table", text="Words.", rows=list(rows)))
    machine = {
        "date": "2000-01-01", "cpu": "none", "cores": 2, "memory_gb": 4, "load": 0.1,
        "system": "Linux", "versions": {"zephon": "0"},
    }  # fmt: skip
    group = {"machine": machine, "command": "make bench", "tables": [table], "plots": []}
    return {"command": "make bench", "groups": {"stream": json.loads(json.dumps(group))}}


SPREAD = Spread(median=0.5, least=0.4, most=0.6)


def test_a_faster_peer_is_named_at_the_beginning():
    page = report.markdown(told(Row(what="them", kind="peer", ratio=SPREAD)))
    assert "* A table: them: slower than this, 0.50 (0.40, 0.60) of its speed." in page


def test_a_missed_aim_and_a_far_limit_are_named_at_the_beginning():
    page = report.markdown(
        told(
            Row(what="missed", kind="share", ratio=SPREAD, of="that", aim=">= 0.75"),
            Row(what="reached", kind="cost", ratio=SPREAD, of="that", aim="<= 0.5"),
            Row(what="far", kind="share", ratio=Spread(median=0.3, least=0.3, most=0.3),
                of="plain C loop"),
        )
    )  # fmt: skip
    assert "* A table: missed: 0.50 (0.40, 0.60) of that, aimed at >= 0.75." in page
    assert "* A table: far: far from the limit, 0.30 (0.30, 0.30) of it." in page
    assert "* A table: reached" not in page
    assert "| >= 0.75 missed |" in page


def test_what_was_not_measured_is_in_the_table_with_its_reason():
    page = report.markdown(told(absent("Parquet"), Row(what="x", value=2.0, unit="ms")))
    assert "| Parquet | not there yet |  |  |  |" in page
    assert "| x | 2.00 ms |  |  |  |" in page


def test_measures_take_turns_behind_one_that_warms_up():
    seen = []
    found = alternate(
        2, {"a": lambda: seen.append("a") or len(seen), "b": lambda: seen.append("b") or len(seen)}
    )
    assert "".join(seen) == "ababab"
    assert found == {"a": [3, 5], "b": [4, 6]}


def test_ratios_are_of_the_same_turn():
    assert ratios([1.0, 4.0, 9.0], [1.0, 2.0, 3.0]) == Spread(median=2.0, least=1.0, most=3.0)


def test_a_slope_is_the_exponent():
    assert plots.slope([(x, 5 * x**2) for x in (1, 10, 100)]) == pytest.approx(2)
    assert plots.slope([(x, 7) for x in (1, 10, 100)]) == pytest.approx(0)


def test_a_plot_is_xml_with_its_slopes():
    series = {"grows": [(1, 2.0), (10, 20.0)], "<stays>": [(1, 3.0), (10, 3.0)]}
    made = plots.svg({"title": "T & U", "x": "x", "y": "y", "series": series})
    ElementTree.fromstring(made)
    assert "grows: slope 1.00" in made
    assert "&lt;stays&gt;: slope 0.00" in made
