"""Positions: the pipeline states that a task keeps for its ends of a ring, and the stage that a work is at.

One state serves both ends of a bracket that opens and closes in strict turn; else each step has its own. Members of a
group share the states of the side that the group collapses. With `interleave_stride` a state starts at its lane and
advances by the stride.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tsgen.derive.arrivals import ROLES
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.instances import once_for_each
from tsgen.lower.program import Statement, assign
from tsgen.lower.pyexpr import Scope, py, truncated
from tsgen.model.algebra import canonical
from tsgen.model.expr import Binary, Const, Name
from tsgen.model.kernel import Group, Pipeline, Work
from tsgen.model.ops import accesses
from tsgen.model.steps import (
    CallStep,
    DomainLoop,
    Guard,
    Skippable,
    StaticFor,
    StaticIf,
    Step,
    TileLoop,
    When,
    calls,
    walk,
)

Side = Literal["producer", "consumer"]
OPEN = {"producer": "acquire", "consumer": "wait"}
CLOSE = {"producer": "commit", "consumer": "release"}
_TRIES = {"try_acquire": "acquire", "try_wait": "wait"}
_COLLAPSED = {"merge": "consumer", "fork": "producer", "fused_merge": "consumer"}  # the side whose close is the group's


def side_of(method: str) -> Side:
    return "producer" if _TRIES.get(method, method) in ("acquire", "commit") else "consumer"


def group_of(b: Builder, resource: str) -> Group | None:
    """The group that a resource is a member of."""
    return next((g for g in b.kernel.groups.values() if resource in g.members), None)


def collapsed(b: Builder, resource: str, side: Side) -> Group | None:
    """The group whose steps close a member's brackets on this side."""
    g = group_of(b, resource)
    return g if g is not None and _COLLAPSED[g.mode] == side else None


def ring_config(b: Builder, name: str) -> Pipeline:
    """The pipeline of a resource, or of a group's members, which agree in stages and strides."""
    group = b.kernel.groups.get(name)
    p = b.kernel.resources[group.members[0] if group is not None else name].pipeline
    assert p is not None
    return p


def position(s: TaskState, target: str, method: str, instance: str = "") -> str:
    """The pipeline state that a step of this task on a resource or a group uses; made on first use.

    `instance` tells the positions of instances apart that do not share one.
    """
    at = _TRIES.get(method, method)
    side = side_of(at)
    owner = _owner(s, target, side)
    simple = is_simple(s, owner, side)
    suffix = ("state" if not _both_sides(s, owner) else side) if simple else at
    suffix += instance
    key = (owner, suffix)
    if key not in s.states:
        name = s.names.new(f"{owner}_{suffix}")
        s.states[key] = name
        s.prelude[("state", *key)] = Statement("setup/assign", {"name": name, "text": _start(s, owner, at, side)})
    return s.states[key]


def _owner(s: TaskState, target: str, side: Side) -> str:
    """The resource or group whose position a step moves."""
    g = collapsed(s.builder, target, side)
    return g.name if g is not None and is_simple(s, g.name, side) else target


def _start(s: TaskState, owner: str, at: str, side: Side) -> str:
    p = ring_config(s.builder, owner)
    stages = py(p.stages, Scope(s.builder.kernel.env, s.builder.constants))
    lane = _lane(s, p, p.interleave_stride[ROLES[at]])
    if lane is None:
        return f"pipeline.make_pipeline_state(pipeline.PipelineUserType.{side.capitalize()}, {stages})"
    return f"pipeline.PipelineState({stages}, Int32(0), Int32({lane}), Int32({int(side == 'producer')}))"


