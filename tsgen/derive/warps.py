"""Named barriers, warps of the block, padding warps and the registers of the launch (LANGUAGE.md section 9)."""

from __future__ import annotations

from tsgen.derive.memory import instances
from tsgen.derive.model import NamedBarrier
from tsgen.derive.uses import Uses
from tsgen.model.kernel import Kernel

WARPGROUP = 4
REGISTERS = 65536  # of a multiprocessor
MAX_REGISTERS = 256  # of a thread, in steps of allocation


def named_barriers(kernel: Kernel, u: Uses) -> dict[tuple[str, int], NamedBarrier]:
    """Ids from 1 in the order of declaration (0 is the CTA's own barrier); threads of all tasks that take part."""
    found: dict[tuple[str, int], NamedBarrier] = {}
    for resource in kernel.resources.values():
        if resource.kind == "barrier":
            for index in range(instances(resource)):
                parties = u.barriers.get((resource.name, index), [])
                threads = sum(32 * i.num_warps for _, i in parties)
                found[resource.name, index] = NamedBarrier(len(found) + 1, resource.threads or threads)
    return found


def block_warps(kernel: Kernel) -> int:
    """Warps of the block: up to the last task's; whole warpgroups if the last one sets its registers."""
    last = max((i.first_warp + i.num_warps for _, i in kernel.instances()), default=0)
    group = last - 1 - (last - 1) % WARPGROUP
    sets = any(i.num_registers is not None and i.first_warp + i.num_warps > group for _, i in kernel.instances())
    return -(-last // WARPGROUP) * WARPGROUP if sets else last


def padding(kernel: Kernel, warps: int) -> dict[str, tuple[int, ...]]:
    """Warps without a task in warpgroups that set registers, by the task whose setmaxnreg they execute."""
    taken = {w for _, i in kernel.instances() for w in i.warps}
    found: dict[str, tuple[int, ...]] = {}
    for group in range(0, warps, WARPGROUP):
        free = tuple(w for w in range(group, min(group + WARPGROUP, warps)) if w not in taken)
        owners = [
            t.name
            for t, i in kernel.instances()
            if i.num_registers is not None and i.first_warp < group + WARPGROUP and group < i.first_warp + i.num_warps
        ]
        if free and owners:
            found[owners[-1]] = (*found.get(owners[-1], ()), *free)
    return found


def launch_registers(warps: int, min_blocks: int) -> int:
    """Registers of a thread at launch: an equal share of the file, in steps of 8."""
    rounded = -(-max(1, warps) // WARPGROUP) * WARPGROUP
    return min(MAX_REGISTERS, REGISTERS // (rounded * 32 * max(1, min_blocks) * 8) * 8)
