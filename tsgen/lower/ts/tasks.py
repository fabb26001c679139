"""Tasks of the TS form: which instances share one, their warps, and the padding that TS asks for."""

from __future__ import annotations

from itertools import groupby

from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement
from tsgen.lower.queue import queue_of
from tsgen.model.expr import names
from tsgen.model.kernel import Task, TaskInstance
from tsgen.model.methods import QUEUE_STEPS
from tsgen.model.steps import DomainLoop, StaticIf, TileLoop, calls, walk

_PADDING = "warps that fill up a warpgroup: setmaxnreg speaks to whole warpgroups"


def per_instance(b: Builder, task: Task) -> list[TaskInstance | None]:
    """The instances that need a TS task each: all where the schedule differs between them; else one task for all."""
    each, instances = task.each, list(task.instances)
    if each is None or len(instances) == 1:
        return [None]
    warps = [w for i in instances for w in i.warps]
    apart = warps != list(range(warps[0], warps[0] + len(warps)))
    for x in walk(task.schedule.steps):
        exprs = (
            (x.start.expr, x.step.expr, x.end.expr)
            if isinstance(x, DomainLoop)
            else (x.condition.expr,)
            if isinstance(x, StaticIf)
            else (x.first.expr,)
            if isinstance(x, TileLoop)
            else ()
        )
        apart = apart or any(each.var in names(e) for e in exprs)
    for c in calls(task.schedule.steps):
        r = b.kernel.resources.get(c.target)
        if r is not None and r.pipeline is not None and c.method == "commit":
            apart = apart or "task_warp_leader" in (r.pipeline.producer_signaling or "")
    return list(instances) if apart else [None]


def task_statements(
    b: Builder,
    task: Task,
    instance: TaskInstance | None,
    src: list[str],
    dst: list[str],
    schedule: str,
    label: str,
    cls: str | None,
) -> Statement:
    """The Task(...) of a task's instances."""
    instances = list(task.instances) if instance is None else [instance]
    registers = {i.num_registers for i in instances}
    if len(registers) > 1:
        refuse(f"different register counts in the instances of `{task.name}`", task.span)
    count = sum(i.num_warps for i in instances)
    return _task(label, src, dst, instances[0].first_warp, count, registers.pop(), schedule, cls)


def _task(
    label: str,
    src: list[str],
    dst: list[str],
    first: int,
    count: int,
    registers: int | None,
    schedule: str,
    cls: str | None = None,
) -> Statement:
    """`cls` is the task's own class; None for TS's."""
    args = [
        *(["held=lambda: held"] if cls is not None else []),
        f'name="{label}"',
        f"src_resources=[{', '.join(src)}]",
        f"dst_resources=[{', '.join(dst)}]",
        f"warp_idx={first}",
        f"num_warps={count}",
        *([f"num_registers={registers}"] if registers else []),
        f"schedule={schedule}",
    ]
    return Statement("ts/task", {"cls": cls or "Task", "args": args})


def padding_task(b: Builder, queue: str | None) -> tuple[Statement | None, list[Statement]]:
    """The schedule of padding warps, and a task for each run of them: all they do is their warpgroup's setmaxnreg."""
    tasks = []
    for task in b.kernel.tasks:
        warps = sorted(b.derived.padding.get(task.name, ()))
        for _, run in groupby(enumerate(warps), lambda p: p[1] - p[0]):
            group = [w for _, w in run]
            registers = task.instances[0].num_registers
            src = [queue] if queue else []
            label = f"{task.name}_padding"
            schedule = f"padding({queue or ''})"
            tasks.append(_task(label, src, [], group[0], len(group), registers, schedule))
    if not tasks:
        return None, []
    empty = Statement("ts/block", {"head": "with domain_loop(0, 0)"})
    if queue is None:
        return Statement("ts/schedule", {"name": "padding", "resources": []}, _PADDING, (empty,)), tasks
    steps = tuple(Statement("ts/call", {"target": queue, "method": m, "args": [], "results": ()}) for m in QUEUE_STEPS)
    loop = Statement("ts/block", {"head": f"with work_tile_loop({queue})"}, None, (empty, *steps))
    assert queue_of(b) is not None
    return Statement("ts/schedule", {"name": "padding", "resources": [queue]}, _PADDING, (loop,)), tasks
