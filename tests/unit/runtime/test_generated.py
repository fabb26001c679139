"""Generated modules through the compiler, without a GPU: cubins, AOT libraries, and what ptxas made of the GEMM."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pytest

from tests.gpu.builds import BUILDS, GEMM, Build
from tsgen.model.steps import calls
from tsgen.runtime.compile import compile_module
from tsgen.runtime.launch import aot_function, exports
from tsgen.runtime.sass import Sass, inspect_cubin

pytestmark = [
    pytest.mark.dsl,
    pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl"),
]
GEMMS = [b for b in BUILDS.values() if b.spec == GEMM]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated")


@cache
def compiled(name: str, folder: Path) -> list[tuple[Path, Sass]]:
    """The kernels in the cubins of a build, for every dtype choice."""
    build = BUILDS[name]
    files = compile_module(build.emit(folder), "cubin", choices="all")
    reports = [(f, inspect_cubin(f)) for f in files]
    assert all(len(r) == len(build.program().kernels) for _, r in reports)
    return [(f, sass) for f, r in reports for sass in r]


@pytest.mark.parametrize("build", BUILDS.values(), ids=list(BUILDS))
def test_every_build_compiles_for_every_dtype_without_spills(build: Build, folder: Path) -> None:
    for file, sass in compiled(build.name, folder):
        assert any(f"{k.name}_kernel" in sass.function for k in build.program().kernels), file
        assert sass.spills == 0 and sass.stack == 0 and sass.local == 0, (file.name, sass.spills)


@pytest.mark.parametrize("build", GEMMS, ids=[b.name for b in GEMMS])
def test_the_gemm_keeps_its_register_budgets_and_waits_as_written(build: Build, folder: Path) -> None:
    """setmaxnreg is only obeyed with min_blocks_per_mp; a call in the main loop would serialise WGMMA: more waits."""
    kernel = build.kernel()
    budgets = {t.instances[0].num_registers for t in kernel.tasks}
    steps = [c for t in kernel.tasks for c in calls(t.schedule.steps)]
    waits = sum(c.target == "wgmma" for c in steps)
    products = sum(c.method == "mma" for c in steps)
    k_blocks = kernel.env["tile_k"] // 16  # type: ignore[operator]
    for _, sass in compiled(build.name, folder):
        assert set(sass.setmaxnreg) == budgets and sass.count("USETMAXREG") == len(kernel.tasks)
        assert sass.count("WARPGROUP.DEPBAR") == waits
        assert sass.count("WARPGROUP.ARRIVE") == products
        assert sass.count("HGMMA") == products * k_blocks
        assert sass.registers * 384 <= 65536


ATTENTION = {  # of the hand-written target: HGMMA, waits, exponentials, FFMA, FMNMX, conversions
    "attention_full": (32, 4, 132, 136, 136, 96),
    "attention_causal": (48, 6, 198, 204, 204, 128),
    "attention_full_turns": (32, 4, 132, 136, 136, 96),
    "attention_causal_turns": (48, 6, 198, 204, 204, 128),
    "attention_full_64": (24, 4, 132, 136, 136, 80),
    "attention_causal_64": (36, 6, 198, 204, 204, 112),
    "attention_varlen": (48, 6, 198, 206, 204, 128),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_what_was_written_by_hand(name: str, folder: Path) -> None:
    """More waits than wait steps would mean serialised WGMMAs; more arithmetic, maps that do not fold."""
    mnemonics = ("HGMMA", "WARPGROUP.DEPBAR", "MUFU.EX2", "FFMA", "FMNMX", "F2FP")
    for _, sass in compiled(name, folder):
        assert tuple(sass.count(m) for m in mnemonics) == ATTENTION[name]
        assert sass.count("USETMAXREG") == 2


def test_aot_libraries_load_without_the_compiler_and_name_no_path(folder: Path) -> None:
    build = BUILDS["gemm_f16"]
    files = compile_module(build.emit(folder), "aot", choices="all")
    assert [f.name for f in files] == [
        "gemm_sm90a.o", "gemm_sm90a.so", "gemm_sm90a_bfloat16.o", "gemm_sm90a_bfloat16.so",
    ]  # fmt: skip
    for f in files[1::2]:
        assert exports(f) == ["gemm"]
        assert callable(aot_function(f))
        data = f.read_bytes()
        assert b"site-packages" not in data and str(folder).encode() not in data


def test_ptx_is_the_same_in_two_compiles(folder: Path, tmp_path: Path) -> None:
    module = BUILDS["gemm_f16"].emit(folder)
    first, second = (compile_module(module, "ptx", tmp_path / n)[0].read_text() for n in "ab")
    assert first == second and ".target sm_90a" in first
