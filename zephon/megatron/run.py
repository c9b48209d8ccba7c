"""Run a script with our index helpers in the place of the trainer's.

::

    python -m zephon.megatron.run script.py [arguments]
    python -m zephon.megatron.run -m package.module [arguments]
    torchrun [options] -m zephon.megatron.run script.py [arguments]

The same as ``python script.py [arguments]``, after
:func:`zephon.megatron.register`: for those who cannot change the script.
"""

from __future__ import annotations

import os
import runpy
import sys

from zephon.megatron._register import register

_USAGE = """\
usage: python -m zephon.megatron.run script.py [arguments]
       python -m zephon.megatron.run -m package.module [arguments]

Runs the script or module with zephon's index helpers in the place of the ones
that Megatron-LM, NeMo AutoModel, gpt-neox and Megatron-DeepSpeed compile.
"""


def main(arguments: list[str]) -> None:
    """Register our helpers, then run the script or module that ``arguments`` begin with."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE, end="")
        return
    as_module = arguments[:1] == ["-m"]
    target, *rest = (arguments[1:] if as_module else arguments) or [""]
    if not target or (target.startswith("-") and not as_module):
        given = f"got {target!r}" if target else "got nothing"
        sys.exit(f"{_USAGE}\nerror: expected a script, or -m and a module; {given}")
    if not as_module and not os.path.exists(target):
        sys.exit(f"error: there is no script {target!r} (in {os.getcwd()})")
    register()
    sys.argv = [target, *rest]
    if as_module:
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    if not sys.flags.safe_path:
        # Where Python looks first is the folder of the script, not the current one.
        sys.path[0] = os.path.dirname(os.path.realpath(target))
    runpy.run_path(target, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
