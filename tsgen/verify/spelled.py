"""Conditions in plain comparisons: what they choose is said by `and`, `or` and `not`.

`i < min(a, b)` is `i < a and i < b`, `min(i, 3) == 3` is `i >= 3`, and `x if c else y` is `c and x or not c and y`. All
this holds for all integers. So what can be computed of the plain comparisons is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from tsgen.derive.unfold import Env, constant
from tsgen.model.algebra import canonical
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Unary, names
from tsgen.model.poly import Poly

Whole = Callable[[Poly], bool]
DEPTH = 6  # choices in one comparison
_RISING = {">": True, ">=": True, "<": False, "<=": False}  # whether a larger left side keeps it true


class Choice(NamedTuple):
    """A choice inside an expression, which rises with it or falls, and the expression with something in its place."""

    node: Call | IfElse
    rises: bool
    put: Callable[[Expr], Expr]


def spelled(e: Expr, env: Env, whole: Whole) -> Expr:
    """A condition without `min`, `max` and `if` in its comparisons. `whole`: whether a number is an integer."""
    if constant(e, env) is not None:
        return e
    match e:
        case BoolOp():
            return _joined(e.op, [spelled(v, env, whole) for v in e.values], env)
        case Unary(op="not"):
            return Unary("not", spelled(e.operand, env, whole))
        case IfElse():
            return _either(e.condition, e.then, e.other, env, whole)
        case Compare():
            pairs = zip(e.ops, e.operands, e.operands[1:], strict=False)
            return _joined("and", [_comparison(op, a, b, env, whole, DEPTH) for op, a, b in pairs], env)
    return e


def compared(conditions: Mapping[Hashable, list[tuple[Expr, Env]]]) -> set[Hashable]:
    """The conditions, each with its places, that others share names with: those may have to be computed to be told
    apart, while the outcomes of one that stands alone are as well chosen."""
    of = {i: set().union(*(names(e) - env.keys() for e, env in at)) for i, at in conditions.items()}
    return {i for i in of if any(i != j and of[i] & of[j] for j in of)}


def _either(c: Expr, then: Expr, other: Expr, env: Env, whole: Whole) -> Expr:
    c, then, other = (spelled(x, env, whole) for x in (c, then, other))
    yes, no = _joined("and", [c, then], env), _joined("and", [Unary("not", c), other], env)
    return _joined("or", [yes, no], env)


def _comparison(op: str, a: Expr, b: Expr, env: Env, whole: Whole, depth: int) -> Expr:
    if op in ("==", "!=") and _says(a) and _says(b):
        same = _either(a, b, Unary("not", b), env, whole)
        return same if op == "==" else Unary("not", same)
    plain = Compare((op,), (a, b))
    if not depth or not whole(canonical(a, env)) or not whole(canonical(b, env)):
        return plain
    left, right = _choice(a, env), _choice(b, env)
    choice = left or right
    if choice is None:
        return plain

    def with_(x: Expr, by: str = op) -> Expr:
        one, other = (choice.put(x), b) if left is not None else (a, choice.put(x))
        return _comparison(by, one, other, env, whole, depth - 1)

    if isinstance(choice.node, IfElse):
        c = spelled(choice.node.condition, env, whole)
        yes = _joined("and", [c, with_(choice.node.then)], env)
        return _joined("or", [yes, _joined("and", [Unary("not", c), with_(choice.node.other)], env)], env)
    if op in ("==", "!="):
        both = _joined("and", [with_(choice.node, ">="), with_(choice.node, "<=")], env)
        return both if op == "==" else Unary("not", both)
    rises = choice.rises is (_RISING[op] is (left is not None))
    every = rises is (choice.node.function == "min")  # it holds where it holds of the worst
    return _joined("and" if every else "or", [with_(x) for x in choice.node.args], env)


def _says(e: Expr) -> bool:
    return isinstance(e, Compare | BoolOp) or (isinstance(e, Unary) and e.op == "not")


def _joined(op: str, parts: Iterable[Expr], env: Env) -> Expr:
    """`and` or `or`, without what is decided."""
    left: list[Expr] = []
    for part in parts:
        value = _decided(part, env)
        if value is (op == "or"):
            return Const(value)
        if value is None and part not in left:
            left.append(part)
    if not left:
        return Const(op == "and")
    return left[0] if len(left) == 1 else BoolOp(op, tuple(left))


def _decided(e: Expr, env: Env) -> bool | None:
    value = constant(e, env)
    if value is None and isinstance(e, Compare) and len(e.ops) == 1:
        difference = canonical(Binary("-", *e.operands), env).value
        if difference is not None and difference.denominator == 1:
            value = constant(Compare(e.ops, (Const(int(difference)), Const(0))), env)
    return None if value is None else bool(value)


def _choice(e: Expr, env: Env) -> Choice | None:
    """The first choice in an expression that rises or falls with it."""
    if constant(e, env) is not None:
        return None
    match e:
        case IfElse() | Call(function="min" | "max"):
            return Choice(e, True, lambda x: x)
        case Unary(op="-" | "+"):
            return _inside(e.operand, env, e.op == "+", lambda x: Unary(e.op, x))
        case Call(function="ceil_div") if _sign(e.args[1], env) > 0:
            return _inside(e.args[0], env, True, lambda x: Call("ceil_div", (x, e.args[1])))
        case Binary(op="+" | "-"):
            found = _inside(e.left, env, True, lambda x: Binary(e.op, x, e.right))
            return found or _inside(e.right, env, e.op == "+", lambda x: Binary(e.op, e.left, x))
        case Binary(op="*") if sign := _sign(e.left, env):
            return _inside(e.right, env, sign > 0, lambda x: Binary("*", e.left, x))
        case Binary(op="*") if sign := _sign(e.right, env):
            return _inside(e.left, env, sign > 0, lambda x: Binary("*", x, e.right))
        case Binary(op="//") if _sign(e.right, env) > 0:
            return _inside(e.left, env, True, lambda x: Binary("//", x, e.right))
    return None


def _inside(e: Expr, env: Env, rises: bool, around: Callable[[Expr], Expr]) -> Choice | None:
    found = _choice(e, env)
    if found is None:
        return None
    return Choice(found.node, found.rises is rises, lambda x: around(found.put(x)))


def _sign(e: Expr, env: Env) -> int:
    """1 or -1 for a number of the launch other than 0, 0 for what is not known."""
    value = constant(e, env)
    return 0 if not isinstance(value, int | float) or not value else 1 if value > 0 else -1
