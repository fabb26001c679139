"""Comparisons in maps over tiles whose rows threads hold: solved for the column.

`j*tile_n + cols(s) < end` holds where the column is less than `end - j*tile_n`. That is computed once for each row, and
every element compares a compile-time number with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsgen.lower.vectors import beside_column, names_element
from tsgen.model.algebra import prune, substitute
from tsgen.model.expr import Binary, Call, Compare, Const, Expr, walk

if TYPE_CHECKING:
    from tsgen.lower.tile_functions import TileFunction


def compared(f: TileFunction, e: Compare) -> str | None:
    """The comparison as one of the column with a limit, which a line before computes; None where it is none."""
    p = f.printer()
    if f.spread.across != 1 or f.spread.rank != 2 or len(e.operands) != 2:
        return None
    if any(p.number(o) != "int" for o in e.operands):
        return None
    for flipped, (side, other) in enumerate((e.operands, e.operands[::-1])):
        column, beside = _expanded(f, side), _expanded(f, other)
        rest = beside_column(column) if names_element(column) else None
        if rest is None or _names_column(beside) or _names_column(rest):
            continue
        limit = f.names.new("limit")
        value = other if rest == Const(0) else Binary("-", other, rest)
        f.lines.append(("row", f"{limit} = {p.print(value)}"))
        return f"{limit} {e.ops[0]} col" if flipped else f"col {e.ops[0]} {limit}"
    return None


def _expanded(f: TileFunction, e: Expr) -> Expr:
    return prune(substitute(e, f.sources), f.s.scope.env)


def _names_column(e: Expr) -> bool:
    return any(isinstance(c, Call) and c.function == "cols" for c in walk(e))
