"""Evaluating, folding and comparing expressions.

`evaluate` gives a number or a word, `prune` takes compile-time branches and keeps names, `canonical` gives a hashable
normal form: two bounds are the same symbol exactly if their forms are equal (docs/language.md, Symbols).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from tsgen.model.expr import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Expr,
    IfElse,
    Index,
    Name,
    Ref,
    Scalar,
    Slice,
    Unary,
    Window,
    text,
)
from tsgen.model.inexact import inexact
from tsgen.model.poly import Poly, floor_div, remainder

Env = Mapping[str, Scalar]
_LIMIT = 2**63
CONSTANT_FUNCTIONS = ("min", "max", "ceil_div", "log2", "sqrt")  # those that have compile-time values


class NotConstant(Exception):
    """The expression uses a name without a value in the environment."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class NoValue(Exception):
    """The expression has no value: a division by zero, a number out of range, a word among numbers."""


def evaluate(e: Expr, env: Env) -> Scalar:
    """The value of a compile-time expression. Raises NotConstant or NoValue. Only the branch taken is evaluated."""
    match e:
        case Const():
            return e.value
        case Name():
            if e.id not in env:
                raise NotConstant(e.id)
            return env[e.id]
        case Unary():
            v = evaluate(e.operand, env)
            if e.op == "not":
                return not v
            return -_number(v, e) if e.op == "-" else _number(v, e)
        case Binary():
            return _binary(e, _number(evaluate(e.left, env), e.left), _number(evaluate(e.right, env), e.right))
        case Compare():
            vs = [evaluate(o, env) for o in e.operands]
            return all(_compare(op, a, b, e) for op, a, b in zip(e.ops, vs, vs[1:], strict=False))
        case BoolOp():
            result: Scalar = e.op == "and"
            for operand in e.values:
                result = bool(evaluate(operand, env))
                if result is (e.op == "or"):
                    return result
            return result
        case IfElse():
            return evaluate(e.then if evaluate(e.condition, env) else e.other, env)
        case Call():
            if e.function not in CONSTANT_FUNCTIONS:
                raise NotConstant(e.function)
            return _call(e, [_number(evaluate(a, env), a) for a in e.args])
        case Ref():
            raise NotConstant(e.resource or e.name)


def integer(e: Expr, env: Env) -> int:
    """The value of a compile-time expression that must be an integer. Raises NotConstant or NoValue."""
    v = evaluate(e, env)
    if isinstance(v, bool) or not isinstance(v, int):
        raise NoValue(f"it is {v!r}, an integer is wanted")
    return v


def _number(v: Scalar, e: Expr) -> int | float:
    if isinstance(v, str):
        raise NoValue(f"`{text(e)}` is the word {v}, a number is wanted")
    return v


def _ranged(v: int | float) -> int | float:
    if isinstance(v, int) and not -_LIMIT <= v < _LIMIT:
        raise NoValue("the result does not fit into 64 bits")
    return v


