"""Expressions of the spec language (docs/language.md section 2) as frozen trees.

Names are kept as written: a param stays `tile_m`, so that generated code can say TILE_M. `tsgen.model.algebra`
evaluates, folds and compares them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.diagnostics.model import Span
from tsgen.frozen import frozen

Scalar = int | float | bool | str  # a str is a word: a dtype or a choice


@frozen
class Const:
    value: Scalar  # `inf` is Const(float("inf")), `None` (in `reference` only) is Const("None")


@frozen
class Name:
    id: str


@frozen
class Unary:
    op: str  # - + not
    operand: Expr


@frozen
class Binary:
    op: str  # + - * / // % ** ; & | only in `reference`
    left: Expr
    right: Expr


@frozen
class Compare:
    """`a < b <= c`: operands a, b, c and ops <, <=."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]


@frozen
class BoolOp:
    op: str  # and, or
    values: tuple[Expr, ...]


@frozen
class IfElse:
    condition: Expr
    then: Expr
    other: Expr


@frozen
class Call:
    function: str
    args: tuple[Expr, ...]


@frozen
class Index:
    """One index of a window: picks one element and drops the dimension."""

    at: Expr


@frozen
class Slice:
    """`start:+length` of a window."""

    start: Expr
    length: Expr


@frozen
class Full:
    """`:` of a window."""


Window = Index | Slice | Full


@frozen
class Ref:
    """A reference (docs/language.md section 3): `field`, `res.field`, `res[w].field`, `tensor`, with a window and `.T`.

    `resource` is None for a tensor (`name` is the tensor) and, before resolution, for an own field; after
    resolution an own field carries its owner's name in `resource`. A bare name that is neither stays a Name.
    `window` is None where no brackets are written.
    """

    resource: str | None
    instance: Expr | None
    name: str
    window: tuple[Window, ...] | None = None
    transposed: bool = False


Expr = Const | Name | Unary | Binary | Compare | BoolOp | IfElse | Call | Ref


def children(e: Expr) -> Iterator[Expr]:
    """The direct sub-expressions, those in windows included."""
    match e:
        case Const() | Name():
            return
        case Unary():
            yield e.operand
        case Binary():
            yield e.left
            yield e.right
        case Compare():
            yield from e.operands
        case BoolOp():
            yield from e.values
        case IfElse():
            yield from (e.condition, e.then, e.other)
        case Call():
            yield from e.args
        case Ref():
            if e.instance is not None:
                yield e.instance
            for w in e.window or ():
                if isinstance(w, Index):
                    yield w.at
                elif isinstance(w, Slice):
                    yield w.start
                    yield w.length


def walk(e: Expr) -> Iterator[Expr]:
    """The expression and everything in it, outermost first."""
    yield e
    for c in children(e):
        yield from walk(c)


def names(e: Expr) -> frozenset[str]:
    """The plain names in the expression (not those of resources, fields and tensors in a Ref)."""
    return frozenset(n.id for n in walk(e) if isinstance(n, Name))


@frozen
class Placed:
    """An expression with its place in the spec."""

    expr: Expr
    span: Span


_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    "cmp": 4,
    "|": 5,
    "&": 6,
    "+": 7,
    "-": 7,
    "*": 8,
    "/": 8,
    "//": 8,
    "%": 8,
    "neg": 9,
    "**": 10,
}


def text(e: Expr) -> str:
    """The expression as the spec would write it, with the fewest parentheses."""
    return _text(e, 0)


def _text(e: Expr, outer: int) -> str:
    def wrap(level: int, s: str) -> str:
        return f"({s})" if level < outer else s

    match e:
        case Const():
            return str(e.value) if isinstance(e.value, str) else repr(e.value)
        case Name():
            return e.id
        case Unary():
            level = _PRECEDENCE["not" if e.op == "not" else "neg"]
            return wrap(level, ("not " if e.op == "not" else e.op) + _text(e.operand, level))
        case Binary():
            level = _PRECEDENCE[e.op]
            tight = e.op in ("*", "/", "//", "%", "**")
            sep = e.op if tight else f" {e.op} "
            return wrap(level, _text(e.left, level) + sep + _text(e.right, level + 1))
        case Compare():
            level = _PRECEDENCE["cmp"]
            parts = [_text(e.operands[0], level + 1)]
            for op, o in zip(e.ops, e.operands[1:], strict=True):
                parts += [op, _text(o, level + 1)]
            return wrap(level, " ".join(parts))
        case BoolOp():
            level = _PRECEDENCE[e.op]
            return wrap(level, f" {e.op} ".join(_text(v, level + 1) for v in e.values))
        case IfElse():
            return (
                wrap(0, f"{_text(e.then, 1)} if {_text(e.condition, 1)} else {_text(e.other, 0)}")
                if not outer
                else (f"({_text(e.then, 1)} if {_text(e.condition, 1)} else {_text(e.other, 0)})")
            )
        case Call():
            return f"{e.function}({', '.join(_text(a, 0) for a in e.args)})"
        case Ref():
            head = e.name
            if e.resource is not None:
                at = f"[{_text(e.instance, 0)}]" if e.instance is not None else ""
                head = f"{e.resource}{at}.{e.name}"
            if e.window is not None:
                head += f"[{', '.join(_window_text(w) for w in e.window)}]"
            return head + (".T" if e.transposed else "")


def _window_text(w: Window) -> str:
    match w:
        case Index():
            return _text(w.at, 0)
        case Slice():
            return f"{_text(w.start, 0)}:+{_text(w.length, 0)}"
        case Full():
            return ":"