def _lane(s: TaskState, p: Pipeline, stride: int) -> str | None:
    """The first stage of this task's lane: the warp, or where the domain loop starts; None without lanes."""
    if stride == 1:
        return None
    if s.num_warps == stride:
        return s.scope.names["warp"]
    loop = next((x for x in walk(s.task.schedule.steps) if isinstance(x, DomainLoop)), None)
    span = p.spans.get("interleave_stride", p.span)
    if loop is None or canonical(loop.step.expr, s.scope.env).value != stride:
        refuse(
            f"interleave_stride {stride} in the task `{s.task.name}`",
            span,
            f"a lane is one warp of a task of {stride}, or a task whose domain_loop has the step {stride}",
        )
    start, each = loop.start.expr, s.task.each
    if isinstance(start, Name) and each is not None and start.id == each.var and each.count <= stride:
        return s.py(start)
    first = canonical(start, s.scope.env).value
    if first is not None:
        return str(first % stride)
    rest = Binary("%", start, Const(stride))
    return s.py(rest) if truncated(rest, s.scope) else f"({s.py(start)}) % {stride}"


def advance(s: TaskState, target: str, method: str) -> str:
    """What a step's state advances by, as the argument of advance()."""
    stride = ring_config(s.builder, target).interleave_stride[ROLES[method]]
    return "" if stride == 1 else str(stride)


def _both_sides(s: TaskState, owner: str) -> bool:
    """Whether the task produces and consumes the resource or the group's members."""
    names = _names(s.builder, owner)
    methods = {c.method for c in calls(s.task.schedule.steps) if _moves(c) and c.target in names}
    return bool(methods & {"acquire", "commit"}) and bool(methods & {"wait", "release"})


def _names(b: Builder, owner: str) -> set[str]:
    """The targets of steps that move a resource or the members of a group."""
    if owner in b.kernel.groups:
        return {owner, *b.kernel.groups[owner].members}
    g = group_of(b, owner)
    return {owner, g.name} if g is not None else {owner}


def _moves(c: CallStep) -> bool:
    return c.kind in ("pipeline", "group", "queue")


def is_simple(s: TaskState, owner: str, side: Side) -> bool:
    """Whether opens and closes of a side alternate in this task: open, close, open, close, whatever the conditions.

    For a group: whether the opens of every member do, against the closes of the group.
    """
    key = (owner, side)
    if key not in s.simple:
        s.simple[key] = _alternates(s, owner, side)
    return s.simple[key]


def _alternates(s: TaskState, owner: str, side: Side) -> bool:
    b, steps = s.builder, s.task.schedule.steps
    shared = collapsed(b, owner, side)
    if shared is not None:
        return is_simple(s, shared.name, side)
    p = ring_config(b, owner)
    if p.interleave_stride[ROLES[OPEN[side]]] != p.interleave_stride[ROLES[CLOSE[side]]]:
        return False
    moving = [c for c in calls(steps) if _moves(c)]
    if side == "consumer" and any(c.method == "skip" and c.target in _names(b, owner) for c in moving):
        return False
    group = b.kernel.groups.get(owner)
    members: Iterable[str] = (owner,)
    if group is not None:
        opened = {c.target for c in moving if c.method == OPEN[side]}
        members = group.members if group.name in opened else [m for m in group.members if m in opened]
    return bool(members) and all(_lag(steps, _names(b, m), OPEN[side], CLOSE[side], 0) == 0 for m in members)


def _lag(steps: tuple[Step, ...], targets: set[str], opens: str, closes: str, lag: int) -> int | None:
    """Open brackets after the steps, or None if they do not strictly alternate."""
    for x in steps:
        if isinstance(x, CallStep):
            if _moves(x) and x.target in targets:
                if x.method == opens:
                    lag += 1
                elif x.method == closes:
                    lag -= 1
                elif x.method == f"try_{opens}" and lag == 1:  # asks about the next stage, not the one that is open
                    return None
                if lag not in (0, 1):
                    return None
            continue
        if isinstance(x, StaticIf):
            both = {_lag(x.body, targets, opens, closes, lag), _lag(x.orelse, targets, opens, closes, lag)}
            after = both.pop() if len(both) == 1 else None
        else:
            after = _lag(x.body, targets, opens, closes, lag)
            once = isinstance(x, StaticFor) and once_for_each(x, targets)
            if (
                isinstance(x, DomainLoop | TileLoop | Skippable | Guard | When | StaticFor)
                and not once
                and after != lag
            ):
                return None
        if after is None:
            return None
        lag = after
    return lag


