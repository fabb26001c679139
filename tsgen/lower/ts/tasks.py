"""Tasks of the TS form: which instances share one, their warps, and the padding that TS asks for."""

from __future__ import annotations

from itertools import groupby

from tsgen.derive.warps import WARPGROUP
from tsgen.lower.budgets import call, in_warps, sharing
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement
from tsgen.lower.queue import queue_of
from tsgen.lower.tmem_works import cta_group
from tsgen.model.expr import names
from tsgen.model.kernel import Task, TaskInstance
from tsgen.model.methods import QUEUE_STEPS
from tsgen.model.steps import DomainLoop, StaticIf, TileLoop, calls, walk

_BUDGET = "tasks of these warps run in one CTA of a cluster; their registers are set in all"
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
        if r is not None and r.pipeline is not None and c.instance is not None:
            apart = apart or each.var in names(c.instance)
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
    lane: str | None,
) -> list[Statement]:
    """The Task(...) of a task's instances, in each CTA of a cluster that performs it if not all do.

    `lane` is the variable that holds the lane of the warp at hand.
    """
    instances = list(task.instances) if instance is None else [instance]
    registers = {i.num_registers for i in instances}
    if len(registers) > 1:
        refuse(f"different register counts in the instances of `{task.name}`", task.span)
    count = sum(i.num_warps for i in instances)
    own = None if _pinned(b, task) else registers.pop()
    ctas = pinned_ctas(b, task)
    return [
        _task(
            label if len(ctas) < 2 else f"{label}_{cta}",
            src,
            dst,
            instances[0].first_warp,
            count,
            own,
            schedule,
            cls,
            cta,
            lane,
        )
        for cta in ctas or (None,)
    ]


def pinned_ctas(b: Builder, task: Task) -> tuple[int, ...]:
    """The CTAs of a cluster that perform a task, if not all of them do: TS has a task for each."""
    if b.cluster_ctas == 1 or task.cta is None:
        return ()
    return (task.cta,) if isinstance(task.cta, int) else tuple(range(0, b.cluster_ctas, cta_group(b.kernel)))


def _pinned(b: Builder, task: Task) -> tuple[Task, ...]:
    """The tasks that share their warpgroups' registers with this one, if some of them run in one CTA alone.

    TS sets registers in the tasks: there the warps of such a task would not do so in the other CTAs.
    """
    together = sharing(b, task)
    return together if any(pinned_ctas(b, t) for t in together) else ()


def shared_budgets(b: Builder) -> list[Statement]:
    """The registers of warpgroups that TS does not set."""
    out: dict[tuple[str, ...], Statement] = {}
    for task in b.kernel.tasks:
        group = _pinned(b, task)
        text = call(b, task)
        if group and text is not None:
            warps = sorted(w for t in group for i in t.instances for w in i.warps)
            last = min(warps[-1] - warps[-1] % WARPGROUP + WARPGROUP, b.derived.block_warps) - 1
            condition = in_warps(b, warps[0] - warps[0] % WARPGROUP, last)
            body = (Statement("ts/line", {"text": text}),)
            out.setdefault(
                tuple(t.name for t in group), Statement("blocks/if", {"condition": condition}, _BUDGET, body)
            )
    return list(out.values())


def _task(
    label: str,
    src: list[str],
    dst: list[str],
    first: int,
    count: int,
    registers: int | None,
    schedule: str,
    cls: str | None = None,
    cta: int | None = None,
    lane: str | None = None,
) -> Statement:
    """`cls` is the task's own class; None for TS's. `cta`: the only one of a cluster that runs it."""
    args = [
        *(["held=lambda: held"] if cls is not None else []),
        *([f"lane=lambda: {lane}"] if lane is not None else []),
        f'name="{label}"',
        f"src_resources=[{', '.join(src)}]",
        f"dst_resources=[{', '.join(dst)}]",
        f"warp_idx={first}",
        f"num_warps={count}",
        *([f"num_registers={registers}"] if registers else []),
        *([f"run_only_on_cta_id={cta}"] if cta is not None else []),
        f"schedule={schedule}",
    ]
    return Statement("ts/task", {"cls": cls or ("Task" if lane is None else "LaneTask"), "args": args})


def padding_task(b: Builder, queue: str | None) -> tuple[Statement | None, list[Statement]]:
    """The schedule of padding warps, and a task for each run of them: all they do is their warpgroup's setmaxnreg."""
    tasks = []
    for task in b.kernel.tasks:
        warps = sorted(b.derived.padding.get(task.name, ())) if not _pinned(b, task) else []
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
