"""Evaluates `reference`: what a kernel's outputs must be, in float32 (docs/language.md section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from random import Random

from tsgen.model.expr import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Expr,
    Full,
    IfElse,
    Index,
    Name,
    Ref,
    Slice,
    Unary,
    Window,
    text,
)
from tsgen.runtime.arrays import Array, Arrays
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.functions import BINARY, COMPARE, FUNCTIONS, RANDOM, Value


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Expressions over named values: tensors (of any dtype), numbers, words.

    `random` is given for `inputs`, where `randint` and `segments` may stand.
    """

    xp: Arrays
    names: Mapping[str, Value]
    random: Random | None = None

    def evaluate(self, e: Expr) -> Value:
        """The value, arrays in float32, int64 or bool. Raises CannotRun where there is none."""
        try:
            return self._value(e)
        except (TypeError, ValueError, RuntimeError, IndexError, ArithmeticError) as err:
            reason = str(err).strip().split("\n")[0]
            raise CannotRun(f"`{text(e)}` in `reference` cannot be evaluated: {reason}") from err

    def _value(self, e: Expr) -> Value:
        match e:
            case Const():
                return None if e.value == "None" else e.value
            case Name():
                return self._name(e.id)
            case Unary():
                return self._unary(e.op, self._value(e.operand))
            case Binary():
                return BINARY[e.op](self._value(e.left), self._value(e.right))
            case Compare():
                vs = [self._value(o) for o in e.operands]
                parts = [COMPARE[op](a, b) for op, a, b in zip(e.ops, vs, vs[1:], strict=False)]
                return reduce(self._and, parts)
            case BoolOp():
                return reduce(self._and if e.op == "and" else self._or, (self._value(v) for v in e.values))
            case IfElse():
                return self._value(e.then if self._value(e.condition) else e.other)
            case Call():
                return self._call(e)
            case Ref():
                return self._window(e)

    def _name(self, name: str) -> Value:
        if name not in self.names:
            raise CannotRun(f"`{name}` in `reference` is no tensor, param or dim", f"known are {', '.join(self.names)}")
        v = self.names[name]
        return self.xp.value(v) if self.xp.is_array(v) else v

    def _unary(self, op: str, v: Value) -> Value:
        if op == "not":
            return self.xp.equal(v, 0) if self.xp.is_array(v) else not v
        return BINARY["-"](0, v) if op == "-" else v

    def _and(self, a: Value, b: Value) -> Value:
        if self.xp.is_array(a) or self.xp.is_array(b):
            return BINARY["&"](a, b)
        return bool(a) and bool(b)

    def _or(self, a: Value, b: Value) -> Value:
        if self.xp.is_array(a) or self.xp.is_array(b):
            return BINARY["|"](a, b)
        return bool(a) or bool(b)

    def _call(self, e: Call) -> Value:
        if e.function == "[]":
            array, *index = e.args
            return self._array(array)[tuple(self._at(i) for i in index)]
        if e.function == "activation":  # its first argument is a word, or a param that holds one
            word, x = e.args
            literal = isinstance(word, Name) and word.id not in self.names
            return FUNCTIONS["activation"](self.xp, text(word) if literal else self._value(word), self._value(x))
        if e.function in RANDOM:
            if self.random is None:
                raise CannotRun(f"`{e.function}` may stand in `inputs` only: `{text(e)}`")
            return RANDOM[e.function](self.xp, self.random, *(self._number(a) for a in e.args))
        if e.function not in FUNCTIONS:
            raise CannotRun(
                f"`{e.function}` has no meaning in `reference`", f"known are {', '.join(sorted(FUNCTIONS))}"
            )
        return FUNCTIONS[e.function](self.xp, *(self._value(a) for a in e.args))

    def _window(self, e: Ref) -> Value:
        if e.resource is not None:
            raise CannotRun(f"`{text(e)}` in `reference`: only tensors can be read")
        v = self._array(Name(e.name))
        if e.window is not None:
            v = v[tuple(self._index(w) for w in e.window)]
        return self.xp.swap(v, -1, -2) if e.transposed else v

    def _index(self, w: Window) -> object:
        match w:
            case Full():
                return slice(None)
            case Slice():
                start = self._number(w.start)
                return slice(start, start + self._number(w.length))
            case Index():
                return self._at(w.at)

    def _at(self, e: Expr) -> object:
        return slice(None) if e == Const(":") else self._value(e)

    def _array(self, e: Expr) -> Array:
        v = self._value(e)
        if not self.xp.is_array(v):
            raise CannotRun(f"`{text(e)}` in `reference` is indexed, but no tensor")
        return v

    def _number(self, e: Expr) -> int:
        v = self._value(e)
        v = v.item() if self.xp.is_array(v) else v
        if not isinstance(v, int):
            raise CannotRun(f"`{text(e)}` in `reference` is {v!r}, an integer is wanted")
        return v
