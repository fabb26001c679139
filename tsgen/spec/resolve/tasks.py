"""`tasks`: warp ranges, registers and the schedule of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tsgen.diagnostics import Span
from tsgen.model.expr import Placed
from tsgen.model.kernel import Each, Launch, Task, TaskInstance, Time
from tsgen.model.steps import Schedule
from tsgen.spec import rules_parts, rules_steps
from tsgen.spec.errors import SpecError
from tsgen.spec.node import MapNode, Node, ScalarNode
from tsgen.spec.resolve.calls import Calls
from tsgen.spec.resolve.context import Context, mapping, string, strings
from tsgen.spec.resolve.refs import Scope, bind_node
from tsgen.spec.resolve.resources import spans_of
from tsgen.spec.resolve.schedules import resolve_schedule


def resolve_tasks(ctx: Context, calls: Calls, launch: Launch) -> tuple[tuple[Task, ...], dict[str, Schedule]]:
    """The present tasks and the schedules that they run. A schedule that only absent tasks run is left out."""
    nodes = mapping(ctx.root.get("schedules"))
    users: dict[str, list[Each | None]] = {}
    named_by: dict[str, str] = {}
    order: list[tuple[str, Span, MapNode, Each | None, str]] = []
    for name, span, node in mapping(ctx.root.get("tasks")).items():
        assert isinstance(node, MapNode)
        with ctx.catching():
            schedule = _schedule_name(ctx, name, node, nodes, span)
            named_by[name] = schedule
            if ctx.present(node):
                each = ctx.each(node)
                users.setdefault(schedule, []).append(each)
                order.append((name, span, node, each, schedule))
    complete = len(named_by) == len(mapping(ctx.root.get("tasks")).entries)
    for name, span, _ in nodes.items():
        if complete and name not in named_by.values():
            ctx.add(rules_steps.schedule_unused(name, span))
    schedules = _schedules(ctx, calls, nodes, users)
    tasks = []
    for name, span, node, each, schedule in order:
        with ctx.catching():
            tasks.append(_task(ctx, name, node, each, schedules[schedule], launch, span))
    return tuple(tasks), schedules


def _schedules(
    ctx: Context,
    calls: Calls,
    nodes: MapNode,
    users: Mapping[str, list[Each | None]],
) -> dict[str, Schedule]:
    """Each schedule, read once for every set of instance variables that its tasks give it."""
    found: dict[str, Schedule] = {}
    for name, span, node in nodes.items():
        for var in dict.fromkeys(each.var if each else None for each in users.get(name, ())):
            local: dict[str, Time] = {} if var is None else {var: "compile"}
            schedule = resolve_schedule(ctx, calls, name, node, local, span)
            found.setdefault(name, schedule)
    return found


def _schedule_name(ctx: Context, task: str, node: MapNode, schedules: MapNode, span: Span) -> str:
    written = node.get("schedule")
    if written is not None:
        name = string(written)
        if name not in schedules.entries:
            near = ctx.near(name, schedules.entries)
            raise SpecError(rules_steps.task_schedule(task, name, near, written.span))
        return name
    if task in schedules.entries:
        return task
    if len(schedules.entries) == 1:
        return next(iter(schedules.entries))
    raise SpecError(rules_steps.task_schedule(task, None, None, span))


def _task(
    ctx: Context, name: str, node: MapNode, each: Each | None, schedule: Schedule, launch: Launch, span: Span
) -> Task:
    values: dict[str, Placed | None] = {}
    local: dict[str, Time] = {} if each is None else {each.var: "compile"}
    for key in ("warp_idx", "num_warps", "num_registers"):
        n = node.get(key)
        values[key] = None if n is None else bind_node(ctx, n, Scope(f"`{key}`", "compile", local))
    instances = []
    for index in range(each.count if each else 1):
        env = {each.var: index} if each else {}
        warp, count, registers = (_number(ctx, node.get(k), env, low) for k, low in _NUMBERS)
        assert warp is not None and count is not None
        instances.append(TaskInstance(index, warp, count, registers))
    return Task(
        name,
        each,
        cast(Placed, values["warp_idx"]),
        cast(Placed, values["num_warps"]),
        values["num_registers"],
        schedule,
        _cta(ctx, node, launch),
        _resources(ctx, node, "src_resources"),
        _resources(ctx, node, "dst_resources"),
        tuple(instances),
        None if (d := node.get("doc")) is None else string(d),
        span,
        spans_of(node),
    )


_NUMBERS = (("warp_idx", 0), ("num_warps", 1), ("num_registers", 1))
_MAX = 1024  # of warps or registers; what the hardware allows is checked with the arithmetic shown


def _number(ctx: Context, node: Node | None, env: dict[str, int], low: int) -> int | None:
    return None if node is None else ctx.integer(node, env, low=low, high=_MAX)


def _cta(ctx: Context, node: MapNode, launch: Launch) -> str | int | None:
    n = node.get("cta")
    if n is None:
        return None
    if isinstance(n, ScalarNode) and n.value == "leader":
        return "leader"
    rank = ctx.integer(n, low=0)
    size = 1
    for axis in launch.axes:
        size *= axis.cluster
    if rank >= size:
        raise SpecError(rules_steps.task_cta(rank, size, n.span))
    return rank


def _resources(ctx: Context, node: MapNode, key: str) -> tuple[str, ...] | None:
    if node.get(key) is None:
        return None
    found = []
    for name, span in strings(node.get(key)):
        if name in ctx.absent:
            continue
        if name not in ctx.resources and name not in ctx.tensors:
            near = ctx.near(name, [*ctx.resources, *ctx.tensors])
            ctx.add(rules_parts.unknown_entry(name, "resource or tensor", near, span))
            continue
        found.append(name)
    return tuple(found)
