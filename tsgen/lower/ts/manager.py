"""The function that makes the resources, schedules and tasks of a kernel and hands them to TS's TaskManager."""

from __future__ import annotations

import re
from dataclasses import replace

from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.mentions import texts
from tsgen.lower.program import Statement
from tsgen.lower.queue import TileCoord, queue_of
from tsgen.lower.ts.graph import TaskUse, dependencies
from tsgen.lower.ts.lanes import lane_of
from tsgen.lower.ts.program import HELD, Method, Step, WorkCall, base, every, line, owners
from tsgen.lower.ts.queue import queue_class
from tsgen.lower.ts.rename import renamed, words
from tsgen.lower.ts.resources import instances, lane_releases, speaks_to_itself
from tsgen.lower.ts.tasks import padding_task, pinned_ctas, task_statements
from tsgen.lower.ts.walk import Walk
from tsgen.lower.ts.works import Classes, Finish, tile_values
from tsgen.model.kernel import Kernel

_HELD = re.compile(rf"(?<![\w.]){HELD}\.([A-Za-z_]\w*)")
_PDL = {"pdl_wait": "PdlWaitBarrier", "pdl_launch": "PdlLaunchBarrier"}


def manager_function(
    b: Builder, walks: list[Walk], coord: TileCoord | None, kernel_names: set[str]
) -> tuple[str, list[str]]:
    """Adds the resource classes and the manager's function to the module.

    Returns the function's name and the kernel's names that it and the classes read.
    """
    classes = Classes(b)
    for word in ("tasks", "upstream", "loop", "tile_loop", "padding"):
        classes.namer.new(word)
    for name in _resources(b.kernel, walks):
        classes.variable(name)
    queue = queue_of(b)
    if queue is not None:
        classes.of(queue.name)
    finished = [Finish(w, classes, {n: f"{HELD}.{n}" for n in kernel_names | w.held}, coord) for w in walks]
    uses = [TaskUse(_of_members(b.kernel, f.uses), _order(f.walk)) for f in finished]
    barriers = set(_PDL) | {c.owner for c in classes.made.values() if c.barrier}
    upstream = dependencies(b, uses, barriers)
    lanes = _lanes(b, classes)
    schedules, tasks = _tasks(b, classes, finished, uses, {n: variable for n, (variable, _) in lanes.items()})
    values = {
        "name": b.names.new(f"{b.kernel.name}_manager"),
        "kernel": b.kernel.name,
        "parts": [*(line(f"{v} = {t}") for v, t in lanes.values()), *_instances(b, walks, classes), *schedules],
        "tasks": tasks,
        "launch_registers": _launch_registers(b),
        "graph": [(classes.variable(d), [classes.variable(x) for x in ups]) for d, ups in upstream.items()],
    }
    held = {n: f"{HELD}.{n}" for n in kernel_names}
    own = [Statement("ts/lane_task", {})] if lanes else []
    functions = [*_classes(b, classes, coord, held, walks), *own, Statement("ts/manager", values)]
    for i, statement in enumerate(functions):
        b.functions[f"ts {i}"] = statement
    read = dict.fromkeys(m for s in functions for t in texts(s) for m in _HELD.findall(t))
    left = {n for f in finished for n in f.held}
    return str(values["name"]), [n for n in read if n not in left]


def _launch_registers(b: Builder) -> int | None:
    """The registers at launch, where TS does not find them: it counts with one CTA on a multiprocessor, and warps twice
    that are a task's in one CTA of a cluster and another's in the next."""
    several = any(len(pinned_ctas(b, t)) > 1 for t in b.kernel.tasks)
    return b.derived.launch_registers if b.kernel.launch.min_blocks > 1 or several else None


