"""Conditions that differ between the threads of a task, through registers and tokens (TS246), and lanes of a warp that
cannot meet (TS506)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsgen.derive.model import Derived
from tsgen.derive.spread import BY_THREAD
from tsgen.derive.unfold import Node, calls
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Diagnostic, Finding, Related, check
from tsgen.model.expr import Ref, names, walk
from tsgen.model.kernel import Kernel
from tsgen.model.ops import OPS
from tsgen.model.steps import CallStep, When
from tsgen.spec.rules_steps import divergent
from tsgen.verify.symbols import Symbols
from tsgen.verify.value_numbering import outcomes
from tsgen.verify.values import Outcome, Values


@check("TS506", "lanes-race")
def lanes_race(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Lanes of one warp touch the same elements of shared memory, one of them writes, and they cannot meet in between.

    Lanes of a warp need not run together. Where a step touches what other lanes have touched before, `tsgen build` puts
    a warp sync in front of it; within one step, or between steps of a block that only some lanes run, there is no place
    for one. Make two steps of it, move one of them out of the block, or let each lane keep to its own elements.
    """
    for step, other, field in derived.lanes.clashes:
        if step == other:
            reason = f"`{step.text}` reads what other lanes of the warp write in the same step"
            yield Finding(f"race on {field}: {reason}", step.span, "make two steps of it, through registers")
            continue
        reason = f"in `{step.text}` lanes of a warp touch what others touch in `{other.text}`"
        yield Finding(
            f"race on {field}: {reason}, and cannot meet in between, in a block that only some of them may run",
            step.span,
            "move one of the two out of the block",
            (Related("the other access", other.span),),
        )


def conditions_diverge(kernel: Kernel, derived: Derived, uses: Uses) -> list[Diagnostic]:
    """TS246 where a condition does not name the thread, but depends on a value that differs between threads."""
    values = Values(kernel, uses, Symbols(kernel))
    found: dict[tuple[object, str], Diagnostic] = {}
    for task, instance in kernel.instances():
        program = uses.programs[task.name, instance.index]
        if not _may_diverge(kernel, program):
            continue
        here = outcomes(values, task, instance, program)
        for when, node, outcome in _conditions(program, here):
            together = next((c for c in calls(node.body) if _together(kernel, c)), None)
            if together is None or not outcome.made.per_thread or names(when.condition.expr) & BY_THREAD:
                continue
            step = together.step
            assert isinstance(step, CallStep)
            found.setdefault((step.span, step.text), divergent(step.text, "condition", step.span, when.condition.span))
    return list(found.values())


def _may_diverge(kernel: Kernel, program: tuple[Node, ...]) -> bool:
    """Whether a condition around a step of all threads is made of a token or a register."""
    made = {r for n in calls(program) if isinstance(n.step, CallStep) for r in n.step.results}
    ready = list(program)
    for node in ready:
        ready += node.body
        if isinstance(node.step, When) and any(_together(kernel, c) for c in calls(node.body)):
            e = node.step.condition.expr
            if names(e) & made or any(isinstance(x, Ref) and x.resource is not None for x in walk(e)):
                return True
    return False


def _conditions(nodes: tuple[Node, ...], outcomes: Mapping[int, Outcome]) -> Iterator[tuple[When, Node, Outcome]]:
    for node in nodes:
        if isinstance(node.step, When):
            yield node.step, node, outcomes[id(node)]
        yield from _conditions(node.body, outcomes)


def _together(kernel: Kernel, node: Node) -> bool:
    """Whether the threads of a task must perform a step together."""
    step = node.step
    assert isinstance(step, CallStep)
    work = kernel.work(step.target, step.method) if step.kind == "work" else None
    return step.kind != "work" or (work is not None and work.op is not None and OPS[work.op].issue != "threads")


CAUSES = (conditions_diverge, lanes_race)
