"""Blackwell modules through the compiler. No GPU here runs them: what ptxas and the PTX say of them is tested instead.

tests/targets/ has modules that were written by hand, step by step; the generated ones synchronise in the same way.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path

import pytest

from tests.support.budgets import highest_registers
from tests.support.ptx import Profile, Row, profiles
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
ATTENTION = "specs/sm100_attention.yaml"
SCALED = "specs/sm100_gemm_nvfp4.yaml"
PERSISTENT = "specs/sm100_gemm_persistent.yaml"
BUILDS = [
    Build(GEMM),
    Build(GEMM, target="sm_103a"),
    Build(GEMM, sets=(("epi_n", "32"),)),
    Build(GEMM, sets=(("tile_n", "128"), ("stages", "6"))),
    Build(PERSISTENT),
    Build(PERSISTENT, "static"),
    Build(PERSISTENT, "plain"),
    Build(PERSISTENT, target="sm_103a"),
    Build(PERSISTENT, sets=(("tile_n", "128"), ("stages", "8"))),
    Build(PERSISTENT, "quad"),
    Build("tests/kernels/umma_umma.yaml"),
    Build("tests/kernels/async_umma.yaml"),
    *(Build(f"specs/sm100_{n}.yaml") for n in ("gemm_split_k", "group_merge", "group_fork")),
    *(Build("specs/sm100_gemm_split_k.yaml", sets=(("split", n),)) for n in ("1", "4")),
    Build(ATTENTION),
    Build(ATTENTION, "causal"),
    Build(ATTENTION, target="sm_103a"),
    Build(ATTENTION, "causal", sets=(("head_dim", "64"),)),
    Build("specs/sm100_gemm_fp8.yaml"),
    Build(SCALED),
    Build(SCALED, "mxfp4"),
    Build(SCALED, "mxfp8"),
    Build(SCALED, target="sm_103a"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blackwell")


@cache
def compiled(build: Build, folder: Path) -> list[Path]:
    return compile_module(build.emit(folder), "cubin", choices="all")


@cache
def all_ptx(target: str, folder: Path) -> dict[Path, str]:
    """The PTX of all builds for a target, and of the kernels written by hand; in one process: the DSL loads slowly."""
    modules = [b.emit(folder) for b in BUILDS if b.target == target]
    return compile_ptx([*modules, *(sorted(TARGETS.glob("*.py")) if target == "sm_100a" else ())], target)


def profile_of(build: Build, folder: Path) -> Profile:
    """How the kernel of a build synchronises."""
    (found,) = profiles(all_ptx(build.target, folder)[build.emit(folder)]).values()
    return found


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_every_kernel_compiles_within_its_budgets_without_spills(build: Build, folder: Path) -> None:
    budgets = {i.num_registers for k in build.program().kernels for _, i in k.instances() if i.num_registers}
    for cubin in compiled(build, folder):
        for sass in inspect_cubin(cubin):
            assert sass.spills == 0 and sass.stack == 0 and sass.local == 0, (cubin.name, sass.spills)
            assert set(sass.setmaxnreg) == budgets
        found = highest_registers(cubin)
        assert {budget for budget, _ in found} == budgets and all(used <= budget for budget, used in found), found


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_barriers_count_what_was_proven(build: Build, folder: Path) -> None:
    """The arrivals of every mbarrier and the bytes of every stage are those that `check` has proven it with."""
    (kernel,) = build.program().kernels
    derived = derive(kernel)
    counts, announced = Counter[int](), set[int]()
    later = {m: g.mode for g in kernel.groups.values() for m in g.members[1:]}  # they share barriers of the first
    assert "fused_merge" not in later.values()  # its full barriers add up
    for r in kernel.resources.values():
        if r.pipeline is not None:
            barriers = r.pipeline.num_stages * (r.each.count if r.each is not None else 1)
            full, nbytes = derived.arrivals[r.name].full, derived.tx_bytes[r.name]
            if r.pipeline.type == "peer_async" and derived.peers[r.name] == 1:  # without peers, threads store
                nbytes = 0
                full = sum(32 * i.num_warps for task, i in kernel.instances() if r.name in derived.dst[task.name])
            counts[full] += barriers if later.get(r.name) != "fork" else 0
            counts[derived.arrivals[r.name].empty] += barriers if later.get(r.name) != "merge" else 0
            announced |= {nbytes} - {0}
    counts[1] += bool(derived.pairs)  # the other CTA of the pair is done with tensor memory
    profile = profile_of(build, folder)
    found = Counter[int]()
    for row, n in profile[0].items():
        if count := re.fullmatch(r"mbarrier\.init\(count=(\d+)\)", row.key):
            found[int(count.group(1))] += n
    assert found == counts
    bytes_ = {
        int(m.group(1)) for warp in profile for row in warp if (m := re.search(r"expect_tx\(bytes=(\d+)", row.key))
    }
    assert bytes_ == announced


@cache
def traced(build: Build, folder: Path) -> dict[str, list[list[object]]]:
    """The layouts of a build's operands and copies (tests/support/layouts.py)."""
    answer = folder / f"{build}.json"
    script = ROOT / "tests" / "support" / "layouts.py"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL_")}
    subprocess.run(
        [sys.executable, "-P", str(script), str(build.emit(folder)), str(answer)],
        env={**environment, "CUTE_DSL_ARCH": build.target},
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )
    found: dict[str, list[list[object]]] = json.loads(answer.read_text())
    return found