def _of_members(kernel: Kernel, uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """The uses of resources, those of a group being uses of its members."""
    out: dict[str, set[str]] = {}
    for name, sides in uses.items():
        group = kernel.groups.get(name)
        for member in (name,) if group is None else group.members:
            out.setdefault(member, set()).update(sides)
    return out


def _lanes(b: Builder, classes: Classes) -> dict[str, tuple[str, str]]:
    """The tasks that are lanes of their rings: a variable, and the lane of the warp at hand."""
    found = {t.name: lane_of(b, t) for t in b.kernel.tasks}
    return {n: (classes.namer.new(f"{n}_lane"), text) for n, text in found.items() if text is not None}


def _tasks(
    b: Builder, classes: Classes, finished: list[Finish], uses: list[TaskUse], lanes: dict[str, str]
) -> tuple[list[Statement], list[Statement]]:
    """The schedule functions and the tasks, padding included."""
    schedules, tasks = [], []
    group_of = {m: g.name for g in b.kernel.groups.values() for m in g.members}
    for f, u in zip(finished, uses, strict=True):
        task, label = f.walk.task, f.walk.label
        name = classes.namer.new(f"{label}_schedule")
        used = list(f.recorded_on)
        params = [classes.variable(r) for r in used]
        passed = [f"{classes.variable(group_of[r])}.{r}" if r in group_of else classes.variable(r) for r in used]
        note = b.note(task.schedule.span.line, f"schedule {task.schedule.name}")
        tuples = [
            line(f"{classes.variable(r)} = ({', '.join(classes.variable(x) for x in named)})")
            for r, named in f.tuples.items()
        ]
        body = (*tuples, *(line(f"{n} = {{}}") for n in f.stages), *f.body)
        schedules.append(Statement("ts/schedule", {"name": name, "resources": params}, note, body))
        src, dst = ([classes.variable(r) for r in rs] for rs in (u.src(), u.dst()))
        call = f"{name}({', '.join(passed)})"
        own, lane = classes.tasks.get(label), lanes.get(task.name)
        if own is not None and lane is not None:
            refuse(f"lanes of `{task.name}` in a loop whose end depends on the tile, in TS", task.span)
        tasks += task_statements(b, task, f.walk.instance, src, dst, call, label, own, lane)
    queue = queue_of(b)
    padding, more = padding_task(b, classes.variable(queue.name) if queue is not None else None)
    return [*schedules, *([padding] if padding is not None else [])], [*tasks, *more]


def _resources(kernel: Kernel, walks: list[Walk]) -> list[str]:
    """Every resource that a schedule mentions: PDL and queue first, then in the spec's order, then the rest."""
    seen = dict.fromkeys(
        o
        for w in walks
        for x in every(w.items)
        if isinstance(x, Step | WorkCall)
        for o in owners(x.target if isinstance(x, Step) else x.owner, x.instance)
    )
    for g in kernel.groups.values():
        seen |= dict.fromkeys([*g.members, g.name])
    order = [*_PDL, *kernel.resources, *kernel.tensors, *kernel.groups]
    known = [n for o in order for n in seen if base(n) == o]
    return known + [n for n in seen if n not in known]


def _order(walk: Walk) -> list[str]:
    out = []
    for x in every(walk.items):
        if isinstance(x, WorkCall):
            out += owners(x.owner, x.instance)
        elif isinstance(x, Step) and x.target == "pdl_wait":
            out.append(x.target)
    return out


def _instances(b: Builder, walks: list[Walk], classes: Classes) -> list[Statement]:
    """The statements that make all resources."""
    rings = instances(b, walks, classes.names, {o: c.name for o, c in classes.made.items()})
    ring_names = {base(str(x.values["label"])) for x in rings}
    out = []
    for owner, variable in classes.names.items():
        if owner in _PDL:
            out.append(line(f'{variable} = {_PDL[owner]}(name="{variable}")'))
        elif base(owner) not in ring_names and owner in classes.made:
            c = classes.made[owner]
            barrier = ", is_barrier=True" if c.barrier else ""
            text = f'{variable} = {c.name}(name="{variable}", held=lambda: held{barrier})'
            out.append(replace(line(text), note=c.note))
    return [*out, *rings]


def _task_class(w: Walk, name: str, coord: TileCoord | None, held: dict[str, str]) -> Statement:
    assert w.domain is not None
    text = w.s.py(w.domain)
    body = (*tile_values(w, words([text]), coord, held, "tile_coord"), line(f"return {renamed(text, held)}"))
    uses = any(f"{HELD}." in t for t in texts(body))
    return Statement("ts/task_class", {"name": name, "task": w.label, "held": uses}, None, body)


def _method(m: Method) -> Statement:
    attributes = ["work_attrs=WorkAttr.AUXILIARY"] if m.auxiliary else []
    if m.returns:
        slots = ", ".join(f'"{slot}"' for slot in m.returns)
        attributes.append(f"returns=({slots},)" if len(m.returns) == 1 else f"returns=({slots})")
    values = {"name": m.name, "side": m.side, "attributes": attributes, "params": m.params}
    return Statement("ts/method", values, m.about or None, m.body)


def _classes(
    b: Builder, classes: Classes, coord: TileCoord | None, held: dict[str, str], walks: list[Walk]
) -> list[Statement]:
    out = []
    for c in classes.made.values():
        if c.owner in b.kernel.resources and b.kernel.resources[c.owner].kind == "work_queue":
            assert coord is not None
            skipping = next((w for w in walks if w.skip_if is not None), None)
            out.append(queue_class(b, c, coord, held, skipping))
            continue
        values = {
            "name": c.name,
            "doc": c.doc,
            "variables": list(c.variables.values()),
            "held": any(f"{HELD}." in v.dtype for v in c.variables.values()),
            "methods": tuple(_method(m) for m in c.methods),
            "releases": lane_releases(b, c.owner),
            "alone": speaks_to_itself(b, c.owner),
        }
        out.append(Statement("ts/resource", values, c.note))
    for w in walks:
        if w.domain is not None:
            out.append(_task_class(w, classes.task(w.label), coord, held | {n: f"{HELD}.{n}" for n in w.held}))
    barrier = any("full_barrier" in words(x) for x in out)
    return [Statement("ts/base", {"barrier": barrier}), *out]
