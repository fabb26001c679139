"""Tasks that share a ring lane by lane, each with every so many-th iteration of a loop.

TS 4.8.1 starts each in its lane by an assignment under a condition, which does not keep it: all tasks start in the lane
of the last, and two of them wait for ever (by the PTX, and on an H200). So the lane is computed from the warp, in front
of all conditions.
"""

from __future__ import annotations

from tsgen.derive.arrivals import ROLES
from tsgen.derive.unfold import Env, constant
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.model.kernel import Task
from tsgen.model.steps import DomainLoop, calls, walk


def lane_of(b: Builder, task: Task) -> str | None:
    """The lane of the warp at hand, as Python. None for a task whose rings have no lanes, or whose warps are them."""
    n = task.instances[0].num_warps
    rings = {r.name: r.pipeline for r in b.kernel.resources.values() if r.pipeline is not None}
    steps = [c for c in calls(task.schedule.steps) if c.target in rings and c.method in ROLES]
    lanes = {rings[c.target].interleave_stride[ROLES[c.method]] for c in steps} - {1, n}
    if not lanes:
        return None
    first = task.instances[0].first_warp
    loop = next((x for x in walk(task.schedule.steps) if isinstance(x, DomainLoop)), None)
    in_order = loop is not None and all(
        i.first_warp == first + k * n and constant(loop.start.expr, _env(b, task, k)) == k
        for k, i in enumerate(task.instances)
    )
    if not in_order or lanes != {len(task.instances)}:
        refuse(
            f"lanes of `{task.name}` that are not its instances, one after another, in TS",
            task.span,
            "TS starts all tasks of a ring in the lane of the last",
        )
    return f"{f'(cute.arch.warp_idx() - {first})' if first else 'cute.arch.warp_idx()'} // {n}"


def _env(b: Builder, task: Task, index: int) -> Env:
    return {**b.kernel.env, **({task.each.var: index} if task.each is not None else {})}
