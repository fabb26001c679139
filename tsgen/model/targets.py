"""The registry of targets: what the hardware of each has, as far as a kernel can ask for it."""

from __future__ import annotations

from tsgen.frozen import frozen


@frozen
class Target:
    """An architecture that code is generated for."""

    name: str
    capability: tuple[int, int]  # compute capability
    tcgen05: bool = False  # and with it tensor memory, MMAs of two CTAs

    @property
    def layouts(self) -> str:
        """The DSL module (of cutlass.cute.nvgpu) with its swizzled layouts of shared memory."""
        return "tcgen05" if self.tcgen05 else "warpgroup"


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("sm_90a", (9, 0)),
        Target("sm_100a", (10, 0), tcgen05=True),
        Target("sm_103a", (10, 3), tcgen05=True),
        Target("sm_120a", (12, 0)),
    )
}
