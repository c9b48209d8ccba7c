"""Run examples one after the other in this process, since what they import takes longer than they.

    python example_driver.py EXAMPLES DATA CHECKPOINTS NAME... -- ARGUMENT...

Prints ``example NAME`` before the output of each and goes on behind one that fails.
"""

import runpy
import sys
import traceback
from pathlib import Path

import torch


def main() -> None:
    given = sys.argv[1:]
    split = given.index("--")
    examples, data, checkpoints, *names = given[:split]
    torch.set_num_threads(1)
    for name in names:
        print(f"example {name}", flush=True)
        folder = str(Path(checkpoints) / name)
        sys.argv = [name, "--data", data, "--checkpoints", folder, *given[split + 1 :]]
        try:
            runpy.run_path(str(Path(examples) / f"{name}.py"), run_name="__main__")
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    main()
