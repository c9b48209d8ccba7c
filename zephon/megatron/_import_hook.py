"""Putting something in the place of modules and functions when they are imported.

Nothing is imported by installing the hook: a module that is never asked for is
never looked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, all_suffixes
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any


class ReplacingFinder(MetaPathFinder):
    """Answers the import of some modules with others, and replaces functions of some more.

    Parameters
    ----------
    modules : mapping of str to function
        For the full name of a module, what gives the module to take for it.
    functions : mapping of str to mapping of str to function
        For the full name of a module, what gives the value of its attributes.
        They are set after the module's own code has run, and only where it has
        an attribute of that name.
    """

    def __init__(
        self,
        modules: Mapping[str, Callable[[], ModuleType]],
        functions: Mapping[str, Mapping[str, Callable[[], Any]]],
    ) -> None:
        self._modules = modules
        self._functions = functions
        self._originals: dict[tuple[str, str], tuple[ModuleType, Any]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take part in the import of ``fullname``, None if it is none of ours."""
        if fullname in self._modules:
            return spec_from_loader(fullname, _ModuleLoader(self._modules[fullname]))
        if fullname not in self._functions:
            return None
        # Only finders behind this one: a hook like this before it asks it in turn.
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = find_by(later, fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _FunctionLoader(spec.loader, self)
        return spec

    def replace_functions(self, module: ModuleType) -> None:
        """Set the attributes of ``module`` that are to be replaced."""
        for name, value in self._functions[module.__name__].items():
            if hasattr(module, name):
                self._originals[module.__name__, name] = (module, getattr(module, name))
                setattr(module, name, value())

    def is_replaced(self, module: ModuleType) -> bool:
        """Whether no attribute of ``module`` is left that should be replaced."""
        return all(
            getattr(module, name) is value()
            for name, value in self._functions[module.__name__].items()
            if hasattr(module, name)
        )

    def restore(self) -> None:
        """Give imported modules their functions back, and forget the modules put in place."""
        for (module_name, name), (module, original) in self._originals.items():
            if getattr(module, name, None) is self._functions[module_name][name]():
                setattr(module, name, original)
        self._originals.clear()
        for fullname, provide in self._modules.items():
            if fullname not in sys.modules or sys.modules[fullname] is not provide():
                continue
            ours = sys.modules.pop(fullname)
            parent_name, _, child = fullname.rpartition(".")
            parent = sys.modules.get(parent_name)
            if getattr(parent, child, None) is ours:
                delattr(parent, child)


class _ModuleLoader(Loader):
    """Loads a module that exists under another name."""

    def __init__(self, provide: Callable[[], ModuleType]) -> None:
        self._provide = provide

    def exec_module(self, module: ModuleType) -> None:
        # Importing takes what stands in sys.modules afterwards; returning it from
        # create_module would overwrite the __spec__ that it has already.
        sys.modules[module.__name__] = self._provide()


class _FunctionLoader(Loader):
    """Loads a module as its own loader does, then replaces functions of it."""

    def __init__(self, loader: Loader, finder: ReplacingFinder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # get_source, get_data, is_package ...

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._finder.replace_functions(module)


def find_by(
    finders: Sequence[Any],
    fullname: str,
    path: Sequence[str] | None,
    target: ModuleType | None = None,
) -> ModuleSpec | None:
    """Spec of a module by the first of ``finders`` that knows it; nothing is imported."""
    for finder in finders:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
        if spec is not None:
            return spec
    return None


def is_installed(fullname: str) -> bool:
    """Whether a module or package of a folder is there, found out without importing any."""
    top, *rest = fullname.split(".")
    if top in sys.modules:
        folders = getattr(sys.modules[top], "__path__", None)
    else:
        spec = find_by(sys.meta_path, top, None)
        if spec is None:
            return False
        folders = spec.submodule_search_locations
    for depth, part in enumerate(rest, 1):
        # Finders cannot be asked: for a namespace they want its parent imported.
        places = [os.path.join(folder, part) for folder in folders or ()]
        if any(os.path.isfile(place + suffix) for place in places for suffix in all_suffixes()):
            return depth == len(rest)
        folders = [place for place in places if os.path.isdir(place)]
        if not folders:
            return False
    return True
