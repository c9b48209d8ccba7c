import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "gate")]
