"""Numbers that are not the integers of mathematics: floats, for which `a + b - b` need not be a, nor `not a < b` the
same as `a >= b` (NaN). What is computed of them is known by how it is written, and by nothing else.

A name or an element that is a float, or may be one, carries `MARK` (`tsgen.model.floats`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Name, Ref, Scalar, Unary

MARK = "~"
_FLOAT_FUNCTIONS = ("sqrt", "log2")


def inexact(e: Expr, env: Mapping[str, Scalar]) -> bool:
    """Whether an expression that is no compile-time value may be a float, or is computed from one."""
    match e:
        case Const():
            return isinstance(e.value, float)
        case Name():
            return MARK in e.id or isinstance(env.get(e.id), float)
        case Ref():
            return MARK in e.name
        case Unary(op="not") | Compare() | BoolOp():
            return False
        case Unary():
            return inexact(e.operand, env)
        case Binary():
            return e.op in ("/", "**") or inexact(e.left, env) or inexact(e.right, env)
        case IfElse():
            return inexact(e.then, env) or inexact(e.other, env)
        case Call():
            if e.function == "extent":
                return False
            return e.function in _FLOAT_FUNCTIONS or any(inexact(a, env) for a in e.args)
    return True
