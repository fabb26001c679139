"""Register budgets: setmaxnreg speaks to a whole warpgroup, so that tasks which share one set them together."""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.derive.warps import WARPGROUP
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import TaskCode, TaskGroup
from tsgen.model.kernel import Task


def call(b: Builder, task: Task) -> str | None:
    """The call by which a task gets its registers."""
    n = task.instances[0].num_registers
    if n is None:
        return None
    if any(i.num_registers != n for i in task.instances):
        refuse(f"different register counts in the instances of `{task.name}`", task.span)
    return f"cute.arch.setmaxregister_{'increase' if n > b.derived.launch_registers else 'decrease'}({n})"


def sharing(b: Builder, task: Task) -> tuple[Task, ...]:
    """The tasks that set their registers together with this one; none where it has its warpgroups for itself."""
    if task.instances[0].num_registers is None:
        return ()
    together = [task]
    for t in together:
        together += [
            o
            for o in b.kernel.tasks
            if o not in together and o.instances[0].num_registers is not None and _warpgroups(o) & _warpgroups(t)
        ]
    return tuple(t for t in b.kernel.tasks if t in together) if len(together) > 1 else ()


def grouped(b: Builder, codes: Sequence[TaskCode]) -> tuple[TaskGroup, ...]:
    """The tasks as they are printed: each by itself, those that share a budget inside one condition."""
    code = dict(zip((t.name for t in b.kernel.tasks), codes, strict=True))
    out: list[TaskGroup] = []
    for task in b.kernel.tasks:
        together = sharing(b, task)
        if not together:
            out.append(TaskGroup.alone(code[task.name]))
        elif together[0] == task:
            out.append(_group(b, together, tuple(code[t.name] for t in together)))
    return tuple(out)


def _group(b: Builder, tasks: Sequence[Task], codes: tuple[TaskCode, ...]) -> TaskGroup:
    counts = {t.instances[0].num_registers for t in tasks}
    if len(counts) > 1:
        refuse(
            f"tasks of one warpgroup with {' and '.join(map(str, sorted(map(str, counts))))} registers", tasks[0].span
        )
    firsts = set[int]().union(*(_warpgroups(t) for t in tasks))
    first, last = min(firsts), min(max(firsts) + WARPGROUP, b.derived.block_warps) - 1
    title = f"warps {first} to {last}, of {', '.join(t.name for t in tasks)}: {counts.pop()} registers"
    return TaskGroup(title, in_warps(b, first, last), call(b, tasks[0]), codes)


def _warpgroups(task: Task) -> set[int]:
    """The first warps of the warpgroups that a task has warps in."""
    return {w - w % WARPGROUP for i in task.instances for w in i.warps}


def in_warps(b: Builder, first: int, last: int) -> str | None:
    """The condition that picks some of the block's warps, side by side; None for all of them."""
    if first == 0 and last == b.derived.block_warps - 1:
        return None
    if first == last:
        return f"warp_idx == {first}"
    if first == 0:
        return f"warp_idx < {last + 1}"
    if last == b.derived.block_warps - 1:
        return f"warp_idx >= {first}"
    return f"warp_idx >= {first} and warp_idx < {last + 1}"
