"""Artefacts of modules: names, atomic replacement, failures as diagnostics at the spec's line.

The modules here are stand-ins whose `compile` writes what the DSL would; test_generated.py compiles real ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tsgen.diagnostics import Span
from tsgen.runtime.compile import CompileFailed, Kind, compile_module, link
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.launch import exports
from tsgen.runtime.meta import read_meta

MODULE = """
import os
META = {"kernel": "k", "target": "sm_90a", "variant": None, "params": {"io": "f16"}, "tsgen": "0", "spec_sha256": "00"}
IO = {"float16": 0, "bfloat16": 0}


def k(x):
    return x


# k.yaml:3 ring
def helper():
    # k.yaml:7 ring.acquire()
    value = 1
    return value + missing


def compile(io="float16", options="--enable-tvm-ffi"):
    assert os.environ["CUTE_DSL_ARCH"] == "sm_90a" and os.environ["CUTE_DSL_KEEP"] == "ptx,cubin"
    assert "CUTE_DSL_LINEINFO" not in os.environ
    for suffix in ("ptx", "cubin"):
        with open(f"{os.environ['CUTE_DSL_DUMP_DIR']}/{io}.sm_90a.{suffix}", "w") as f:
            f.write(suffix + io)
    BODY
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTE_DSL_LINEINFO", "1")  # the caller's settings do not reach the compiler
    path = tmp_path / "in" / "k_sm90a.py"
    path.parent.mkdir()
    path.write_text(MODULE.replace("BODY", "return None"))
    return path


@pytest.mark.parametrize("kind", ["ptx", "cubin"])
def test_artefacts_lie_beside_the_module_and_are_named_after_it(module: Path, kind: Kind) -> None:
    assert compile_module(module, kind) == [module.with_suffix(f".{kind}")]
    assert module.with_suffix(f".{kind}").read_text() == kind + "float16"
    assert sorted(p.name for p in module.parent.iterdir()) == [f"k_sm90a.{kind}", "k_sm90a.py"]


def test_artefacts_are_named_as_the_module_was(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(module.parent)
    assert compile_module(Path(module.name), "ptx") == [Path("k_sm90a.ptx")]


def test_other_dtype_choices_are_named_after_themselves(module: Path, tmp_path: Path) -> None:
    files = compile_module(module, "cubin", tmp_path / "out", choices="all")
    assert [p.name for p in files] == ["k_sm90a.cubin", "k_sm90a_bfloat16.cubin"]
    assert [p.read_text() for p in files] == ["cubinfloat16", "cubinbfloat16"]
    (one,) = compile_module(module, "cubin", tmp_path / "one", choices=[{"io": "bfloat16"}])
    assert one.name == "k_sm90a_bfloat16.cubin"


def test_unchanged_artefacts_keep_their_time(module: Path) -> None:
    (file,) = compile_module(module, "ptx")
    os.utime(file, (1, 1))
    compile_module(module, "ptx")
    assert file.stat().st_mtime == 1
    file.write_text("old")
    compile_module(module, "ptx")
    assert file.read_text() == "ptxfloat16"


def test_a_failure_points_into_the_spec(module: Path, tmp_path: Path) -> None:
    module.write_text(MODULE.replace("BODY", "print('compiling'); helper()"))
    spec = tmp_path / "k.yaml"
    spec.write_text("\n" * 6 + "    - ring.acquire()\n")
    with pytest.raises(CompileFailed) as caught:
        compile_module(module, "cubin", spec=spec)
    d = caught.value.diagnostic
    line = MODULE.splitlines().index("    return value + missing") + 1
    assert d.code == "TS810" and d.span == Span(7, 5, 7, 21)
    assert d.message == (
        f"the DSL rejects the generated code at k_sm90a.py:{line}: NameError: name 'missing' is not defined"
    )
    assert d.notes == ("compiling",)
    assert not module.with_suffix(".cubin").exists()


def test_a_failure_in_code_without_a_spec_line(module: Path) -> None:
    module.write_text(MODULE.replace("BODY", "raise ValueError('error: first\\nsecond\\n' + 'x\\n' * 40)"))
    with pytest.raises(CompileFailed) as caught:
        compile_module(module, "cubin")
    assert caught.value.diagnostic.span == Span.start()
    assert caught.value.diagnostic.message.endswith("ValueError: first")
    assert 0 < len(caught.value.diagnostic.notes) <= 12


def test_a_compiler_that_takes_the_process_down(module: Path) -> None:
    module.write_text(MODULE.replace("BODY", "os.write(2, b'LLVM ERROR: out of registers\\n'); os.abort()"))
    with pytest.raises(CompileFailed, match="the compiler ended with status -6") as caught:
        compile_module(module, "cubin")
    assert caught.value.diagnostic.notes[0] == "LLVM ERROR: out of registers"


def test_no_dsl(module: Path) -> None:
    source = MODULE.replace("import os", "import os\nraise ModuleNotFoundError(\"No module\", name='cutlass')", 1)
    module.write_text(source)
    with pytest.raises(CannotRun) as caught:
        compile_module(module, "cubin")
    assert str(caught.value) == (
        "compiling needs the package cutlass, which this Python does not have\n"
        "  = help: install the DSL for your CUDA, in the folder of tsgen: pip install -e '.[cu13]' (or '.[cu12]')"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "no META: this is no module written by tsgen"),
        ("META = {'kernel': f()}", "META cannot be read"),
        ("META = {'kernel': 'k'}", "META cannot be read: 'target'"),
        ("META = {", "not a Python module"),
    ],
)
def test_files_that_are_no_generated_modules(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.py"
    path.write_text(text)
    with pytest.raises(CannotRun, match=message):
        compile_module(path, "ptx")


def test_meta(module: Path) -> None:
    meta = read_meta(module)
    assert (meta.kernel, meta.target, meta.variant, meta.params) == ("k", "sm_90a", None, {"k": {"io": "f16"}})


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_linked_libraries_name_no_path(tmp_path: Path) -> None:
    def compiled(name: str, source: str, *flags: str) -> Path:
        (tmp_path / f"{name}.c").write_text(source)
        out = tmp_path / (f"{name}.so" if "-shared" in flags else f"{name}.o")
        subprocess.run(["cc", *flags, "-fPIC", "-o", out, tmp_path / f"{name}.c"], check=True)
        return out

    needed = compiled("libneeded", "int needed(void) { return 1; }", "-shared")  # without a SONAME
    source = "int needed(void); int __tvm_ffi_k(void) { return needed(); } int __tvm_ffi__ctx(void) { return 0; }"
    library = tmp_path / "k.so"
    link(compiled("k", source, "-c"), library, [needed])
    assert exports(library) == ["k"]
    assert str(tmp_path).encode() not in library.read_bytes()
    with pytest.raises(CannotRun, match=r"linking failed: .*needed"):
        link(tmp_path / "k.o", library, [])


def test_no_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRun, match="linking an AOT object needs a C compiler"):
        link(tmp_path / "k.o", tmp_path / "k.so", [])


def test_files_that_are_no_aot_libraries(tmp_path: Path) -> None:
    (tmp_path / "k.so").write_bytes(b"\x7fELF nothing")
    with pytest.raises(CannotRun, match="no AOT library of tsgen"):
        exports(tmp_path / "k.so")
    with pytest.raises(CannotRun, match="No such file"):
        exports(tmp_path / "none.so")
