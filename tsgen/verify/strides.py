"""Steps of loops, where they are known at run time alone."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.unfold import Node, constant
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, check
from tsgen.model.bounds import interval, intervals
from tsgen.model.expr import text
from tsgen.model.kernel import Kernel
from tsgen.model.steps import DomainLoop


@check("TS408", "step-may-be-zero")
def step_may_be_zero(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A loop's step may be zero, or negative, for some values of the launch.

    With a step of zero the loop never ends; the steps of a loop go up. Say what is known of the value in
    `launch.assume`: the host function then refuses other values.
    """
    known = intervals(kernel)
    seen = set()
    for task, instance in kernel.instances():
        for node in _loops(uses.programs[task.name, instance.index]):
            step = node.step
            assert isinstance(step, DomainLoop)
            if step.step.span in seen or constant(step.step.expr, node.env) is not None:
                continue
            low = interval(step.step.expr, known, node.env).low
            if low is None or low < 1:
                seen.add(step.step.span)
                yield Finding(
                    f"the step `{text(step.step.expr)}` may be {'negative' if low is None or low < 0 else 0}",
                    step.step.span,
                    f"write `{text(step.step.expr)} >= 1` into `launch.assume`",
                )


def _loops(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node.step, DomainLoop):
            yield node
        yield from _loops(node.body)


CHECKS = (step_may_be_zero,)