def offset(layout: list[object], at: Sequence[int]) -> int:
    """Where a coordinate lies: of each mode a number, which its sub-modes share, the first fastest."""
    shape, stride = layout

    def along(n: int, sizes: object, steps: object) -> tuple[int, int]:
        if isinstance(sizes, int):
            assert isinstance(steps, int)
            return n % sizes * steps, n // sizes
        assert isinstance(sizes, list) and isinstance(steps, list)
        total = 0
        for size, step in zip(sizes, steps, strict=True):
            part, n = along(n, size, step)
            total += part
        return total, n

    assert isinstance(shape, list) and isinstance(stride, list)
    return sum(along(n, s, d)[0] for n, s, d in zip(at, shape, stride, strict=True))


@pytest.mark.parametrize("build", [Build(GEMM), Build(PERSISTENT), Build(ATTENTION), Build(SCALED)], ids=str)
def test_an_mma_reads_the_bytes_that_tma_wrote(build: Build, folder: Path) -> None:
    """Element (row, k) of each stage of every operand is at one place in both layouts; `.T` reads rows as k."""
    operands = traced(build, folder)["operands"]
    assert operands
    for kind, written, read in operands:
        assert isinstance(kind, str) and isinstance(written, list) and isinstance(read, list)
        (rows, k), _, blocks, stages = read[0]
        rows, k, blocks = size(rows), size(k), size(blocks)
        for stage in range(stages):
            for row in range(0, rows, 7):
                for column in range(0, k * blocks, 3):
                    place = (row, column, stage) if kind.startswith("K") else (column, row, stage)
                    mine = row + rows * (column % k)
                    assert offset(read, (mine, 0, column // k, stage)) == offset(written, place)


def size(shape: object) -> int:
    return shape if isinstance(shape, int) else prod(size(x) for x in shape)  # type: ignore[attr-defined]


@pytest.mark.parametrize("build", [Build(GEMM), Build(PERSISTENT), Build(ATTENTION)], ids=str)
def test_registers_are_the_columns_of_a_thread_s_row(build: Build, folder: Path) -> None:
    """Copies between tensor memory and registers: register j holds column j, in instructions of so many columns."""
    copies = traced(build, folder)["copies"]
    assert copies
    for rows, columns, layout in copies:
        assert rows == 128 and isinstance(columns, int)
        found = re.fullmatch(r"\(\((\d+),1\),1,(\d+)\):\(\(1@1,0\),0,(\d+)(?:@1)?\)", str(layout))
        assert found is not None, layout
        width, count, step = map(int, found.groups())
        assert width * count == columns and (step == width or count == 1)


INSTRUCTIONS = {  # kind and factors of the MMAs; MMAs and copies of factors for each stage
    Build(GEMM): ("kind::f16", 4, 0),
    Build("specs/sm100_gemm_fp8.yaml"): ("kind::f8f6f4", 4, 0),
    Build(SCALED): ("kind::mxf4nvf4.block_scale.block16", 4, 12),
    Build(SCALED, "mxfp4"): ("kind::mxf4nvf4.block_scale.block32", 4, 6),
    Build(SCALED, "mxfp8"): ("kind::mxf8f6f4.block_scale.block32", 4, 3),
}


@pytest.mark.parametrize("build", INSTRUCTIONS, ids=str)
def test_operands_and_factors_have_the_instructions_of_their_dtypes(build: Build, folder: Path) -> None:
    """One MMA for each 32 bytes of K; of the factors one copy for 128 rows by four factors, all by the MMA's warp."""
    kind, products, factors = INSTRUCTIONS[build]
    profile = profile_of(build, folder)
    for warp, rows in enumerate(profile):
        found = {k: sum(n for row, n in rows.items() if row.key.startswith(f"tcgen05.{k}.")) for k in ("mma", "cp")}
        assert found == ({"mma": products, "cp": factors} if warp == 4 else {"mma": 0, "cp": 0})
        assert all(kind in row.key for row in rows if row.key.startswith("tcgen05.mma."))


def both(build: Build, target: str, folder: Path) -> tuple[Profile, Profile]:
    """The profiles of a build and of a kernel written by hand."""
    (wanted,) = profiles(all_ptx(build.target, folder)[TARGETS / target]).values()
    return profile_of(build, folder), wanted


def test_the_gemm_synchronises_as_the_one_written_by_hand(folder: Path) -> None:
    """The same barriers, counts, bytes, waits, commits and copies in the same warps, loops and lanes, equally often."""
    mine, wanted = both(Build(GEMM), "sm100_gemm_sm100a.py", folder)
    assert mine == wanted


def test_the_persistent_gemm_synchronises_as_the_one_written_by_hand(folder: Path) -> None:
    """But for what the spec says otherwise: it tries no barrier before it waits, and a barrier of its own (id 3) says
    that tensor memory may be freed, where the epilogue's last one did; the ids of the two others are exchanged."""
    mine, wanted = both(Build(PERSISTENT), "sm100_gemm_persistent_sm100a.py", folder)
    for warp, (got, want) in enumerate(zip(mine, wanted, strict=True)):
        assert _ids(got, {1: 2, 2: 1}) - want == Counter({row: 1 for row in _ids(got, {}) if "id=3" in row.key})
        missing = want - _ids(got, {1: 2, 2: 1})
        assert all("(once)" in row.key for row in missing) and missing.total() == (warp in (4, 5))


def _ids(rows: Counter[Row], ids: dict[int, int]) -> Counter[Row]:
    """Rows whose named barriers have other ids."""
    out: Counter[Row] = Counter()
    for row, n in rows.items():
        found = re.match(r"barrier\.(\w+)\(id=(\d+)", row.key)
        number = int(found.group(2)) if found else 0
        key = row.key.replace(f"id={number},", f"id={ids.get(number, number)},") if found else row.key
        out[replace(row, key=key)] += n
    return out