def _binary(e: Binary, a: int | float, b: int | float) -> Scalar:
    if e.op in ("/", "//", "%") and b == 0:
        raise NoValue("division by zero")
    try:
        match e.op:
            case "+":
                return _ranged(a + b)
            case "-":
                return _ranged(a - b)
            case "*":
                return _ranged(a * b)
            case "/":
                return a / b
            case "//":
                return _ranged(a // b)
            case "%":
                return a % b
            case "**":
                if isinstance(a, int) and isinstance(b, int) and (b > 64 and abs(a) > 1):
                    raise NoValue("the result does not fit into 64 bits")
                v = a**b
                if isinstance(v, complex):
                    raise NoValue("the result is no real number")
                return _ranged(v)
    except (OverflowError, ZeroDivisionError) as err:
        raise NoValue(str(err)) from None
    raise NoValue(f"`{e.op}` is no compile-time operator")


def _compare(op: str, a: Scalar, b: Scalar, e: Expr) -> bool:
    if op == "==":
        return a == b
    if op == "!=":
        return a != b
    x, y = _number(a, e), _number(b, e)
    return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


def _call(e: Call, args: list[int | float]) -> Scalar:
    try:
        match e.function:
            case "min":
                return min(args)
            case "max":
                return max(args)
            case "ceil_div":
                if args[1] == 0:
                    raise NoValue("division by zero")
                return -(-args[0] // args[1])
            case "log2":
                v = math.log2(args[0])
                return int(v) if v == int(v) else v
            case "sqrt":
                return math.sqrt(args[0])
    except (ValueError, OverflowError) as err:
        raise NoValue(str(err)) from None
    raise NotConstant(e.function)


def is_constant(e: Expr, env: Env) -> bool:
    """Whether the expression has a compile-time value (or fails to have one for reasons other than a name)."""
    try:
        evaluate(e, env)
    except NotConstant:
        return False
    except NoValue:
        return True
    return True


def prune(e: Expr, env: Env) -> Expr:
    """Takes the branches of compile-time conditions; names and everything else stay as written."""
    if isinstance(e, IfElse) and is_constant(e.condition, env):
        return prune(e.then if evaluate(e.condition, env) else e.other, env)
    return rebuild(e, lambda c: prune(c, env))


def fold(e: Expr, env: Env) -> Expr:
    """Replaces everything that has a compile-time value by it."""
    e = prune(e, env)
    if not isinstance(e, Const) and not isinstance(e, Ref):
        try:
            return Const(evaluate(e, env))
        except (NotConstant, NoValue):
            pass
    return rebuild(e, lambda c: fold(c, env))


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replaces names by expressions."""
    if isinstance(e, Name):
        return values.get(e.id, e)
    return rebuild(e, lambda c: substitute(c, values))


def rebuild(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The same node over `f` of its children."""
    match e:
        case Const() | Name():
            return e
        case Unary():
            return Unary(e.op, f(e.operand))
        case Binary():
            return Binary(e.op, f(e.left), f(e.right))
        case Compare():
            return Compare(e.ops, tuple(f(o) for o in e.operands))
        case BoolOp():
            return BoolOp(e.op, tuple(f(v) for v in e.values))
        case IfElse():
            return IfElse(f(e.condition), f(e.then), f(e.other))
        case Call():
            return Call(e.function, tuple(f(a) for a in e.args))
        case Ref():
            window = None if e.window is None else tuple(_rebuild_window(w, f) for w in e.window)
            return Ref(e.resource, None if e.instance is None else f(e.instance), e.name, window, e.transposed)


def _rebuild_window(w: Window, f: Callable[[Expr], Expr]) -> Window:
    match w:
        case Index():
            return Index(f(w.at))
        case Slice():
            return Slice(f(w.start), f(w.length))
        case _:
            return w


def canonical(e: Expr, env: Env) -> Poly:
    """The normal form over names that have no value in `env`. Integer operations on unknowns become atoms, and so does
    all that is computed of floats: that is known by how it is written."""
    match e:
        case Const():
            return _constant(e.value)
        case Name():
            return _constant(env[e.id]) if e.id in env else Poly.atom(e.id)
        case Unary(op="-"):
            p = canonical(e.operand, env)
            return Poly.atom("neg", p) if p.value is None and inexact(e.operand, env) else -p
        case Unary(op="+"):
            return canonical(e.operand, env)
        case Unary():
            return _opaque("not", [canonical(e.operand, env)], e, env)
        case Binary():
            return _canonical_binary(e, canonical(e.left, env), canonical(e.right, env), env)
        case Compare():
            args: list[Poly | Scalar] = [canonical(o, env) for o in e.operands]
            return _opaque("".join(e.ops), args, e, env)
        case BoolOp():
            return _opaque(e.op, [canonical(v, env) for v in e.values], e, env)
        case IfElse():
            if is_constant(e.condition, env):
                return canonical(e.then if evaluate(e.condition, env) else e.other, env)
            return _opaque("if", [canonical(x, env) for x in (e.condition, e.then, e.other)], e, env)
        case Call():
            polys = [canonical(a, env) for a in e.args]
            if inexact(e, env):
                return _opaque(e.function, list(polys), e, env)
            d = _positive(polys[1]) if e.function == "ceil_div" else None
            if d is not None and (quotient := floor_div(polys[0] + Poly.constant(d - 1), d)) is not None:
                return quotient
            if e.function in ("min", "max"):
                numbers = [v for p in polys if (v := p.value) is not None]
                polys = sorted({p for p in polys if p.value is None}, key=repr)
                if numbers:
                    polys.append(Poly.constant((min if e.function == "min" else max)(numbers)))
                if len(polys) == 1:
                    return polys[0]
            return _opaque(e.function, list(polys), e, env)
        case Ref():
            at = [] if e.instance is None else [canonical(e.instance, env)]
            window = [_canonical_window(w, env) for w in e.window or ()]
            return Poly.atom(f"{e.resource or ''}.{e.name}{'.T' if e.transposed else ''}", *at, *window)


def _constant(value: Scalar) -> Poly:
    if isinstance(value, str) or (isinstance(value, float) and not math.isfinite(value)):
        return Poly.atom(f"={value}")
    return Poly.constant(Fraction(value))


def _opaque(head: str, args: list[Poly | Scalar] | list[Poly], e: Expr, env: Env) -> Poly:
    if all(isinstance(a, Poly) and a.value is not None for a in args):
        try:
            return _constant(evaluate(e, env))
        except (NotConstant, NoValue):
            pass
    return Poly.atom(head, *args)


def _canonical_binary(e: Binary, a: Poly, b: Poly, env: Env) -> Poly:
    if inexact(e, env):
        return _opaque(e.op, [a, b], e, env)
    match e.op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" | "%" if (d := _positive(b)) is not None:
            found = floor_div(a, d) if e.op == "//" else remainder(a, d)
            if found is not None:
                return found
    return _opaque(e.op, [a, b], e, env)


def _positive(p: Poly) -> int | None:
    """The value of a polynomial that is a positive integer."""
    v = p.value
    return int(v) if v is not None and v.denominator == 1 and v > 0 else None


def _canonical_window(w: Window, env: Env) -> Poly:
    match w:
        case Index():
            return canonical(w.at, env)
        case Slice():
            return Poly.atom(":+", canonical(w.start, env), canonical(w.length, env))
        case _:
            return Poly.atom(":")
