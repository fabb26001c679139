"""Expressions of trip counts, rewritten by what is assumed of the launch, so that equal numbers get equal forms.

Everything here holds for all values that `launch.assume` allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from math import lcm

from tsgen.model.algebra import canonical, rebuild, substitute
from tsgen.model.bounds import Interval, interval
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Name, Scalar, names
from tsgen.model.floats import floats, marked
from tsgen.model.inexact import inexact
from tsgen.model.kernel import Kernel
from tsgen.model.poly import Monomial, Poly, floor_div

Env = Mapping[str, Scalar]


def assumed(kernel: Kernel) -> Iterator[tuple[str, Expr, Expr]]:
    """The comparisons of integers that `launch.assume` states, one by one."""
    loose = floats(kernel)
    for placed in kernel.launch.assume:
        for op, a, b in _comparisons(placed.expr):
            if not any(inexact(marked(x, kernel, loose), kernel.env) for x in (a, b)):
                yield op, a, b


def _comparisons(e: Expr) -> Iterator[tuple[str, Expr, Expr]]:
    if isinstance(e, BoolOp) and e.op == "and":
        for v in e.values:
            yield from _comparisons(v)
    if isinstance(e, Compare):
        yield from zip(e.ops, e.operands, e.operands[1:], strict=False)


def extents(e: Expr, kernel: Kernel) -> Expr:
    """Without `extent()`: the numbers of tiles as they are defined."""
    if isinstance(e, Call) and e.function == "extent" and isinstance(e.args[0], Name):
        return next((a.extent for a in kernel.launch.axes if a.name == e.args[0].id), e)
    return rebuild(e, lambda c: extents(c, kernel))


def tiles(kernel: Kernel) -> Iterator[Expr]:
    """What is not negative where there is a tile: how far its coordinates are from the last of the space, which whole
    clusters cover."""
    for a in kernel.launch.axes:
        c = Const(a.cluster)
        space = a.extent if a.cluster == 1 else Binary("*", Call("ceil_div", (a.extent, c)), c)
        yield Binary("-", Binary("-", space, Name(a.name)), Const(1))


def equalities(kernel: Kernel, lets: Mapping[str, Expr]) -> dict[str, Expr]:
    """Dims in terms of others: `M == N` makes N of M, and with `N % 64 == 0` N is 64 times a number of its own."""
    found: dict[str, Expr] = {}
    multiples: dict[str, int] = {}
    for op, a, b in assumed(kernel):
        if op != "==":
            continue
        for one, other in ((a, b), (b, a)):
            zero = canonical(other, kernel.env).value == 0
            if zero and isinstance(one, Binary) and one.op == "%" and isinstance(one.left, Name):
                d = canonical(one.right, kernel.env).value
                if d is not None and d.denominator == 1 and d > 0 and one.left.id in kernel.dims:
                    multiples[one.left.id] = lcm(multiples.get(one.left.id, 1), int(d))
            written = substitute(substitute(other, lets), found)
            free = isinstance(one, Name) and one.id in kernel.dims and one.id not in found
            if free and isinstance(one, Name) and one.id not in names(written):
                found = {n: substitute(e, {one.id: written}) for n, e in found.items()} | {one.id: written}
                break
    whole = {n: Binary("*", Const(d), Name(f"{n} // {d}")) for n, d in multiples.items() if n not in found}
    return {**{n: substitute(e, whole) for n, e in found.items()}, **whole}


def simplified(e: Expr, known: Mapping[str, Interval], env: Env) -> Expr:
    """Without branches and limits that cannot matter: `max(0, n)` of an n that is never negative is n."""
    e = rebuild(e, lambda c: simplified(c, known, env))
    if isinstance(e, IfElse):
        return _branch(e, known, env)
    if isinstance(e, Call) and e.function in ("min", "max") and not inexact(e, env):
        kept = [a for a in e.args if not any(a is not b and _beats(e.function, b, a, known, env) for b in e.args)]
        if len(kept) == 1:
            return kept[0]
    return e


def _beats(function: str, a: Expr, b: Expr, known: Mapping[str, Interval], env: Env) -> bool:
    """Whether a is never the worse choice, and b is a number (so that of two only one goes)."""
    if canonical(b, env).value is None:
        return False
    x, y = interval(a, known, env), interval(b, known, env)
    if function == "max":
        return x.low is not None and y.high is not None and x.low >= y.high and canonical(a, env).value is None
    return x.high is not None and y.low is not None and x.high <= y.low and canonical(a, env).value is None


def _branch(e: IfElse, known: Mapping[str, Interval], env: Env) -> Expr:
    """One branch, if the other is never taken, or has the same value where it is."""
    c = e.condition
    if not isinstance(c, Compare) or len(c.ops) != 1 or any(inexact(x, env) for x in (*c.operands, e)):
        return e
    op, (a, b) = c.ops[0], c.operands
    if op in (">", ">=", "<", "<="):
        larger, smaller = (a, b) if op in (">", ">=") else (b, a)
        forms = [canonical(x, env) for x in (larger, smaller, e.then, e.other)]
        if forms[2:] == forms[:2]:
            return Call("max", (e.then, e.other))
        if forms[2:] == forms[1::-1]:
            return Call("min", (e.then, e.other))
    difference = interval(Binary("-", a, b), known, env)
    low, high = difference.low, difference.high
    if low is not None and ((op == ">" and low > 0) or (op == ">=" and low >= 0) or (op == "!=" and low > 0)):
        return e.then
    if high is not None and ((op == "<" and high < 0) or (op == "<=" and high <= 0)):
        return e.then
    number = canonical(b, env).value
    if isinstance(a, Name) and number is not None:  # the only value for which the other branch is taken
        at = known.get(a.id, Interval())
        only = {">": number, ">=": number - 1, "!=": number}.get(op)
        if only is not None and (op == "!=" or (at.low is not None and at.low == only)) and only.denominator == 1:
            value = {a.id: Const(int(only))}
            if canonical(substitute(e.then, value), env) == canonical(substitute(e.other, value), env):
                return e.then
    return e


@cache
def counted(p: Poly) -> Poly:
    """The number of trips that a bound gives, without what cannot matter to it: a limit at zero or below it, and
    remainders that cancel (`n - n % 2` is `2*(n // 2)`)."""
    least = limited(p)
    if least is not None and least[1] <= 0:
        return counted(least[0])
    without = Poly.of({})
    for monomial, c in p.terms:
        without = without + _quotients(monomial) * Poly.constant(c)
    return without if len(without.terms) < len(p.terms) else p


def limited(p: Poly) -> tuple[Poly, int] | None:
    """q and c of `max(q, c)` with a whole number c."""
    if len(p.terms) != 1 or p.terms[0][1] != 1 or len(p.terms[0][0]) != 1:
        return None
    atom, power = p.terms[0][0][0]
    if atom.head != "max" or power != 1 or len(atom.args) != 2:
        return None
    args = [a for a in atom.args if isinstance(a, Poly)]
    numbers = [v for a in args if (v := a.value) is not None and v.denominator == 1]
    others = [a for a in args if a.value is None]
    return (others[0], int(numbers[0])) if len(numbers) == len(others) == 1 else None


def _quotients(monomial: Monomial) -> Poly:
    """A remainder as what is left of its dividend."""
    plain = Poly(((monomial, Fraction(1)),))
    if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].head != "%":
        return plain
    dividend, divisor = monomial[0][0].args
    if not isinstance(dividend, Poly) or not isinstance(divisor, Poly) or divisor.value is None:
        return plain
    whole = floor_div(dividend, int(divisor.value))
    return plain if whole is None else dividend - whole * divisor
