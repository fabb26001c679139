"""Expressions over numbers and arrays, in float32 where they are not integers (docs/language.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from tsgen.model.expr import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Expr,
    IfElse,
    Name,
    Ref,
    Unary,
    text,
)
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.functions import BINARY, COMPARE, FUNCTIONS
from tsgen.simulate.memory import ARRAYS, Array
from tsgen.simulate.windows import Value


class Data(Protocol):
    """Where references and the indices of elements come from."""

    def value(self, ref: Ref) -> Value: ...

    def rows(self, of: Expr) -> Array: ...

    def cols(self, of: Expr) -> Array: ...

    def extent(self, axis: str) -> int: ...


class NoData:
    """For expressions without references."""

    def value(self, ref: Ref) -> Value:
        raise CannotRun(f"`{text(ref)}` has no value here")

    def rows(self, of: Expr) -> Array:
        raise CannotRun(f"`rows({text(of)})` has no value here")

    cols = rows

    def extent(self, axis: str) -> int:
        raise CannotRun(f"`extent({axis})` has no value here")


def evaluate(e: Expr, names: Mapping[str, Value], data: Data) -> Value:
    """The value of an expression. Only the branch taken is evaluated. Raises CannotRun where it has none."""
    match e:
        case Const():
            return e.value
        case Name():
            if e.id in names:
                return names[e.id]
            raise CannotRun(f"`{e.id}` has no value in the simulation")
        case Ref():
            return data.value(e)
        case Unary():
            v = evaluate(e.operand, names, data)
            if e.op == "not":
                return ~v if isinstance(v, np.ndarray) else not v
            return -v if e.op == "-" else v  # type: ignore[operator]
        case Binary():
            with np.errstate(all="ignore"):  # infinities and NaN are values here, as on the device
                return single(_divided(e.op, evaluate(e.left, names, data), evaluate(e.right, names, data)))
        case Compare():
            vs = [evaluate(o, names, data) for o in e.operands]
            found: Value = True
            for op, a, b in zip(e.ops, vs, vs[1:], strict=False):
                found = _and(found, COMPARE[op](a, b))
            return found
        case BoolOp():
            return _bool(e, names, data)
        case IfElse():
            c = evaluate(e.condition, names, data)
            if isinstance(c, np.ndarray) and c.ndim:
                return single(np.where(c, evaluate(e.then, names, data), evaluate(e.other, names, data)))  # type: ignore[call-overload]
            return evaluate(e.then if c else e.other, names, data)
        case Call():
            return _call(e, names, data)


def _divided(op: str, a: Value, b: Value) -> Value:
    if op in ("/", "//", "%") and not isinstance(b, np.ndarray) and b == 0:
        if op == "/" and isinstance(a, float | np.ndarray):
            return np.float32(1.0) * a / np.float32(0.0)
        raise CannotRun("division by zero in an expression of the spec")
    return BINARY[op](a, b)


def single(v: Value) -> Value:
    """float64 that NumPy made as float32; numbers stay Python's."""
    if isinstance(v, np.ndarray | np.generic) and v.dtype == np.float64:
        return v.astype(np.float32)
    return v


def _and(a: Value, b: Value) -> Value:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.logical_and(a, b)  # type: ignore[call-overload]
    return bool(a) and bool(b)


def _bool(e: BoolOp, names: Mapping[str, Value], data: Data) -> Value:
    result: Value = e.op == "and"
    for operand in e.values:
        v = evaluate(operand, names, data)
        if isinstance(v, np.ndarray) or isinstance(result, np.ndarray):
            result = np.logical_and(result, v) if e.op == "and" else np.logical_or(result, v)  # type: ignore[call-overload]
            continue
        result = bool(v)
        if result is (e.op == "or"):
            return result
    return result


def _call(e: Call, names: Mapping[str, Value], data: Data) -> Value:
    if e.function in ("rows", "cols"):
        return data.rows(e.args[0]) if e.function == "rows" else data.cols(e.args[0])
    if e.function == "extent":
        axis = e.args[0]
        assert isinstance(axis, Name)
        return data.extent(axis.id)
    if e.function == "activation":
        word, x = e.args
        name = text(word) if isinstance(word, Name) and word.id not in names else evaluate(word, names, data)
        return single(FUNCTIONS["activation"](ARRAYS, name, evaluate(x, names, data)))
    args = [evaluate(a, names, data) for a in e.args]
    if not any(isinstance(a, np.ndarray | np.generic) for a in args) and e.function in _NUMBERS:
        return _NUMBERS[e.function](*args)
    if e.function in ("partial_rowsum", "warp_rowsum"):
        return FUNCTIONS["rowsum"](ARRAYS, args[0])
    with np.errstate(all="ignore"):
        return single(FUNCTIONS[e.function](ARRAYS, *args))


_NUMBERS: dict[str, Callable[..., Value]] = {
    "min": min,
    "max": max,
    "ceil_div": lambda a, b: -(-a // b),
    "log2": lambda a: int(math.log2(a)) if a > 0 and math.log2(a).is_integer() else math.log2(a),
    "sqrt": math.sqrt,
    "abs": abs,
    "where": lambda c, a, b: a if c else b,
}
