"""Conditions of `when` and `skip_if`: which the loop variable and the unknowns decide, and which only the data do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tsgen.derive.unfold import Node, constant
from tsgen.model.expr import Binary, BoolOp, Compare, Expr, Placed, Unary, names
from tsgen.model.kernel import Kernel
from tsgen.model.steps import DomainLoop
from tsgen.verify.machine import Condition, Test
from tsgen.verify.symbols import Env, Linear, Symbols
from tsgen.verify.uniform import uniform

_COMPARE = ("<", "<=", ">", ">=", "==", "!=")


def test_bounds(e: Expr) -> Iterator[Expr]:
    """The differences that the comparisons of a condition take, the loop variable set to zero."""
    if isinstance(e, Compare) and len(e.ops) == 1 and e.ops[0] in _COMPARE:
        yield Binary("-", e.operands[0], e.operands[1])
    elif isinstance(e, Compare):
        for a, b in zip(e.operands, e.operands[1:], strict=False):
            yield Binary("-", a, b)
    elif isinstance(e, BoolOp):
        for v in e.values:
            yield from test_bounds(v)
    elif isinstance(e, Unary) and e.op == "not":
        yield from test_bounds(e.operand)


def condition_of(
    kernel: Kernel, symbols: Symbols, known: Condition, placed: Placed, node: Node, loop: DomainLoop | None
) -> Condition:
    """A condition with what it may depend on, and its test where it has one."""
    used = names(placed.expr)
    tokens = {n for n in used if n not in kernel.symbols and n not in node.env and (loop is None or n != loop.var)}
    times = {kernel.symbols[n].time for n in used if n in kernel.symbols}
    stepwise = bool(tokens) or (loop is not None and loop.var in used) or "step" in times
    tilewise = bool(tokens) or "tile" in times
    test = None if tokens else _test(symbols, placed.expr, node.env, loop)
    if test is not None and any(symbols.unknowns[u].low is None for u in unknowns_of(test)):
        test = None
    return replace(
        known,
        per_iteration=stepwise and loop is not None,
        per_tile=tilewise,
        per_cta=not uniform(symbols.poly(placed.expr, node.env), symbols.clusters),
        test=test,
    )


def unknowns_of(test: Test) -> list[int]:
    """The unknowns that a test compares."""
    found = [u for u, _ in test.form.terms] if test.form is not None else []
    for part in test.parts:
        found += unknowns_of(part)
    return found


def _test(symbols: Symbols, e: Expr, env: Env, loop: DomainLoop | None) -> Test | None:
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


def _comparison(symbols: Symbols, op: str, difference: Expr, env: Env, loop: DomainLoop | None) -> Test | None:
    """`difference op 0`, with the loop variable as start + step * iteration."""
    if loop is None or loop.var not in names(difference):
        form = symbols.form(difference, env)
        return None if form is None else Test(op, form)
    start, step = constant(loop.start.expr, env), constant(loop.step.expr, env)
    if not isinstance(start, int) or not isinstance(step, int):
        return None
    zero = symbols.form(difference, {**env, loop.var: start})
    one = symbols.form(difference, {**env, loop.var: start + step})
    two = symbols.form(difference, {**env, loop.var: start + 2 * step})
    if zero is None or one is None or two is None or not (zero.terms == one.terms == two.terms):
        return None
    if two.const - one.const != one.const - zero.const:
        return None
    return Test(op, zero, one.const - zero.const)