def opened_stage(s: TaskState, target: str, method: str, state: str, last: str | None) -> Statement | None:
    """After an acquire or a wait: the stage that works are at from now on; the state moves on if it is not shared.

    None where the state stays until its bracket closes.
    """
    side = side_of(method)
    group = s.builder.kernel.groups.get(target)
    resources = group.members if group is not None else (target,)
    if is_simple(s, _owner(s, target, side), side):
        s.stages.update({(r, side): f"{state}.index" for r in resources})
        return None
    values: dict[str, object] = {"state": state, "by": advance(s, target, method), "stage": None, "last": last}
    if any(_works_on(s, r) for r in resources):
        stage = s.stages.get((resources[0], side))
        if stage is None or stage.endswith(".index"):
            both = _both_sides(s, target)
            stage = s.names.new(f"{target}_{method}_stage" if both else f"{target}_stage")
            if not _opened_before_works(s, s.task.schedule.steps, set(resources), target, method, False)[0]:
                s.prelude[("stage", stage)] = assign(stage, "Int32(0)")
        s.stages.update({(r, side): stage for r in resources})
        values["stage"] = stage
    return Statement("pipelines/advance", values)


def _opened_before_works(
    s: TaskState, steps: tuple[Step, ...], resources: set[str], target: str, method: str, opened: bool
) -> tuple[bool, bool]:
    """Whether every work on the resources follows an open in its own or an enclosing block; and whether one is open.

    Where not, the variable with the stage must have a value outside the block that opens.
    """
    b = s.builder
    fine = True
    for x in steps:
        if isinstance(x, CallStep):
            w = b.kernel.work(x.target, x.method) if x.kind == "work" else None
            if w is not None and (w.owner in resources or resources & _touched(w)):
                fine = fine and (opened or _of_other_side(s, w, target, method))
            opened = opened or (_moves(x) and x.target == target and x.method == method)
            continue
        inner, after = _opened_before_works(s, x.body, resources, target, method, opened)
        fine = fine and inner
        if isinstance(x, StaticIf):
            inner, other = _opened_before_works(s, x.orelse, resources, target, method, opened)
            fine, after = fine and inner, after and other
        opened = after if isinstance(x, StaticIf | StaticFor) else opened
    return fine, opened


def _of_other_side(s: TaskState, w: Work, target: str, method: str) -> bool:
    """Whether a work of a task that produces and consumes is at the stage of the other bracket."""
    if not _both_sides(s, target):
        return False
    return (w.role == "producer" and w.owner == target) != (side_of(method) == "producer")


def _works_on(s: TaskState, resource: str) -> bool:
    """Whether a work of this task is at a stage of the resource."""
    b = s.builder
    works = (b.kernel.work(c.target, c.method) for c in calls(s.task.schedule.steps) if c.kind == "work")
    return any(w is not None and (w.owner == resource or resource in _touched(w)) for w in works)


def _touched(w: Work) -> set[str | None]:
    return {a.ref.resource for a in accesses(w)}


def stage(s: TaskState, resource: str, w: Work) -> str | None:
    """The stage a work is at: acquired last for a producer work, waited for last for a consumer work, of this task.

    In a task that never opens the bracket it is the one to be closed next. None for a resource without a pipeline.
    """
    r = s.builder.kernel.resources.get(resource)
    if r is None or r.pipeline is None:
        return None
    sides: tuple[Side, Side] = ("consumer", "producer")
    if w.role == "producer" and w.owner == resource:
        sides = ("producer", "consumer")
    for side in sides:
        if (resource, side) in s.stages:
            return s.stages[(resource, side)]
    moving = [c for c in calls(s.task.schedule.steps) if _moves(c)]
    for side in sides:
        g = collapsed(s.builder, resource, side)
        target = g.name if g is not None else resource
        if any(c.target == target and c.method == CLOSE[side] for c in moving):
            return f"{position(s, target, CLOSE[side])}.index"
    return None
