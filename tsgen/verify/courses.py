"""How a window moves with the iterations of a loop: after which iteration it repeats, and how often."""

from __future__ import annotations

from math import gcd, lcm

from tsgen.derive.unfold import Env, constant
from tsgen.frozen import frozen
from tsgen.model.algebra import evaluate
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Expr, Name, Unary, names
from tsgen.model.steps import DomainLoop

LONGEST = 128  # iterations that are told apart


@frozen
class Loop:
    """The variable of a loop: its first value and step, and how often the loop runs, if that is a number."""

    var: str
    start: int
    step: int
    trips: int | None

    @staticmethod
    def of(loop: DomainLoop, env: Env) -> Loop | None:
        """The loop, if its first value and its step are numbers."""
        start, step, end = (constant(p.expr, env) for p in (loop.start, loop.step, loop.end))
        if not isinstance(start, int) or not isinstance(step, int) or step < 1:
            return None
        return Loop(loop.var, start, step, max(0, -(-(end - start) // step)) if isinstance(end, int) else None)

    def env(self, env: Env, iteration: int) -> Env:
        return {**env, self.var: self.start + iteration * self.step}


@frozen
class Course:
    """f(i + period) = f(i) + slope in every iteration i from `settle` on."""

    settle: int
    period: int
    slope: int


def course(e: Expr, loop: Loop, env: Env) -> Course | None:
    """The course of an expression or condition over the iterations of a loop, from its form alone; None if it has none
    that is known, or a long one. All other names must have a value."""
    if loop.var not in names(e):
        return None if constant(e, env) is None else Course(0, 1, 0)
    found: Course | None = None
    match e:
        case Name():
            found = Course(0, 1, loop.step)
        case Unary(op="-" | "+"):
            inner = course(e.operand, loop, env)
            if inner is not None:
                found = Course(inner.settle, inner.period, -inner.slope if e.op == "-" else inner.slope)
        case Binary(op="+" | "-"):
            joined = _joined(e.left, e.right, loop, env)
            if joined is not None:
                settle, period, a, b = joined
                found = Course(settle, period, a + b if e.op == "+" else a - b)
        case Binary(op="*"):
            found = _product(e, loop, env)
        case Binary(op="//" | "%") | Call(function="ceil_div"):
            numerator, divisor = e.args if isinstance(e, Call) else (e.left, e.right)
            found = _quotient(
                course(numerator, loop, env), constant(divisor, env), rest=isinstance(e, Binary) and e.op == "%"
            )
        case Call(function="min" | "max") if len(e.args) == 1:
            found = course(e.args[0], loop, env)
        case Call(function="min" | "max"):
            rest = Call(e.function, e.args[1:])
            found = _extreme(e.args[0], rest, e.function == "max", loop, env)
        case Compare(operands=(a, b)):
            found = _extreme(a, b, True, loop, env, compared=True)
        case Unary(op="not"):
            found = course(e.operand, loop, env)
        case BoolOp():
            parts = [course(v, loop, env) for v in e.values]
            if None not in parts:
                known = [p for p in parts if p is not None]
                found = Course(max(p.settle for p in known), lcm(*(p.period for p in known)), 0)
    return found if found is not None and found.settle + found.period <= LONGEST else None


def _joined(a: Expr, b: Expr, loop: Loop, env: Env) -> tuple[int, int, int, int] | None:
    """Where both have settled, their common period, and how each moves in it."""
    x, y = course(a, loop, env), course(b, loop, env)
    if x is None or y is None:
        return None
    period = lcm(x.period, y.period)
    return max(x.settle, y.settle), period, x.slope * (period // x.period), y.slope * (period // y.period)


def _product(e: Binary, loop: Loop, env: Env) -> Course | None:
    joined = _joined(e.left, e.right, loop, env)
    if joined is None:
        return None
    settle, period, a, b = joined
    if not a and not b:
        return Course(settle, period, 0)
    factor = constant(e.left if not a else e.right, env)
    return Course(settle, period, (a or b) * factor) if isinstance(factor, int) else None


def _quotient(a: Course | None, divisor: object, *, rest: bool) -> Course | None:
    """A quotient by a number moves by whole steps once the numerator has moved by a multiple of the number."""
    if a is None or not isinstance(divisor, int) or divisor < 1:
        return None
    times = divisor // gcd(divisor, a.slope)
    return Course(a.settle, a.period * times, 0 if rest else a.slope * times // divisor)


def _extreme(a: Expr, b: Expr, largest: bool, loop: Loop, env: Env, *, compared: bool = False) -> Course | None:
    """The smaller of two: in the end the one that grows less, from where it stays below the other. Where the two are
    compared, that is from where the outcome stays."""
    joined = _joined(a, b, loop, env)
    if joined is None:
        return None
    settle, period, up, other_up = joined
    if up == other_up:
        return Course(settle, period, 0 if compared else up)
    if (up > other_up) is not largest:
        a, b, up, other_up = b, a, other_up, up
    gaps = [_value(Binary("-", a, b), loop, env, settle + i) for i in range(period)]
    behind = max(gaps) if not largest else -min(gaps)
    late = max(0, -(-(behind + compared) // abs(up - other_up)))
    return Course(settle + late * period, 1 if compared else period, 0 if compared else up)


def _value(e: Expr, loop: Loop, env: Env, iteration: int) -> int:
    value = evaluate(e, loop.env(env, iteration))
    assert isinstance(value, int)
    return value
