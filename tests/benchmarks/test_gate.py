"""The gate knows every native entry point, and closes on what costs more."""

import copy
import json
import re
from pathlib import Path

import cases
import gate
import pytest

NATIVE = Path(__file__).parents[2] / "zephon" / "_native"
BASELINE = json.loads(gate.BASELINE.read_text())


def entry_points():
    """``module.function`` and ``module.Class.method`` of all extensions, from their sources."""
    found = set()
    for path in NATIVE.glob("*.pyx"):
        owner = None
        for line in path.read_text().splitlines():
            if line[:1].strip():
                owner = None
            if match := re.match(r"cdef class (\w+)", line):
                owner = match[1]
            elif match := re.match(r"(?:cp)?def (\w+)\(", line):
                found.add(f"{path.stem}.{match[1]}")
            elif owner and (match := re.match(r"    def (\w+)\(", line)):
                found.add(f"{path.stem}.{owner}.{match[1]}")
    return {name for name in found if not any(part[0] == "_" for part in name.split("."))}


def test_every_native_entry_point_is_counted_or_has_a_reason_not_to_be():
    known = {name.partition("/")[0] for name in cases.CASES}
    assert entry_points() == known | set(cases.EXEMPT)
    assert not known & set(cases.EXEMPT)
    assert all(reason.strip() for reason in cases.EXEMPT.values())


def test_every_case_has_a_baseline_that_was_recorded_with_a_reason():
    assert set(BASELINE["instructions"]) == set(cases.CASES)
    assert gate.compare(BASELINE, BASELINE, whole=True) == []


def found(**changed):
    made = copy.deepcopy(BASELINE)
    made["instructions"] |= changed
    return made


NAME = next(iter(BASELINE["instructions"]))
COUNT = BASELINE["instructions"][NAME]


def test_three_percent_more_instructions_pass_and_four_do_not():
    assert gate.compare(found(**{NAME: int(COUNT * 1.029)}), BASELINE, whole=True) == []
    (fault,) = gate.compare(found(**{NAME: int(COUNT * 1.04)}), BASELINE, whole=True)
    assert re.fullmatch(rf"{re.escape(NAME)}: [\d,]+ instructions, \+4.0% over {COUNT:,}", fault)


def test_fewer_instructions_pass_and_are_told(capsys):
    assert gate.compare(found(**{NAME: COUNT // 2}), BASELINE, whole=True) == []
    assert "record it to keep the gain" in capsys.readouterr().out


def test_a_case_without_a_baseline_and_a_baseline_without_a_case_fail():
    more = found(**{"text.new": 7})
    assert gate.compare(more, BASELINE, whole=True) == ["text.new: 7 instructions, and no baseline"]
    less = found()
    del less["instructions"][NAME]
    (fault,) = gate.compare(less, BASELINE, whole=True)
    assert fault == f"{NAME}: in the baseline, but there is no such case"
    assert gate.compare(less, BASELINE, whole=False) == []


def test_counts_changed_by_hand_fail():
    changed = found(**{NAME: COUNT * 2})
    (fault,) = gate.compare(changed, changed, whole=True)
    assert fault == "the baseline's counts were changed by hand; record them with a reason"


def test_a_baseline_without_a_reason_fails():
    without = copy.deepcopy(BASELINE)
    without["reasons"][-1]["reason"] = " "
    (fault,) = gate.compare(BASELINE, without, whole=True)
    assert fault == "the baseline has no reason; record it with one"


def test_counts_of_another_compiler_are_not_compared():
    other = found()
    other["toolchain"] = {**other["toolchain"], "compiler": "another"}
    (fault,) = gate.compare(other, BASELINE, whole=True)
    assert "cannot be compared" in fault


@pytest.mark.parametrize("kind", ["native calls", "Python calls", "PyTorch operations"])
def test_one_call_more_in_a_hundred_batches_fails(kind):
    more = found()
    path = next(iter(more["batches"]))
    before = more["batches"][path][kind]
    more["batches"][path][kind] = before + 1
    (fault,) = gate.compare(more, BASELINE, whole=True)
    assert fault == f"{path}: {before + 1} {kind} per 100 batches, before {before}"


def test_allocations_may_grow_by_three_percent_and_not_by_four():
    more = found()
    path, costs = next(iter(more["batches"].items()))
    before = costs["allocations"]
    costs["allocations"] = int(before * 1.029)
    assert gate.compare(more, BASELINE, whole=True) == []
    costs["allocations"] = int(before * 1.04)
    (fault,) = gate.compare(more, BASELINE, whole=True)
    assert fault.startswith(f"{path}: {costs['allocations']} allocations per 100 batches")


DUMP = """\
desc: Trigger: Client Request: text.count_lines
ob=/somewhere/text.abi3.so
fn=zephon::count_lines(std::span<char const>)
0 30
cfn=memchr
calls=5 0
0 500
0 12
fn=__pyx_pw_count
0 7
cfn=zephon::count_lines(std::span<char const>)
calls=1 0
0 542
totals: 1091
"""


def test_only_what_runs_in_a_kernel_itself_is_counted_as_native(tmp_path):
    path = tmp_path / "out.1"
    path.write_text(DUMP)
    assert gate.read_dump(path) == ("text.count_lines", gate.Count(total=1091, native=42))


def test_a_stripped_build_has_nothing_native(tmp_path):
    path = tmp_path / "out.1"
    path.write_text(DUMP.replace("fn=zephon::count_lines(std::span<char const>)", "fn=0x1234"))
    assert gate.read_dump(path)[1].native == 0


def test_a_dump_of_no_case_is_left_out(tmp_path):
    path = tmp_path / "out"
    path.write_text("desc: Trigger: Program termination\ntotals: 0\n")
    assert gate.read_dump(path) is None
