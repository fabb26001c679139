"""The registry of targets: what the hardware of each has, as far as a kernel can ask for it."""

from __future__ import annotations

from tsgen.frozen import frozen


@frozen
class Target:
    """An architecture. `multicast`: its TMA writes one box into several CTAs of a cluster at the price of one."""

    name: str
    capability: tuple[int, int]  # compute capability
    smem_bytes: int  # that a block may have (CUDA C++ Programming Guide, technical specifications)
    wgmma: bool = False
    tcgen05: bool = False  # and with it tensor memory, MMAs of two CTAs
    multicast: bool = True

    @property
    def layouts(self) -> str:
        """The DSL module (of cutlass.cute.nvgpu) with its swizzled layouts of shared memory."""
        return "tcgen05" if self.tcgen05 else "warpgroup"


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("sm_90a", (9, 0), 227 * 1024, wgmma=True),
        Target("sm_100a", (10, 0), 227 * 1024, tcgen05=True),
        Target("sm_103a", (10, 3), 227 * 1024, tcgen05=True),
        Target("sm_120a", (12, 0), 99 * 1024, multicast=False),
    )
}
ALL: tuple[str, ...] = tuple(TARGETS)
SM90: tuple[str, ...] = tuple(t.name for t in TARGETS.values() if t.wgmma)
SM100: tuple[str, ...] = tuple(t.name for t in TARGETS.values() if t.tcgen05)
