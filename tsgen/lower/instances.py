"""Instances of a resource with `each`: which one a step speaks of, and how far its position is shared.

A task that is an instance itself has one of them, and one position. A `for` over all instances does the same with each:
one position serves all, and moves on after the last. A constant index has a position of its own.
"""

from __future__ import annotations

from tsgen.frozen import frozen
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.model.algebra import canonical
from tsgen.model.expr import Expr, Name
from tsgen.model.steps import CallStep, StaticFor, Step, calls, walk


@frozen
class Which:
    """`key` tells positions apart, `index` is the instance as Python (None without `each`); a position that instances
    share moves on where `last` holds (None: always)."""

    key: str = ""
    index: str | None = None
    last: str | None = None


def which(s: TaskState, c: CallStep) -> Which:
    """The instance that a step on a pipelined resource speaks of."""
    r = s.builder.kernel.resources.get(c.target)
    if r is None or r.each is None:
        return Which()
    assert c.instance is not None
    index = s.py(c.instance)
    if _is_own(s, c.instance):
        return Which("", index)
    if is_for_all(s.task.schedule.steps, c.instance, r.each.count):
        others = [x for x in calls(s.task.schedule.steps) if x.target == c.target and x.kind == c.kind]
        if any(x.instance is not None and canonical(x.instance, s.scope.env).value is not None for x in others):
            refuse(f"steps on one instance of `{c.target}` beside others on all of them in turn", c.span)
        return Which("", index, f"{index} == {r.each.count - 1}")
    value = canonical(c.instance, s.scope.env).value
    if value is None:
        refuse(f"the instance `{c.text}` speaks of", c.span, "a constant, the task's own, or each in a `for` over all")
    return Which(f"_{value}", str(value))


def _is_own(s: TaskState, instance: Expr) -> bool:
    return s.task.each is not None and instance == Name(s.task.each.var)


def is_for_all(steps: tuple[Step, ...], instance: Expr, count: int) -> bool:
    """Whether an index is the variable of loops over all instances, in order."""
    if not isinstance(instance, Name):
        return False
    loops = [x for x in walk(steps) if isinstance(x, StaticFor) and x.var == instance.id]
    return bool(loops) and all(list(x.values) == list(range(count)) for x in loops)


def once_for_each(x: StaticFor, targets: set[str]) -> bool:
    """Whether a loop's steps on some resources are each on the instance of the loop's variable."""
    moving = [c for c in calls(x.body) if c.kind == "pipeline" and c.target in targets]
    return bool(moving) and all(c.instance == Name(x.var) for c in moving)


def in_product(index: str) -> str:
    """An index as a factor."""
    return f"({index})" if " " in index else index
