"""Elements of a tensor that neighbouring columns of a tile read, as a bias is: loaded a vector at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsgen.lower.program import Statement
from tsgen.lower.smem import element_bytes
from tsgen.lower.spread import contiguous, is_multiple
from tsgen.model.algebra import canonical, prune
from tsgen.model.expr import Binary, Call, Const, Expr, Index, Ref, walk

if TYPE_CHECKING:
    from tsgen.lower.tile_functions import TileFunction


def vector_load(f: TileFunction, ref: Ref, tensor: str) -> str | None:
    """The name of the vector with the elements that a repetition's columns read; None where they are no vector.

    They are one if the last index is a multiple of the vector plus the column, and the extent is a multiple, too: then
    a vector is inside or outside of the tensor as a whole, and one that is outside is clamped to the last inside.
    """
    s, b, x = f.s, f.s.builder, replace(f.spread, index="thread")
    t = b.kernel.tensors[ref.name]
    *others, last = [prune(w.at, s.scope.env) for w in ref.window or () if isinstance(w, Index)]
    base = beside_column(last)
    fits = 1 < x.vector <= 16 // element_bytes(b, t.dtype) and t.align >= x.vector * element_bytes(b, t.dtype)
    if base is None or not fits or any(names_element(e) for e in others) or not contiguous_last(f, ref):
        return None
    if not canonical(base, s.scope.env).multiple_of(x.vector) or not is_multiple(s, t.shape[-1], x.vector):
        return None
    b.vectors[ref.name] = max(b.vectors.get(ref.name, 1), x.vector)
    b.functions.setdefault("vector", Statement("functions/vector"))
    p = f.printer()
    f.by_index = True
    column = x.column(f.j)
    start = column if base == Const(0) else p.print(base) if column == "0" else f"{p.print(base, 7)} + {column}"
    row = tensor
    if others:
        picks = [f"cutlass.min({p.print(e)}, {p.print(n, 8)} - 1)" for e, n in zip(others, t.shape, strict=False)]
        row = f"{tensor}[{', '.join(picks)}, None]"
    limit = f"{p.print(t.shape[-1], 8)} - {x.vector}"
    text = f"vector({row}, cutlass.min({start}, {limit}), {x.vector})"
    known = next((name for name, loaded in f.loaded.items() if loaded == text), None)
    if known is None:
        known = f.names.new(f"{ref.name}_vector")
        f.loaded[known] = text
    return known


def contiguous_last(f: TileFunction, ref: Ref) -> bool:
    """Whether a tensor's last dimension is the contiguous one."""
    return contiguous(f.s.builder, Ref(None, None, ref.name, None))


def names_element(e: Expr) -> bool:
    """Whether an expression differs from element to element of a tile."""
    return any(isinstance(c, Call) and c.function in ("rows", "cols") for c in walk(e))


def beside_column(e: Expr) -> Expr | None:
    """What is added to the column; None if the expression is no such sum."""
    if isinstance(e, Call) and e.function == "cols":
        return Const(0)
    if not isinstance(e, Binary) or e.op not in ("+", "-"):
        return None
    left, right = names_element(e.left), names_element(e.right)
    if left == right or (right and e.op == "-"):
        return None
    rest, other = beside_column(e.left if left else e.right), e.right if left else e.left
    if rest is None:
        return None
    if e.op == "+":
        return other if rest == Const(0) else Binary("+", rest, other)
    return Binary("-", rest, other)
