"""The host function of a generated module on a machine without the DSL: its own code, over AOT libraries.

The module is imported with a stand-in for the DSL that accepts everything (nothing of it is called), and its compiled
launchers are replaced by those of the libraries. What a user calls is then tested line by line as it is.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from tsgen.runtime.launch import aot_function, import_module
from tsgen.runtime.meta import read_meta

STAND_INS = ("cutlass", "cuda")  # `cuda` only where cuda.bindings is missing


class _Anything(type):
    """A class whose attributes, calls and items are such classes again: good for annotations and decorators."""

    def __getattr__(cls, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})

    def __call__(cls, *args: object, **kwargs: object) -> _Anything:
        return _Anything("result", (), {})

    def __getitem__(cls, item: object) -> _Anything:
        return _Anything("item", (), {})


class _Module(ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _StandIn(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in STAND_INS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def hosted(path: Path) -> ModuleType:
    """A generated module whose launchers come from the libraries beside it."""
    finder = _StandIn()
    sys.meta_path.append(finder)  # last: what is installed comes first
    try:
        module = import_module(path)
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n, m in list(sys.modules.items()) if isinstance(m, _Module)]:
            del sys.modules[name]
    defaults = {n: p.default for n, p in inspect.signature(module.compile).parameters.items() if n != "options"}
    kernel = read_meta(path).kernel
    loaded: dict[Path, Callable[..., None]] = {}

    def compiled(*positional: str, **named: str) -> Callable[..., None]:
        choice = {**defaults, **dict(zip(defaults, positional, strict=False)), **named}
        suffix = "" if choice == defaults else "_" + "_".join(choice.values())
        library = path.with_name(f"{path.stem}{suffix}.so")
        if library not in loaded:
            loaded[library] = aot_function(library, kernel)
        return loaded[library]

    module.compiled = compiled  # type: ignore[attr-defined]
    return module
