"""Every schedule shape and pattern on the GPU: the edges of its tiles, nothing to do, many launches, many tiles."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from tests.gpu.conftest import Built
from tests.gpu.grids import GRIDS
from tsgen.model.algebra import evaluate, integer
from tsgen.runtime.run import run
from tsgen.runtime.timing import watchdog

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.builds(*GRIDS)

PERSISTENT = {  # more tiles than multiprocessors: what one tile leaves behind meets the next
    "gemm_residual": [{"M": 4000, "N": 4104, "K": 64}, {"M": 3000, "N": 2056, "K": 1000}],
    "gemm_pingpong": [
        {"M": 4000, "N": 4104, "K": 64},
        {"M": 3000, "N": 2056, "K": 1000, "L": 2},
        {"M": 100, "N": 8, "K": 8, "L": 133},
    ],
    "gemm_pingpong_bf16": [{"M": 8192, "N": 4096, "K": 8}],
    "rmsnorm": [{"R": 32768}, {"R": 10001}],
    "rmsnorm_rows": [{"R": 32768}, {"R": 10001}],
    "rmsnorm_n16384": [{"R": 8193}],
    "rmsnorm_n65536": [{"R": 2001}],
    "copy_skip_tiles": [{"M": 3, "N": 300000}],
    "copy_varlen": [{"S": 20000, "T": 60000, "W": 400}],
    "ring_registers": [{"M": 500, "N": 40000}],
    "alias_epilogue": [
        {"M": 4000, "N": 8200, "K": 64},
        {"M": 3000, "N": 5128, "K": 1000},
        {"M": 8192, "N": 4096, "K": 8},
    ],
}


@pytest.fixture
def seed() -> int:
    """Fresh data each time; a failure shows the seed."""
    value = int.from_bytes(os.urandom(4))
    print("seed", value)
    return value


def faults(built: Built, shapes: list[dict[str, int]], seed: int) -> list[str]:
    outcomes = run(built.build.kernel(), lambda t: built.host(**t), shapes, timed=False, seed=seed)
    return [str(o) for o in outcomes if not o.ok]


def test_edges(built: Built, seed: int, report: Callable[[str], None]) -> None:
    """Less than a tile, one tile, one more, several; one trip of the main loop and many."""
    shapes = GRIDS[built.build.name].all()
    bad = faults(built, shapes, seed)
    assert not bad, f"{len(bad)} of {len(shapes)} wrong, e.g.\n" + "\n".join(bad[:8])
    report(f"{built.build.name}: {len(shapes)} shapes right, guard zones intact")


def test_a_thousand_launches(built: Built, seed: int) -> None:
    """Random shapes, each with its own data; a hang ends the process with the build's name."""
    source = Random(seed)
    with watchdog(60.0, built.build.name):
        bad = faults(built, [GRIDS[built.build.name].random(source) for _ in range(1000)], seed)
    assert not bad, f"{len(bad)} of 1000 wrong, e.g.\n" + "\n".join(bad[:8])


def test_many_tiles(built: Built, seed: int) -> None:
    bad = faults(built, PERSISTENT.get(built.build.name, []), seed)
    assert not bad, "\n".join(bad)


def test_repeated_launches_give_equal_bits(built: Built) -> None:
    """One problem again and again: what a race changes now and then shows."""
    tensors = _tensors(built, {d: v[-1] for d, v in GRIDS[built.build.name].edges.items()})
    outputs = [n for n, t in built.build.kernel().tensors.items() if t.output]
    first = None
    for _ in range(30):
        for n in outputs:
            tensors[n].fill_(float("nan") if tensors[n].is_floating_point() else -77)
        built.host(**tensors)
        got = [tensors[n].clone() for n in outputs]
        first = first or got
        assert all(torch.equal(a, b) for a, b in zip(got, first, strict=True))


def test_nothing_to_do(built: Built) -> None:
    """Without results there is no launch: also where TMA could not describe the tensors."""
    kernel, grid = built.build.kernel(), GRIDS[built.build.name]
    for empty in grid.edges:
        shape = {d: 0 if d == empty else v[1] for d, v in grid.edges.items()}
        tensors = _tensors(built, shape)
        outputs = [n for n, t in kernel.tensors.items() if t.output]
        if all(tensors[n].numel() == 0 for n in outputs):
            try:
                built.host(**tensors)
            except ValueError as e:  # the spec's own assumption forbids the empty extent
                assert "does not hold" in str(e)
    torch.cuda.synchronize()


def _tensors(built: Built, shape: dict[str, int]) -> dict[str, torch.Tensor]:
    """Tensors of these dims (others are 1), integers zero; scalars are left to their defaults."""
    kernel = built.build.kernel()
    env = {**kernel.env, **dict.fromkeys(kernel.dims, 1), **shape}
    types = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32}
    out = {}
    for n, t in kernel.tensors.items():
        if not t.present or not t.shape:
            continue
        sizes = [int(integer(e, env)) for e in t.shape]
        dtype = types[str(evaluate(t.dtype, env))]
        out[n] = torch.zeros(sizes, dtype=dtype, device="cuda")
        if dtype.is_floating_point:
            out[n].normal_()
    return out
