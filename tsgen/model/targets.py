"""The architectures that code is generated for: the GPUs that run them, and where the DSL has their layouts."""

from __future__ import annotations

from tsgen.frozen import frozen


@frozen
class Target:
    """`capability` is the compute capability of the GPUs that run it; `layouts` the DSL module (of
    cutlass.cute.nvgpu) with its swizzled layouts of shared memory."""

    name: str
    capability: tuple[int, int]
    layouts: str


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("sm_90a", (9, 0), "warpgroup"),
        Target("sm_100a", (10, 0), "tcgen05"),
        Target("sm_103a", (10, 3), "tcgen05"),
        Target("sm_120a", (12, 0), "warpgroup"),
    )
}
