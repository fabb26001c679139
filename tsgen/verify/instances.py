"""Which instance of a resource a step or a work means: known when the kernel is built, and there (TS145, TS265).

Each instance has barriers and bytes of its own, so the schedule that is proven is the one with all indices written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsgen.derive.memory import instances
from tsgen.derive.model import Derived
from tsgen.derive.unfold import Env, Node, constant, work_env
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Diagnostic, Finding, Related, Span, error
from tsgen.model.algebra import substitute
from tsgen.model.expr import Expr, Ref, names, text, walk
from tsgen.model.kernel import Kernel, Work
from tsgen.model.steps import CallStep, DomainLoop, When
from tsgen.spec.rules_names import instance_range


@error("TS265", "instance-known-late")
def instance_known_late(written: str, value: str, span: Span, related: tuple[Related, ...]) -> Finding:
    """An index picks an instance of a resource, and has no value when the kernel is built.

    Instances are resources of their own: each has its barriers, its stages and its place in memory, and what is proven
    of one says nothing of another. The index is made of params and of `each` and `for` indices; a loop variable or a
    token can pick an index of a window instead.
    """
    shown = f"`{written}`" if value == written else f"`{written}`, `{value}`,"
    return Finding(
        f"the index {shown} has no value when the kernel is built",
        span,
        "make it of params, `each` and `for` indices, or let a window of one field pick the part",
        related,
    )


def instances_known(kernel: Kernel, derived: Derived, uses: Uses) -> list[Diagnostic]:
    """Every index of an instance, as each task instance runs its schedule."""
    found: dict[tuple[Span, str], Diagnostic] = {}
    for program in uses.programs.values():
        for d in _of_nodes(kernel, uses, program):
            found.setdefault((d.span, d.code), d)
    return list(found.values())


def _of_nodes(kernel: Kernel, uses: Uses, nodes: tuple[Node, ...]) -> Iterator[Diagnostic]:
    for node in nodes:
        match node.step:
            case CallStep() as step:
                yield from _of_call(kernel, uses, node, step)
                placed = tuple(step.args.values())
            case DomainLoop() as loop:
                placed = (loop.start, loop.end, loop.step)
            case When() as when:
                placed = (when.condition,)
            case _:
                placed = ()
        for p in placed:
            for ref in _picking(p.expr):
                yield from _check(kernel, ref.resource, ref.instance, ref.instance, node.env, p.span)
        yield from _of_nodes(kernel, uses, node.body)


def _of_call(kernel: Kernel, uses: Uses, node: Node, step: CallStep) -> Iterator[Diagnostic]:
    group = kernel.groups.get(step.target)
    for target in group.members if group is not None else (step.target,):
        yield from _check(kernel, target, step.instance, step.instance, node.env, step.span)
    work = kernel.work(step.target, step.method) if step.kind == "work" else None
    if work is None or (step.instance is not None and not isinstance(constant(step.instance, node.env), int)):
        return
    env = work_env(kernel, node, work)
    for access in uses.accesses(work):
        for ref in _picking(access.ref):
            yield from _of_reference(kernel, node, work, ref, env, access.span)
    for access in uses.accesses(work):
        yield from _of_view(kernel, node, access.ref, env)


def _of_reference(kernel: Kernel, node: Node, work: Work, ref: Ref, env: Env, span: Span) -> Iterator[Diagnostic]:
    """Where an argument decides, its place is the argument's."""
    step = node.step
    assert isinstance(step, CallStep) and ref.instance is not None
    taken = [step.args[n] for n in sorted(names(ref.instance)) if n in (*work.takes, *work.static) and n in step.args]
    value = substitute(ref.instance, {n: a.expr for n, a in step.args.items()})
    where, other = (taken[0].span, Related("the reference", span)) if taken else (span, Related("the call", step.span))
    yield from _check(kernel, ref.resource, ref.instance, value, env, where, (other,))


def _of_view(kernel: Kernel, node: Node, ref: Ref, env: Env) -> Iterator[Diagnostic]:
    """A view picks by the index of its own resource."""
    owner = kernel.resources.get(ref.resource or "")
    field = owner.fields.get(ref.name) if owner is not None else None
    if owner is None or field is None or field.view is None or field.view.instance is None:
        return
    at = node.instance if ref.instance is None else constant(ref.instance, env)
    own: Mapping[str, int] = {owner.each.var: at} if owner.each is not None and isinstance(at, int) else {}
    view = field.view
    yield from _check(kernel, view.resource, view.instance, view.instance, {**kernel.env, **own}, field.span)


def _picking(e: Expr) -> Iterator[Ref]:
    return (r for r in walk(e) if isinstance(r, Ref) and r.resource is not None and r.instance is not None)


def _check(
    kernel: Kernel,
    name: str | None,
    written: Expr | None,
    value: Expr | None,
    env: Env,
    span: Span,
    related: tuple[Related, ...] = (),
) -> Iterator[Diagnostic]:
    resource = kernel.resources.get(name or "")
    if resource is None or written is None or value is None:
        return
    at = constant(written, env)
    if isinstance(at, bool) or not isinstance(at, int):
        yield instance_known_late(text(written), text(value), span, related)
    elif not 0 <= at < instances(resource):
        yield instance_range(resource.name, at, instances(resource), span)
