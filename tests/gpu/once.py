"""`python -m tests.gpu.once BUILD`: one launch for each of a few small shapes, checked, for compute-sanitizer.

Shapes: less than a tile, ragged edges, several tiles in each direction, one K tile and less, a batch. BUILD `control`
reads past an allocation on purpose: if memcheck does not see that, its silence about the others means nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from tests.gpu import test_flow
from tests.gpu.attention_shapes import FEW
from tests.gpu.builds import ATTENTION, BUILDS
from tests.gpu.conftest import Built
from tests.gpu.grids import GRIDS
from tests.gpu.hosted import hosted
from tests.gpu.problems import call, gemm
from tsgen.runtime.run import run

SHAPES = {
    "copy": [{"N": 1}, {"N": 1000}, {"N": 70001}],
    "copy_tma": [{"M": 1, "N": 8}, {"M": 200, "N": 520}, {"M": 64, "N": 64}],
    "pdl_chain": [{"N": 1}, {"N": 2049}, {"N": 100000}],
    "pdl_chain_serial": [{"N": 2049}],
}
SHAPES.update({name: grid.few() for name, grid in GRIDS.items()})
SHAPES.update({name: FEW for name, build in BUILDS.items() if build.spec == ATTENTION})
OWN = {  # kernels whose numbers a test of theirs knows
    "ramp": test_flow.test_scalars_by_value,
    "select": test_flow.test_where_on_elements_and_tiles,
    "mirror": test_flow.test_bodies_see_stages_windows_and_tokens,
}
GEMMS = [(1, 8, 8, 1), (300, 520, 200, 1), (129, 264, 64, 2)]


def control() -> int:
    """Copies 100,000 floats out of an allocation of 256 bytes."""
    import cupy

    cupy.cuda.set_allocator(None)
    x = cupy.ndarray((100_000,), cupy.float32, memptr=cupy.cuda.alloc(256))
    load("copy").host(x, torch.empty(100_000, device="cuda"))
    torch.cuda.synchronize()
    return 0


def load(name: str) -> Built:
    build, folder = BUILDS[name], Path(os.environ["TSGEN_AOT"]).resolve()
    path = build.module(folder)
    return Built(build, path, getattr(hosted(path), build.kernel().name))


def main(name: str) -> int:
    if name == "control":
        return control()
    built = load(name)
    kernel = built.build.kernel()
    if name in SHAPES:
        outcomes = run(kernel, lambda t: built.host(**t), SHAPES[name], timed=False)
        bad = [str(o) for o in outcomes if not o.ok]
    elif name in OWN:
        OWN[name](built)
        bad = []
    else:
        dtype = torch.bfloat16 if kernel.env["io"] == "bf16" else torch.float16
        bad = []
        for shape in GEMMS:
            p = gemm(built, dtype, *shape)
            call(built, p)
            if fault := p.fault():
                bad.append(f"{shape}: {fault}")
    print("\n".join(bad) or f"{name}: results right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
