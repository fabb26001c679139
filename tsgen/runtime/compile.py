"""`--compile ptx|cubin|aot`: artefacts of a generated module, made in a process of its own. Needs no GPU.

Artefacts lie beside the module unless told otherwise and are named after it: `gemm_sm90a.cubin`; one for another dtype
choice than the module's default says so: `gemm_sm90a_bf16.cubin`. `aot` gives an object and a shared library that
`tvm_ffi.load_module` loads; its one function has the kernel's name and takes the launcher's arguments (tensors and
scalars in the spec's order, then the number of multiprocessors).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from tsgen.diagnostics import Diagnostic, Span
from tsgen.runtime.errors import NEEDS_DSL, CannotRun
from tsgen.runtime.meta import Meta, read_meta
from tsgen.runtime.rules import generated_code_rejected

Kind = Literal["ptx", "cubin", "aot"]
Choice = Mapping[str, str]
Choices = Literal["default", "all"] | Sequence[Choice]

WORKER = Path(__file__).with_name("worker.py")
LOG_LINES = 12  # of the compiler's output, in a diagnostic
_SPEC_LINE = re.compile(r"#.*?\b[\w.-]+\.(?:ya?ml|toml):(\d+)\b")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class CompileFailed(Exception):
    """The generated code was rejected; `diagnostic` points into the spec."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Result(TypedDict):
    choice: dict[str, str]
    default: bool
    files: dict[str, str]  # by suffix


class _Answer(TypedDict, total=False):
    """What the worker says: results and libraries to link with, or a failure."""

    results: list[_Result]
    libraries: list[str]
    failure: str  # the exception's name
    text: str
    line: int | None  # of the module
    missing: str | None  # the package that could not be imported


def compile_module(
    module: Path,
    kind: Kind,
    out_dir: Path | None = None,
    *,
    choices: Choices = "default",
    spec: Path | None = None,
) -> list[Path]:
    """Compiles a generated module and returns what was written, the module's default dtypes first.

    `choices` are the dtype choices to compile for; `spec` sharpens the place of a diagnostic. Files are replaced
    atomically, and only if their bytes changed. Raises CannotRun (no DSL, no linker) and CompileFailed.
    """
    out_dir = module.parent if out_dir is None else out_dir  # as it was given: the user reads it
    module = module.resolve()
    meta = read_meta(module)
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tsgen-") as scratch:
        answer = _compile(module, meta, kind, choices, Path(scratch), spec)
        written = []
        for r in answer["results"]:
            stem = module.stem + ("" if r["default"] else "_" + "_".join(r["choice"].values()))
            if kind == "aot":
                so = Path(r["files"]["o"]).with_suffix(".so")
                link(Path(r["files"]["o"]), so, [Path(p) for p in answer["libraries"]])
                r["files"]["so"] = str(so)
            written += [_install(Path(f), out_dir / f"{stem}.{suffix}") for suffix, f in r["files"].items()]
    return written


def _compile(module: Path, meta: Meta, kind: Kind, choices: Choices, scratch: Path, spec: Path | None) -> _Answer:
    request = {
        "module": str(module),
        "kernel": meta.kernel,
        "kind": kind,
        "choices": choices if isinstance(choices, str) else [dict(c) for c in choices],
        "out": str(scratch),
    }
    process = subprocess.run(
        [sys.executable, "-P", str(WORKER), json.dumps(request)],
        env=_environment(meta.target, scratch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    log = [line for line in _ANSI.sub("", process.stdout).splitlines() if line.strip()]
    try:
        answer: _Answer = json.loads((scratch / "answer.json").read_text())
    except (OSError, ValueError):  # the compiler took the process down
        answer = {"failure": f"the compiler ended with status {process.returncode}", "text": "", "line": None}
    if "failure" in answer:
        raise _failed(module, answer, log, spec)
    return answer


def _environment(target: str, scratch: Path) -> dict[str, str]:
    """The caller's environment without its own settings of the DSL, which would change what is compiled."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL_")}
    return {
        **clean,
        "CUTE_DSL_ARCH": target,
        "CUTE_DSL_KEEP": "ptx,cubin",
        "CUTE_DSL_DUMP_DIR": str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _failed(module: Path, answer: _Answer, log: list[str], spec: Path | None) -> Exception:
    missing = (answer.get("missing") or "").split(".")[0]
    if missing in ("cutlass", "tvm_ffi", "cuda", "nvidia_cutlass_dsl"):
        return CannotRun(f"compiling needs the package {missing}, which this Python does not have", NEEDS_DSL)
    text = [line for line in _ANSI.sub("", answer["text"]).splitlines() if line.strip()]
    line = answer.get("line")
    summary = f"{answer['failure']}: {text[0].removeprefix('error: ')}" if text else answer["failure"]
    tail = tuple([*log, *text[1:]][-LOG_LINES:])
    return CompileFailed(generated_code_rejected(module.name, line, summary, tail, _spec_span(module, line, spec)))


def _spec_span(module: Path, line: int | None, spec: Path | None) -> Span:
    """The spec's line that asked for the code: named by the nearest comment at or above it in the same function."""
    for source in reversed(module.read_text(encoding="utf-8").splitlines()[:line] if line else []):
        if source.startswith("def "):
            break
        found = _SPEC_LINE.search(source)
        if found is None:
            continue
        n = int(found.group(1))
        written = spec.read_text(encoding="utf-8").splitlines() if spec is not None and spec.is_file() else []
        body = written[n - 1] if n <= len(written) else ""
        column = len(body) - len(body.lstrip()) + 1
        return Span(n, column, n, max(len(body.rstrip()), column) + 1)
    return Span.start()


def link(object_file: Path, library: Path, needed: Sequence[Path]) -> None:
    """Links an AOT object to a shared library. Raises CannotRun.

    The libraries it needs are recorded by name alone (no RPATH): they are found on LD_LIBRARY_PATH or are already
    loaded. `-Bsymbolic`: two libraries with kernels of one name may live in one process.
    """
    compiler = os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        raise CannotRun("linking an AOT object needs a C compiler: cc, gcc and clang are not on PATH", "or set CC")
    names = [flag for lib in needed for flag in (f"-L{lib.parent}", f"-l:{lib.name}")]
    command = [*compiler.split(), "-shared", "-Wl,-Bsymbolic,-z,defs,--build-id=none", "-o", str(library)]
    try:
        done = subprocess.run([*command, str(object_file), *names], capture_output=True, text=True, check=False)
    except OSError as e:
        raise CannotRun(f"linking failed: {compiler}: {e.strerror}") from None
    if done.returncode:
        raise CannotRun("linking failed: " + " | ".join(done.stderr.strip().splitlines()[-3:]))


def _install(file: Path, target: Path) -> Path:
    data = file.read_bytes()
    if target.is_file() and target.read_bytes() == data:
        return target
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as new:
        new.write(data)
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(new.name, (0o777 if target.suffix == ".so" else 0o666) & ~mask)
    os.replace(new.name, target)
    return target
