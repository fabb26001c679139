"""Chains of kernels with programmatic dependent launch: what a kernel must not touch before its wait (TS703)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tsgen.derive.pdl import behind_wait
from tsgen.derive.uses import Uses, uses
from tsgen.diagnostics import Diagnostic, Finding, Related, check
from tsgen.model.kernel import Kernel, Tensor
from tsgen.model.steps import CallStep, StaticFor, StaticIf, Step, TileLoop, calls, step_text, walk
from tsgen.verify.mentions import of_step, of_work, tensors_of


def verify_chain(kernels: Sequence[Kernel]) -> list[Diagnostic]:
    """Findings about the kernels of one file together; each by itself is `verify`'s."""
    return [*chain_order(kernels), *wait_sometimes(kernels)] if len(kernels) > 1 else []


@check("TS703", "chain-order")
def chain_order(kernels: Sequence[Kernel]) -> Iterator[Finding]:
    """A kernel of a chain shares a tensor with one before it, and the graph does not put it behind the PDL wait.

    With `pdl: true` a kernel starts while those before it still run. What they write it may touch only after
    `wait_griddep`, and what they touch it may write only then. `t: [pdl]` in the graph says so, and the proof then
    makes sure of it.
    """
    before: dict[str, tuple[Kernel, Tensor]] = {}  # the last kernel that touches a tensor
    for kernel in kernels:
        if kernel.launch.pdl:
            behind = behind_wait(kernel)
            for name, step in _touched(kernel, uses(kernel)).items():
                if name in behind or name not in before:
                    continue
                other, tensor = before[name]
                if tensor.output or kernel.tensors[name].output:
                    does = "writes" if tensor.output else "reads"
                    text = step_text(step)
                    yield Finding(
                        f"`{text}` touches `{name}`, which `{other.name}` {does} earlier in the chain, and the "
                        f"graph of `{kernel.name}` does not put it behind a `pdl` resource",
                        step.span,
                        f"write `{name}: [pdl]` in the graph, with the name of a resource of kind `pdl`",
                        (Related(f"`{name}` of `{other.name}`", tensor.span),),
                    )
        for name in _touched(kernel, uses(kernel)):
            last = before.get(name)
            if last is None or kernel.tensors[name].output or not last[1].output:
                before[name] = kernel, kernel.tensors[name]


@check("TS704", "wait-sometimes")
def wait_sometimes(kernels: Sequence[Kernel]) -> Iterator[Finding]:
    """A kernel within a chain may end without having waited for the kernels before it.

    A wait covers the kernel right before, and through its own wait those before that. If the one between ends without a
    wait (in tiles that are skipped, a loop without trips, under a condition), the next may run while the first does.
    """
    for kernel, following in pairwise(kernels[1:]):
        waits = [s for t in kernel.tasks for s in calls(t.schedule.steps) if s.method == "wait_griddep"]
        if not kernel.launch.pdl or not following.launch.pdl or not waits:
            continue
        if not any(_waits(t.schedule.steps) for t in kernel.tasks):
            yield Finding(
                f"`{kernel.name}` may end without a wait for the kernels before it, and `{following.name}` waits for "
                f"`{kernel.name}` alone",
                waits[0].span,
                "wait where every CTA comes: at the start of a schedule",
            )


def _waits(steps: tuple[Step, ...]) -> bool:
    """Whether a task does `wait_griddep` whatever happens. There is a tile, but perhaps it is skipped."""
    for s in steps:
        if isinstance(s, CallStep):
            if s.method == "wait_griddep":
                return True
        elif isinstance(s, TileLoop):
            if s.skip_if is None and _waits(s.body):
                return True
        elif isinstance(s, StaticFor | StaticIf) and _waits(s.body):
            return True
    return False


def _touched(kernel: Kernel, facts: Uses) -> dict[str, Step]:
    """The tensors in memory that steps touch, in bounds and conditions, too, each with the first step that does."""
    found: dict[str, Step] = {}
    for task in kernel.tasks:
        for step in walk(task.schedule.steps):
            call = isinstance(step, CallStep) and step.kind == "work"
            work = kernel.work(step.target, step.method) if isinstance(step, CallStep) and call else None
            names = tensors_of(kernel, (*of_step(step), *(of_work(work) if work is not None else ())))
            names |= {a.ref.name for a in facts.accesses(work) if a.ref.resource is None} if work is not None else set()
            for name in sorted(names):
                if name in kernel.tensors and kernel.tensors[name].shape:
                    found.setdefault(name, step)
    return found
