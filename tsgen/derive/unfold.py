"""Schedules as one task instance runs them: `for` unrolled, `if` decided, instance indices known.

What is left are calls and the blocks whose outcome is known only on the device: loops, guards, conditions, `skippable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tsgen.model.algebra import NotConstant, NoValue, evaluate
from tsgen.model.expr import Const, Expr, Placed, Scalar
from tsgen.model.kernel import Kernel, Task, TaskInstance, Work
from tsgen.model.steps import CallStep, StaticFor, StaticIf, Step

Env = Mapping[str, Scalar]
UNKNOWN = -1  # an instance index that has no compile-time value; TS265 says where


class Node(NamedTuple):
    """One call, or one block with its body. `env` has params, the task's `threads` and `each` index, and `for` indices.

    `step` is never a StaticFor or StaticIf. `instance` is the index of a call's target (0 without brackets).
    """

    step: Step
    env: Env
    instance: int
    body: tuple[Node, ...]


def unfold(kernel: Kernel, task: Task, instance: TaskInstance) -> tuple[Node, ...]:
    """The schedule of one instance of a task."""
    env: dict[str, Scalar] = {**kernel.env, "threads": 32 * instance.num_warps}
    if task.each is not None:
        env[task.each.var] = instance.index
    return tuple(_unfold(task.schedule.steps, env))


def _unfold(steps: tuple[Step, ...], env: Env) -> Iterator[Node]:
    for step in steps:
        match step:
            case CallStep():
                yield Node(step, env, index_of(step.instance, env), ())
            case StaticFor():
                for value in step.values:
                    yield from _unfold(step.body, {**env, step.var: value})
            case StaticIf():
                yield from _unfold(step.body if _holds(step.condition, env) else step.orelse, env)
            case _:
                yield Node(step, env, 0, tuple(_unfold(step.body, env)))


def calls(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every call, in the order of the text."""
    for node in nodes:
        if isinstance(node.step, CallStep):
            yield node
        else:
            yield from calls(node.body)


def index_of(e: Expr | None, env: Env) -> int:
    """The value of an instance index; 0 where none is written, UNKNOWN where it has no compile-time value."""
    if e is None:
        return 0
    value = constant(e, env)
    return value if isinstance(value, int) else UNKNOWN


def constant(e: Expr, env: Env) -> Scalar | None:
    """The compile-time value, or None."""
    if isinstance(e, Const):
        return e.value
    try:
        return evaluate(e, env)
    except (NotConstant, NoValue):
        return None


def _holds(condition: Placed, env: Env) -> bool:
    return bool(constant(condition.expr, env))


def work_env(kernel: Kernel, node: Node, work: Work) -> Env:
    """What the names in a work mean at one of its calls: the owner's `each` index and constant arguments on top."""
    assert isinstance(node.step, CallStep)
    env = dict(node.env)
    for name in (*work.takes, *work.static):
        env.pop(name, None)
        arg = node.step.args.get(name)
        value = None if arg is None else constant(arg.expr, node.env)
        if value is not None:
            env[name] = value
    owner = kernel.resources.get(work.owner)
    if owner is not None and owner.each is not None:
        env[owner.each.var] = node.instance
    return env
