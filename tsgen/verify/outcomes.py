"""What conditions say, in one form: conditions that say the same have equal forms, however they are written.

Sides are brought together, comparisons of whole numbers to `p >= 0` or `p == 0` with a positive first factor, and
negations are taken out: `a < b`, `b > a` and `not a >= b` are one form. Of floats only `a < b` and `b > a` are one, as
neither side need hold of a NaN. Equal forms hold alike; that different forms ever differ is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from math import floor
from typing import Any

from tsgen.derive.unfold import Env, constant
from tsgen.model.algebra import canonical, rebuild
from tsgen.model.expr import Binary, BoolOp, Compare, Expr, IfElse, Unary
from tsgen.model.inexact import inexact
from tsgen.model.poly import Poly
from tsgen.verify.symbols import parts_of

Form = tuple[Any, ...]  # an operator and its operands: polynomials, or (for `and`) pairs of form and negation
Whole = Callable[[Poly], bool]
TRUE: Form = ("true",)
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SWAPPED_END = {">": ">=", "<=": "<"}  # against the end of the numbers that have the same quotient


def form_of(e: Expr, env: Env, whole: Whole) -> tuple[Form, bool]:
    """The form of a condition, and whether the condition is its negation. `whole`: whether a number is an integer."""
    value = constant(e, env)
    if value is not None:
        return TRUE, not value
    match e:
        case Compare():
            pairs = zip(e.ops, e.operands, e.operands[1:], strict=False)
            return _all([_comparison(op, a, b, env, whole) for op, a, b in pairs])
        case BoolOp(op="and"):
            return _all([form_of(v, env, whole) for v in e.values])
        case BoolOp():
            form, negated = _all([_not(form_of(v, env, whole)) for v in e.values])
            return form, not negated
        case Unary(op="not"):
            return _not(form_of(e.operand, env, whole))
        case IfElse() if (holds := constant(e.condition, env)) is not None:
            return form_of(e.then if holds else e.other, env, whole)
    p = canonical(e, env)
    return (TRUE, not p.value) if p.value is not None else (("is", p), False)


def without_quotients(e: Expr, env: Env, whole: Whole) -> Expr:
    """A condition whose comparisons of a rounded quotient compare its numerator: `a // 4 >= b` is `a >= 4*b`."""
    if not isinstance(e, Compare) or len(e.ops) != 1:
        return e if isinstance(e, Compare) else rebuild(e, lambda c: without_quotients(c, env, whole))
    (op,), (a, b) = e.ops, e.operands
    if not _is_quotient(a, env) and _is_quotient(b, env):
        op, a, b = _SWAPPED[op], b, a
    if not isinstance(a, Binary) or not _is_quotient(a, env) or not whole(canonical(b, env)):
        return e
    if inexact(a.left, env):
        return e
    low = Binary("*", b, a.right)
    high = Binary("+", low, a.right)
    if op in ("==", "!="):
        inside = Compare(("<=", "<"), (low, a.left, high))
        return inside if op == "==" else Unary("not", inside)
    return Compare((op if op in (">=", "<") else _SWAPPED_END[op],), (a.left, low if op in (">=", "<") else high))


def _is_quotient(e: Expr, env: Env) -> bool:
    divisor = constant(e.right, env) if isinstance(e, Binary) and e.op == "//" else None
    return isinstance(divisor, int) and divisor > 0


def polys_of(form: Form) -> Iterator[Poly]:
    """The numbers that a form speaks of."""
    for part in form[1:]:
        if isinstance(part, Poly):
            yield part
        else:
            yield from polys_of(part[0])


def _not(found: tuple[Form, bool]) -> tuple[Form, bool]:
    return found[0], not found[1]


def _all(found: list[tuple[Form, bool]]) -> tuple[Form, bool]:
    """The conjunction: flat, in one order, without what holds anyway."""
    parts: dict[Hashable, tuple[Form, bool]] = {}
    for form, negated in found:
        for part in form[1:] if form[0] == "and" and not negated else ((form, negated),):
            parts[part] = part
    if (TRUE, True) in parts or any((f, not n) in parts for f, n in parts.values()):
        return TRUE, True
    parts.pop((TRUE, False), None)
    left = sorted(parts.values(), key=repr)
    if len(left) == 1:
        return left[0]
    return (("and", *left), False) if left else (TRUE, False)


def _comparison(op: str, a: Expr, b: Expr, env: Env, whole: Whole) -> tuple[Form, bool]:
    one, other = canonical(a, env), canonical(b, env)
    if not inexact(a, env) and not inexact(b, env):
        return _compare(op, one, other, whole)
    if op in (">", ">="):
        op, one, other = _SWAPPED[op], other, one
    if op in ("==", "!="):
        one, other = sorted((one, other), key=repr)
    return ("==" if op == "!=" else op, one, other), op == "!="


def _compare(op: str, a: Poly, b: Poly, whole: Whole) -> tuple[Form, bool]:
    d = a - b
    if op in ("==", "!="):
        form, negated = _equal(d, whole)
        return form, negated is (op == "==")
    if op in (">", ">="):
        op, d = {">": "<", ">=": "<="}[op], -d
    if not whole(d):
        return (op, d), False
    return _at_least(-d - Poly.constant(1 if op == "<" else 0))


def _equal(d: Poly, whole: Whole) -> tuple[Form, bool]:
    """`d == 0`."""
    unit, factor, const = parts_of(d)
    if not unit.terms:
        return TRUE, const != 0
    const /= factor
    if whole(d):
        if const.denominator != 1:
            return TRUE, True
        divisor = _divisor(unit)
        if divisor is not None and not 0 <= -const < divisor:
            return TRUE, True
        if divisor == 2 and const == -1:  # a remainder of 1 is none of 0
            return ("==", unit), True
    return ("==", unit + Poly.constant(const)), False


def _at_least(p: Poly) -> tuple[Form, bool]:
    """`p >= 0` for an integer."""
    unit, factor, const = parts_of(p)
    if not unit.terms:
        return TRUE, const < 0
    if factor > 0:
        return (">=", unit + Poly.constant(floor(const / factor))), False
    return (">=", unit - Poly.constant(floor(const / -factor) + 1)), True


def _divisor(unit: Poly) -> Fraction | None:
    """The divisor if a form is one remainder by a number."""
    if len(unit.terms) != 1 or len(unit.terms[0][0]) != 1:
        return None
    atom, power = unit.terms[0][0][0]
    if atom.head != "%" or power != 1 or not isinstance(atom.args[1], Poly):
        return None
    return atom.args[1].value
