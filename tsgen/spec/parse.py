"""The text of expressions, references, assignments and call steps -> trees, through `ast` and a whitelist of nodes."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
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
)
from tsgen.spec.errors import SpecError
from tsgen.spec.rules_expr import expression_node, expression_syntax, unknown_function

T = TypeVar("T")

MAX_LENGTH = 2000  # characters of one expression; longer ones are a mistake or an attack
MAX_DEPTH = 60  # of nested operations: what follows walks the tree recursively

FUNCTIONS: dict[str, tuple[int, int]] = {  # name -> fewest and most arguments
    "min": (2, 8),
    "max": (2, 8),
    "ceil_div": (2, 2),
    "log2": (1, 1),
    "sqrt": (1, 1),
    "extent": (1, 1),
}
ELEMENT_FUNCTIONS: dict[str, tuple[int, int]] = {  # in `map`, `value` and `where` also
    **dict.fromkeys(("abs", "exp", "exp2", "log", "rsqrt", "tanh", "erf"), (1, 1)),
    **dict.fromkeys(("relu", "gelu", "silu", "sigmoid", "gelu_tanh"), (1, 1)),
    "activation": (2, 2),
    "where": (3, 3),
    "rows": (1, 1),
    "cols": (1, 1),
    **dict.fromkeys(("rowmax", "rowsum", "partial_rowsum", "warp_rowsum"), (1, 1)),
}
ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")  # words of `activation(word, x)`
REFERENCE_FUNCTIONS: dict[str, tuple[int, int]] = {
    "matmul": (2, 2),
    "transpose": (1, 1),
    "attention": (3, 8),
    "rmsnorm": (3, 3),
    "scaled": (3, 3),
    "repeat": (2, 2),
    "reshape": (2, 8),
    "diff": (1, 1),
    "max": (1, 8),
    "min": (1, 8),
    "segments": (2, 2),
    "randint": (3, 8),
    "pad_segments": (3, 3),
}
ALL_FUNCTIONS = {**FUNCTIONS, **ELEMENT_FUNCTIONS}

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}
_COMPARE: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_UNARY: Mapping[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}


@frozen
class ParsedCall:
    """`[results =] target[instance].method(positional, name=argument)`."""

    results: tuple[str, ...]
    target: str
    instance: Expr | None
    method: str
    args: Mapping[str, Expr]
    positional: tuple[Expr, ...]


def parse_expr(text: str, span: Span, *, reference: bool = False) -> Expr:
    """An expression; with `reference` also the functions, indexing and `None` of `reference`. Raises SpecError."""
    return _Reader(text, span, reference).guarded(lambda r: r.expr(r.body()))


def parse_ref(text: str, span: Span) -> Expr:
    """A reference: a Name (an own field or a tensor), a Ref, or `r1 if c else r2` of them. Raises SpecError."""
    e = parse_expr(text, span)
    if not _is_ref(e):
        raise SpecError(expression_syntax(text, "a reference is `field`, `resource.field` or `tensor[window]`", span))
    return e


def parse_assign(text: str, span: Span) -> tuple[str, Expr]:
    """`name = expression` of a `map`. Raises SpecError."""

    def read(r: _Reader) -> tuple[str, Expr]:
        s = r.statement()
        if not isinstance(s, ast.Assign) or len(s.targets) != 1 or not isinstance(s.targets[0], ast.Name):
            r.syntax("a statement is `name = expression`")
        return s.targets[0].id, r.expr(s.value)

    return _Reader(text, span, False).guarded(read)


def parse_call(text: str, span: Span) -> ParsedCall:
    """A call step. Raises SpecError."""

    def read(r: _Reader) -> ParsedCall:
        s = r.statement()
        results: tuple[str, ...] = ()
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            target = s.targets[0]
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            results = tuple(p.id for p in parts if isinstance(p, ast.Name))
            if len(results) != len(parts):
                r.syntax("the left side of a step is one name, or names separated by commas")
            call: ast.expr = s.value
        elif isinstance(s, ast.Expr):
            call = s.value
        else:
            r.syntax("a step is `[results =] target.method(arguments)`")
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            r.syntax("a step is `[results =] target.method(arguments)`; methods are called with `()`")
        owner, instance = r.target(call.func.value)
        args: dict[str, Expr] = {}
        for k in call.keywords:
            if k.arg is None:
                r.node("`**` arguments are")
            if k.arg in args:
                r.syntax(f"argument `{k.arg}` is given twice")
            args[k.arg] = r.expr(k.value)
        return ParsedCall(results, owner, instance, call.func.attr, args, tuple(r.expr(a) for a in call.args))

    return _Reader(text, span, False).guarded(read)


def _is_ref(e: Expr) -> bool:
    if isinstance(e, IfElse):
        return _is_ref(e.then) and _is_ref(e.other)
    return isinstance(e, Name | Ref)


class _Reader:
    """Converts one text; `reference` widens the grammar to that of `reference`."""

    def __init__(self, text: str, span: Span, reference: bool) -> None:
        self.text, self.span, self.reference = text, span, reference
        self.depth = 0
        self.functions = {**ALL_FUNCTIONS, **REFERENCE_FUNCTIONS} if reference else ALL_FUNCTIONS

    def syntax(self, reason: str) -> NoReturn:
        raise SpecError(expression_syntax(self.text, reason, self.span))

    def node(self, what: str, help: str | None = None) -> NoReturn:
        raise SpecError(expression_node(self.text, what, self.span, help))

    def guarded(self, read: Callable[[_Reader], T]) -> T:
        """Runs `read` with the parser's own failures turned into findings."""
        if not self.text.strip():
            self.syntax("it is empty")
        if len(self.text) > MAX_LENGTH:
            self.syntax(f"it has {len(self.text)} characters, at most {MAX_LENGTH} are read")
        try:
            return read(self)
        except SyntaxError as e:
            self.syntax(e.msg)
        except (RecursionError, MemoryError):
            self.syntax("it is nested too deeply")
        except ValueError as e:  # null bytes, integers past Python's digit limit
            self.syntax(str(e))

    def body(self) -> ast.expr:
        return ast.parse(self.text.strip(), mode="eval").body

    def statement(self) -> ast.stmt:
        body = ast.parse(self.text.strip()).body
        if len(body) != 1:
            self.syntax("one line is one step")
        return body[0]

    def target(self, e: ast.expr) -> tuple[str, Expr | None]:
        """`name` or `name[instance]` of a call step."""
        match e:
            case ast.Name():
                return e.id, None
            case ast.Subscript(value=ast.Name(id=owner)):
                return owner, self.expr(e.slice)
        self.syntax("a step is `target.method(...)` or `target[instance].method(...)`")

    def expr(self, e: ast.expr) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.syntax("it is nested too deeply")
        found = self.node_of(e)
        self.depth -= 1
        return found

    def node_of(self, e: ast.expr) -> Expr:
        match e:
            case ast.Constant():
                return self.constant(e.value)
            case ast.Name():
                return Const(float("inf")) if e.id == "inf" else Name(e.id)
            case ast.UnaryOp() if type(e.op) in _UNARY:
                return _negated(_UNARY[type(e.op)], self.expr(e.operand))
            case ast.BinOp() if type(e.op) in _BINARY:
                op = _BINARY[type(e.op)]
                if op in "&|" and not self.reference:
                    self.node(f"`{op}` is", help="write `and` / `or`; bit operations belong into a body")
                return Binary(op, self.expr(e.left), self.expr(e.right))
            case ast.Compare() if all(type(o) in _COMPARE for o in e.ops):
                ops = tuple(_COMPARE[type(o)] for o in e.ops)
                return Compare(ops, tuple(self.expr(x) for x in (e.left, *e.comparators)))
            case ast.BoolOp():
                return BoolOp("and" if isinstance(e.op, ast.And) else "or", tuple(self.expr(v) for v in e.values))
            case ast.IfExp():
                return IfElse(self.expr(e.test), self.expr(e.body), self.expr(e.orelse))
            case ast.Call():
                return self.call(e)
            case ast.Subscript() | ast.Attribute():
                return self.ref(e)
        self.node(f"{_describe(e)} is")

    def constant(self, value: object) -> Expr:
        if isinstance(value, bool | int | float):
            return Const(value)
        if value is None and self.reference:
            return Const("None")
        self.node(f"the constant {value!r} is", help="words are written without quotes")

    def call(self, e: ast.Call) -> Expr:
        if not isinstance(e.func, ast.Name):
            self.node("calling anything but a named function is")
        name = e.func.id
        if name not in self.functions:
            near = difflib.get_close_matches(name, self.functions, 1)
            raise SpecError(unknown_function(name, near[0] if near else None, self.span))
        if e.keywords:
            self.syntax(f"`{name}` takes its arguments by position")
        low, high = self.functions[name]
        if not low <= len(e.args) <= high:
            expected = f"{low}" if low == high else f"{low} to {high}"
            self.syntax(f"`{name}` takes {expected} argument{'s' if high > 1 else ''}, {len(e.args)} given")
        return Call(name, tuple(self.expr(a) for a in e.args))

    def ref(self, e: ast.Subscript | ast.Attribute) -> Expr:
        if isinstance(e, ast.Attribute) and e.attr == "T":
            inner = self.expr(e.value)
            if isinstance(inner, Name):
                return Ref(None, None, inner.id, transposed=True)
            if isinstance(inner, Ref) and not inner.transposed:
                return Ref(inner.resource, inner.instance, inner.name, inner.window, True)
            self.syntax("`.T` stands after a field or a window")
        if isinstance(e, ast.Attribute):
            owner, instance = self.target(e.value)
            return Ref(owner, instance, e.attr)
        inner = self.expr(e.value)
        if self.reference and not isinstance(inner, Name):
            return Call("[]", (inner, *(self.reference_index(i) for i in _elements(e.slice))))
        window = tuple(self.window(i) for i in _elements(e.slice))
        if isinstance(inner, Name):
            return Ref(None, None, inner.id, window)
        if isinstance(inner, Ref) and inner.window is None and not inner.transposed:
            return Ref(inner.resource, inner.instance, inner.name, window)
        self.syntax("a window stands after a field or a tensor")

    def window(self, e: ast.expr) -> Window:
        if not isinstance(e, ast.Slice):
            return Index(self.expr(e))
        if e.lower is None and e.upper is None and e.step is None:
            return Full()
        length = None if e.upper is None else _without_plus(e.upper)
        if e.lower is None or e.step is not None or length is None:
            self.syntax("a window is `index`, `start:+length` or `:`")
        return Slice(self.expr(e.lower), self.expr(length))

    def reference_index(self, e: ast.expr) -> Expr:
        if isinstance(e, ast.Slice):
            if e.lower is None and e.upper is None and e.step is None:
                return Const(":")
            self.syntax("indices in `reference` are `:`, `None` or numbers")
        return self.expr(e)


def _without_plus(e: ast.expr) -> ast.expr | None:
    """The length of `:+length`: for Python the plus belongs to the leftmost operand only (`+n // 2`)."""
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.UAdd):
        return e.operand
    if isinstance(e, ast.BinOp):
        left = _without_plus(e.left)
        return None if left is None else ast.BinOp(left, e.op, e.right)
    return None


def _negated(op: str, operand: Expr) -> Expr:
    if op == "-" and isinstance(operand, Const) and isinstance(operand.value, int | float):
        return Const(-operand.value)
    return Unary(op, operand)


def _elements(e: ast.expr) -> list[ast.expr]:
    return e.elts if isinstance(e, ast.Tuple) else [e]


def _describe(e: ast.expr) -> str:
    kinds = {
        ast.BinOp: "this operator",
        ast.Compare: "this comparison",
        ast.JoinedStr: "an f-string",
        ast.Dict: "a mapping",
    }
    return kinds.get(type(e), f"a {type(e).__name__.lower()}")
