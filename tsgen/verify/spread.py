"""Who does an access, and with what: the engine, the thread that issues it, and how elements are dealt out to
threads."""

from __future__ import annotations

from tsgen.derive.unfold import Node, constant
from tsgen.model.algebra import canonical, substitute
from tsgen.model.expr import Expr, Placed, Ref, children, names, walk
from tsgen.model.kernel import CopyArg, Kernel, Work
from tsgen.model.ops import OPS
from tsgen.model.pipelines import PIPELINES
from tsgen.model.poly import Poly
from tsgen.model.steps import CallStep, DomainLoop

LINEAR = "linear"
BY_THREAD = frozenset({"thread", "lane", "warp"})
_ELECTED = ("tx", "bulk", "tcgen05")  # engines that one thread of the task starts


def role_only(work: Work) -> bool:
    """Whether a work is no more than its role: the schedule is being designed, its code is not written yet."""
    return work.op is None and work.body is None and work.call is None


def engine_of(kernel: Kernel, work: Work, engine: str) -> str:
    """The engine of an access. A work that is only a role does what its pipeline is for: MMAs on the umma side."""
    owner = kernel.resources.get(work.owner)
    if engine == "generic" and role_only(work) and owner is not None and owner.pipeline is not None:
        kind = PIPELINES[owner.pipeline.type]
        if (kind.producer if work.role == "producer" else kind.consumer) == "umma":
            return "tcgen05"
    return engine


def writes_bytes(work: Work) -> bool:
    """Whether a work adds to the transaction bytes of a full barrier."""
    return (OPS[work.op].engine if work.op is not None else work.engine) == "tx"


def elected(kernel: Kernel, work: Work) -> bool:
    """Whether one thread of the task (with `scope: warp`, of each warp) performs the work."""
    if work.op is not None:
        return OPS[work.op].issue == "elected"
    return (work.engine or engine_of(kernel, work, "generic")) in _ELECTED


def spread_of(kernel: Kernel, work: Work, engine: str) -> str | None:
    """Accesses of one spread touch the same elements in the same threads; None if threads do not own elements.

    A register field decides (its fragment has one owner for each element); without one, elements are dealt out in
    order. Bodies are taken to keep to that order, since they may not synchronise.
    """
    if engine in ("tcgen05_ld", "tcgen05_st"):
        return "lanes"
    dealt = engine == "generic" or (engine in ("tx", "cp_async") and work.op in OPS and OPS[work.op].issue == "threads")
    if not dealt:
        return None
    for value in work.args.values():
        exprs = [value.expr] if isinstance(value, Placed) else []
        if isinstance(value, tuple):
            exprs = [e for a in value for e in ((a.to, a.source) if isinstance(a, CopyArg) else (a.value,))]
        for ref in (r for e in exprs for r in walk(e) if isinstance(r, Ref)):
            owner = kernel.resources.get(ref.resource or "")
            if owner is not None and owner.kind == "rmem" and owner.fields[ref.name].shape:
                return f"{ref.resource}.{ref.name}"
    return LINEAR


# ---- windows that each thread or warp has for itself ----------------------------------------------------------------


def indices(ref: Ref, node: Node) -> list[Expr]:
    """What the window of a call's reference is made from, with the call's arguments written out."""
    assert isinstance(node.step, CallStep)
    args = {name: arg.expr for name, arg in node.step.args.items()}
    return [substitute(e, args) for e in children(ref)]


def by_thread(ref: Ref, node: Node, loop: DomainLoop | None = None) -> bool:
    """Whether threads of a task have windows of their own."""
    if ref.window is None:
        return False
    used = {n for e in indices(ref, node) for n in names(e)}
    return bool(used & BY_THREAD) or (loop is not None and loop.var in used and divergent(loop))


def divergent(loop: DomainLoop) -> bool:
    """Whether threads, or warps, start at places of their own."""
    return bool(names(loop.start.expr) & BY_THREAD)


def owner_of(ref: Ref, node: Node, loop: DomainLoop | None, threads: int) -> str | None:
    """The index that tells which thread touches an element, if one does whatever else it is made from: `thread` with
    multiples of the number of threads, or the variable of a loop from `thread` on by such a multiple. Two accesses with
    one such index touch common elements in one thread only."""
    for e in indices(ref, node):
        p = canonical(e, node.env)
        if _tells(p, "thread", threads) or (
            loop is not None and _dealt(loop, node, threads) and _tells(p, loop.var, threads)
        ):
            return repr(p)
    return None


def _dealt(loop: DomainLoop, node: Node, threads: int) -> bool:
    step = constant(loop.step.expr, {**node.env, "threads": threads})
    return (
        isinstance(step, int)
        and step % threads == 0
        and _tells(canonical(loop.start.expr, node.env), "thread", threads)
    )


def _tells(p: Poly, name: str, threads: int) -> bool:
    own = 0
    for monomial, c in p.terms:
        alone = len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].args
        if alone and monomial[0][0].head == name:
            own = int(c) if c.denominator == 1 else 0
    if not own:
        return False
    rest = (c for m, c in p.terms if m and not (len(m) == 1 and m[0][0].head == name and m[0][1] == 1))
    return all((c / (own * threads)).denominator == 1 for c in rest)
