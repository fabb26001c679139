"""What holds for every tile of the tile space, whatever the dims are."""

from __future__ import annotations

from tsgen.model.algebra import canonical, substitute
from tsgen.model.expr import Binary, Call, Compare, Expr, Name
from tsgen.model.kernel import Kernel


def in_names(kernel: Kernel, e: Expr) -> Expr:
    """The expression with `let` values that are sums of products of names replaced by their definitions."""
    values: dict[str, Expr] = {}
    for let in kernel.launch.lets:
        value = substitute(let.value, values)
        if all(not atom.args for monomial, _ in canonical(value, kernel.env).terms for atom, _ in monomial):
            values[let.name] = value
    return substitute(e, values)


def never(kernel: Kernel, condition: Expr) -> bool:
    """Whether `m*c >= N` or its like cannot hold: every tile m of an axis with ceil_div(N, c) tiles starts before N."""
    if not isinstance(condition, Compare) or condition.ops != (">=",):
        return False
    start, end = (in_names(kernel, o) for o in condition.operands)
    past = canonical(Binary("-", start, end), kernel.env)
    for a in kernel.launch.axes:
        if a.cluster == 1 and isinstance(a.extent, Call) and a.extent.function == "ceil_div":
            n, c = a.extent.args
            if past == canonical(Binary("-", Binary("*", Name(a.name), c), n), kernel.env):
                return True
    return False
