"""Everything a spec may leave out: `derive(kernel)` computes it from the steps and the works' accesses."""

from __future__ import annotations

from tsgen.derive.arrivals import arrivals, peers, transaction_bytes
from tsgen.derive.lanes import lanes
from tsgen.derive.memory import allocated_columns, smem_map, swizzles, tmem_map
from tsgen.derive.model import Arrivals, Derived, NamedBarrier, SmemBlock, TmemBlock
from tsgen.derive.uses import Uses, uses
from tsgen.derive.warps import block_warps, launch_registers, named_barriers, padding
from tsgen.model.kernel import Kernel

__all__ = ["Arrivals", "Derived", "NamedBarrier", "SmemBlock", "TmemBlock", "derive"]


def derive(kernel: Kernel, facts: Uses | None = None) -> Derived:
    """The derived values of a kernel. Never fails: what makes no sense is reported by the verifier.

    `facts` are those of `uses(kernel)`, if the caller has them already.
    """
    u = facts if facts is not None else uses(kernel)
    pipelined = [r for r in kernel.resources.values() if r.pipeline is not None]
    swizzle = swizzles(kernel, u)
    blocks, size = smem_map(kernel, u, swizzle)
    columns, width = tmem_map(kernel)
    warps = block_warps(kernel)
    counts = {r.name: arrivals(kernel, u, r) for r in pipelined}
    return Derived(
        arrivals=counts,
        tx_bytes={r.name: transaction_bytes(kernel, u, r) for r in pipelined},
        swizzles=swizzle,
        smem=blocks,
        smem_bytes=size,
        barriers=named_barriers(kernel, u),
        block_warps=warps,
        padding=padding(kernel, warps),
        launch_registers=launch_registers(warps, kernel.launch.min_blocks),
        src={t.name: tuple(u.src.get(t.name, ())) for t in kernel.tasks},
        dst={t.name: tuple(u.dst.get(t.name, ())) for t in kernel.tasks},
        peers={r.name: peers(kernel, u, r) for r in pipelined},
        lanes=lanes(kernel, u, counts),
        pairs=frozenset(u.pair),
        tmem=columns,
        tmem_columns=allocated_columns(width),
    )
