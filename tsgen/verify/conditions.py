"""Conditions of `when` and `skip_if` that can be computed: from the loop variable, and from the unknowns."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.unfold import constant
from tsgen.model.expr import Binary, BoolOp, Compare, Expr, Unary, names
from tsgen.verify.machine import Test
from tsgen.verify.symbols import Env, Linear, Symbols
from tsgen.verify.values import VAR

_COMPARE = ("<", "<=", ">", ">=", "==", "!=")
Values = tuple[int, int]  # of the loop variable: the first, and the step


def test_bounds(e: Expr, env: Env) -> Iterator[tuple[Expr, Expr]]:
    """The differences that the comparisons of a condition take, and the side that names each."""
    if isinstance(e, Compare):
        for a, b in zip(e.operands, e.operands[1:], strict=False):
            if not _made(Binary("-", a, b)):
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


def _made(e: Expr) -> bool:
    """Whether an expression holds a value that is known only by what made it."""
    return any(n.startswith("%") for n in names(e))


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
    if _made(difference):
        return None
    if VAR not in names(difference):
        form = symbols.form(difference, env)
        return None if form is None else Test(op, form)
    first, step = loop
    zero, one, two = (symbols.form(difference, {**env, VAR: first + i * step}) for i in range(3))
    if zero is None or one is None or two is None or not (zero.terms == one.terms == two.terms):
        return None
    if two.const - one.const != one.const - zero.const:
        return None
    return Test(op, zero, one.const - zero.const)
