"""The self-test passes here, and fails where it has to."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from oracles import blending, sample_index, sentence_mapping
from zephon import selftest


def digest(*arrays):
    return selftest._digest(iter(arrays))


def test_every_check_passes_and_has_a_golden_digest():
    results = selftest.run()
    assert [one.error for one in results] == [""] * len(results)
    assert {one.name for one in results} == set(selftest.CHECKS) == set(selftest.GOLDEN)


def test_the_golden_blends_are_those_of_the_oracles():
    found = []
    for count in (2, 3, 7, 40, 300):
        shares = selftest._lengths(count, 1000).astype(np.float64)
        for values, kind in zip(
            blending.weighted((shares / shares.sum()).tolist(), 20_000), ("i2", "i8"), strict=True
        ):
            found.append(np.array(values, kind))
    assert digest(*found) == selftest.GOLDEN["blend"]
    found = []
    for count in (2, 3, 30):
        sizes = selftest._lengths(count, 700).tolist()
        for values, kind in zip(blending.exhaustive(sizes), ("i2", "i8"), strict=True):
            found.append(np.array(values, kind))
    assert digest(*found) == selftest.GOLDEN["exhaustive blend"]


def test_the_golden_sample_indices_are_those_of_the_oracle():
    sizes = selftest._lengths(500, 300).tolist()
    order = [*range(500), *reversed(range(500))]
    found = []
    for drop in (True, False):
        for length, extra, kind in ((128, True, "i4"), (33, False, "i8")):
            rows = sample_index.sample_index(sizes, order, length, 2, sum(sizes), drop, extra)
            found.append(np.array(rows, kind))
    assert digest(*found) == selftest.GOLDEN["sample index"]


def test_the_golden_mappings_are_those_of_the_oracle():
    docs, sizes = (value.tolist() for value in selftest._sentences())
    titles = selftest._lengths(len(docs) - 1, 9, salt=3).tolist()
    one = sentence_mapping.mapping(docs, sizes, 3, 10_000, 128, 10, 1234, 2)
    assert digest(np.array(one, "u4")) == selftest.GOLDEN["sentence mapping"]
    other = sentence_mapping.blocks(docs, sizes, titles, 2, 10_000, 128, 1234, False)
    assert digest(np.array(other, "u4")) == selftest.GOLDEN["block mapping"]


def test_a_result_that_differs_is_a_failure_that_shows_both(monkeypatch, capsys):
    monkeypatch.setattr(selftest, "GOLDEN", {**selftest.GOLDEN, "blend": "0" * 32})
    monkeypatch.setattr(selftest, "CHECKS", {"blend": selftest.CHECKS["blend"]})
    assert selftest.main([]) == 1
    out = capsys.readouterr().out
    assert f"gave {'faf73e11fe483477b1dd156bee3c1191'}, expected {'0' * 32}" in out
    assert "1 of 1 checks failed: do not train with this installation" in out


def test_a_check_that_raises_fails_and_the_others_go_on(monkeypatch, capsys):
    def broken():
        yield np.zeros(1)
        raise OSError("no memory")

    checks = {"broken": broken, "refused states": selftest.CHECKS["refused states"]}
    monkeypatch.setattr(selftest, "CHECKS", checks)
    assert selftest.main(["--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is False
    assert told["checks"]["broken"] == {"digest": "", "error": "OSError: no memory"}
    assert told["checks"]["refused states"]["error"] == ""


def test_a_resume_that_goes_on_elsewhere_is_noticed(monkeypatch):
    from zephon import Pipeline

    monkeypatch.setattr(Pipeline, "restore", lambda self, state: None)
    by_name = {one.name: one for one in selftest.run(["save and resume", "refused states"])}
    assert "batch 11 of 24 differs" in by_name["save and resume"].error
    assert "a damaged state was not refused" in by_name["refused states"].error


def test_an_unknown_check_is_an_error():
    with pytest.raises(KeyError, match="nothing"):
        selftest.run(["nothing"])


_WITHOUT_TORCH = """
import runpy, sys
from importlib import util
find = util.find_spec
util.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
sys.modules["torch"] = None  # importing it is an error
sys.argv = ["selftest"]
runpy.run_module("zephon.selftest", run_name="__main__")
"""


def test_it_runs_without_torch_and_says_one_digest_for_all():
    done = subprocess.run(
        [sys.executable, "-P", "-c", _WITHOUT_TORCH], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "tensors" not in done.stdout
    common = "".join(digest for name, digest in selftest.GOLDEN.items() if name != "tensors")
    expected = hashlib.sha256(common.encode()).hexdigest()
    assert done.stdout.splitlines()[-1] == f"all 11 checks passed: {expected}"
