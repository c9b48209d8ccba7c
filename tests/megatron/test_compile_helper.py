import importlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import zephon.megatron
from zephon.megatron import compile_helper, helpers

SIX = (
    "build_sample_idx_int32",
    "build_sample_idx_int64",
    "build_blending_indices",
    "build_exhaustive_blending_indices",
    "build_mapping",
    "build_blocks_mapping",
)


def run(code, **env):
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    ).stdout


@pytest.fixture
def forgetful():
    compile_helper.cache_clear()
    yield
    compile_helper.cache_clear()


def test_helper_module_has_the_functions_and_a_file(forgetful):
    module = compile_helper()
    assert isinstance(module, ModuleType)
    assert Path(module.__file__).is_file()
    for name in SIX:
        assert callable(getattr(module, name))


def test_every_call_returns_the_same_module(forgetful):
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(lambda _: compile_helper(), range(32)))
    assert all(module is compile_helper() for module in modules)
    assert compile_helper.cache_info().currsize == 1


def test_failure_gives_the_reason_the_platform_and_the_wheel_and_may_be_retried(
    forgetful, monkeypatch
):
    real = importlib.import_module

    def broken(name, package=None):
        if name == "zephon._native.helpers_cpp":
            raise ImportError("wrong ELF class", path="/x/helpers_cpp.so")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ImportError) as caught:
        compile_helper()
    text = str(caught.value)
    assert "helpers_cpp cannot be loaded: wrong ELF class" in text
    assert re.search(r"CPython 3\.\d+\.\S+ on \S+", text)
    assert re.search(r"wheel tagged cp3\d+-\S+-\S+ fits", text)
    assert caught.value.path == "/x/helpers_cpp.so"
    assert compile_helper.cache_info().currsize == 0
    monkeypatch.undo()
    assert isinstance(compile_helper(), ModuleType)


@pytest.mark.parametrize(
    ("system", "libc", "unlocked", "tag"),
    [
        ("linux-x86_64", "glibc", 0, "cp311-abi3-manylinux_2_17_x86_64"),
        ("linux-aarch64", "", 0, "cp311-abi3-musllinux_1_2_aarch64"),
        ("macosx-11.0-arm64", "", 0, "cp311-abi3-macosx_11_0_arm64"),
        (
            "linux-x86_64",
            "glibc",
            1,
            "cp{0}{1}-cp{0}{1}t-manylinux_2_17_x86_64".format(*sys.version_info),
        ),
    ],
)
def test_wheel_tag_fits_the_platform(monkeypatch, system, libc, unlocked, tag):
    from zephon.megatron import _compile

    monkeypatch.setattr(_compile.sysconfig, "get_platform", lambda: system)
    monkeypatch.setattr(_compile.sysconfig, "get_config_var", lambda _: unlocked)
    monkeypatch.setattr(_compile.platform, "libc_ver", lambda: (libc, ""))
    assert _compile.fitting_wheel_tag() == tag


def test_helper_needs_no_compiler_and_writes_nothing(tmp_path):
    code = (
        "import os, zephon.megatron as m\n"
        "before = os.path.exists(m._HELPER_CACHE_ROOT)\n"
        "h = m.compile_helper()\n"
        "print(h.build_sample_idx_int32([5], [0], 2, 1, 5, True, 1).tolist())\n"
        "assert os.path.exists(m._HELPER_CACHE_ROOT) == before\n"
    )
    out = run(code, PATH="", TMPDIR=str(tmp_path), TORCH_EXTENSIONS_DIR=str(tmp_path))
    assert out == "[[0, 0], [0, 2], [0, 4]]\n"
    assert list(tmp_path.iterdir()) == []


def test_cache_root_is_a_path_that_may_be_replaced(monkeypatch, tmp_path):
    assert isinstance(zephon.megatron._HELPER_CACHE_ROOT, Path)
    assert zephon.megatron._HELPER_CACHE_ROOT.name == f"nemo_automodel_{os.getuid()}"
    monkeypatch.setattr(zephon.megatron, "_HELPER_CACHE_ROOT", tmp_path)
    compile_helper.cache_clear()
    compile_helper()
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_loads_neither_numpy_nor_torch():
    code = (
        "import sys, zephon.megatron\n"
        "print(sorted({'numpy', 'torch', 'pathlib', 'ctypes'} & set(sys.modules)))\n"
    )
    out = subprocess.run(
        [sys.executable, "-P", "-S", "-c", f"sys_path = {sys.path!r}\nimport sys\n"
         f"sys.path[:] = sys_path\n{code}"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert out == "[]\n"


def test_importing_the_helpers_does_not_load_torch():
    code = "import sys, zephon.megatron as m; m.compile_helper(); print('torch' in sys.modules)"
    assert run(code) == "False\n"


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'zephon\.megatron' has no attribute 'nothing'"):
        _ = zephon.megatron.nothing


def test_helpers_module_has_the_same_functions():
    for name in SIX:
        assert getattr(helpers, name) is getattr(compile_helper(), name)


def test_public_names_are_listed_and_load():
    assert set(zephon.megatron.__all__) <= set(dir(zephon.megatron))
    for name in zephon.megatron.__all__:
        assert getattr(zephon.megatron, name) is not None
