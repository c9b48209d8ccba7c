import importlib
import inspect
import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from zephon.errors import ConfigError, ConfigTypeError, LifecycleError
from zephon.megatron import compile_helper, register, registration, unregister

AUTOMODEL = "nemo_automodel.components.datasets.llm.megatron"

MAKE_AND_EXIT = """
def {name}():
    import os, subprocess, sys
    print("compiling")
    if subprocess.run(["make", "-C", os.path.dirname(__file__)]).returncode != 0:
        sys.exit(1)
"""

LOAD_INLINE = """
import functools

@functools.lru_cache(maxsize=1)
def compile_helper():
    raise RuntimeError("would compile")
"""

PACKAGES = {
    # Helpers built in the package's folder, as megatron-core has them.
    "megatron/core/__init__.py": "",
    "megatron/core/datasets/__init__.py": "",
    "megatron/core/datasets/utils.py": "class Split: pass\n"
    + MAKE_AND_EXIT.format(name="compile_helpers"),
    "megatron/core/datasets/helpers.py": "from megatron.core.datasets.helpers_cpp import *\n"
    "from megatron.core.datasets.helpers_cpp import build_sample_idx_int32\n",
    # Helpers that the compile function returns, as newer megatron-core and AutoModel have them.
    "megatron/core/datasets/newer_helpers.py": "from megatron.core.datasets.utils import "
    "compile_helpers\nhelpers_cpp = compile_helpers()\n",
    "nemo_automodel/__init__.py": "",
    "nemo_automodel/components/__init__.py": "",
    "nemo_automodel/components/datasets/__init__.py": "",
    "nemo_automodel/components/datasets/llm/__init__.py": "",
    "nemo_automodel/components/datasets/llm/megatron/__init__.py": "",
    "nemo_automodel/components/datasets/llm/megatron/megatron_utils.py": LOAD_INLINE,
    "nemo_automodel/components/datasets/llm/megatron/helpers.py": f"""
from {AUTOMODEL}.megatron_utils import compile_helper

def build_sample_idx(*arguments):
    raise RuntimeError("theirs")

def helper_module():
    return compile_helper()
""",
    "nemo_automodel/components/datasets/llm/megatron/first_helpers.py": """
def build_blending_indices():
    from nemo_automodel.components.datasets.llm.megatron import helpers_cpp
    return helpers_cpp.build_blending_indices
""",
    # gpt-neox and Megatron-DeepSpeed.
    "megatron/data/__init__.py": "",
    "megatron/data/dataset_utils.py": MAKE_AND_EXIT.format(name="compile_helper"),
    "megatron/data/data_utils.py": "import os\n" + MAKE_AND_EXIT.format(name="compile_helper"),
    "megatron/data/gpt2_dataset.py": "def index(*arguments):\n"
    "    from megatron.data import helpers\n"
    "    return helpers.build_sample_idx_int32(*arguments)\n",
}


def write(folder, packages):
    for name, text in packages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def forget_trainers():
    for name in list(sys.modules):
        if name.split(".")[0] in ("megatron", "nemo_automodel"):
            del sys.modules[name]


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """Packages laid out like the trainers', importable, with nothing of them loaded."""
    write(tmp_path, PACKAGES)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    unregister()
    forget_trainers()


@pytest.fixture
def registered(trainers):
    register()
    return trainers


def states(told):
    return {item.module: item.state for item in told.replacements}


def test_helpers_of_megatron_core_are_ours(registered):
    helpers = importlib.import_module("megatron.core.datasets.helpers")
    assert helpers.build_sample_idx_int32 is compile_helper().build_sample_idx_int32
    assert sys.modules["megatron.core.datasets.helpers_cpp"] is compile_helper()
    assert sys.modules["megatron.core.datasets"].helpers_cpp is compile_helper()


def test_helpers_that_are_built_are_replaced_too(trainers):
    write(
        trainers,
        {"megatron/core/datasets/helpers_cpp.py": "raise RuntimeError('theirs was imported')\n"},
    )
    register()
    module = importlib.import_module("megatron.core.datasets.helpers_cpp")
    assert module is compile_helper()


