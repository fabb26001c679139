"""Rings as a whole: every side has both of its steps, and tries are used (TS30x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Span, check
from tsgen.model.kernel import Kernel, Resource
from tsgen.model.steps import calls

_PAIRS = (("acquire", "commit", "producer"), ("wait", "release", "consumer"))


@check("TS300", "incomplete-ring")
def incomplete_ring(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A pipelined resource lacks one of its four steps.

    A stage goes round: `acquire`, filled, `commit`, `wait`, read, `release`. Each of the four is done by some task; a
    task that only waits, or only releases, is fine as long as another does the rest.
    """
    for resource in kernel.resources.values():
        if resource.pipeline is None:
            continue
        has = {m: _first(kernel, resource, m) for pair in _PAIRS for m in pair[:2]}
        works = [
            s for t in kernel.tasks for s in calls(t.schedule.steps) if s.kind == "work" and s.target == resource.name
        ]
        if not works and not any(has.values()):
            continue
        for opening, closing, _ in _PAIRS:
            present = has[opening] or has[closing]
            for method, other in ((opening, closing), (closing, opening)):
                if has[method] is None:
                    span = has[other] or present or (works[0].span if works else resource.span)
                    words = f"`{resource.name}` has `{other}`" if has[other] else f"`{resource.name}` has a pipeline"
                    yield Finding(f"{words}, but no task does `{resource.name}.{method}()`", span, _help(method))
                    break


def _help(method: str) -> str:
    return {
        "acquire": "acquire the stage before filling it",
        "commit": "commit the stage after filling it",
        "wait": "wait for the stage before reading it",
        "release": "release the stage after reading it",
    }[method]


def _first(kernel: Kernel, resource: Resource, method: str) -> Span | None:
    """The first step of that method on the resource or its group."""
    names = {resource.name, *(g.name for g in kernel.groups.values() if resource.name in g.members)}
    for task in kernel.tasks:
        for s in calls(task.schedule.steps):
            if s.target in names and s.method == method:
                return s.span
    return None


@check("TS301", "unused-try")
def unused_try(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A `try_acquire` or `try_wait` has no blocking step that could use its answer.

    The answer of a try goes to the next `acquire` or `wait` on that side of the resource in the same task, be it in the
    next iteration. Without one it does nothing.
    """
    for task in kernel.tasks:
        steps = list(calls(task.schedule.steps))
        for s in steps:
            if s.method in ("try_acquire", "try_wait") and s.kind in ("pipeline", "group", "queue"):
                blocking = s.method.removeprefix("try_")
                if not any(b.target == s.target and b.method == blocking for b in steps):
                    yield Finding(
                        f"`{s.text}` in `{task.name}` is never followed by `{s.target}.{blocking}()`",
                        s.span,
                        "remove it",
                    )


CHECKS = (incomplete_ring, unused_try)
