"""Register budgets: setmaxnreg speaks to a whole warpgroup, so that tasks which share one set them together."""

from __future__ import annotations

from tsgen.derive.warps import WARPGROUP
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import Budget
from tsgen.model.kernel import Task


def call(b: Builder, task: Task) -> str | None:
    """The call by which a task gets its registers."""
    n = task.instances[0].num_registers
    if n is None:
        return None
    if any(i.num_registers != n for i in task.instances):
        refuse(f"different register counts in the instances of `{task.name}`", task.span)
    return f"cute.arch.setmaxregister_{'increase' if n > b.derived.launch_registers else 'decrease'}({n})"


def sharing(b: Builder) -> set[str]:
    """Tasks with a budget that have a warpgroup in common with another one."""
    tasks = _by_warpgroup(b).values()
    return {t.name for group in tasks if len(group) > 1 for t in group}


def shared(b: Builder) -> tuple[Budget, ...]:
    """The budgets of the warpgroups of such tasks, in order."""
    tasks, out = sharing(b), []
    for first, group in sorted(_by_warpgroup(b).items()):
        if not any(t.name in tasks for t in group):
            continue
        last = min(first + WARPGROUP, b.derived.block_warps) - 1
        names = ", ".join(t.name for t in group)
        text = call(b, group[0])
        assert text is not None
        title = f"warps {first} to {last}, of {names}: {group[0].instances[0].num_registers} registers"
        out.append(Budget(title, in_warps(b, first, last), text))
    return tuple(out)


def _by_warpgroup(b: Builder) -> dict[int, list[Task]]:
    """Tasks that set registers, by the first warp of each warpgroup they have warps in."""
    out: dict[int, list[Task]] = {}
    for task, i in b.kernel.instances():
        for first in sorted({w - w % WARPGROUP for w in i.warps if i.num_registers is not None}):
            group = out.setdefault(first, [])
            if task not in group:
                group.append(task)
    return out


def in_warps(b: Builder, first: int, last: int) -> str:
    """The condition that picks some of the block's warps, side by side."""
    if first == last:
        return f"warp_idx == {first}"
    if first == 0:
        return f"warp_idx < {last + 1}"
    if last == b.derived.block_warps - 1:
        return f"warp_idx >= {first}"
    return f"warp_idx >= {first} and warp_idx < {last + 1}"
