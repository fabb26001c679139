"""Getting at a kernel that can be called: from a module (with the DSL) or from an AOT library (without)."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from tsgen.runtime.buffers import Argument
from tsgen.runtime.errors import NEEDS_DSL, CannotRun
from tsgen.runtime.meta import read_meta

Kernel = Callable[[Mapping[str, Argument]], None]  # takes the arguments by name, in the spec's order
RUNTIME = "libcute_dsl_runtime.so"
_EXPORT = re.compile(rb"__tvm_ffi_([A-Za-z]\w*)\x00")  # how TVM-FFI marks the functions of a library


def aot_kernel(library: Path, name: str | None, sms: int) -> Kernel:
    """The kernel of an AOT library; `name` may be left out if it has only one. `sms`: multiprocessors to use.

    Needs apache-tvm-ffi and libcute_dsl_runtime.so, no DSL. Raises CannotRun.
    """
    function = aot_function(library, name)

    def launch(arguments: Mapping[str, Argument]) -> None:
        function(*arguments.values(), sms)

    return launch


def aot_function(library: Path, name: str | None = None) -> Callable[..., None]:
    """The launcher in an AOT library: tensors and scalars in the spec's order (None for absent ones), then `sms`."""
    library = library.resolve()
    exported = exports(library)
    if name is None and len(exported) == 1:
        name = exported[0]
    if name not in exported:
        raise CannotRun(f"{library} has no function {name or 'of one kernel'}", f"it has {', '.join(exported)}")
    try:
        tvm_ffi = importlib.import_module("tvm_ffi")
    except ImportError:
        raise CannotRun(
            "an AOT library needs TVM-FFI, which this Python does not have", 'pip install "apache-tvm-ffi<0.2"'
        ) from None
    _preload_runtime()
    try:
        module = tvm_ffi.load_module(str(library))
    except (RuntimeError, OSError) as e:
        hint = f"put the folder of {RUNTIME} (wheel nvidia-cutlass-dsl-libs-cu13) on LD_LIBRARY_PATH"
        raise CannotRun(f"{library} cannot be loaded: {str(e).strip()}", hint if RUNTIME in str(e) else None) from None
    function: Callable[..., None] = getattr(module, name)
    return function


def exports(library: Path) -> list[str]:
    """The functions of an AOT library. Raises CannotRun if it is none."""
    try:
        data = library.read_bytes()
    except OSError as e:
        raise CannotRun(f"{library}: {e.strerror or e}") from None
    found = sorted(
        {m.decode() for m in _EXPORT.findall(data) if not m.startswith(b"_")} if data[:4] == b"\x7fELF" else []
    )
    if not found:
        raise CannotRun(f"{library}: no AOT library of tsgen", "`tsgen build --compile aot` writes one")
    return found


def _preload_runtime() -> None:
    """Where the DSL is installed, its runtime library need not be on LD_LIBRARY_PATH."""
    spec = importlib.util.find_spec("nvidia_cutlass_dsl")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for library in sorted(Path(folder).glob(f"cu*/lib/{RUNTIME}"), reverse=True):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return


def module_kernel(path: Path) -> Kernel:
    """The host function of a generated module, compiled by the DSL on first use. Raises CannotRun."""
    meta = read_meta(path)
    host = getattr(import_module(path), meta.kernel)

    def launch(arguments: Mapping[str, Argument]) -> None:
        host(**arguments)

    return launch


def import_module(path: Path) -> ModuleType:
    """A generated module, imported from its file. Raises CannotRun without the DSL."""
    name = f"tsgen_generated_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as e:
        del sys.modules[name]
        help = f"{NEEDS_DSL}, or run a built artefact with --aot"
        raise CannotRun(f"{path.name} needs the package {e.name}, which this Python does not have", help) from None
    return module
