"""Register budgets (TS62x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.derive.warps import WARPGROUP
from tsgen.diagnostics import Finding, Related, check
from tsgen.model.kernel import Kernel, Task, TaskInstance

LEAST, MOST, STEP = 24, 256, 8


@check("TS620", "register-count")
def register_count(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`num_registers` is a number that setmaxnreg does not take: 24 to 256, in steps of 8."""
    seen = set()
    for task, instance in kernel.instances():
        n = instance.num_registers
        if n is None or task.name in seen or (LEAST <= n <= MOST and n % STEP == 0):
            continue
        seen.add(task.name)
        near = min(MOST, max(LEAST, round(n / STEP) * STEP))
        yield Finding(
            f"`num_registers` of `{task.name}` is {n}, expected a multiple of 8 from 24 to 256",
            task.spans.get("num_registers", task.span),
            f"write {near}",
        )


@check("TS621", "warpgroup-registers")
def warpgroup_registers(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Tasks of one warpgroup ask for different numbers of registers.

    setmaxnreg is executed by the four warps of a warpgroup together. All tasks with warps in it give the same
    `num_registers`; warps without a task are padded.
    """
    for group, members in _groups(kernel, derived).items():
        counts = {i.num_registers for _, i in members}
        if len(counts) > 1:
            first = members[0]
            other = next(m for m in members if m[1].num_registers != first[1].num_registers)
            words = " and ".join(f"`{t.name}` {_count(i)}" for t, i in (first, other))
            yield Finding(
                f"warps {4 * group} to {4 * group + 3} are one warpgroup, but have {words}",
                other[0].spans.get("num_registers", other[0].span),
                "give them one number, or move one to the next warpgroup",
                (Related("the other task", first[0].spans.get("num_registers", first[0].span)),),
            )


@check("TS622", "registers-full")
def registers_full(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The tasks ask for more registers than the launch gives to the block.

    At launch every thread gets an equal share of the file, rounded down to 8; setmaxnreg moves registers from
    warpgroups that give some up to those that ask for more, within that sum.
    """
    if all(i.num_registers is None for _, i in kernel.instances()):
        return
    groups = -(-derived.block_warps // WARPGROUP)
    have = groups * WARPGROUP * 32 * derived.launch_registers
    members = _groups(kernel, derived)
    parts, want = [], 0
    for group in range(groups):
        counts = [i.num_registers for _, i in members.get(group, []) if i.num_registers is not None]
        n = max(counts, default=derived.launch_registers)
        want += n * WARPGROUP * 32
        parts.append(str(n))
    if want > have:
        task = max(kernel.instances(), key=lambda p: p[1].num_registers or 0)[0]
        yield Finding(
            f"the tasks need {want:,} registers = 128 threads x ({' + '.join(parts)}), the launch gives {have:,} = "
            f"{groups * WARPGROUP * 32} threads x {derived.launch_registers} ({want - have:,} too many)",
            task.spans.get("num_registers", task.span),
            "lower `num_registers`",
        )


def _groups(kernel: Kernel, derived: Derived) -> dict[int, list[tuple[Task, TaskInstance]]]:
    found: dict[int, list[tuple[Task, TaskInstance]]] = {}
    for task, instance in kernel.instances():
        for group in {w // WARPGROUP for w in instance.warps}:
            found.setdefault(group, []).append((task, instance))
    return found


def _count(instance: TaskInstance) -> str:
    return f"{instance.num_registers} registers" if instance.num_registers is not None else "no number"


CHECKS = (register_count, warpgroup_registers, registers_full)
