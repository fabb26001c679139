"""Expressions of a spec as Python text of the generated module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from fractions import Fraction

from tsgen.frozen import frozen
from tsgen.model.algebra import Env, canonical, is_constant, prune
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Index, Name, Ref, Unary
from tsgen.model.poly import Poly

_LEVEL = {
    "if": 0,
    "or": 1,
    "and": 2,
    "not": 3,
    "cmp": 4,
    "+": 7,
    "-": 7,
    "*": 8,
    "/": 8,
    "//": 8,
    "%": 8,
    "neg": 9,
    "**": 10,
}
_ATOM = 99


@frozen
class Scope:
    """What the names of an expression are called where it is printed.

    `names` maps names of the spec to Python text, `extents` an axis to the text of its number of tiles, `ref` prints
    a reference (an element of a tensor, a register field). `env` has the compile-time values. `least` knows the least
    value that an expression may have; without it, the text is Python's, and not the DSL's.
    """

    env: Env
    names: Mapping[str, str]
    extents: Mapping[str, str] = field(default_factory=dict)
    ref: Callable[[Ref, Scope], str] | None = None
    least: Callable[[Expr], int | None] | None = None


def py(e: Expr, scope: Scope) -> str:
    """The expression as Python; compile-time branches are taken."""
    return _print(prune(e, scope.env), scope, 0)


def py_factor(e: Expr, scope: Scope) -> str:
    """The expression as a factor of a product: in parentheses where that needs them."""
    return _print(prune(e, scope.env), scope, 8)


def py_compared(e: Expr, scope: Scope) -> str:
    """The expression as an operand of a comparison."""
    return _print(prune(e, scope.env), scope, 5)


def py_difference(a: Expr, b: Expr, scope: Scope) -> str:
    """`a - b` as Python, `a` where b is 0."""
    first, second = py(a, scope), _print(prune(b, scope.env), scope, 8)
    return first if second == "0" else f"{first} - {second}"


def _wrap(level: int, outer: int, s: str) -> str:
    return f"({s})" if level < outer else s


def _print(e: Expr, scope: Scope, outer: int) -> str:
    match e:
        case Const():
            return _constant(e.value, outer)
        case Name():
            return scope.names[e.id]
        case Unary():
            level = _LEVEL["not" if e.op == "not" else "neg"]
            return _wrap(level, outer, ("not " if e.op == "not" else e.op) + _print(e.operand, scope, level))
        case Binary():
            level = _LEVEL[e.op]
            left, right = _print(e.left, scope, level), _print(e.right, scope, level + 1)
            if e.op == "%" and truncated(e, scope):
                left, right = f"({left} % {right} + {right})", _print(e.right, scope, level + 1)
            return _wrap(level, outer, f"{left} {e.op} {right}")
        case Compare():
            level = _LEVEL["cmp"]
            parts = [_operand(o, scope, level + 1, against_zero(e)) for o in e.operands]
            pairs = [f"{a} {op} {b}" for op, a, b in zip(e.ops, parts, parts[1:], strict=False)]
            return _wrap(level if len(pairs) == 1 else _LEVEL["and"], outer, " and ".join(pairs))
        case BoolOp():
            level = _LEVEL[e.op]
            return _wrap(level, outer, f" {e.op} ".join(_print(v, scope, level + 1) for v in e.values))
        case IfElse():
            then, condition, other = (_print(x, scope, 1) for x in (e.then, e.condition, e.other))
            return (
                _wrap(0, outer, f"{then} if {condition} else {other}")
                if outer
                else f"{then} if {condition} else {other}"
            )
        case Call():
            return _call(e, scope)
        case Ref():
            assert scope.ref is not None, e
            return scope.ref(e, scope)


def against_zero(e: Compare) -> bool:
    """Whether a comparison asks only if something is zero: a remainder then is, however quotients are rounded."""
    return all(op in ("==", "!=") for op in e.ops) and e.operands[1:] == (Const(0),)


def _operand(e: Expr, scope: Scope, outer: int, zero: bool) -> str:
    if not zero or not isinstance(e, Binary) or e.op != "%":
        return _print(e, scope, outer)
    level = _LEVEL["%"]
    return _wrap(level, outer, f"{_print(e.left, scope, level)} % {_print(e.right, scope, level + 1)}")


def truncated(e: Binary, scope: Scope) -> bool:
    """Whether `%` of the DSL, which rounds quotients towards zero, may give another remainder than the language's."""
    if scope.least is None or is_constant(e, scope.env):
        return False
    return any(low is None or low < 0 for low in (scope.least(e.left), scope.least(e.right)))


def _constant(value: object, outer: int) -> str:
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return "Float32.inf" if value > 0 else _wrap(_LEVEL["neg"], outer, "-Float32.inf")
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return _wrap(_LEVEL["neg"], outer, text) if text.startswith("-") else text


def _call(e: Call, scope: Scope) -> str:
    if e.function == "extent" and isinstance(e.args[0], Name):
        return scope.extents[e.args[0].id]
    static = is_constant(e, scope.env)
    names = {
        "min": "cutlass.min",
        "max": "cutlass.max",
        "ceil_div": "cute.ceil_div",
        "sqrt": "cute.math.sqrt",
        "log2": "cute.math.log2",
    }
    if static:
        names = {"min": "min", "max": "max", "ceil_div": "cute.ceil_div", "sqrt": "math.sqrt", "log2": "math.log2"}
    return f"{names[e.function]}({', '.join(_print(a, scope, 0) for a in e.args)})"


