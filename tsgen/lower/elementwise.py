"""Element expressions of `map`, `value` and `where` as Python, one element at a time, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
from tsgen.lower.errors import refuse
from tsgen.lower.pyexpr import Scope, against_zero, truncated
from tsgen.model.algebra import NoValue, evaluate, is_constant, prune
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Name, Ref, Scalar, Unary
from tsgen.model.expr import text as expression_text

Shape = Literal["scalar", "col", "row", "tile"]
Number = Literal["int", "float", "bool"]
REDUCTIONS = ("rowmax", "rowsum", "partial_rowsum", "warp_rowsum")
_LEAVES = ("rows", "cols", "extent", *REDUCTIONS)

_LEVEL = {"or": 1, "and": 2, "not": 3, "cmp": 4, "+": 7, "-": 7, "*": 8, "/": 8, "//": 8, "%": 8, "neg": 9, "**": 10}


@frozen
class Leaf:
    """What a name or a reference is: its text for one element, how it varies over a tile, and its kind of number."""

    text: str
    shape: Shape
    number: Number


Resolve = Callable[[Name | Ref | Call], Leaf]  # Call: rows(f), cols(f), extent(axis) and reductions

_JOIN = {"scalar": 0, "col": 1, "row": 2, "tile": 3}


def join(*shapes: Shape) -> Shape:
    """The shape of an operation over operands, as NumPy broadcasts."""
    kinds = {s for s in shapes if s != "scalar"}
    if not kinds:
        return "scalar"
    if len(kinds) > 1:
        return "tile"
    return kinds.pop()


class Printer:
    """Prints element expressions; `resolve` says what its leaves are, `compare` may have a text for a comparison."""

    def __init__(
        self, scope: Scope, resolve: Resolve, span: Span, compare: Callable[[Compare], str | None] | None = None
    ) -> None:
        self.scope, self.resolve, self.span, self.special = scope, resolve, span, compare

    def pruned(self, e: Expr) -> Expr:
        return prune(e, self.scope.env)

    def shape(self, e: Expr) -> Shape:
        """How the value varies over a tile."""
        match e:
            case Const():
                return "scalar"
            case Name() | Ref():
                return self.resolve(e).shape
            case Unary():
                return self.shape(e.operand)
            case Binary():
                return join(self.shape(e.left), self.shape(e.right))
            case Compare():
                return join(*(self.shape(o) for o in e.operands))
            case BoolOp():
                return join(*(self.shape(v) for v in e.values))
            case IfElse():
                return join(self.shape(e.condition), self.shape(e.then), self.shape(e.other))
            case Call():
                if e.function in _LEAVES:
                    return self.resolve(e).shape
                args = e.args[1:] if e.function == "activation" else e.args
                return join(*(self.shape(a) for a in args))

    def number(self, e: Expr) -> Number:
        """Whether the value is an integer, a float or a truth value."""
        match e:
            case Const():
                return "bool" if isinstance(e.value, bool) else "int" if isinstance(e.value, int) else "float"
            case Name() | Ref():
                return self.resolve(e).number
            case Unary():
                return "bool" if e.op == "not" else self.number(e.operand)
            case Binary():
                if e.op == "/":
                    return "float"
                return "float" if "float" in (self.number(e.left), self.number(e.right)) else "int"
            case Compare() | BoolOp():
                return "bool"
            case IfElse():
                return self._merged(e.then, e.other)
            case Call():
                if e.function in ("rows", "cols"):
                    return "int"
                if e.function in ("min", "max", "abs"):
                    return self._merged(*e.args)
                if e.function == "where":
                    return self._merged(*e.args[1:])
                return "int" if e.function in ("ceil_div", "extent") else "float"

    def _merged(self, *args: Expr) -> Number:
        kinds = {self.number(a) for a in args}
        return "float" if "float" in kinds else kinds.pop() if len(kinds) == 1 else "int"

    def float(self, e: Expr, outer: int = 0) -> str:
        """The value as a float32 element."""
        e = self.pruned(e)
        if is_constant(e, self.scope.env):
            return _literal(self._value(e), outer)
        text = self.print(e, outer)
        return text if self.number(e) == "float" else f"Float32({self.print(e, 0)})"

    def _value(self, e: Expr) -> Scalar:
        """The value of a constant expression."""
        try:
            return evaluate(e, self.scope.env)
        except NoValue as why:
            refuse(f"`{expression_text(e)}`, which has no value: {why}", self.span)

    def print(self, e: Expr, outer: int = 0) -> str:
        match e:
            case Const():
                return (
                    _literal(e.value, outer)
                    if isinstance(e.value, float)
                    else _wrap(_negative(e.value), outer, repr(e.value))
                )
            case Name() | Ref():
                return self.resolve(e).text
            case Unary():
                level = _LEVEL["not" if e.op == "not" else "neg"]
                return _wrap(level, outer, ("not " if e.op == "not" else e.op) + self.print(e.operand, level))
            case Binary():
                return self._binary(e, outer)
            case Compare():
                return self._compare(e, outer)
            case BoolOp():
                level = _LEVEL[e.op]
                return _wrap(level, outer, f" {e.op} ".join(self.print(v, level + 1) for v in e.values))
            case IfElse():
                return self._select(e.condition, e.then, e.other, outer)
            case Call():
                return self._call(e, outer)

    def _operand(self, e: Expr, number: Number, outer: int) -> str:
        return self.float(e, outer) if number == "float" else self.print(e, outer)

    def _binary(self, e: Binary, outer: int, against_zero: bool = False) -> str:
        number = self.number(e)
        if e.op == "/":  # the reciprocal instruction: a true division branches
            left, right = self.float(e.left, 8), self.float(e.right, 0)
            inverse = f"cute.arch.rcp_approx({right})"
            one = is_constant(e.left, self.scope.env) and self._value(e.left) == 1
            if is_constant(e.right, self.scope.env):
                return _wrap(8, outer, f"{left} * (1.0 / {self.float(e.right, 9)})")
            return inverse if one else _wrap(8, outer, f"{left} * {inverse}")
        if e.op == "**":
            refuse("`**` of run-time values", self.span, "write products")
        level = _LEVEL[e.op]
        left, right = self._operand(e.left, number, level), self._operand(e.right, number, level + 1)
        if e.op == "%" and number == "int" and not against_zero and truncated(e, self.scope):
            left = f"({left} % {right} + {right})"
        return _wrap(level, outer, f"{left} {e.op} {right}")

    def _compare(self, e: Compare, outer: int) -> str:
        special = self.special(e) if self.special is not None else None
        if special is not None:
            return _wrap(_LEVEL["cmp"], outer, special)
        number: Number = "float" if any(self.number(o) == "float" for o in e.operands) else "int"
        plain = number == "int" and against_zero(e)
        parts = [
            self._binary(o, _LEVEL["cmp"] + 1, plain)
            if plain and isinstance(o, Binary)
            else self._operand(o, number, _LEVEL["cmp"] + 1)
            for o in e.operands
        ]
        pairs = [f"{a} {op} {b}" for op, a, b in zip(e.ops, parts, parts[1:], strict=False)]
        return _wrap(_LEVEL["cmp"] if len(pairs) == 1 else _LEVEL["and"], outer, " and ".join(pairs))

    def _select(self, condition: Expr, then: Expr, other: Expr, outer: int) -> str:
        number = self._merged(then, other)
        text = f"{self._operand(then, number, 1)} if {self.print(condition, 1)} else {self._operand(other, number, 1)}"
        return f"({text})" if outer else text

    def _call(self, e: Call, outer: int) -> str:
        f, args = e.function, e.args
        if f in _LEAVES:
            return self.resolve(e).text
        if f in ("min", "max"):
            return self._extreme(f, args)
        if f == "where":
            return self._select(args[0], args[1], args[2], outer)
        if f == "activation":
            return self._activation(args, outer)
        if f == "ceil_div":
            return f"cute.ceil_div({self.print(args[0])}, {self.print(args[1])})"
        x = self.float(args[0])
        match f:
            case "exp" | "exp2" | "log" | "rsqrt" | "tanh":
                return f"cute.math.{f}({x}, fastmath=True)"
            case "sqrt" | "log2":
                return f"cute.math.{f}({x}, fastmath=True)"
            case "abs":
                return f"cute.arch.fmax({x}, -({x}))"
            case "erf" | "relu" | "gelu" | "silu" | "sigmoid" | "gelu_tanh":
                return f"{f}({x})"
        refuse(f"`{f}` in an element expression", self.span)

    def _extreme(self, f: str, args: tuple[Expr, ...]) -> str:
        number = self._merged(*args)
        if number != "float":
            return f"cutlass.{f}({', '.join(self.print(a) for a in args)})"
        text = self.float(args[0])
        for a in args[1:]:
            text = (
                f"cute.arch.fmax({text}, {self.float(a)})" if f == "max" else f"cute.arch.fmin({text}, {self.float(a)})"
            )
        return text

    def _activation(self, args: tuple[Expr, ...], outer: int) -> str:
        word = evaluate(args[0], self.scope.env)
        return self.float(args[1], outer) if word == "none" else f"{word}({self.float(args[1])})"


def functions_used(e: Expr, env: object) -> set[str]:
    """Activation functions and erf that the printed expression calls, by name."""
    from tsgen.model.expr import walk

    names: set[str] = set()
    for c in walk(prune(e, env)):  # type: ignore[arg-type]
        if isinstance(c, Call):
            name = str(evaluate(c.args[0], env)) if c.function == "activation" else c.function  # type: ignore[arg-type]
            if name in ("erf", "relu", "gelu", "silu", "sigmoid", "gelu_tanh"):
                names.add(name)
    return names


def _negative(value: object) -> int:
    return _LEVEL["neg"] if isinstance(value, int) and value < 0 else 99


def _literal(value: object, outer: int) -> str:
    if not isinstance(value, int | float):
        return repr(value)
    v = float(value)
    if v in (float("inf"), float("-inf")):
        return "Float32.inf" if v > 0 else _wrap(_LEVEL["neg"], outer, "-Float32.inf")
    return _wrap(_LEVEL["neg"] if v < 0 else 99, outer, repr(v))


def _wrap(level: int, outer: int, text: str) -> str:
    return f"({text})" if level < outer else text
