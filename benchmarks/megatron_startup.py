"""What a trainer waits for its index helpers when it starts: compiling, or importing ours.

Each line is one fresh process that already has numpy (and torch where it needs
that), and the seconds until a first blend is built:

* ``make``: one g++ call with pybind11, as Megatron-LM's ``compile_helpers`` does;
* ``load_inline``: torch's extension builder into an empty cache, as NeMo
  AutoModel's ``compile_helper`` does, and again with the cache filled;
* ours: :func:`zephon.megatron.compile_helper`.

What is compiled is one function of the size of the real ones, so the real
sources take somewhat longer. Needs g++ and, for the second, ninja.

    python benchmarks/megatron_startup.py [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from statistics import median

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
        [sys.executable, "-c", code, str(folder), name],
        input=SOURCE,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    return float(json.loads(ran.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    # torch brings the headers of pybind11; nothing else of it is needed for "make".
    headers = str(Path(sysconfig.get_path("purelib")) / "torch" / "include")
    for folder in map(Path, sys.path):
        if (folder / "torch" / "include" / "pybind11").is_dir():
            headers = str(folder / "torch" / "include")
    rows: dict[str, list[float]] = {}
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            turns = {
                "compile with g++, as Megatron-LM": (MAKE, headers, False),
                "compile with load_inline, as AutoModel": (LOAD_INLINE, "inlined", False),
                "load_inline, compiled before": (LOAD_INLINE, "inlined", False),
                "import ours": (OURS, "", True),
            }
            for label, (body, name, ours) in turns.items():
                rows.setdefault(label, []).append(seconds(body, here, name, ours=ours))
    base = median(rows["import ours"])
    print(
        f"seconds until the first blend, medians of {args.repeats}, load {os.getloadavg()[0]:.1f}"
    )
    for label, values in rows.items():
        print(f"{label:42} {median(values):8.3f}   x{median(values) / base:.0f}")


if __name__ == "__main__":
    main()
