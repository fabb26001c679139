"""Rings as a whole: every side has both of its steps, and tries are used (TS30x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Related, Span, check
from tsgen.model.kernel import Kernel, Resource
from tsgen.model.steps import CallStep, DomainLoop, Guard, StaticFor, StaticIf, Step, TileLoop, calls

_Blocking = frozenset[tuple[str, str]]  # targets and methods of steps


@check("TS300", "incomplete-ring")
def incomplete_ring(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A pipelined resource lacks a step without which its stages cannot go round.

    A stage is acquired, filled, committed, waited for, read and released, by whatever tasks. Only the wait may be
    missing: a task may know from another pipeline that the stage is full.
    """
    for resource in kernel.resources.values():
        if resource.pipeline is None:
            continue
        places = {m: _first(kernel, resource, m) for m in ("acquire", "commit", "wait", "release")}
        steps = (s for t in kernel.tasks for s in calls(t.schedule.steps))
        work = next((s.span for s in steps if s.kind == "work" and s.target == resource.name), None)
        if work is None and not any(places.values()):
            continue
        for missing, other in (("acquire", "commit"), ("commit", "acquire"), ("release", "wait"), ("wait", "release")):
            if places[missing] is not None or (missing == "wait" and places["release"] is not None):
                continue
            if missing in ("wait", "commit") and places[other] is None:
                continue  # the side is missing as a whole: said once
            words = f"`{resource.name}` has `{other}`" if places[other] else f"`{resource.name}` has a pipeline"
            span = places[other] or work or next(p for p in (*places.values(), resource.span) if p is not None)
            yield Finding(
                f"{words}, but no task does `{resource.name}.{missing}()`",
                span,
                _help(missing),
                _places(kernel, uses, resource, span),
            )


def _places(kernel: Kernel, uses: Uses, resource: Resource, but: Span) -> tuple[Related, ...]:
    """The declaration, the steps on the ring, where works use it, and where other tasks learn from its users."""
    names = _names(kernel, resource)
    found: dict[Span, str] = {}
    told: set[str] = set()
    users: set[str] = set()
    for task in kernel.tasks:
        steps = list(calls(task.schedule.steps))
        if any(s.target in names for s in steps):
            users.add(task.name)
            told |= {s.target for s in steps if s.method == "commit"}
        for s in steps:
            if s.target in names and s.kind != "work":
                found.setdefault(s.span, f"`{s.text}` of {task.name}")
        used = next((s for s in steps if _touches(kernel, uses, s, resource)), None)
        if used is not None:
            found.setdefault(used.span, f"`{resource.name}` is used here")
    for task in kernel.tasks:
        for s in calls(task.schedule.steps):
            if task.name not in users and s.target in told and s.method == "wait":
                found.setdefault(s.span, f"`{s.text}` of {task.name} learns from a user of `{resource.name}`")
    found.setdefault(resource.span, f"`{resource.name}`")
    found.pop(but, None)
    return tuple(Related(text, span) for span, text in found.items())


def _touches(kernel: Kernel, uses: Uses, step: CallStep, resource: Resource) -> bool:
    work = kernel.work(step.target, step.method) if step.kind == "work" else None
    return work is not None and any(a.ref.resource == resource.name for a in uses.accesses(work))


def _help(method: str) -> str:
    return {
        "acquire": "acquire the stage before filling it",
        "commit": "commit the stage after filling it",
        "wait": "wait for the stage before reading it",
        "release": "release the stage after reading it",
    }[method]


def _first(kernel: Kernel, resource: Resource, method: str) -> Span | None:
    """The first step of that method on the resource or its group."""
    names = _names(kernel, resource)
    for task in kernel.tasks:
        for s in calls(task.schedule.steps):
            if s.target in names and s.method == method:
                return s.span
    return None


def _names(kernel: Kernel, resource: Resource) -> set[str]:
    """What steps on a resource may call it: by its name or its group's."""
    return {resource.name, *(g.name for g in kernel.groups.values() if resource.name in g.members)}


@check("TS301", "unused-try")
def unused_try(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A `try_acquire` or `try_wait` has no blocking step that could use its answer.

    The answer of a try goes to the next `acquire` or `wait` on that side of the resource in the same task, be it in the
    next iteration or tile. Without one it does nothing: so in `last_iter`, unless a step after the loop or in the next
    tile uses it.
    """
    for task in kernel.tasks:
        for try_, used in _tries(task.schedule.steps):
            if not used:
                blocking = try_.method.removeprefix("try_")
                yield Finding(
                    f"`{try_.text}` in `{task.name}` is never followed by `{try_.target}.{blocking}()`",
                    try_.span,
                    "remove it",
                )


def _tries(
    steps: tuple[Step, ...], after: _Blocking = frozenset(), end: _Blocking = frozenset()
) -> Iterator[tuple[CallStep, bool]]:
    """Every try, and whether its blocking step can follow. `after`: the steps that can follow the block; `end`: those
    that can follow it in the last iteration of the loop around it."""
    rest = list(steps)
    while rest:
        step = rest.pop(0)
        here = _blocking(tuple(rest))
        following, last = after | here, end | here
        match step:
            case CallStep():
                if step.method in ("try_acquire", "try_wait"):
                    yield step, (step.target, step.method.removeprefix("try_")) in following
                continue
            case DomainLoop():
                yield from _tries(step.body, following | _blocking(step.body, again=True), following)
            case TileLoop():
                around = following | _blocking(step.body)
                yield from _tries(step.body, around, around)
            case StaticFor(values=values) if len(values) > 1:
                around = _blocking(step.body)
                yield from _tries(step.body, following | around, last | around)
            case Guard(kind="last_iter"):
                yield from _tries(step.body, last, last)
            case _:
                yield from _tries(step.body, following, last)
        if isinstance(step, StaticIf):
            yield from _tries(step.orelse, following, last)


def _blocking(steps: tuple[Step, ...], again: bool = False) -> _Blocking:
    """The steps of a block; with `again`, those that it takes when it is not run for the first time."""
    found: set[tuple[str, str]] = set()
    for step in steps:
        if isinstance(step, CallStep):
            found.add((step.target, step.method))
        elif not (again and isinstance(step, Guard) and step.kind == "first_iter"):
            found |= _blocking(step.body, again)
            found |= _blocking(step.orelse, again) if isinstance(step, StaticIf) else frozenset()
    return frozenset(found)


CAUSES = (incomplete_ring, unused_try)
