"""Conditions of `when` and `skip_if` that can be computed: from the loop variable, and from the unknowns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import gcd, lcm

from tsgen.derive.unfold import constant
from tsgen.model.algebra import canonical, substitute
from tsgen.model.expr import Binary, BoolOp, Compare, Const, Expr, Name, Ref, Unary, children, names, walk
from tsgen.model.inexact import inexact
from tsgen.model.poly import Atom, Poly
from tsgen.verify.machine import Condition, Test
from tsgen.verify.symbols import Env, Linear, Symbols, names_of
from tsgen.verify.values import VAR

_WITH_ZERO: dict[str, Callable[[Fraction], bool]] = {
    "<": lambda v: v < 0,
    "<=": lambda v: v <= 0,
    ">": lambda v: v > 0,
    ">=": lambda v: v >= 0,
    "==": lambda v: v == 0,
    "!=": lambda v: v != 0,
}
LONGEST_PERIOD = 64  # iterations
Values = tuple[int, int]  # of the loop variable: the first, and the step


def test_bounds(e: Expr, env: Env) -> Iterator[tuple[Expr, Expr]]:
    """The differences that the comparisons of a condition take, and the side that names each."""
    if isinstance(e, Compare):
        for a, b in zip(e.operands, e.operands[1:], strict=False):
            if not _made(Binary("-", a, b), env):
                yield Binary("-", a, b), b if constant(a, env) is not None else a
    elif isinstance(e, BoolOp):
        for v in e.values:
            yield from test_bounds(v, env)
    elif isinstance(e, Unary) and e.op == "not":
        yield from test_bounds(e.operand, env)


def test_of(symbols: Symbols, e: Expr, env: Env, loop: Values) -> Test | None:
    """The test of a condition; None if it depends on more than the loop variable and what is counted anyway."""
    test = _test(symbols, e, env, loop)
    if test is not None and any(symbols.unknowns[u].low is None for u in unknowns_of(test)):
        return None
    return test


def said_at(symbols: Symbols, condition: Condition, iteration: int) -> Poly | None:
    """What a condition says for one value of the loop variable, if that is known."""
    at = _asked_at(symbols, condition, iteration)
    return None if at is None else symbols.poly(*at)


def _asked_at(symbols: Symbols, condition: Condition, iteration: int) -> tuple[Expr, Env] | None:
    if condition.asked is None:
        return None
    e, env = condition.asked
    return substitute(e, {VAR: Const(iteration)}), {**symbols.kernel.env, **dict(env)}


def test_at(symbols: Symbols, condition: Condition, iteration: int) -> Test | None:
    """The test of a condition for one value of the loop variable, if it can be computed there. What is made of floats
    is not: the device rounds otherwise."""
    at = _asked_at(symbols, condition, iteration)
    if at is None:
        return None
    here, env = at
    if any(inexact(o, env) for c in walk(here) if isinstance(c, Compare) for o in c.operands):
        return None
    return test_of(symbols, here, env, (0, 1))


def _made(e: Expr, env: Env) -> bool:
    """Whether an expression holds a value that is known only by what made it, or is no integer."""
    return inexact(e, env) or any(n.startswith("%") for n in names(e))


def unknowns_of(test: Test) -> list[int]:
    """The unknowns that a test compares."""
    found = [u for u, _ in test.form.terms] if test.form is not None else []
    for part in test.parts:
        found += unknowns_of(part)
    return found


def _test(symbols: Symbols, e: Expr, env: Env, loop: Values) -> Test | None:
    value = constant(e, env)
    if isinstance(value, bool | int):
        return Test("==", Linear(0 if value else 1))
    if isinstance(e, Compare):
        parts = []
        for op, a, b in zip(e.ops, e.operands, e.operands[1:], strict=False):
            part = _comparison(symbols, op, Binary("-", a, b), env, loop)
            if part is None:
                return None
            parts.append(part)
        return parts[0] if len(parts) == 1 else Test("and", parts=tuple(parts))
    if isinstance(e, BoolOp):
        tests = [_test(symbols, v, env, loop) for v in e.values]
        return None if None in tests else Test(e.op, parts=tuple(t for t in tests if t is not None))
    if isinstance(e, Unary) and e.op == "not":
        inner = _test(symbols, e.operand, env, loop)
        return None if inner is None else Test("not", parts=(inner,))
    return None


def _comparison(symbols: Symbols, op: str, difference: Expr, env: Env, loop: Values) -> Test | None:
    """`difference op 0`, with the loop variable as first + step * iteration."""
    if _made(difference, env):
        return None
    if VAR not in names(difference):
        form = symbols.form(difference, env)
        return None if form is None else Test(op, form)
    first, step = loop
    zero, one = (symbols.form(difference, {**env, VAR: first + i * step}) for i in range(2))
    if zero is not None and one is not None and zero.terms == one.terms and _linear(canonical(difference, env)):
        return Test(op, zero, one.const - zero.const)
    return _in_turn(op, difference, env, loop)


def _linear(p: Poly) -> bool:
    """Whether the loop variable occurs with a number as factor, and nowhere else."""
    alone = ((Atom(VAR), 1),)
    return all(m == alone or VAR not in names_of(Poly(((m, c),))) for m, c in p.terms)


def _in_turn(op: str, difference: Expr, env: Env, loop: Values) -> Test | None:
    """The test of a comparison with zero that repeats: the loop variable occurs in remainders alone."""
    first, step = loop
    whole = _period(difference, env)
    if whole is None:
        return None
    period = whole // gcd(whole, step)
    if period > LONGEST_PERIOD:
        return None
    values = [canonical(difference, {**env, VAR: first + i * step}).value for i in range(period)]  # names may cancel
    found = tuple(_WITH_ZERO[op](v) for v in values if v is not None)
    return Test("turn", turn=found) if len(found) == period else None


def _period(e: Expr, env: Env) -> int | None:
    """How much more of the loop variable gives the same value; None if no number is known."""
    if VAR not in names(e):
        return 1
    if isinstance(e, Binary) and e.op == "%" and isinstance(d := constant(e.right, env), int) and d > 0:
        return _shift(e.left, d, env)
    if isinstance(e, Name | Ref):
        return None
    periods = [_period(c, env) for c in children(e)]
    return None if None in periods else lcm(*(p for p in periods if p is not None))


def _shift(e: Expr, d: int, env: Env) -> int | None:
    """How much more of the loop variable gives the same value modulo `d`."""
    match e:
        case Name(id=name) if name == VAR:
            return d
        case Binary(op="//") if isinstance(c := constant(e.right, env), int) and c > 0:
            return _shift(e.left, c * d, env)
        case Binary(op="+" | "-" | "*") | Unary():
            shifts = [_shift(c, d, env) for c in children(e)]
            return None if None in shifts else lcm(*(s for s in shifts if s is not None))
    return _period(e, env)
