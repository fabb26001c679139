"""Intervals of launch-time and tile-time values: what `launch.assume` and the definitions of `let` say about them.

Interval arithmetic over the integers; None is unbounded. Floats have no interval: they may be NaN. The verifier sweeps
a loop's trip count inside its interval.
"""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.frozen import frozen
from tsgen.model.algebra import Env, NotConstant, NoValue, canonical, evaluate
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Name, Ref, Unary
from tsgen.model.floats import floats, marked, unsigned
from tsgen.model.inexact import MARK, inexact
from tsgen.model.kernel import Kernel


@frozen
class Interval:
    """Integers from `low` to `high`, both included; None is unbounded."""

    low: int | None = None
    high: int | None = None

    def meet(self, other: Interval) -> Interval:
        low = other.low if self.low is None else self.low if other.low is None else max(self.low, other.low)
        high = other.high if self.high is None else self.high if other.high is None else min(self.high, other.high)
        return Interval(low, high)

    def join(self, other: Interval) -> Interval:
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Interval(low, high)


Intervals = Mapping[str, Interval]
_ANY = Interval()


def intervals(kernel: Kernel) -> dict[str, Interval]:
    """The interval of each dim, rank-0 tensor, axis and `let` of a kernel, and (with a point before the name) of the
    elements of tensors, where it has a tile. Dims and unsigned numbers are at least 0."""
    env = kernel.env
    known: dict[str, Interval] = {}
    for name in kernel.dims:
        known[name] = Interval(0)
    for axis in kernel.launch.axes:
        known[axis.name] = Interval(0)
    for tensor in kernel.tensors.values():
        if unsigned(tensor.dtype, kernel):
            known[f".{tensor.name}" if tensor.shape else tensor.name] = Interval(0)
    for axis in kernel.launch.axes:
        if isinstance(axis.extent, Name):
            known[axis.extent.id] = Interval(1)
    known.update({b: Interval(0) for b in ("thread", "lane", "warp")})
    known.update({b: Interval(1) for b in ("threads", "sms")})
    loose = floats(kernel)
    facts = [marked(p.expr, kernel, loose) for p in kernel.launch.assume]
    for _ in range(2):  # a second round lets assumptions over `let` values use what their definitions say
        for fact in facts:
            _assume(fact, known, env)
        for axis in kernel.launch.axes:
            most = interval(marked(axis.extent, kernel, loose), known, env).high
            if most is not None:  # CTAs of a cluster may lie past the edge
                last = Interval(None, max(most + -most % axis.cluster - 1, 0))
                known[axis.name] = known[axis.name].meet(last)
        for let in kernel.launch.lets:
            known[let.name] = known.get(let.name, _ANY).meet(interval(marked(let.value, kernel, loose), known, env))
    return known


def _assume(e: Expr, known: dict[str, Interval], env: Env) -> None:
    if isinstance(e, BoolOp) and e.op == "and":
        for v in e.values:
            _assume(v, known, env)
    if not isinstance(e, Compare):
        return
    for op, a, b in zip(e.ops, e.operands, e.operands[1:], strict=False):
        _bound(a, op, interval(b, known, env), known)
        _bound(b, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), interval(a, known, env), known)


def _bound(e: Expr, op: str, other: Interval, known: dict[str, Interval]) -> None:
    if not isinstance(e, Name) or MARK in e.id or (e.id not in known and op not in ("<", "<=", ">", ">=", "==")):
        return
    low, high = other.low, other.high
    match op:
        case ">":
            new = Interval(None if low is None else low + 1)
        case ">=":
            new = Interval(low)
        case "<":
            new = Interval(None, None if high is None else high - 1)
        case "<=":
            new = Interval(None, high)
        case "==":
            new = other
        case _:
            return
    known[e.id] = known.get(e.id, _ANY).meet(new)


