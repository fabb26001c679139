"""Windows of tensors in the terms of the kernel: tile axes, dims, the iteration of the loop, the thread."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.derive.unfold import Node, constant, work_env
from tsgen.frozen import frozen
from tsgen.model.algebra import canonical, substitute
from tsgen.model.expr import Binary, Expr, Full, Index, Name, Ref, walk
from tsgen.model.kernel import Kernel, Work
from tsgen.model.steps import CallStep, DomainLoop

ITERATION = "iteration "  # no name of a spec: it ends in a blank
_THREADS = ("thread", "warp", "lane", "threads")


@frozen
class Range:
    """One dimension of a window: from `start`, `length` elements; all of it if there is no start."""

    start: Expr | None
    length: int


def window(kernel: Kernel, work: Work, ref: Ref, node: Node, loop: DomainLoop | None) -> tuple[Range, ...] | None:
    """What a call touches of a tensor, with arguments, `let` values and the loop variable written out; None if that
    depends on data or is not known. Without brackets all of the tensor is touched."""
    assert isinstance(node.step, CallStep)
    if ref.window is None:
        return tuple(Range(None, 0) for _ in kernel.tensors[ref.name].shape)
    lets: dict[str, Expr] = {}
    for let in kernel.launch.lets:
        lets[let.name] = substitute(let.value, lets)
    values: dict[str, Expr] = dict(lets)
    if loop is not None:
        start, step = substitute(loop.start.expr, lets), substitute(loop.step.expr, lets)
        values[loop.var] = Binary("+", start, Binary("*", step, Name(ITERATION)))
    args = {name: substitute(arg.expr, values) for name, arg in node.step.args.items()}
    values.update(args)
    env = work_env(kernel, node, work)
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
