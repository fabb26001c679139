"""Windows of tensors in the terms of the kernel: tile axes, dims, the iteration of the loop, the thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsgen.derive.unfold import Node, constant, work_env
from tsgen.derive.uses import Uses
from tsgen.frozen import frozen
from tsgen.model.algebra import canonical, substitute
from tsgen.model.expr import Binary, Const, Expr, Full, Index, Name, Ref, walk
from tsgen.model.kernel import Kernel, Work
from tsgen.model.ops import Access
from tsgen.model.steps import CallStep, DomainLoop

ITERATION = "iteration "  # no name of a spec: it ends in a blank
_THREADS = ("thread", "warp", "lane", "threads")


@frozen
class Range:
    """One dimension of a window: from `start`, `length` elements; all of it if there is no start."""

    start: Expr | None
    length: int


@frozen
class TensorWindow:
    """What a call touches of a tensor. `adds`: it adds to it, so that two of them are no conflict."""

    ranges: tuple[Range, ...]
    adds: bool


def window(kernel: Kernel, work: Work, ref: Ref, node: Node, loop: DomainLoop | None) -> tuple[Range, ...] | None:
    """What a call touches of a tensor, with arguments, `let` values and the loop variable written out; None if that
    depends on data or is not known. Without brackets all of the tensor is touched."""
    assert isinstance(node.step, CallStep)
    if ref.window is None:
        return tuple(Range(None, 0) for _ in kernel.tensors[ref.name].shape)
    lets: dict[str, Expr] = {}
    for let in kernel.launch.lets:
        lets[let.name] = substitute(let.value, lets)
    env = work_env(kernel, node, work)
    params = kernel.env
    here: dict[str, Expr] = {**lets, **{name: Const(v) for name, v in node.env.items() if name not in params}}
    if loop is not None:
        start, step = substitute(loop.start.expr, here), substitute(loop.step.expr, here)
        here[loop.var] = Binary("+", start, Binary("*", step, Name(ITERATION)))
    values = {**here, **{name: Const(v) for name, v in env.items() if name not in params}}
    values.update({name: substitute(arg.expr, here) for name, arg in node.step.args.items()})
    found = []
    for w in ref.window:
        if isinstance(w, Full):
            found.append(Range(None, 0))
            continue
        start = substitute(w.at if isinstance(w, Index) else w.start, values)
        length = 1 if isinstance(w, Index) else constant(w.length, env)
        if not isinstance(length, int) or length < 1 or not _known(kernel, start, env):
            return None
        found.append(Range(start, length))
    return tuple(found)


def _known(kernel: Kernel, e: Expr, env: Mapping[str, object]) -> bool:
    """Whether an expression is made of what all tasks of a CTA know: no tokens, no registers."""
    for part in walk(e):
        if isinstance(part, Ref) and part.resource is not None:
            return False
        if isinstance(part, Name):
            name = part.id
            if name not in env and name != ITERATION and name not in _THREADS and name not in kernel.symbols:
                return False
    return True


def apart(a: Range, b: Range, env: Mapping[str, int | float | str | bool]) -> bool | None:
    """Whether two ranges have no element in common; None if that depends."""
    if a.start is None or b.start is None:
        return False
    d = canonical(Binary("-", b.start, a.start), env).value
    return None if d is None else not -b.length < d < a.length


def meet(a: TensorWindow, b: TensorWindow, env: Mapping[str, int | float | str | bool]) -> bool:
    """Whether two windows certainly have an element in common, and do not both add to it."""
    if a.adds and b.adds:
        return False
    return all(apart(x, y, env) is False for x, y in zip(a.ranges, b.ranges, strict=True))


def moves(kernel: Kernel, found: tuple[Range, ...]) -> int:
    """Whether a window moves with tiles (1) and iterations (2)."""
    used = {p.id for r in found if r.start is not None for p in walk(r.start) if isinstance(p, Name)}
    tiles = any(n in kernel.symbols and kernel.symbols[n].time in ("tile", "step") for n in used)
    return int(tiles) + 2 * (ITERATION in used)


def same(a: tuple[Range, ...], b: tuple[Range, ...], env: Mapping[str, int | float | str | bool]) -> bool:
    """Whether two windows are certainly the same elements."""
    for x, y in zip(a, b, strict=True):
        if (x.start is None) != (y.start is None) or x.length != y.length:
            return False
        if x.start is not None and y.start is not None and canonical(Binary("-", x.start, y.start), env).value != 0:
            return False
    return True


def tensor_accesses(
    kernel: Kernel, uses: Uses, nodes: tuple[Node, ...], loop: DomainLoop | None = None
) -> Iterator[tuple[Work, Access, tuple[Range, ...] | None]]:
    """What a program reads and writes of tensors, with the windows where they are known."""
    for node in nodes:
        step = node.step
        if not isinstance(step, CallStep):
            yield from tensor_accesses(kernel, uses, node.body, step if isinstance(step, DomainLoop) else loop)
            continue
        work = kernel.work(step.target, step.method) if step.kind == "work" else None
        for access in uses.accesses(work) if work is not None else ():
            if work is not None and access.ref.resource is None and access.ref.name in kernel.tensors:
                yield work, access, window(kernel, work, access.ref, node, loop)
