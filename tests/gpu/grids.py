"""Shapes for the kernels of the bundled specs: edges of their tiles in all combinations, and random ones in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random

Shape = dict[str, int]


@dataclass(frozen=True)
class Grid:
    """`edges`: values of each dim, one tile and less first; `step`: dims that must be a multiple (1 if left out)."""

    edges: Mapping[str, tuple[int, ...]]
    step: Mapping[str, int] = field(default_factory=dict)

    def all(self) -> list[Shape]:
        """Every combination, the smallest first."""
        shapes = [dict(zip(self.edges, values, strict=True)) for values in product(*self.edges.values())]
        return sorted(shapes, key=lambda s: sum(s.values()))

    def few(self) -> list[Shape]:
        """The smallest shape, and one of several tiles: for slow tools."""
        return [{d: v[i] for d, v in self.edges.items()} for i in (0, -2)]

    def random(self, source: Random) -> Shape:
        """Any shape up to the largest of the grid, small ones more often."""
        shape = {}
        for d, values in self.edges.items():
            step = self.step.get(d, 1)
            most = source.choice(values)
            shape[d] = max(1, source.randint(1, max(1, most // step))) * step
        return shape


def _gemm(tile_m: int, tile_n: int, tile_k: int, n_step: int) -> Grid:
    """d[M, N] = a[M, K] b[N, K]ᵀ: K in steps of 8, which TMA wants; N in steps that the output's stores want."""
    return Grid(
        {
            "M": (1, tile_m - 1, tile_m, tile_m + 1, 3 * tile_m + 5, 1000),
            "N": (n_step, tile_n - n_step, tile_n, tile_n + n_step, 520),
            "K": (8, tile_k - 8, tile_k, tile_k + 8, 328, 1000),
        },
        {"N": n_step, "K": 8},
    )


GRIDS: dict[str, Grid] = {  # by build
    "split_consumer": _gemm(64, 128, 64, 2),
    "interleave_domain": Grid({"M": (1, 31, 32, 33, 64, 200, 1000), "N": (8, 56, 64, 72, 200, 1000)}, {"N": 8}),
    "leader_routed_single": Grid(
        {"C": (1, 2, 3), "M": (1, 127, 128, 129, 300, 1000), "N": (8, 56, 64, 72, 264, 1000)}, {"N": 8}
    ),
    "async_load": Grid(
        {"V": (1, 7, 1000), "T": (1, 15, 16, 17, 100, 3001), "N": (8, 504, 512, 520, 1024, 5120)}, {"N": 8}
    ),
    "group_merge": Grid({"M": (1, 31, 32, 33, 100, 500), "N": (4, 28, 32, 36, 100, 700)}, {"N": 4}),
    "group_fork": _gemm(64, 128, 64, 2),
    "group_fused_merge": _gemm(64, 128, 64, 2),
    "gemm_residual": _gemm(128, 128, 64, 8),
    "alias_epilogue": _gemm(128, 256, 64, 8),
    "copy_skip_tiles": Grid({"M": (1, 2, 65), "N": (1, 127, 128, 129, 1000, 16896, 17000)}),
    "copy_varlen": Grid({"S": (1, 2, 131, 133, 300), "T": (0, 1, 7, 127, 128, 129), "W": (129, 160, 256)}),
    "copy_cond": Grid({"T": (1, 2, 3, 4, 9, 70), "N": (8, 56, 64, 72, 192, 1000)}, {"N": 8}),
    "copy_every": Grid({"P": (1, 3, 9), "B": (1, 5, 200), "T": (1, 2, 6, 20)}),
    "copy_every_one": Grid({"P": (1, 9), "B": (1, 5), "T": (1, 2, 6)}),
    "ping_pong": Grid({"B": (1, 2, 33, 1000)}),
    "ping_pong_once": Grid({"B": (1, 2, 33, 1000)}),
    "gemm_pingpong": Grid({**_gemm(128, 128, 64, 8).edges, "L": (1, 2)}, {"N": 8, "K": 8}),
    "gemm_pingpong_bf16": _gemm(128, 128, 64, 8),
    "ring_registers": Grid({"M": (1, 31, 32, 33, 64, 1000), "N": (8, 56, 64, 72, 200, 9000)}, {"N": 8}),
    "both_sides": Grid({"B": (1, 2, 3, 33)}),
    "once": Grid({"M": (64, 128, 640), "N": (8, 56, 64, 72, 1000)}, {"M": 64, "N": 8}),
}
GRIDS["softmax"] = Grid({"M": (1, 31, 32, 33, 64, 1000)})
GRIDS["rmsnorm"] = Grid({"R": (1, 3, 4, 5, 8, 133, 527, 528, 529, 533, 2000)})
GRIDS["rmsnorm_rows"] = GRIDS["rmsnorm"]
GRIDS["rmsnorm_n16384"] = Grid({"R": (1, 2, 131, 132, 133, 264, 265, 500)})
GRIDS["rmsnorm_n65536"] = Grid({"R": (1, 2, 65, 66, 67, 133, 200)})
GRIDS["leader_routed_cluster"] = GRIDS["leader_routed_single"]
GRIDS["interleave_warp_lanes"] = GRIDS["interleave_warp_dense"] = Grid(
    {"B": (1, 7, 140), "N": (4, 252, 256, 260, 512, 2048, 2308, 5000)}, {"N": 4}
)
