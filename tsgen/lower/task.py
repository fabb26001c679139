"""A task as code: the warps that run it, its registers and indices, and its schedule."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.lower import budgets, elements, pipelines, tmem
from tsgen.lower.context import Builder, TaskState, Used, widened
from tsgen.lower.errors import refuse
from tsgen.lower.mentions import mentions
from tsgen.lower.mma import fragment
from tsgen.lower.program import Statement, TaskCode, assign
from tsgen.lower.pyexpr import Scope
from tsgen.lower.queue import TileCoord
from tsgen.lower.schedule import TileValues, lower_steps
from tsgen.lower.signs import least
from tsgen.lower.tmem_works import cta_group
from tsgen.model.algebra import canonical
from tsgen.model.expr import Binary, Const, Ref
from tsgen.model.kernel import Task


def lower_task(
    b: Builder, task: Task, base: dict[str, str], extents: dict[str, str], coord: TileCoord | None
) -> tuple[TaskCode, Used]:
    """The code of a task, and the names it used of the kernel's scope."""
    s = task_state(b, task, base, extents)
    body = lower_steps(s, task.schedule.steps, TileValues(s, coord))
    body += pipelines.drain(s)
    entry, end = tmem.enter(s), tmem.leave(s)
    inside = [*s.prelude.values(), *body]
    header = list(indices(s, [*entry, *inside, *end]))
    if task.cta is not None:
        note = b.note(task.spans["cta"].line if "cta" in task.spans else task.span.line, f"cta: {task.cta}")
        inside = [Statement("blocks/if", {"condition": _in_cta(b, task)}, note, tuple(inside))]
    alone = not budgets.sharing(b, task)
    padded = alone and bool(b.derived.padding.get(task.name))
    code = TaskCode(
        title=_title(b, task),
        outer=_condition(b, task, padding=padded),
        inner=_condition(b, task, padding=False) if padded else None,
        registers=budgets.call(b, task) if alone else None,
        body=(*header, *entry, *inside, *end),
    )
    return code, s.used


def task_state(b: Builder, task: Task, base: dict[str, str], extents: dict[str, str]) -> TaskState:
    """What is known at a task's start: the kernel's names and the task's own."""
    namer = b.names.child()
    local = {x: namer.new(x) for x in ("thread", "threads", "warp", "lane")}
    if task.each is not None:
        local[task.each.var] = namer.new(task.each.var)
    used = Used({**base, **local})
    s = TaskState(b, task, namer, Scope(b.kernel.env, used, extents), used)
    known = least(b.kernel, s.lows, task)
    s.scope = Scope(b.kernel.env, used, extents, lambda r, _: _element_or_field(s, r), known)
    _tile_bounds(s)
    return s


def _element_or_field(s: TaskState, r: Ref) -> str:
    b = s.builder
    if r.resource is None:
        return widened(elements.element(s, r), b.dtype_word(b.kernel.tensors[r.name].dtype))
    field = b.field(r)
    return widened(f"{fragment(s, field)}[0]", b.dtype_word(field.dtype))


def _tile_bounds(s: TaskState) -> None:
    """Largest values of the tile coordinates; unknown where a CTA may lie past the edge of the tile space."""
    for a in s.builder.kernel.launch.axes:
        if canonical(a.extent, s.scope.env).multiple_of(a.cluster):
            s.lasts[a.name] = Binary("-", a.extent, Const(1))
    s.lasts["thread"] = Const(s.threads - 1)
    s.lasts["lane"] = Const(31)
    s.lasts["warp"] = Const(s.num_warps - 1)
    if s.task.each is not None:
        s.lasts[s.task.each.var] = Const(s.task.each.count - 1)


def _title(b: Builder, task: Task) -> str:
    i = task.instances
    warps = (
        f"warp {i[0].first_warp}"
        if i[0].num_warps == 1
        else f"warps {i[0].first_warp} to {i[0].first_warp + i[0].num_warps - 1}"
    )
    if task.each is not None and len(i) > 1:
        last = i[-1].first_warp + i[-1].num_warps - 1
        warps = f"warps {i[0].first_warp} to {last}, {i[0].num_warps} for each {task.each.var}"
    registers = f", {i[0].num_registers} registers" if i[0].num_registers else ""
    schedule = f"schedule {b.source}:{task.schedule.span.line}"
    return f"{b.source}:{task.span.line} task {task.name}: {warps}{registers}; {schedule}"


def _condition(b: Builder, task: Task, *, padding: bool) -> str | None:
    warps = sorted(
        {w for i in task.instances for w in i.warps} | (set(b.derived.padding.get(task.name, ())) if padding else set())
    )
    if len(warps) == b.derived.block_warps:
        return None
    first, last = warps[0], warps[-1]
    if warps != list(range(first, last + 1)):
        refuse(f"task `{task.name}` on warps that do not lie side by side", task.span)
    return budgets.in_warps(b, first, last)


def _in_cta(b: Builder, task: Task) -> str:
    """The condition that picks the CTAs of a cluster that perform a task's steps."""
    if isinstance(task.cta, int):
        return f"cta_rank == {task.cta}"
    group = cta_group(b.kernel)
    return f"cta_rank % {group} == 0" if b.cluster_ctas > group else "cta_rank == 0"


def indices(s: TaskState, body: list[Statement]) -> Iterator[Statement]:
    """The task's own indices, those that its code mentions."""
    i = s.task.instances
    each = s.task.each
    if each is not None and len(i) > 1 and mentions(body, s.used[each.var]):
        step = i[1].first_warp - i[0].first_warp
        if any(x.first_warp != i[0].first_warp + step * k for k, x in enumerate(i)) or step < i[0].num_warps:
            refuse(f"instances of `{s.task.name}` that do not follow each other in warps", s.task.span)
        offset = f"warp_idx - {i[0].first_warp}" if i[0].first_warp else "warp_idx"
        whole = f"({offset})" if i[0].first_warp else offset
        yield assign(s.used[each.var], offset if step == 1 else f"{whole} // {step}")
    elif each is not None:
        yield assign(s.used[each.var], "0")
    base = i[0].first_warp
    if s.positions or mentions(body, s.used["thread"]):
        if base % s.num_warps == 0:
            yield assign(s.used["thread"], "tid" if len(i) == 1 and base == 0 else f"tid % {s.threads}")
        elif len(i) == 1:
            yield assign(s.used["thread"], f"tid - {32 * base}")
        else:
            refuse(f"threads of `{s.task.name}`, whose warps do not start at a multiple of {s.num_warps}", s.task.span)
    thread, rows = s.used["thread"], "of every 64 rows of a WGMMA fragment, the first that this thread owns part of"
    if "row" in s.positions:
        yield assign(s.positions["row"], f"{thread} // 32 * 16 + {thread} % 32 // 4", rows)
    if "col" in s.positions:
        yield assign(s.positions["col"], f"{thread} % 4 * 2", "of every 8 columns, the first")
    if mentions(body, s.used["threads"]):
        yield assign(s.used["threads"], str(s.threads))
    if mentions(body, s.used["warp"]):
        yield assign(
            s.used["warp"],
            "0"
            if s.num_warps == 1
            else "warp_idx"
            if base == 0 and len(i) == 1
            else f"warp_idx % {s.num_warps}"
            if base % s.num_warps == 0
            else f"warp_idx - {base}",
        )
    if mentions(body, s.used["lane"]):
        yield assign(s.used["lane"], "tid % 32")
