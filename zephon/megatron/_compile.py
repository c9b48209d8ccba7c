"""The helper module, under the name of the function that used to compile it."""

from __future__ import annotations

import functools
import importlib
import os
import platform
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

_MODULE = "zephon._native.helpers_cpp"

_HELPER_CACHE_ROOT = Path("/tmp") / f"nemo_automodel_{os.getuid()}"
"""Where NeMo AutoModel compiles its helpers. Kept as a name; nothing is written there."""


@functools.lru_cache(maxsize=1)
def compile_helper() -> ModuleType:
    """The module with Megatron's index helpers.

    It was compiled when zephon was built: this only imports it, so it needs no
    compiler, lock, barrier or writable directory and may be called by any
    number of threads and processes at once. Every call returns the same module.
    ``compile_helper.cache_clear()`` and ``.cache_info()`` are those of
    :func:`functools.lru_cache`; a failure is not remembered.

    Raises
    ------
    ImportError
        The extension is missing or cannot be loaded here. The message gives the
        reason, this platform and the tag of the wheel that fits it.
    """
    try:
        return importlib.import_module(_MODULE)
    except ImportError as error:
        raise ImportError(
            f"the compiled helpers {_MODULE} cannot be loaded: {error}. This is "
            f"{_interpreter()} on {sysconfig.get_platform()}; a zephon wheel tagged "
            f"{fitting_wheel_tag()} fits it: pip install it by its path (the registry's zephon is "
            "another project). Where there is none, pip install the source tree by its path, with "
            "a C++20 compiler.",
            name=_MODULE,
            path=error.path,
        ) from error


def fitting_wheel_tag() -> str:
    """Tag of the zephon wheel that this interpreter and platform would take."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        interpreter = f"{version}-{version}t"  # the stable ABI does not cover these
    else:
        interpreter = "cp311-abi3"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    libc, _ = platform.libc_ver()
    if system.startswith("linux_"):
        standard = "manylinux_2_17" if libc == "glibc" else "musllinux_1_2"
        system = system.replace("linux", standard, 1)
    return f"{interpreter}-{system}"


def _interpreter() -> str:
    threading = " (free-threaded)" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"{platform.python_implementation()} {platform.python_version()}{threading}"
