"""Our helpers in the place of the ones that trainers compile when they start."""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from zephon.errors import LifecycleError
from zephon.megatron._compile import compile_helper
from zephon.megatron._import_hook import ReplacingFinder, is_installed

logger = logging.getLogger(__name__)

_CORE = "megatron.core.datasets"
_AUTOMODEL = "nemo_automodel.components.datasets.llm.megatron"
_LEGACY = "megatron.data"  # gpt-neox, Megatron-DeepSpeed and older Megatron-LM


def _legacy_helpers() -> ModuleType:
    return importlib.import_module("zephon.megatron._legacy_helpers")


def _build_sample_idx() -> Any:
    return importlib.import_module("zephon.megatron.helpers").build_sample_idx


def _compile() -> Any:
    return compile_helper


_MODULES: Mapping[str, Callable[[], ModuleType]] = {
    f"{_CORE}.helpers_cpp": lambda: compile_helper(),
    f"{_AUTOMODEL}.helpers_cpp": lambda: compile_helper(),
    f"{_LEGACY}.helpers": _legacy_helpers,
}

_FUNCTIONS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    f"{_CORE}.utils": {"compile_helpers": _compile},
    f"{_AUTOMODEL}.megatron_utils": {"compile_helper": _compile},
    f"{_AUTOMODEL}.helpers": {"build_sample_idx": _build_sample_idx},
    f"{_LEGACY}.dataset_utils": {"compile_helper": _compile},
    f"{_LEGACY}.data_utils": {"compile_helper": _compile},
}

ReplacementState = Literal["ours", "theirs", "waiting", "absent"]


@dataclass(frozen=True, slots=True)
class Replacement:
    """One module that is replaced, or in which functions are.

    Attributes
    ----------
    module : str
        Its full name.
    functions : tuple of str
        The functions of it that are replaced; empty if the module is as a whole.
    state : {"ours", "theirs", "waiting", "absent"}
        Loaded and replaced; loaded and not replaced; not imported yet; or not
        installed.
    """

    module: str
    functions: tuple[str, ...]
    state: ReplacementState

    def __str__(self) -> str:
        names = f" ({', '.join(self.functions)})" if self.functions else ""
        return f"{self.module}{names}: {self.state}"


@dataclass(frozen=True, slots=True)
class Registration:
    """What :func:`register` has done in this process.

    Attributes
    ----------
    active : bool
        Whether imports from now on get our helpers.
    replacements : tuple of Replacement
        Everything that is replaced where it is installed.
    """

    active: bool
    replacements: tuple[Replacement, ...]

    def __str__(self) -> str:
        head = "registered" if self.active else "not registered"
        return "\n  ".join([head, *map(str, self.replacements)])


_lock = threading.Lock()
_finder = ReplacingFinder(_MODULES, _FUNCTIONS)


def register() -> Registration:
    """Let trainers that compile index helpers when they start find ours instead.

    From now on, importing one of these gets our ready built module, or the
    trainer's with our functions in it; it does not matter whether the trainer's
    own helpers are built:

    * Megatron-LM, megatron-core: ``megatron.core.datasets.helpers_cpp``, and
      ``compile_helpers`` of ``megatron.core.datasets.utils``;
    * NeMo AutoModel: in ``nemo_automodel.components.datasets.llm.megatron``,
      the module ``helpers_cpp``, ``helpers.build_sample_idx`` and
      ``megatron_utils.compile_helper``;
    * gpt-neox, Megatron-DeepSpeed: ``megatron.data.helpers``, and
      ``compile_helper`` of ``megatron.data.dataset_utils`` and ``data_utils``.

    The compile functions then only return our module. Nothing is imported or
    compiled by this call, and nothing on disk is touched. A second call changes
    nothing. Forked processes inherit the registration; a process that is
    spawned runs the script anew, so it holds there if the script itself calls
    this.

    Returns
    -------
    Registration
        What has been and what will be replaced.

    Raises
    ------
    LifecycleError
        One of those modules is loaded already, so that its functions may have
        been taken from it.
    """
    with _lock:
        loaded = [item.module for item in _replacements() if item.state == "theirs"]
        if loaded:
            raise LifecycleError(
                f"{_listed(loaded)} imported before zephon.megatron.register() was called, so "
                "others may hold functions of it: call register() first, for instance at the top "
                "of the script, or start it with python -m zephon.megatron.run"
            )
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
            logger.info("Megatron's index helpers are taken from zephon; nothing is compiled")
        return _state()


def unregister() -> Registration:
    """Undo :func:`register`: later imports get the trainer's own again.

    Modules put in place are forgotten and functions given back. What somebody
    has taken from them before (``from ... import ...``) stays as it is. Without
    a registration this does nothing.
    """
    with _lock:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
            _finder.restore()
        return _state()


def registration() -> Registration:
    """What :func:`register` has done in this process, or would do; changes nothing."""
    with _lock:
        return _state()


def _state() -> Registration:
    return Registration(_finder in sys.meta_path, _replacements())


def _replacements() -> tuple[Replacement, ...]:
    return (
        *(Replacement(name, (), _state_of_module(name)) for name in _MODULES),
        *(
            Replacement(name, tuple(functions), _state_of_functions(name))
            for name, functions in _FUNCTIONS.items()
        ),
    )


def _state_of_module(name: str) -> ReplacementState:
    if name in sys.modules:
        return "ours" if sys.modules[name] in _ours() else "theirs"
    # The package is enough: the helpers themselves need not have been built.
    return "waiting" if is_installed(name.rpartition(".")[0]) else "absent"


def _ours() -> list[ModuleType | None]:
    """Our modules, as far as they are loaded: none is loaded to find out."""
    names = ("zephon._native.helpers_cpp", "zephon.megatron._legacy_helpers")
    return [sys.modules[name] for name in names if name in sys.modules]


def _state_of_functions(name: str) -> ReplacementState:
    if name in sys.modules:
        return "ours" if _finder.is_replaced(sys.modules[name]) else "theirs"
    return "waiting" if is_installed(name) else "absent"


def _listed(names: list[str]) -> str:
    verb = "was" if len(names) == 1 else "were"
    return f"{' and '.join(names)} {verb}"
