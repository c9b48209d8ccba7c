"""Imports, and what a trainer waits for its index helpers: compiling, or importing ours.

Each value is of a fresh process. ``make`` is one g++ call with pybind11, as
Megatron-LM's ``compile_helpers`` does; ``load_inline`` is torch's extension builder
into an empty cache, as NeMo AutoModel's ``compile_helper`` does, and again with the
cache filled. What is compiled is one function of the size of the real ones, so the
real sources take somewhat longer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from harness import Row, Settings, Spread, Table, ratios

# A blend of datasets: about what one of the real helpers does.
SOURCE = """
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <algorithm>
#include <cstdint>
#include <vector>
namespace py = pybind11;

void blend(py::array_t<int16_t>& numbers, py::array_t<int64_t>& samples,
           const py::array_t<double>& weights, int64_t size) {
  auto number = numbers.mutable_unchecked<1>();
  auto sample = samples.mutable_unchecked<1>();
  auto weight = weights.unchecked<1>();
  std::vector<int64_t> drawn(weights.size());
  for (int64_t step = 0; step < size; ++step) {
    std::size_t most = 0;
    for (std::size_t at = 1; at < drawn.size(); ++at) {
      const double behind = weight(at) * std::max<double>(step, 1) - drawn[at];
      if (behind > weight(most) * std::max<double>(step, 1) - drawn[most]) most = at;
    }
    number(step) = static_cast<int16_t>(most);
    sample(step) = drawn[most]++;
  }
}
"""

COMMON = """
import json, sys, time
import numpy as np
folder, name = sys.argv[1:3]
source = sys.stdin.read()
"""

BLEND = """
out = np.empty(1000, np.int16), np.empty(1000, np.int64)
helpers.{function}(*out, np.array([0.25, 0.75]), {more})
print(json.dumps(time.perf_counter() - begin))
"""

MAKE = """
import importlib, subprocess, sysconfig
begin = time.perf_counter()
open(f"{folder}/made.cpp", "w").write(
    source + 'PYBIND11_MODULE(made, m) { m.def("blend", &blend); }')
suffix = sysconfig.get_config_var("EXT_SUFFIX")
subprocess.run(["g++", "-O3", "-Wall", "-shared", "-std=c++17", "-fPIC",
                "-I" + sysconfig.get_path("include"), "-I" + name,
                f"{folder}/made.cpp", "-o", f"{folder}/made{suffix}"], check=True)
sys.path.insert(0, folder)
helpers = importlib.import_module("made")
"""

LOAD_INLINE = """
import torch
from torch.utils.cpp_extension import load_inline
begin = time.perf_counter()
helpers = load_inline(name=name, cpp_sources=source, functions=["blend"],
                      extra_cflags=["-O3"], build_directory=folder)
"""

OURS = """
begin = time.perf_counter()
from zephon.megatron import compile_helper
helpers = compile_helper()
"""


def seconds(body: str, folder: Path, name: str, *, ours: bool = False) -> float:
    """Run the body in a process of its own, which tells how long it took."""
    function, more = ("build_blending_indices", "2, 1000, False") if ours else ("blend", "1000")
    code = COMMON + body + BLEND.format(function=function, more=more)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, str(folder), name],
        input=SOURCE,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    return float(json.loads(ran.stdout.splitlines()[-1]))


IMPORTS = {
    "numpy": "import numpy",
    "zephon": "import zephon",
    "zephon.megatron": "import zephon.megatron",
    "zephon.loader": "import zephon.loader",
    "torch": "import torch",
}


def importing(statement: str) -> float:
    """Seconds from the start of an interpreter to its end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", statement], check=True)
    return time.perf_counter() - began


def measure(settings: Settings) -> list[Table]:
    return [imports(settings), helpers(settings)]


def imports(settings: Settings) -> Table:
    found: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for turn in range(settings.turns + 1):
        for name, statement in IMPORTS.items():
            value = importing(statement)
            if turn:
                found[name].append(value)
    rows = [
        Row(what=f"import {name}",
            value=1e3 * Spread.of(values).median, unit="ms", kind="cost",
            ratio=ratios(values, found["numpy"]), of="importing numpy alone")
        for name, values in found.items()
    ]  # fmt: skip
    return Table(
        id="imports", title="Import",
        text="From the start of an interpreter to its end, files in the page cache.", rows=rows,
    )  # fmt: skip


def helpers(settings: Settings) -> Table:
    # torch brings the headers of pybind11; nothing else of it is needed for "make".
    headers = str(Path(sysconfig.get_path("purelib")) / "torch" / "include")
    for folder in map(Path, sys.path):
        if (folder / "torch" / "include" / "pybind11").is_dir():
            headers = str(folder / "torch" / "include")
    cases = {
        "import ours": (OURS, "", True),
        "compile with g++, as Megatron-LM": (MAKE, headers, False),
        "compile with load_inline, as AutoModel": (LOAD_INLINE, "inlined", False),
        "load_inline, compiled before": (LOAD_INLINE, "inlined", False),
    }
    if settings.quick:  # compiling against PyTorch's headers takes a minute
        cases = {name: case for name, case in cases.items() if "load_inline" not in name}
    found: dict[str, list[float]] = {}
    faults: dict[str, str] = {}
    for _ in range(1 if settings.quick else min(2, settings.turns)):
        with tempfile.TemporaryDirectory() as folder:
            for name, (body, argument, ours) in cases.items():
                try:
                    value = seconds(body, Path(folder), argument, ours=ours)
                except subprocess.CalledProcessError:
                    faults[name] = "does not run here"
                    continue
                found.setdefault(name, []).append(value)
    rows = []
    for name in cases:
        if name in faults:
            rows.append(Row(what=name, note=faults[name]))
            continue
        rows.append(
            Row(what=name, value=Spread.of(found[name]).median, unit="s",
                kind="plain" if name == "import ours" else "peer",
                ratio=None if name == "import ours" else ratios(found[name], found["import ours"]),
                of="" if name == "import ours" else "the time of importing ours")
        )  # fmt: skip
    return Table(
        id="startup", title="Start-up: until the first blend is built",
        text="In a process that has numpy, and torch where it is needed, already.", rows=rows,
    )  # fmt: skip
