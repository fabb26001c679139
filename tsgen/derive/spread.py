"""Who does an access, and with what: the engine, the thread that issues it, and how elements are dealt out to
threads."""

from __future__ import annotations

from tsgen.derive.unfold import Env, Node, constant, work_env
from tsgen.model.algebra import canonical, fold, substitute
from tsgen.model.expr import Call, Expr, Index, Placed, Ref, Slice, Window, children, names, walk
from tsgen.model.kernel import ArgValue, CopyArg, Kernel, Work
from tsgen.model.ops import OPS, Access
from tsgen.model.pipelines import PIPELINES
from tsgen.model.poly import Poly
from tsgen.model.steps import CallStep, DomainLoop

LINEAR = "linear"
OWN = "warp registers"  # spread of registers: no other warp has them
ACCUMULATOR = "warp registers of an accumulator"
REGISTERS = (OWN, ACCUMULATOR)
ANYWHERE = " anywhere at "  # in that of one step's windows whose places are not known: its next call has another
APART = " in steps of "  # in the spread of windows that are equal or apart
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


def spread_of(kernel: Kernel, work: Work, access: Access, node: Node) -> str | None:
    """Accesses of one spread touch the same elements of one window in the same threads; None if threads do not own
    elements.

    A register field decides, and the part of it that is meant (its fragment has one owner for each element); without
    one, elements are dealt out in order. Either is another spread through `.T`. Bodies are taken to keep to that order,
    since they may not synchronise. Where all windows of a kind are equal or apart (`grid_of`), the spread says so, and
    is one for all of them.
    """
    ref, engine = access.ref, engine_of(kernel, work, access.engine)
    if engine in ("tcgen05_ld", "tcgen05_st"):
        return None if ref.transposed else "lanes"
    if work.op is None and not role_only(work) and engine == "generic":
        return None
    dealt = engine == "generic" or (engine in ("tx", "cp_async") and work.op in OPS and OPS[work.op].issue == "threads")
    order = _order(ref) if dealt else None
    if order is None:
        return None
    base, across = LINEAR, order == "across"
    for value in work.args.values():
        for r in (r for e in _expressions(value) for r in walk(e) if isinstance(r, Ref)):
            owner = kernel.resources.get(r.resource or "")
            if base == LINEAR and owner is not None and owner.kind == "rmem" and owner.fields[r.name].shape:
                part = [repr(canonical(e, node.env)) for e in indices(r, node)]
                base = f"{r.resource}.{r.name}" + (f"[{', '.join(part)}]" if part else "")
                across ^= r.transposed
    base += ".T" if across else ""
    if by_thread(ref, node):
        return base
    grid = grid_of(ref, node, work_env(kernel, node, work))
    return base if grid is None else f"{base}{APART}{grid}"


def _expressions(value: ArgValue) -> list[Expr]:
    if isinstance(value, Placed):
        return [value.expr]
    return (
        [e for a in value for e in ((a.to, a.source) if isinstance(a, CopyArg) else (a.value,))]
        if isinstance(value, tuple)
        else []
    )


def same_threads(spread: str | None, other: str | None, box: int, other_box: int, *, later: bool = False) -> bool:
    """Whether two accesses touch what they have in common in the same threads, by their spreads and windows. `later`:
    they are not one call of two warps, but two calls."""
    if spread in REGISTERS:
        return other in REGISTERS
    if spread is None or spread != other or (later and ANYWHERE in spread):
        return False
    return box == other_box or APART in spread


# ---- windows in the order of their elements -------------------------------------------------------------------------


def by_element(w: Window) -> bool:
    """Whether an index is one of each element: made from `rows` and `cols`."""
    return isinstance(w, Index) and any(isinstance(e, Call) and e.function in ("rows", "cols") for e in walk(w.at))


def _order(ref: Ref) -> str | None:
    """How a window's elements lie against those of what they are combined with: "straight", "across" (transposed), or
    None if they are picked by indices of their own, so that no order tells who touches them."""
    window = ref.window or ()
    first = next((i for i, w in enumerate(window) if by_element(w)), len(window))
    heads = [w.at.function if isinstance(w, Index) and isinstance(w.at, Call) else "" for w in window[first:]]
    if heads:
        return {"rows cols": "straight", "cols rows": "across"}.get(" ".join(heads))
    return "across" if ref.transposed else "straight"


def written_out(ref: Ref, node: Node) -> list[tuple[Expr, ...]]:
    """What each entry of a window is made from, with the call's arguments, and their compile-time names, written out:
    a name may mean something else where the work stands."""
    found = []
    for w in ref.window or ():
        parts = (w.at,) if isinstance(w, Index) else (w.start, w.length) if isinstance(w, Slice) else ()
        found.append(tuple(with_arguments(e, node) for e in parts))
    return found


def with_arguments(e: Expr, node: Node) -> Expr:
    """An expression of a work with a call's arguments written out."""
    assert isinstance(node.step, CallStep)
    return substitute(e, {name: fold(arg.expr, node.env) for name, arg in node.step.args.items()})


def grid_of(ref: Ref, node: Node, env: Env) -> str | None:
    """The sizes of a window that starts at multiples of its sizes: two such windows of a field are equal or apart."""
    sizes = []
    for w, parts in zip(ref.window or (), written_out(ref, node), strict=True):
        if isinstance(w, Slice):
            start, length = canonical(parts[0], env), constant(parts[1], env)
            if not isinstance(length, int) or length < 1 or not start.integral or not start.multiple_of(length):
                return None
            sizes.append(str(length))
        else:
            sizes.append("1" if isinstance(w, Index) and not by_element(w) else ":")
    while sizes and sizes[-1] == ":":
        sizes.pop()
    return ",".join(sizes)


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
