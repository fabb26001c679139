"""What a `map` says before any of it is printed: how its values vary over a tile, which statements matter, and which
comparisons can be solved for the column.

`col < end` with `col = j*tile_n + cols(s)` holds where the column itself is less than `end - j*tile_n`: then each
element compares a compile-time number with one register of the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import REDUCTIONS, Leaf, Number, Printer, Shape, join
from tsgen.lower.errors import refuse
from tsgen.lower.leaves import name_number, word_number
from tsgen.lower.mma import a_operand, accumulator
from tsgen.model.algebra import evaluate, prune
from tsgen.model.expr import Binary, Call, Compare, Expr, Index, Name, Ref, Unary, children, names, text
from tsgen.model.kernel import Assign, Field, Work
from tsgen.model.ops import assigns, map_target

Statements = list[tuple[Assign, Expr]]


@dataclass(frozen=True)
class Solved:
    """A comparison with a column (or row) alone on one side: `column op limit`, or `limit op column` if `flipped`."""

    op: str
    flipped: bool
    limit: Expr


class Shapes:
    """How the values of one map vary: `temporaries` and `columns` are filled by the statements, in order."""

    def __init__(self, s: TaskState, work: Work) -> None:
        self.s, self.work = s, work
        self.temporaries: dict[str, tuple[Shape, Number]] = {}
        self.columns: dict[str, Expr] = {}  # temporaries that are a column plus something of the row

    def printer(self) -> Printer:
        return Printer(self.s.scope, self.leaf, self.work.span)

    def shape(self, e: Expr) -> Shape:
        return self.printer().shape(e)

    def leaf(self, e: Name | Ref | Call) -> Leaf:
        """A leaf without its text."""
        match e:
            case Call(function="rows"):
                return Leaf("", "row", "int")
            case Call(function="cols"):
                return Leaf("", "col", "int")
            case Call():
                return Leaf("", "row", "float")
            case Name():
                if e.id in self.temporaries:
                    return Leaf("", *self.temporaries[e.id])
                return Leaf("", "scalar", name_number(self.s, e.id))
            case Ref(resource=None):
                at = [w.at for w in e.window or () if isinstance(w, Index)]
                dtype = self.s.builder.dtype_word(self.s.builder.kernel.tensors[e.name].dtype)
                return Leaf("", join(*(self.shape(prune(x, self.s.scope.env)) for x in at)), word_number(dtype))
            case Ref():
                return Leaf("", field_shape(self.s, self.s.builder.field(e), self.work), "float")

    def is_row(self, e: Expr) -> bool:
        """Whether an expression is a leaf that belongs to a row: a row field, a row temporary, rows(), a reduction."""
        leaf = isinstance(e, Name | Ref) or (isinstance(e, Call) and e.function in ("rows", *REDUCTIONS))
        return leaf and self.shape(e) == "row"

    def define(self, name: str, e: Expr, *, once: bool) -> None:
        """Enters a temporary; `once` if no other statement assigns it."""
        printer = self.printer()
        self.temporaries[name] = (printer.shape(e), printer.number(e))
        self.columns.pop(name, None)
        if once and self._beside(e, "cols", ("scalar", "row")) is not None:
            self.columns[name] = e

    def solve(self, e: Compare, axis: str = "cols") -> Solved | None:
        """The comparison solved for the column (or row), if one side is that plus something that does not vary along
        the columns (the rows)."""
        fixed = ("scalar", "row") if axis == "cols" else ("scalar",)
        if len(e.operands) != 2 or any(self.printer().number(o) != "int" for o in e.operands):
            return None
        for flipped, (side, other) in enumerate((e.operands, e.operands[::-1])):
            rest = self._beside(side, axis, fixed)
            if rest is not None and self.shape(other) in fixed:
                return Solved(e.ops[0], bool(flipped), _difference(other, rest))
        return None

    def _beside(self, e: Expr, axis: str, fixed: tuple[str, ...]) -> list[tuple[bool, Expr]] | None:
        """The terms beside the column (row) in a sum, (positive, term); None if the expression is no such sum."""
        terms = list(self._terms(e, True))
        columns = [t for t in terms if isinstance(t[1], Call) and t[1].function == axis]
        rest = [t for t in terms if t not in columns]
        if len(columns) != 1 or not columns[0][0] or any(self.shape(x) not in fixed for _, x in rest):
            return None
        return None if any(isinstance(y, Ref) and y.resource is not None for _, x in rest for y in _leaves(x)) else rest

    def _terms(self, e: Expr, positive: bool) -> list[tuple[bool, Expr]]:
        match e:
            case Binary(op="+" | "-"):
                return self._terms(e.left, positive) + self._terms(e.right, positive == (e.op == "+"))
            case Unary(op="-" | "+"):
                return self._terms(e.operand, positive == (e.op == "+"))
            case Name() if e.id in self.columns:
                return self._terms(self.columns[e.id], positive)
        return [(positive, e)]

    def uses(self, e: Expr) -> set[str]:
        """Names that the printed expression mentions."""
        if isinstance(e, Compare) and (solved := self.solve(e)) is not None:
            return self.uses(solved.limit)
        found = {e.id} if isinstance(e, Name) else set()
        return found.union(*(self.uses(c) for c in children(e)))


def _difference(other: Expr, rest: list[tuple[bool, Expr]]) -> Expr:
    for positive, term in rest:
        other = Binary("-" if positive else "+", other, term)
    return other


def _leaves(e: Expr) -> list[Expr]:
    if isinstance(e, Call) and e.function == "rows":
        return []
    inner = [x for c in children(e) for x in _leaves(c)]
    return inner or [e]


def live_statements(s: TaskState, w: Work) -> tuple[Shapes, Statements]:
    """The statements of a map that do something in this variant: no `c = c`, no temporaries that nothing reads."""
    pairs = [(a, prune(a.value, s.scope.env)) for a in assigns(w)]
    pairs = [(a, e) for a, e in pairs if not _is_identity(s, w, a, e)]
    shapes = Shapes(s, w)
    assigned = [a.name for a, _ in pairs]
    for a, e in pairs:
        if not is_field(w, a):
            shapes.define(a.name, e, once=assigned.count(a.name) == 1)
    return shapes, _used(w, pairs, shapes.uses)


def as_written(s: TaskState, w: Work) -> str:
    """The statements of a map that its fields depend on, in the spec's words."""
    pairs = [(a, prune(a.value, s.scope.env)) for a in assigns(w)]
    pairs = [(a, e) for a, e in pairs if not _is_identity(s, w, a, e)]
    own = {f"{w.owner}.{f}": f for f in s.builder.kernel.resources[w.owner].fields}
    lines = [f"{a.name} = {text(e)}" for a, e in _used(w, pairs, names)]
    return "; ".join(re.sub(r"\b\w+\.\w+", lambda m: own.get(m.group(), m.group()), line) for line in lines)


def _used(w: Work, pairs: Statements, uses: Callable[[Expr], Collection[str]]) -> Statements:
    used: set[str] = set()
    live: Statements = []
    for a, e in reversed(pairs):
        if is_field(w, a) or a.name in used:
            used.update(uses(e))
            live.append((a, e))
    return live[::-1]


def is_field(w: Work, a: Assign) -> bool:
    """Whether a statement assigns a field, and no temporary."""
    return map_target(w, a) is not None


def _is_identity(s: TaskState, w: Work, a: Assign, e: Expr) -> bool:
    while isinstance(e, Call) and e.function == "activation" and evaluate(e.args[0], s.scope.env) == "none":
        e = e.args[1]
    return isinstance(e, Ref) and e == Ref(w.owner, None, a.name)


def field_shape(s: TaskState, field: Field, w: Work) -> Shape:
    """How a register field varies over its tile."""
    if not field.shape or all(x == 1 for x in field.shape):
        return "scalar"
    if field.shape[-1] == 1 or field.rowwise:
        return "row"
    if accumulator(s.builder, field) is None and a_operand(s.builder, field) is None:
        refuse(f"`map` over `{field.owner}.{field.name}`, which is no WGMMA fragment", w.span)
    return "tile"
