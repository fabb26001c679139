"""Rows of tiles that are spread over threads: reductions, row fields, and values that are the same for a whole row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import REDUCTIONS, Leaf, Shape
from tsgen.lower.errors import refuse
from tsgen.lower.leaves import as_number
from tsgen.lower.mma import fragment
from tsgen.lower.row_fields import held_whole, is_row_field, warp_columns
from tsgen.lower.spread import field_spread
from tsgen.lower.tokens import Spread
from tsgen.model.algebra import prune, rebuild
from tsgen.model.expr import Call, Expr, Name, Ref, text, walk
from tsgen.model.kernel import Field

if TYPE_CHECKING:
    from tsgen.lower.tile_functions import TileFunction

Line = tuple[Shape, str]  # a statement of a function, and what it is done for: each element, each row, or once
_OPERATORS = {"rowmax": "cute.arch.fmax"} | dict.fromkeys(("rowsum", "partial_rowsum", "warp_rowsum"), "operator.add")


def is_row(s: TaskState, ref: Ref) -> bool:
    b = s.builder
    return ref.resource is not None and b.kind(ref) == "rmem" and is_row_field(s, b.field(ref))


def uses_rows(s: TaskState, values: Iterable[Expr], spread: Spread) -> bool:
    """Whether expressions name rows, or one row for all: then elements are named by their vector and repetition."""
    b = s.builder
    for e in (e for v in values for e in walk(v)):
        if isinstance(e, Call) and e.function in REDUCTIONS:
            return True
        if isinstance(e, Ref) and e.resource is not None and b.kind(e) == "rmem" and len(b.field(e).shape) > 0:
            x = b.field(e)
            if is_row_field(s, x) or (max(x.shape) > 1 and field_spread(s, x) not in (None, spread)):
                return True
    return False


def row_element(f: TileFunction, ref: Ref) -> Leaf:
    """The value of a row field in the row at hand."""
    b = f.s.builder
    x = b.field(ref)
    if held_whole(x):
        refuse(f"`{text(ref)}`, columns held whole, in an element expression", f.work.span, "reduce it with `rowsum`")
    return replace(as_number(f"{_row_registers(f, x)}[{f.i}]", b.dtype_word(x.dtype)), shape="row")


def _row_registers(f: TileFunction, x: Field) -> str:
    """The parameter for a row field's registers."""
    name = f.param(x.name, fragment(f.s, x))
    f.typed.add(name)
    return name


def row_line(f: TileFunction, target: Ref, e: Expr) -> Line:
    """An assignment to a row field."""
    b = f.s.builder
    x = b.field(target)
    shape = f.printer().shape(e)
    if held_whole(x) or shape not in ("row", "scalar"):
        refuse(f"an assignment of a {shape} value to `{text(target)}`", f.work.span)
    if warp_columns(f.s, x) and x.shape[-1] != f.s.num_warps:
        refuse(f"`{text(target)}` with {x.shape[-1]} columns in a task of {f.s.num_warps} warps", x.span)
    name = _row_registers(f, x)
    return "row", f"{name}[{f.i}] = {f.converted(e, f'{name}.element_type', b.dtype_word(x.dtype))}"


def rows_first(f: TileFunction, e: Expr) -> Expr:
    """The expression of elements with what is the same for a whole row computed before, once for each row."""
    return rebuild(e, lambda x: _row_value(f, x)) if f.printer().shape(e) == "tile" else e


def _row_value(f: TileFunction, e: Expr) -> Expr:
    shape = f.printer().shape(e)
    if shape == "tile":
        return rebuild(e, lambda x: _row_value(f, x))
    call = next((c for c in walk(e) if isinstance(c, Call)), None)
    if shape != "row" or call is None:
        return e
    name = f.names.new(call.function)
    f.temporary(name, name, e)
    return Name(name)


def reduction(f: TileFunction, e: Call) -> Leaf:
    """A reduction over the columns of a row: of a field held whole, of what a thread owns, and across its lanes."""
    key = text(e)
    if key not in f.reduced:
        f.reduced[key] = Leaf(_reduced(f, e, prune(e.args[0], f.s.scope.env)), "row", "float")
    return f.reduced[key]


def _reduced(f: TileFunction, e: Call, argument: Expr) -> str:
    s, x, p = f.s, f.spread, f.printer()
    op = _OPERATORS[e.function]
    if isinstance(argument, Ref) and is_row(s, argument) and held_whole(s.builder.field(argument)):
        whole = s.builder.field(argument)
        return _combined(f, op, f"{_row_registers(f, whole)}[{f.i}, k] for k in range({whole.shape[-1]})")
    part = p.float(argument)
    if p.shape(argument) in ("tile", "col"):
        repeated = f"for j in range({x.reps[1]}) " if f.j != "0" else ""
        part = _combined(f, op, f"{part} {repeated}for e in range({x.vector})")
    if e.function == "partial_rowsum" or x.across == 1:
        return part
    if e.function == "warp_rowsum" and x.down > 1:
        refuse(f"`warp_rowsum` over a tile of {x.rows}x{x.cols}, whose rows lie on some of the warps", f.work.span)
    if e.function != "warp_rowsum" and (x.across > 32 or x.across & (x.across - 1)):
        help = "let each warp reduce its part with `warp_rowsum`, and exchange the parts through shared memory"
        refuse(f"`{e.function}` over rows that lie on {x.across} threads", f.work.span, help)
    return f"across_lanes({op}, {part}, {min(x.across, 32)})"


def _combined(f: TileFunction, op: str, values: str) -> str:
    """The values of a thread, listed in a line of their own, as one."""
    name = f.names.new("values")
    f.lines.append(("row", f"{name} = [{values}]"))
    return f"combine({op}, {name})"
