"""Blackwell modules through the compiler. No GPU here runs them: what ptxas and the PTX say of them is tested instead.

tests/targets/ has modules that were written by hand, step by step; the generated ones synchronise in the same way.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.support.budgets import highest_registers
from tests.support.ptx import profiles
from tests.support.ptx.compiler import compile_ptx
from tsgen.derive import derive
from tsgen.emit import emit
from tsgen.model.kernel import Program
from tsgen.runtime.compile import compile_module
from tsgen.runtime.sass import inspect_cubin
from tsgen.spec import load_program

pytestmark = [
    pytest.mark.dsl,
    pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl"),
]
ROOT = Path(__file__).parents[3]
TARGETS = ROOT / "tests" / "targets"


@dataclass(frozen=True)
class Build:
    spec: str
    variant: str | None = None
    target: str = "sm_100a"
    sets: tuple[tuple[str, str], ...] = field(default=())

    def program(self) -> Program:
        result = load_program(ROOT / self.spec, variant=self.variant, target=self.target, sets=dict(self.sets))
        assert result.program is not None, [d.message for d in result.diagnostics]
        return result.program

    def emit(self, folder: Path) -> Path:
        program = self.program()
        path = folder / f"{self}" / f"{program.name}_{self.target}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(emit(program, [derive(k) for k in program.kernels]), encoding="utf-8")
        return path

    def __str__(self) -> str:
        parts = [Path(self.spec).stem, self.variant, self.target, *(f"{k}-{v}" for k, v in self.sets)]
        return "_".join(p for p in parts if p)


GEMM = "specs/sm100_gemm.yaml"
BUILDS = [
    Build(GEMM),
    Build(GEMM, target="sm_103a"),
    Build(GEMM, sets=(("epi_n", "32"),)),
    Build(GEMM, sets=(("tile_n", "128"), ("stages", "6"))),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blackwell")


@cache
def compiled(build: Build, folder: Path) -> list[Path]:
    return compile_module(build.emit(folder), "cubin", choices="all")


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_every_kernel_compiles_within_its_budgets_without_spills(build: Build, folder: Path) -> None:
    budgets = {i.num_registers for k in build.program().kernels for _, i in k.instances() if i.num_registers}
    for cubin in compiled(build, folder):
        for sass in inspect_cubin(cubin):
            assert sass.spills == 0 and sass.stack == 0 and sass.local == 0, (cubin.name, sass.spills)
            assert set(sass.setmaxnreg) == budgets
        found = highest_registers(cubin)
        assert found and all(used <= budget for budget, used in found), found


@pytest.mark.parametrize(("build", "target"), [(Build(GEMM), "sm100_gemm_sm100a.py")], ids=["sm100_gemm"])
def test_it_synchronises_as_the_kernel_written_by_hand(build: Build, target: str, folder: Path) -> None:
    """The same barriers, counts, bytes, waits, commits and copies in the same warps, loops and lanes, equally often."""
    ours, theirs = build.emit(folder), TARGETS / target
    texts = compile_ptx([ours, theirs], build.target)
    (mine,), (wanted,) = (list(profiles(texts[m]).values()) for m in (ours, theirs))
    assert mine == wanted