def interval(e: Expr, known: Intervals, env: Env) -> Interval:
    """The interval of an integer expression."""
    try:
        v = evaluate(e, env)
        if isinstance(v, str) or v != v or v in (float("inf"), float("-inf")):
            return _ANY
        return Interval(int(v // 1), int(-(-v // 1)))
    except NotConstant:
        pass
    except NoValue:
        return _ANY
    if inexact(e, env):
        return _ANY
    match e:
        case Name():
            return known.get(e.id, _ANY)
        case Unary(op="-"):
            return _negate(interval(e.operand, known, env))
        case Unary(op="+"):
            return interval(e.operand, known, env)
        case Binary():
            return _binary(e, known, env)
        case IfElse():
            try:
                return interval(e.then if evaluate(e.condition, env) else e.other, known, env)
            except (NotConstant, NoValue):
                return interval(e.then, known, env).join(interval(e.other, known, env))
        case Call():
            return _call(e, known, env)
        case Compare() | BoolOp() | Unary():
            return Interval(0, 1)
        case Ref():
            return known.get(f"{e.resource or ''}.{e.name}", _ANY)
        case Const():
            return _ANY
    return _ANY


def _negate(a: Interval) -> Interval:
    return Interval(None if a.high is None else -a.high, None if a.low is None else -a.low)


def _add(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else a.low + b.low
    high = None if a.high is None or b.high is None else a.high + b.high
    return Interval(low, high)


def _binary(e: Binary, known: Intervals, env: Env) -> Interval:
    if e.op in ("+", "-"):  # `start: 1, end: n` has n - 1: take sums as a whole, so that equal parts cancel
        difference = canonical(e, env)
        if difference.value is not None:
            return Interval(int(difference.value), int(difference.value))
    a, b = interval(e.left, known, env), interval(e.right, known, env)
    match e.op:
        case "+":
            return _add(a, b)
        case "-":
            return _add(a, _negate(b))
        case "*":
            return _multiply(a, b)
        case "//" if b.low is not None and b.low > 0:
            return Interval(_quotient(a.low, b.low, b.high), None if a.high is None else max(a.high // b.low, -1))
        case "%" if b.low is not None and b.low > 0:
            return Interval(0, None if b.high is None else b.high - 1)
    return _ANY


def _multiply(a: Interval, b: Interval) -> Interval:
    if a.low is not None and b.low is not None and a.low >= 0 and b.low >= 0:
        high = None if a.high is None or b.high is None else a.high * b.high
        return Interval(a.low * b.low, high)
    if None in (a.low, a.high, b.low, b.high):
        return _ANY
    products = [x * y for x in (a.low, a.high) for y in (b.low, b.high) if x is not None and y is not None]
    return Interval(min(products), max(products))


def _call(e: Call, known: Intervals, env: Env) -> Interval:
    args = [interval(a, known, env) for a in e.args]
    match e.function:
        case "min":
            return _negate(_maximum([_negate(a) for a in args]))
        case "max":
            return _maximum(args)
        case "ceil_div" if args[1].low is not None and args[1].low > 0:
            a, b = args
            low = None if a.low is None else _quotient(a.low, args[1].low, b.high, up=True)
            return Interval(low, None if a.high is None else max(-(-a.high // args[1].low), 0))
        case "extent":
            return Interval(1)
    return _ANY


def _quotient(low: int | None, smallest: int, largest: int | None, *, up: bool = False) -> int | None:
    """The least quotient of a number of at least `low` by a positive divisor, rounded down, or up."""
    if low is None:
        return None
    if low < 0:
        return -(-low // smallest) if up else low // smallest
    if largest is None:
        return 1 if up and low > 0 else 0
    return -(-low // largest) if up else low // largest


def _maximum(args: list[Interval]) -> Interval:
    lows = [a.low for a in args if a.low is not None]
    highs = [a.high for a in args if a.high is not None]
    return Interval(max(lows, default=None), max(highs) if len(highs) == len(args) else None)