def test_helper_module_keeps_its_own_name_and_spec(registered):
    before = compile_helper().__spec__
    importlib.import_module("megatron.core.datasets.helpers_cpp")
    assert compile_helper().__name__ == "zephon._native.helpers_cpp"
    assert compile_helper().__spec__ is before


def test_compiling_returns_our_module_and_starts_no_process(registered, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    utils = importlib.import_module("megatron.core.datasets.utils")
    assert utils.compile_helpers() is compile_helper()
    newer = importlib.import_module("megatron.core.datasets.newer_helpers")
    assert newer.helpers_cpp is compile_helper()


def test_rest_of_a_module_stays_as_it_was(registered):
    utils = importlib.import_module("megatron.core.datasets.utils")
    assert inspect.getsource(utils).startswith("class Split")
    assert utils.Split.__module__ == "megatron.core.datasets.utils"
    assert utils.__loader__ is utils.__spec__.loader
    assert type(utils.__loader__).__name__ == "SourceFileLoader"


@pytest.mark.parametrize("first", ["helpers", "megatron_utils"])
def test_automodel_gets_our_module_whichever_part_is_imported_first(registered, first):
    importlib.import_module(f"{AUTOMODEL}.{first}")
    utils = importlib.import_module(f"{AUTOMODEL}.megatron_utils")
    helpers = importlib.import_module(f"{AUTOMODEL}.helpers")
    assert utils.compile_helper() is compile_helper()
    assert helpers.helper_module() is compile_helper()
    rows = helpers.build_sample_idx(np.array([4, 4]), np.array([0, 1]), 2, 1, 8)
    assert rows.tolist() == [[0, 0], [0, 2], [1, 0], [1, 2]]
    utils.compile_helper.cache_clear()
    assert utils.compile_helper.cache_info().currsize == 0


def test_first_automodel_finds_ours_as_a_submodule(registered):
    first = importlib.import_module(f"{AUTOMODEL}.first_helpers")
    assert first.build_blending_indices() is compile_helper().build_blending_indices


@pytest.mark.parametrize("module", ["dataset_utils", "data_utils"])
def test_older_megatron_does_not_compile(registered, module, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    utils = importlib.import_module(f"megatron.data.{module}")
    assert utils.compile_helper() is compile_helper()


def test_older_megatron_gets_helpers_with_its_arguments(registered):
    dataset = importlib.import_module("megatron.data.gpt2_dataset")
    rows = dataset.index(np.array([4, 4], np.int32), np.array([0, 1], np.int32), 2, 1, 8)
    assert rows.dtype == np.int32
    assert rows.tolist() == [[0, 0], [0, 2], [1, 0], [1, 2]]


def test_registering_imports_nothing(trainers):
    code = (
        "import sys, zephon.megatron; told = zephon.megatron.register();"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in"
        " ('megatron', 'nemo_automodel', 'numpy', 'torch') or 'helpers_cpp' in m));"
        "print(told)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(trainers)},
    )
    lines = ran.stdout.splitlines()
    assert lines[:2] == ["", "registered"]
    assert "  megatron.core.datasets.helpers_cpp: waiting" in lines
    assert "  megatron.core.datasets.utils (compile_helpers): waiting" in lines


def test_registering_works_where_no_trainer_is_installed():
    try:
        told = register()
        assert told.active
        assert set(states(told).values()) == {"absent"}
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("megatron.core.datasets.helpers_cpp")
    finally:
        unregister()


def test_registering_twice_changes_nothing(registered):
    importlib.import_module("megatron.core.datasets.helpers")
    before = list(sys.meta_path)
    again = register()
    assert sys.meta_path == before
    assert again == registration()
    assert states(again)["megatron.core.datasets.helpers_cpp"] == "ours"


def test_state_of_each_replacement_is_told(trainers):
    importlib.import_module("megatron.core.datasets.utils")
    told = registration()
    assert not told.active
    assert states(told) == {
        "megatron.core.datasets.helpers_cpp": "waiting",
        f"{AUTOMODEL}.helpers_cpp": "waiting",
        "megatron.data.helpers": "waiting",
        "megatron.core.datasets.utils": "theirs",
        f"{AUTOMODEL}.megatron_utils": "waiting",
        f"{AUTOMODEL}.helpers": "waiting",
        "megatron.data.dataset_utils": "waiting",
        "megatron.data.data_utils": "waiting",
    }


def test_registering_too_late_is_refused_with_the_module_and_the_way_out(trainers):
    write(trainers, {"megatron/core/datasets/helpers_cpp.py": "build_sample_idx_int32 = None\n"})
    importlib.import_module("megatron.core.datasets.helpers_cpp")
    importlib.import_module("megatron.core.datasets.utils")
    message = (
        "megatron.core.datasets.helpers_cpp and megatron.core.datasets.utils were imported before "
        "zephon.megatron.register.* -m zephon.megatron.run"
    )
    with pytest.raises(LifecycleError, match=message):
        register()
    assert not registration().active
    forget_trainers()
    assert register().active


def test_unregistering_gives_the_trainer_its_own_back(trainers):
    theirs = {"megatron/core/datasets/helpers_cpp.py": "name = 'theirs'\n"}
    write(trainers, theirs)
    register()
    importlib.import_module("megatron.core.datasets.helpers_cpp")
    utils = importlib.import_module("megatron.core.datasets.utils")
    assert not unregister().active
    assert utils.compile_helpers.__module__ == "megatron.core.datasets.utils"
    assert not hasattr(sys.modules["megatron.core.datasets"], "helpers_cpp")
    assert importlib.import_module("megatron.core.datasets.helpers_cpp").name == "theirs"
    assert isinstance(compile_helper(), ModuleType)


def test_unregistering_without_a_registration_does_nothing():
    before = list(sys.meta_path)
    assert not unregister().active
    assert sys.meta_path == before


def test_reloaded_module_is_replaced_again(registered):
    utils = importlib.import_module("megatron.core.datasets.utils")
    assert importlib.reload(utils).compile_helpers() is compile_helper()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_older_blends_are_written_in_the_width_of_their_output(dtype):
    helpers = importlib.import_module("zephon.megatron._legacy_helpers")
    numbers, samples = np.full(10, 9, dtype), np.empty(10, np.int64)
    helpers.build_blending_indices(numbers, samples, np.array([0.25, 0.75]), 2, 8, False)
    assert numbers.tolist() == [1, 0, 1, 1, 0, 1, 1, 1, 9, 9]


@pytest.mark.parametrize(
    ("output", "datasets", "error", "message"),
    [
        (np.empty(4, np.uint8), 257, ConfigError, "uint8, which holds numbers up to 255.*is 257"),
        (np.empty(4, np.float32), 2, ConfigTypeError, "array of integers, got float32"),
        ([0, 0], 2, ConfigTypeError, "array of integers, got list"),
    ],
)
def test_older_blend_that_cannot_be_written_is_refused(output, datasets, error, message):
    helpers = importlib.import_module("zephon.megatron._legacy_helpers")
    weights = np.full(datasets, 1 / datasets)
    with pytest.raises(error, match=message):
        helpers.build_blending_indices(output, np.empty(4, np.int64), weights, datasets, 4, False)


def test_older_sample_index_takes_the_later_arguments_too():
    helpers = importlib.import_module("zephon.megatron._legacy_helpers")
    sizes, documents = np.array([4, 4], np.int32), np.array([0, 1], np.int32)
    for build, dtype in [
        (helpers.build_sample_idx, np.int32),
        (helpers.build_sample_idx_int64, np.int64),
    ]:
        rows = build(sizes, documents, 2, 1, 8, True, 0)
        assert rows.dtype == dtype
        assert rows.tolist() == [[0, 0], [0, 2], [0, 4], [1, 2], [1, 4]]


def test_older_mapping_asks_for_two_sentences():
    helpers = importlib.import_module("zephon.megatron._legacy_helpers")
    docs, sizes = np.array([0, 1, 4]), np.full(4, 10, np.int32)
    rows = helpers.build_mapping(docs, sizes, 1, 100, 32, 0.1, 1, False)
    assert rows[:, :2].tolist() == [[1, 4]]
    alone = helpers.build_mapping(docs, sizes, 1, 100, 32, 0.1, 1, False, 1)
    assert sorted(alone[:, :2].tolist()) == [[0, 1], [1, 4]]
