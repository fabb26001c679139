"""Chains of kernels with programmatic dependent launch: what a kernel must not touch before its wait (TS703)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tsgen.derive.uses import Uses, uses
from tsgen.diagnostics import Diagnostic, Finding, Related, check
from tsgen.model.kernel import Kernel, Tensor
from tsgen.model.steps import CallStep, calls


def verify_chain(kernels: Sequence[Kernel]) -> list[Diagnostic]:
    """Findings about the kernels of one file together; each by itself is `verify`'s."""
    return chain_order(kernels) if len(kernels) > 1 else []


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
            behind = {e.downstream for e in kernel.graph if _is_pdl(kernel, e.upstream)}
            for name, step in _touched(kernel, uses(kernel)).items():
                if name in behind or name not in before:
                    continue
                other, tensor = before[name]
                if tensor.output or kernel.tensors[name].output:
                    does = "writes" if tensor.output else "reads"
                    yield Finding(
                        f"`{step.text}` touches `{name}`, which `{other.name}` {does} earlier in the chain, and the "
                        f"graph of `{kernel.name}` does not put it behind a `pdl` resource",
                        step.span,
                        f"write `{name}: [pdl]` in the graph, with the name of a resource of kind `pdl`",
                        (Related(f"`{name}` of `{other.name}`", tensor.span),),
                    )
        for name in _touched(kernel, uses(kernel)):
            last = before.get(name)
            if last is None or kernel.tensors[name].output or not last[1].output:
                before[name] = kernel, kernel.tensors[name]


def _is_pdl(kernel: Kernel, name: str) -> bool:
    return name in kernel.resources and kernel.resources[name].kind == "pdl"


def _touched(kernel: Kernel, facts: Uses) -> dict[str, CallStep]:
    """The tensors that works touch, each with the first step that does."""
    found: dict[str, CallStep] = {}
    for task in kernel.tasks:
        for step in calls(task.schedule.steps):
            work = kernel.work(step.target, step.method) if step.kind == "work" else None
            for access in facts.accesses(work) if work is not None else ():
                if access.ref.resource is None and access.ref.name in kernel.tensors:
                    found.setdefault(access.ref.name, step)
    return found