def py_poly(p: Poly, scope: Scope) -> str | None:
    """A canonical form as Python, largest coefficient first, or None if it cannot be printed."""
    e = expression(p)
    return None if e is None else py(e, scope)


def expression(p: Poly) -> Expr | None:
    """An expression whose canonical form is `p`; None if one of its atoms has none."""
    total: Expr | None = None
    for monomial, coefficient in sorted(p.terms, key=lambda t: (t[0] == (), -abs(t[1]))):
        term = _term(monomial, abs(coefficient))
        if term is None:
            return None
        if total is None:
            total = term if coefficient > 0 else Unary("-", term)
        else:
            total = Binary("+" if coefficient > 0 else "-", total, term)
    return Const(0) if total is None else total


def _term(monomial: tuple[tuple[object, int], ...], coefficient: Fraction) -> Expr | None:
    if coefficient.denominator != 1:
        return None
    out: Expr | None = None
    for atom, power in monomial:
        factor = _atom(atom)
        if factor is None:
            return None
        for _ in range(power):
            out = factor if out is None else Binary("*", out, factor)
    n = int(coefficient)
    if out is None:
        return Const(n)
    return out if n == 1 else Binary("*", out, Const(n))


def _atom(atom: object) -> Expr | None:
    head, args = atom.head, atom.args  # type: ignore[attr-defined]
    if not args:
        return Name(head) if head.isidentifier() else None
    parts = [expression(a) if isinstance(a, Poly) else None for a in args]
    known = [x for x in parts if x is not None]
    if len(known) != len(args):
        return None
    if head == "//" and (rounded_up := _ceil_div(args)) is not None:
        return rounded_up
    if head in ("//", "%", "/"):
        return Binary(head, known[0], known[1])
    if head in ("min", "max", "ceil_div", "extent"):
        return Call(head, tuple(known))
    if head == "if":
        return IfElse(known[0], known[1], known[2])
    if head in ("<", "<=", ">", ">=", "==", "!="):
        return Compare((head,), (known[0], known[1]))
    return None


def _ceil_div(args: tuple[object, ...]) -> Expr | None:
    """`(x + d - 1) // d` as it is mostly meant."""
    numerator, divisor = args
    assert isinstance(numerator, Poly) and isinstance(divisor, Poly)
    d = divisor.value
    constant = next((c for m, c in numerator.terms if not m), Fraction(0))
    if d is None or d < 2 or constant != d - 1:
        return None
    x = expression(numerator - Poly.constant(constant))
    return None if x is None else Call("ceil_div", (x, Const(int(d))))


def tile_index(start: Expr, length: Expr, scope: Scope) -> str | None:
    """`start // length` as Python if the division is exact for every value of the names, else None."""
    n = canonical(length, scope.env).value
    if n is None or n.denominator != 1:
        return None
    as_written = _quotient(prune(start, scope.env), prune(length, scope.env), int(n), scope.env)
    if as_written is not None:
        return py(as_written, scope)
    quotient = canonical(start, scope.env).over(int(n))
    return None if quotient is None else py_poly(quotient, scope)


def _quotient(e: Expr, length: Expr, n: int, env: Env) -> Expr | None:
    """`e / length` in the names that `e` is written in, if each of its terms has a factor that `length` divides."""
    if e == length:
        return Const(1)
    if is_constant(e, env):
        value = canonical(e, env).value
        if value is None or value % n:
            return None
        return Const(int(value / n)) if isinstance(e, Const) or value == 0 else Binary("//", e, length)
    if not isinstance(e, Binary) or e.op not in ("+", "-", "*"):
        return None
    left, right = _quotient(e.left, length, n, env), _quotient(e.right, length, n, env)
    if e.op == "*":
        if right is not None:
            return e.left if right == Const(1) else Binary("*", e.left, right)
        return None if left is None else e.right if left == Const(1) else Binary("*", left, e.right)
    if left is None or right is None:
        return None
    return left if right == Const(0) else right if left == Const(0) and e.op == "+" else Binary(e.op, left, right)


def split_index(start: Expr, length: Expr, scope: Scope) -> tuple[Expr, Expr] | None:
    """`start` as a multiple of `length` and a rest, (start // length, rest), neither of which can be simplified.

    The rest has the terms whose coefficients are no multiples; None if the length is not known or a part has no text.
    """
    n = canonical(length, scope.env).value
    if n is None or n.denominator != 1:
        return None
    as_written = _quotient(prune(start, scope.env), prune(length, scope.env), int(n), scope.env)
    if as_written is not None:
        return as_written, Const(0)
    terms = canonical(start, scope.env).terms
    whole = Poly(tuple((m, c / n) for m, c in terms if (c / n).denominator == 1))
    rest = Poly(tuple((m, c) for m, c in terms if (c / n).denominator != 1))
    parts = expression(whole), expression(rest)
    return None if parts[0] is None or parts[1] is None else (parts[0], parts[1])


def index_of(window: tuple[object, ...] | None, axis: int) -> Expr | None:
    """The index at one dimension of a window, if it is one."""
    w = window[axis] if window is not None else None
    return w.at if isinstance(w, Index) else None
